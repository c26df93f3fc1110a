-- The audit: what must always hold, as views that find what breaks it, and what was found when.
--
-- Writers: whoever audits, through app.begin_audit and app.finish_audit: the jobs worker once a day, an operator by the command line. Readers:
-- operators, metrics.

drop index concurrently if exists app.ledger_entry_network_fee;

-- For app.gas_left_days.
create index concurrently ledger_entry_network_fee on app.ledger_entry (chain, created_at) include (amount) where account = 'treasury' and kind = 'network_fee';

-- Transaction
create table app.audit_run (
  id bigint primary key generated always as identity,
  started_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz,
  error text
);
comment on table app.audit_run is 'A run of the audit: each day by the jobs worker, or by sluice audit. Kept for a year.';
comment on column app.audit_run.id is 'Number of the run.';
comment on column app.audit_run.started_at is 'When it began.';
comment on column app.audit_run.finished_at is 'When it ended; null while it runs, or where the process that did it ended before.';
comment on column app.audit_run.error is 'What could not be checked, and why; null if everything was.';

create table app.audit_finding (
  run_id bigint not null references app.audit_run on delete cascade,
  name text not null,
  claim text not null,
  count bigint not null check (count >= 0),
  found jsonb not null default '[]',
  primary key (run_id, name)
);
comment on table app.audit_finding is 'What each check of a run found. A check that could not be done has no row; the run says why.';
comment on column app.audit_finding.run_id is 'The run.';
comment on column app.audit_finding.name is 'Name of the check.';
comment on column app.audit_finding.claim is 'What must hold.';
comment on column app.audit_finding.count is 'How many things break it; 0 if all is right.';
comment on column app.audit_finding.found is 'The first ten of them. Amounts are strings.';

-- An incident that concerns no single chain halts nobody.
alter table app.incident alter column chain drop not null;
comment on column app.incident.chain is 'Chain code; null if it concerns no single chain, and then nothing waits for it.';
comment on column app.incident.kind is 'final_deposit_vanished, final_deposit_moved, final_deposit_changed, payment_replaced, fork_below_final, unknown_transaction, final_payment_vanished, payment_of_failed_payout, journal_ahead or audit.';
comment on column app.incident.subject is 'The id of the deposit or of the spend, <chain>:<txid>, the chain, or audit:<check>.';

-- How long the treasury can pay network fees --------------------------------------------------------------------------------------------------

create function app.gas_left_days(of_chain text) returns double precision
language sql stable security definer set search_path = pg_catalog as $$
  select (greatest(app.operator_funds(of_chain, app.native_token(of_chain)), 0) / nullif(-sum(e.amount), 0) * 7)::double precision
  from app.ledger_entry e
  where e.account = 'treasury' and e.kind = 'network_fee' and e.chain = of_chain and e.created_at > now() - interval '7 days'
$$;
comment on function app.gas_left_days is 'For how many days the operator''s own native coins in a treasury last, at what network fees took from it in the last 7 days; null if they took nothing.';

-- What must always hold ----------------------------------------------------------------------------------------------------------------------
--
-- One view for each check: empty if all is right, its rows what is wrong, its comment what must hold. What an incident says that is open, or
-- that an operator decided to keep, is not said again. Which of them proves what, and what none of them can: docs/operations/audit.md.

create schema audit;
comment on schema audit is 'What must always hold: a view for each check, empty when all is right, its comment the claim. Read by the owner, and by app.audit_checks for everybody who audits.';

create view app.known_incident as
select subject, kind from app.incident where resolved_at is null or resolution = 'kept';
comment on view app.known_incident is 'Incidents that are open, or that an operator decided to keep: what they say, an audit does not say again.';
comment on column app.known_incident.subject is 'What it is about.';
comment on column app.known_incident.kind is 'Its kind.';

-- Money

create view audit.conservation as
select chain, token, merchant_id, sum(received) as received, sum(held) as balance_and_payouts from (
  select chain, token, merchant_id, amount as received, 0 as held from app.deposit where status = 'final' and credited
  union all select chain, token, merchant_id, 0, amount from app.balance_now
  union all select chain, token, merchant_id, 0, gross from app.payout where status <> 'failed'
  union all select chain, token, merchant_id, 0, -amount from app.adjustment where reason = 'paid_after_all'
) part group by chain, token, merchant_id having sum(received) <> sum(held);
comment on view audit.conservation is 'final deposits = balances + gross of payouts that did not fail';

