-- Where each chain stands, for /readyz. Every chain that Sluice can run has a row; one that was never configured or followed has nulls.
create or replace view app.chain_state with (security_barrier) as
select c.chain, exists (select from app.merchant_chain m where m.chain = c.chain and m.enabled) as enabled,
  k.head_height, k.final_height, extract(epoch from clock_timestamp() - k.head_time) as head_age_seconds,
  extract(epoch from clock_timestamp() - k.head_moved_at) as head_moved_seconds_ago, k.halted_at is not null as halted,
  g.chain is not null as configured, w.reason as waiting_reason, w.way_out
from app.chain c left join chain.cursor k on k.chain = c.chain left join chain.configured g on g.chain = c.chain
left join app.standstill w on w.chain = c.chain;
comment on view app.chain_state is 'Where each chain that Sluice can run stands now.';
comment on column app.chain_state.enabled is 'True if a merchant has it enabled.';
comment on column app.chain_state.head_height is 'Newest indexed block; null if the chain was never followed.';
comment on column app.chain_state.final_height is 'Everything at or below this height is final.';
comment on column app.chain_state.head_age_seconds is 'Age of the newest indexed block by its own timestamp.';
comment on column app.chain_state.head_moved_seconds_ago is 'How long ago a block was indexed.';
comment on column app.chain_state.halted is 'True while it is halted for an operator.';
comment on column app.chain_state.configured is 'True if an indexer was ever started for it.';
comment on column app.chain_state.waiting_reason is 'Why nothing of it is read now, as in app.standstill; null if nothing stops it, or its indexer has not reported a reason.';
comment on column app.chain_state.way_out is 'What an operator does about that, if known.';
grant select on app.chain_state to sluice_api;
