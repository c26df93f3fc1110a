-- What custody's signatures may cost, and what only an operator decides about that.
--
-- Custody counts what it signed today (UTC) on a chain, the highest fee of each nonce, or first input, against a budget (custody/budget.ts), and
-- signs nothing on a chain that is halted. Both have an exception that an operator alone makes: the owner of the database raises today's budget,
-- and has the payment of one payout replaced or cancelled although its chain is halted.
--
-- Writers: the owner of the database, through the command line. No role of a process can write here, the worker's and custody's least of all.
-- Readers: custody, which signs by it; the worker, which asks custody again.

create table custody.budget_raise (
  id bigint primary key generated always as identity,
  chain text not null,
  day date not null,
  amount numeric(78, 0) not null check (amount > 0),
  raised_at timestamptz not null default clock_timestamp()
);
create index budget_raise_day on custody.budget_raise (chain, day);
comment on table custody.budget_raise is 'What an operator added to the fee budget of a chain, for one day.';
comment on column custody.budget_raise.id is 'Number of the row.';
comment on column custody.budget_raise.chain is 'Chain code.';
comment on column custody.budget_raise.day is 'The day (UTC) that it is for.';
comment on column custody.budget_raise.amount is 'What was added, in the native coin''s base units.';
comment on column custody.budget_raise.raised_at is 'When.';

-- What waits for the budget goes on at once.
create function custody.announce_raise() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  update app.spend s set next_step_at = clock_timestamp()
  where s.chain = new.chain and s.status <> 'final' and s.waiting_reason = 'fee_budget_reached';
  perform app.wake_spends(new.chain);
  perform app.wake_payout(p.id) from app.payout p
  where p.chain = new.chain and p.status not in ('completed', 'failed') and p.waiting_reason = 'fee_budget_reached' order by p.id;
  return null;
end $$;
create trigger announce_raise after insert on custody.budget_raise for each row execute function custody.announce_raise();

create table custody.decision (
  spend_id uuid primary key references app.spend on delete cascade,
  decision text not null check (decision in ('replace', 'cancel')),
  decided_at timestamptz not null default clock_timestamp()
);
comment on table custody.decision is 'Payments that an operator wants replaced or cancelled: custody signs for them on a halted chain, too.';
comment on column custody.decision.spend_id is 'The payment.';
comment on column custody.decision.decision is 'replace (by the same payment with a higher fee) or cancel (by a transaction that moves nothing).';
comment on column custody.decision.decided_at is 'When it was decided, last.';

create function app.decide_payment(of_payout uuid, what text) returns void
language sql set search_path = pg_catalog as $$
  insert into custody.decision as d (spend_id, decision)
  select s.id, what from app.spend s where s.payout_id = of_payout and s.kind = 'payout' and s.status <> 'final'
  on conflict (spend_id) do update set decision = excluded.decision, decided_at = excluded.decided_at
$$;

-- As in 012_spends.sql, and besides: the cancel is signed on a halted chain, too.
create or replace function app.cancel_payout_by_operator(of_payout uuid) returns text
language plpgsql security definer set search_path = pg_catalog as $$
declare p app.payout;
begin
  select * into p from app.payout o where o.id = of_payout for update;
  if p.id is null then raise exception 'there is no payout with this id' using errcode = 'SL404', detail = 'payout'; end if;
  if p.status in ('completed', 'failed') then raise exception 'the payout is % already', p.status using errcode = 'SL422'; end if;
  perform app.decide_payment(p.id, 'cancel');
  if app.fail_payout(p.id, 'cancelled', 'cancelled by the operator') then return 'failed'; end if;
  update app.spend s set cancelling = true, next_step_at = clock_timestamp() where s.payout_id = p.id and s.kind = 'payout' and s.status <> 'final';
  perform app.wake_spends(p.chain);
  return 'cancelling';
end $$;

create function app.replace_payout_by_operator(of_payout uuid) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare p app.payout;
begin
  select * into p from app.payout o where o.id = of_payout for update;
  if p.id is null then raise exception 'there is no payout with this id' using errcode = 'SL404', detail = 'payout'; end if;
  update app.spend s set next_step_at = clock_timestamp()
  where s.payout_id = p.id and s.kind = 'payout' and s.status = 'live' and not s.cancelling;
  if not found then
    raise exception 'the payout is %, and no payment of it is under way that could be replaced', p.status using errcode = 'SL422';
  end if;
  perform app.decide_payment(p.id, 'replace');
  perform app.wake_spends(p.chain);
end $$;
comment on function app.replace_payout_by_operator is 'An operator''s decision to offer a higher fee for a payment under way, now, even if its chain is halted.';

-- Why a payout waits, for its merchant: a code of the contract, in words that tell nothing of the treasury. What waits for nothing but time is
-- not told of. (In paying it is the payment that waits; before that, the payout notes what its sweeps and its payment wait for.)
create or replace function app.payout_waiting(p app.payout) returns json
language sql stable security definer set search_path = pg_catalog as $$
  select json_build_object('code', k.code, 'message', k.message, 'since', app.iso(w.since))
  from (
    select p.waiting_reason as reason, p.waiting_since as since where p.status in ('pending', 'sweeping', 'swept')
    union all
    select s.waiting_reason, s.waiting_since from app.spend s where s.payout_id = p.id and s.kind = 'payout' and p.status = 'paying'
  ) w
  join (values
    (array['not_whitelisted'], 'address_not_whitelisted', 'the payout address has to be put on the whitelist'),
    (array['daily_limit', 'above_limit'], 'limit_reached', 'it would exceed a limit for payouts'),
    (array['fee_budget_reached'], 'fee_budget_reached', 'what may be spent on network fees today is spent; it goes on tomorrow (UTC) at the latest'),
    (array['insufficient_treasury_funds', 'insufficient_inputs', 'fee_above_funds'], 'insufficient_treasury_funds', 'the treasury is short of funds'),
    (array['treasury_immature'], 'treasury_immature', 'newly mined coins of the treasury cannot be spent yet'),
    (array['chain_halted', 'journal_ahead', 'journal_changed'], 'chain_halted', 'payouts of this chain are stopped for the operator to look'),
    (array['no_node', 'node_unreachable'], 'chain_halted', 'the chain cannot be reached at the moment'),
    (array['fee_above_cap', 'sweep_too_dear'], 'fee_too_high', 'network fees are higher than what is paid for them at most'),
    (array['custody_unreachable'], 'custody_unavailable', 'it cannot be signed at the moment'),
    (array['nonce_too_high', 'unknown_outputs'], 'unresolved_transaction', 'an earlier transaction has to be settled first')
  ) k (reasons, code, message) on w.reason = any(k.reasons)
$$;
comment on function app.payout_waiting is 'Why a payout waits, as the API tells it; null where nothing is in its way, or it is over.';

grant select on custody.budget_raise, custody.decision, app.output to sluice_custody;
grant execute on function app.why_halted to sluice_custody;
grant select on custody.decision to sluice_jobs;
grant execute on function app.payout_waiting to sluice_api;