create view audit.balances as select * from app.balance_audit;
comment on view audit.balances is 'each balance = the sum of its unsettled deposits and debts';

create view audit.ledger as select * from app.ledger_audit;
comment on view audit.ledger is 'what is kept beside the ledger = the sum of its entries';

create view audit.postings as
select posting, chain, token, sum(amount) as sum from app.ledger_entry group by posting, chain, token having sum(amount) <> 0;
comment on view audit.postings is 'the entries of each posting add up to zero for each token';

create view audit.fees as
select what, chain, token, sum(posted) as posted, sum(due) as due from (
  select 'service fees' as what, chain, token, -amount as posted, 0 as due from app.ledger_entry where account = 'fees'
  union all select 'service fees', chain, token, 0, fee from app.payout where status = 'completed'
  union all select 'network fees', chain, token, amount, 0 from app.ledger_entry where account = 'network'
  union all select 'network fees', chain, app.native_token(chain), 0, fee_paid from app.spend where status = 'final'
) part group by what, chain, token having sum(posted) <> sum(due);
comment on view audit.fees is 'the fees in the ledger are those of completed payouts and of final transactions';

create view audit.nothing_below_zero as
select 'holding' as what, chain, token, address as whose, amount from app.holding where amount < 0
union all select 'treasury', chain, token, null, balance from app.treasury where balance < 0
union all select 'reserved', chain, token, null, reserved from app.treasury where reserved < 0
union all select 'reserved share', chain, token, merchant_id::text, reserved from app.treasury_share where reserved < 0;
comment on view audit.nothing_below_zero is 'no address, no treasury and no reservation is below zero';

-- Deposits and the chain

create view audit.no_double_credit as
select chain, txid, output_index, count(*) as deposits from app.deposit where status <> 'reorged'
group by chain, txid, output_index having count(*) > 1;
comment on view audit.no_double_credit is 'of the deposits at one output at most one is not reorged';

create view audit.deposits_are_on_the_chain as
select d.id, d.chain, d.txid, d.output_index, d.status from app.deposit d
left join chain.transfer t on t.id = d.chain || ':' || d.txid || ':' || d.output_index
  and t.recipient = d.address and t.token = d.token and t.amount = d.amount and t.block_height = d.block_height and t.block_hash = d.block_hash
where d.status <> 'reorged' and t.id is null
  and not exists (select from app.known_incident k where k.subject = d.id::text and k.kind like 'final\_deposit\_%')
  and not (d.status = 'pending' and d.block_height is null and exists (select from chain.unmined u
    where u.id = d.chain || ':' || d.txid || ':' || d.output_index and u.recipient = d.address and u.amount = d.amount));
comment on view audit.deposits_are_on_the_chain is 'every deposit that is not reorged is the one transfer that the chain holds, or that is on its way into a block';

create view audit.transfers_are_deposits as
select t.id, t.recipient, t.token, t.amount, t.block_height from chain.transfer t
join app.address a on a.chain = t.chain and a.address = t.recipient
where not exists (select from app.deposit d where d.txid = t.txid and d.output_index = t.output_index and d.chain = t.chain
    and d.address = t.recipient and d.token = t.token and d.status <> 'reorged')
  and not (a.user_id is null and (exists (select from app.outbound_tx o where o.chain = t.chain and o.txid = t.txid)
    or exists (select from custody.address own where own.address = t.sender)))
  and not exists (select from app.known_incident k where k.subject = t.id and k.kind = 'payment_replaced');
comment on view audit.transfers_are_deposits is 'everything that the chain shows to have reached an address of ours is a deposit, or what we sent to the treasury ourselves';

create view audit.finality as
select d.chain, 'deposit' as what, d.id, d.status, d.block_height, c.final_height from app.deposit d join chain.cursor c using (chain)
where ((d.status = 'final' and d.block_height > c.final_height) or (d.status = 'pending' and d.block_height <= c.final_height))
  and not exists (select from app.known_incident k where k.subject = d.id::text and k.kind like 'final\_deposit\_%')
  and not (d.status = 'final' and exists (select from app.incident i -- an operator had it read again, and it is there, but not final again yet
    where i.subject = d.id::text and i.kind = 'final_deposit_vanished' and i.resolution = 'healed'))
union all
select s.chain, s.kind, s.id, s.status, i.block_height, c.final_height from app.spend s join chain.cursor c using (chain)
join app.spend_inclusion i on i.spend_id = s.id
where i.excludes and (s.status = 'final') <> (i.block_height <= c.final_height)
  and not exists (select from app.known_incident k where k.subject = s.id::text and k.kind = 'final_payment_vanished')
  and not (s.status = 'final' and exists (select from app.incident v
    where v.subject = s.id::text and v.kind = 'final_payment_vanished' and v.resolution = 'healed'));
comment on view audit.finality is 'deposits and spends are final at or below the final height, and nothing below it is still pending';

create view audit.blocks as
select c.chain, c.final_height as height, 'the final block is not among the blocks' as wrong from chain.cursor c
where not exists (select from chain.block b where b.chain = c.chain and b.height = c.final_height and b.hash = c.final_hash)
union all
select c.chain, c.head_height, 'the head is not the newest of the blocks' from chain.cursor c
where not exists (select from chain.block b where b.chain = c.chain and b.height = c.head_height and b.hash = c.head_hash
  and not exists (select from chain.block above where above.chain = c.chain and above.height > b.height))
union all
select chain, height, 'does not link to the block below' from (
  select b.chain, b.height, b.parent_hash, lag(b.hash) over (partition by b.chain order by b.height) as below
  from chain.block b join chain.cursor c using (chain) where b.height >= c.final_height
) link where parent_hash not in ('', below);
comment on view audit.blocks is 'the blocks from the final one to the head form one linked chain, and the final height lies on it';

create view audit.states as
select 'deposit' as what, subject_id as id, before || ' to ' || type as wrong from (
  select subject_id, version, type, lag(type, 1, 'nothing') over (partition by subject_id order by version) as before
  from app.event where type like 'deposit.%'
) step
where case type when 'deposit.pending' then before not in ('nothing', 'deposit.reorged')
  when 'deposit.confirmed' then before <> 'deposit.pending' and not (before = 'nothing' and version > 2) -- an operator credited what was final
  else before not in ('deposit.pending', 'deposit.confirmed') end
union all
select 'deposit', d.id, d.status || ', and the last event is ' || e.type from app.deposit d
join app.event e on e.subject_id = d.id and e.version = d.version
where d.credited and e.type <> case d.status when 'final' then 'deposit.confirmed' else 'deposit.' || d.status end
union all
select 'deposit', id, status || case when finalised_at is null then ' without' else ' with' end || ' the time when it became final' from app.deposit
where (status = 'final') <> (finalised_at is not null) or (status = 'final') <> (promotion is not null)
union all
select 'payout', id, status || ', and how it ended says something else' from app.payout
where (status in ('completed', 'failed')) <> (finished_at is not null) or (status = 'completed') <> (txid is not null)
  or (status = 'failed') <> (error_code is not null);
comment on view audit.states is 'deposits and payouts went from state to state as the contract has it, and are where their last event says';

-- Payouts

create view audit.payouts_add_up as
select p.id, p.status, p.gross, coalesce(d.amount, 0) + coalesce(j.amount, 0) as claimed from app.payout p
left join (select settlement_id, sum(amount) as amount from app.deposit where settlement_id is not null group by settlement_id) d
  on d.settlement_id = p.id
left join (select settlement_id, sum(amount) as amount from app.adjustment where settlement_id is not null group by settlement_id) j
  on j.settlement_id = p.id
where p.gross <> p.fee + p.net
  or (not exists (select from app.claim c where c.payout_id = p.id and c.finished_at is null)
    and not exists (select from app.adjustment a where a.settlement_id = p.id and a.reason = 'payout_recovered')
    and coalesce(d.amount, 0) + coalesce(j.amount, 0) <> case when p.status = 'failed' then 0 else p.gross end);
comment on view audit.payouts_add_up is 'gross = fee + net = the sum of what was claimed, and a failed payout holds nothing';

create view audit.one_payout_each as
select c.what, c.id, c.settlement_id, p.status from (
  select 'deposit' as what, id, settlement_id, merchant_id, chain, token from app.deposit where settlement_id is not null
  union all select 'adjustment', id, settlement_id, merchant_id, chain, token from app.adjustment where settlement_id is not null
) c
left join app.payout p on p.id = c.settlement_id and (p.merchant_id, p.chain, p.token) = (c.merchant_id, c.chain, c.token)
where p.id is null or (p.status = 'failed' and not exists (select from app.claim r where r.payout_id = p.id and r.finished_at is null));
comment on view audit.one_payout_each is 'what was claimed belongs to one payout of its merchant, chain and token, which did not fail';

create view audit.no_double_pay as
select p.id, p.status, count(distinct i.txid) as paid from app.payout p
left join app.spend s on s.payout_id = p.id and s.kind = 'payout'
left join app.outbound_tx o on o.spend_id = s.id and o.kind = 'effect'
left join chain.inclusion i on i.chain = o.chain and i.txid = o.txid and i.success
  and i.block_height <= (select c.final_height from chain.cursor c where c.chain = o.chain)
where not exists (select from app.known_incident k where k.subject = s.id::text and k.kind in ('final_payment_vanished', 'payment_of_failed_payout'))
group by p.id having count(distinct i.txid) <> (p.status = 'completed')::int
union all
select p.id, p.status, null from app.payout p join app.spend s on s.payout_id = p.id and s.kind = 'payout'
join app.outbound_tx o on o.spend_id = s.id and o.kind = 'effect'
where (o.amount, o.recipient, o.token, o.chain) <> (p.net, p.address, p.token, p.chain);
comment on view audit.no_double_pay is 'a completed payout has one final transaction of its net to its address; no other payout has any';

-- Events

create view audit.events as
select d.id, d.version as expected, count(e.id) as found from app.deposit d
left join app.event e on e.subject_id = d.id and e.type like 'deposit.%'
group by d.id
having case when not d.credited then count(e.id) > 0
  -- Of what an operator credited afterwards, the first event is that it counts.
  else count(e.id) <> d.version - min(e.version) + 1 or max(e.version) <> d.version or not (min(e.version) = 1 or min(e.version) > 2) or count(e.id) = 0 end
union all
select p.id, (p.status in ('completed', 'failed'))::int, count(e.id) from app.payout p
left join app.event e on e.subject_id = p.id and e.type like 'payout.%'
group by p.id having count(e.id) <> (p.status in ('completed', 'failed'))::int
  or count(e.id) filter (where e.type <> 'payout.' || p.status) > 0;
comment on view audit.events is 'each change of a deposit, and the end of each payout, has exactly one event';

create view audit.deliveries as
select d.event_id, d.endpoint_id, 'delivered, and no attempt succeeded' as wrong from app.delivery d where d.status = 'delivered'
  and not exists (select from app.delivery_attempt a where a.delivery_id = d.id and a.error is null)
union all
select d.event_id, d.endpoint_id, 'to an endpoint of somebody else' from app.delivery d
left join app.event e on e.id = d.event_id left join app.webhook_endpoint w on w.id = d.endpoint_id
where e.merchant_id is null or e.merchant_id is distinct from w.merchant_id
union all
select event_id, endpoint_id, count(*) || ' times' from app.delivery group by event_id, endpoint_id having count(*) > 1;
comment on view audit.deliveries is 'an event is delivered once to an endpoint of its merchant, and what counts as delivered was answered with success';

-- What we send

create view audit.stored_first as
select s.chain, s.id, s.status || case when o.stored is null then ', and nothing is stored' else ', and something is stored' end as wrong from app.spend s
left join (select spend_id, count(*) as stored from app.outbound_tx group by spend_id) o on o.spend_id = s.id
where s.status <> 'final' and (s.status = 'live') <> (o.stored is not null)
union all
select p.chain, p.id, 'paying, and no payment is stored' from app.payout p
where p.status = 'paying' and not exists (select from app.spend s join app.outbound_tx o on o.spend_id = s.id and o.kind = 'effect'
  where s.payout_id = p.id and s.kind = 'payout')
union all
select o.chain, o.spend_id, 'given to a node before it was stored' from app.outbound_tx o where o.broadcast_at < o.stored_at;
comment on view audit.stored_first is 'a transaction is stored, signed, before it is given to a node and before anything counts on it';

create view audit.no_unknown_transaction as
select i.id, i.sender, i.nonce from chain.inclusion i
where not exists (select from app.outbound_tx o where o.chain = i.chain and o.txid = i.txid)
  and not exists (select from app.known_incident k where k.subject = i.chain || ':' || i.txid and k.kind = 'unknown_transaction');
comment on view audit.no_unknown_transaction is 'every transaction that an address of ours sent was stored before';

create view audit.journal as
select o.chain, o.txid from app.outbound_tx o
left join custody.journal j on j.stream = o.chain and j.txid = o.txid where j.raw is distinct from o.raw
union all
select stream, 'entries: ' || count(*) || ', highest: ' || max(seq) from custody.journal group by stream having count(*) <> max(seq);
comment on view audit.journal is 'custody signed what was stored, and numbered it without a gap';

create view audit.whitelist as
select j.stream, j.seq, j.destination from custody.journal j
where j.kind in ('pay', 'withdraw')
  and not exists (select from custody.journal before where before.subject_id = j.subject_id and before.kind = j.kind
    and before.stream = j.stream and before.seq < j.seq)
  and not exists (select from custody.whitelist w
    where w.merchant_id is not distinct from j.merchant_id and w.chain = j.stream and w.address = j.destination
      and w.active_at - interval '1 second' <= j.signed_at -- by custody's clock, the others by the database's
      and (w.removed_at is null or w.removed_at + interval '1 second' > j.signed_at));
comment on view audit.whitelist is 'every destination was on its whitelist when it was first signed for';

create view audit.nonces as
select n.chain, n.address, n.next_nonce, count(s.id) as used from app.sender n
left join app.spend s on s.chain = n.chain and s.sender = n.address
group by n.chain, n.address having count(s.id) <> n.next_nonce or max(s.nonce) >= n.next_nonce
union all
select chain, sender, max(nonce) + 1, count(distinct nonce) from chain.inclusion
group by chain, sender having count(distinct nonce) <> max(nonce) + 1;
comment on view audit.nonces is 'the nonces of each sender have no gap, in our books and in what the chain holds';

create view audit.outputs as
select u.chain, u.txid || ':' || u.vout as output, 'reserved by a spend that is over' as wrong
from app.output u join app.spend s on s.id = u.spend_id where u.spent_by is null and s.status = 'final'
union all
select u.chain, u.txid || ':' || u.vout, 'spent by another transaction than its spend says'
from app.output u join app.spend s on s.id = u.spend_id
where u.spent_by is not null and (s.status <> 'final' or s.txid is distinct from u.spent_by) and s.outcome is distinct from 'displaced'
union all
select u.chain, u.txid || ':' || u.vout, 'spent, and in no block'
from app.output u where u.spent_by is not null
  and not exists (select from chain.inclusion i where i.chain = u.chain and i.txid = u.spent_by)
  and not exists (select from app.known_incident k where k.subject = u.spend_id::text and k.kind = 'final_payment_vanished')
union all
select s.chain, s.id::text, 'does not have its lead' from app.spend s
where app.uses_outputs(s.chain) and s.outcome is distinct from 'displaced' and not s.recovered
  and not exists (select from app.bump b where b.spend_id = s.id and s.status <> 'final' -- the parent is not final
    and not exists (select from app.output u where u.chain = s.chain and u.txid = b.txid))
  and not exists (select from app.output u where u.spend_id = s.id and u.txid || ':' || u.vout = s.sender and u.from_attempt = 1)
union all
select chain, coalesce(address, 'treasury'), 'has ' || kept || ' in outputs, and ' || posted || ' in the books'
from app.ledger_audit where what = 'output';
comment on view audit.outputs is 'an output is spent or reserved by one spend, from its lead on, and what is unspent adds up to holdings and treasury';

-- Merchants

create view audit.merchants_apart as
select a.chain, a.address as what, a.merchant_id, o.merchant_id as handed_to from app.address a left join custody.address o on o.address = a.address
where a.merchant_id is distinct from o.merchant_id
union all
select d.chain, d.id::text, d.merchant_id, o.merchant_id from app.deposit d left join custody.address o on o.address = d.address
where d.merchant_id is distinct from o.merchant_id;
comment on view audit.merchants_apart is 'addresses and deposits belong to the merchant to whom the address was handed';

create view audit.idempotency_keys as
select k.merchant_id, k.key from app.idempotency_key k left join app.payout p on p.id = k.payout_id and p.merchant_id = k.merchant_id
where p.id is null or k.body::json ->> 'id' is distinct from app.public_id('pay', p.id)
union all
select merchant_id, count(*) || ' keys of one payout' from app.idempotency_key group by merchant_id, payout_id having count(*) > 1;
comment on view audit.idempotency_keys is 'each key has its own payout, of its merchant, and the reply names it';

-- All of them, at the moment of the caller's transaction. Numbers in what is found are strings: amounts are larger than what JSON's readers can hold.
create function app.audit_checks() returns table (name text, claim text, count bigint, found jsonb)
language plpgsql stable security definer set search_path = pg_catalog as $$
declare view record;
begin
  for view in
    select c.relname, obj_description(c.oid, 'pg_class') as claim from pg_class c
    where c.relnamespace = 'audit'::regnamespace and c.relkind = 'v' order by c.oid
  loop
    return query execute format('with wrong as materialized (select to_jsonb(w) as row from audit.%I w)
      select $1, $2, (select count(*) from wrong), coalesce((
        select jsonb_agg((select jsonb_object_agg(key, case jsonb_typeof(value) when ''number'' then to_jsonb(value #>> ''{}'') else value end)
          from jsonb_each(first.row))) from (select row from wrong order by row::text limit 10) first), ''[]'')', view.relname)
    using view.relname::text, view.claim;
  end loop;
end $$;
comment on function app.audit_checks is 'Makes every check of the schema audit: what must hold, how many things break it, and the first ten of them.';

-- What the chains should hold ------------------------------------------------------------------------------------------------------------------

create function app.audit_holdings(of_chain text) returns table (address text, token text, amount numeric)
language sql stable security definer set search_path = pg_catalog as $$
  with treasury as (select app.treasury_address(of_chain) as address), posted as (
    select case e.account when 'treasury' then t.address else e.address end as address, e.token, sum(e.amount) as amount
    from app.ledger_entry e cross join treasury t where e.chain = of_chain and e.account in ('address', 'treasury') group by 1, 2
  ), ours as (
    select d.address from app.deposit d where d.chain = of_chain union select t.address from treasury t where t.address is not null
  )
  select o.address, a.token, coalesce(p.amount, 0)
  from ours o join app.asset a on a.chain = of_chain left join posted p on p.address = o.address and p.token = a.token order by o.address, a.token
$$;
comment on function app.audit_holdings is 'What the treasury, and each address that ever received anything, hold of each token at the final height, by the ledger.';

create function app.audit_outputs(of_chain text) returns table (address text, outpoint text, amount numeric, is_leaving boolean)
language sql stable security definer set search_path = pg_catalog as $$
  select u.address, u.txid || ':' || u.vout, u.amount, u.spend_id is not null or exists (
    select from chain.inclusion i where i.chain = u.chain and i.sender = u.txid || ':' || u.vout)
  from app.output u where u.chain = of_chain and u.spent_by is null
  union all -- not ours to spend
  select d.address, d.txid || ':' || d.output_index, d.amount, false from app.deposit d
  where d.chain = of_chain and d.status = 'final' and not d.credited and d.user_id is not null
  union all -- what has nothing unspent is looked at, too
  select ours.address, null, null, null from (
    select d.address from app.deposit d where d.chain = of_chain union select app.treasury_address(of_chain) where app.treasury_address(of_chain) is not null
  ) ours
$$;
comment on function app.audit_outputs is 'The final unspent outputs of our addresses on a chain that has outputs, by the ledger: leaving where a transaction of ours spends it; and each address once without any.';

-- Runs -----------------------------------------------------------------------------------------------------------------------------------------

-- Once a day, and not before there is something to look at. A run that its process did not live to end is made up for after an hour.
create function app.audit_is_due() returns boolean
language sql stable security definer set search_path = pg_catalog as $$
  select (select min(m.applied_at) from public.sluice_migration m) < clock_timestamp() - interval '10 minutes'
    and not exists (select from app.audit_run r
      where r.finished_at > clock_timestamp() - interval '1 day' or r.started_at > clock_timestamp() - interval '1 hour')
$$;
comment on function app.audit_is_due is 'Whether the last audit is a day ago.';

create function app.begin_audit() returns bigint
language sql security definer set search_path = pg_catalog as $$
  delete from app.audit_run r where r.started_at < clock_timestamp() - interval '1 year';
  insert into app.audit_run default values returning id
$$;
comment on function app.begin_audit is 'Notes that an audit begins; returns the number of the run.';

-- findings: [{"name", "claim", "count", "found"}, ...]. A check that finds something opens an incident, or brings the open one up to date; one that
-- finds nothing heals it. What an operator decided to keep stays silent for as long as exactly that is found.
create function app.finish_audit(of_run bigint, findings jsonb, error text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('app.finish_audit', 0));
  insert into app.audit_finding (run_id, name, claim, count, found)
  select of_run, f.name, f.claim, f.count, f.found from jsonb_to_recordset(findings) as f (name text, claim text, count bigint, found jsonb);
  update app.audit_run r set finished_at = clock_timestamp(), error = finish_audit.error where r.id = of_run;

  update app.incident i set resolved_at = clock_timestamp(), resolution = 'healed'
  from app.audit_finding f
  where f.run_id = of_run and f.count = 0 and i.kind = 'audit' and i.subject = 'audit:' || f.name and i.resolved_at is null;
  with wrong as (
    select 'audit:' || f.name as subject, jsonb_build_object('claim', f.claim, 'count', f.count, 'found', f.found) as details
    from app.audit_finding f where f.run_id = of_run and f.count > 0
  ), known as (
    update app.incident i set details = w.details from wrong w where i.kind = 'audit' and i.subject = w.subject and i.resolved_at is null
    returning i.subject
  )
  insert into app.incident (chain, kind, subject, details)
  select null, 'audit', w.subject, w.details from wrong w
  left join lateral (
    select i.resolution, i.details from app.incident i where i.kind = 'audit' and i.subject = w.subject order by i.id desc limit 1
  ) last on true
  where w.subject not in (select subject from known)
    and (last.resolution = 'kept' and last.details - 'claim' = w.details - 'claim') is not true;
end $$;
comment on function app.finish_audit is 'Stores what an audit found, and opens, renews or heals the incidents that follow from it.';

-- What takes longer than it should ----------------------------------------------------------------------------------------------------------------

create view app.stuck as
select 'payout' as what, app.public_id('pay', p.id) as id, p.chain, coalesce(p.waiting_reason, p.status) as state, p.created_at as since
from app.payout p where p.status not in ('completed', 'failed') and p.created_at < clock_timestamp() - interval '1 day'
union all
select s.kind, s.id::text, s.chain, coalesce(s.waiting_reason, s.status), s.created_at
from app.spend s where s.status <> 'final' and s.kind <> 'payout' and s.created_at < clock_timestamp() - interval '1 day'
union all
select 'deposit', app.public_id('dep', d.id), d.chain, case when d.block_height is null then 'in no block' else 'not final' end, d.created_at
from app.deposit d where d.status = 'pending' and d.created_at < clock_timestamp() - interval '1 day'
union all
select 'stamping', app.public_id('pay', c.payout_id), c.chain, c.done_count || ' of ' || c.deposit_count || ' deposits', c.created_at
from app.claim c where c.finished_at is null and c.created_at < clock_timestamp() - interval '1 hour'
union all
select 'event', app.public_id('evt', e.id), null, 'not sequenced', e.created_at
from app.event e where e.sequence is null and e.created_at < clock_timestamp() - interval '10 minutes'
union all
select 'delivery', app.public_id('dlv', d.id), null, d.attempts || ' attempts', d.created_at
from app.delivery d where d.status = 'pending' and d.created_at < clock_timestamp() - interval '4 days' and d.next_attempt_at < clock_timestamp();
comment on view app.stuck is 'What has been under way for longer than it should be. Not wrong: the chain, a node, the whitelist or a merchant may be what it waits for.';
comment on column app.stuck.what is 'payout, sweep, withdrawal, deposit, stamping (of deposits with their payout), event or delivery.';
comment on column app.stuck.id is 'Its id, as commands take it.';
comment on column app.stuck.chain is 'Chain code; null if it concerns none.';
comment on column app.stuck.state is 'What it waits for, or how far it is.';
comment on column app.stuck.since is 'When it began.';

grant execute on function app.audit_checks, app.audit_holdings, app.audit_outputs, app.audit_is_due, app.begin_audit, app.finish_audit to sluice_jobs;
