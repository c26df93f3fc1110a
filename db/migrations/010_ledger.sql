-- The ledger: every movement of money as a balanced posting, what each address holds, what the treasury holds and whose it is.
--
-- Writers: chain.promote (deposits that became final, top-ups), app.settle_spends (sweeps, payouts, withdrawals, network fees), claims and
-- releases of payouts, app.resolve_incident. Readers: whoever plans a payout (app.holding, app.treasury, app.treasury_share), analysts, audit.
--
-- Accounts, each per chain and token; a positive amount is a debit, a negative one a credit:
--   address       + what final transfers brought to a deposit address, - what left it (with the address; merchant null: unattributed)
--   treasury      + what the treasury holds
--   merchant      - what a merchant can be paid (app.balance_now, with the sign turned)
--   payout        - what payouts under way have claimed
--   fees          - service fees earned
--   network       + network fees paid
--   operator      - top-ups of the treasury, less withdrawals
--   unattributed  - value at our addresses that counts for nobody
-- Tokens that are not supported are not in it: anybody can make one, and say of it that any amount of it was moved.
--
-- Invariants: the entries of a posting add up to zero for each token; entries are never changed; app.holding, app.treasury and
-- app.treasury_share are sums over entries, kept beside them because payouts decide by them (app.ledger_audit compares).

create sequence app.ledger_posting;
create table app.ledger_entry (
  id bigint primary key generated always as identity,
  posting bigint not null,
  kind text not null check (kind in ('deposit', 'top_up', 'reorg', 'claim', 'release', 'payout', 'sweep', 'withdrawal', 'network_fee')),
  reference text not null,
  account text not null check (account in ('address', 'treasury', 'merchant', 'payout', 'fees', 'network', 'operator', 'unattributed')),
  chain text not null,
  token text not null,
  merchant_id uuid,
  address text,
  amount numeric not null check (amount <> 0),
  created_at timestamptz not null default clock_timestamp()
);
create index ledger_entry_account on app.ledger_entry (account, chain, token, merchant_id) include (amount);
create index ledger_entry_reference on app.ledger_entry (reference);
comment on table app.ledger_entry is 'Double-entry bookkeeping of everything that moved. The entries of one posting add up to zero for each token.';
comment on column app.ledger_entry.id is 'Order of insertion.';
comment on column app.ledger_entry.posting is 'The movement that the entry is a part of.';
comment on column app.ledger_entry.kind is 'deposit (deposits became final), top_up (the treasury was paid), reorg (a final deposit was taken back), claim and release (of a payout), payout, sweep, withdrawal, network_fee.';
comment on column app.ledger_entry.reference is 'What caused it: promotion:<chain>:<number>, or the id of the deposit, the payout or the spend.';
comment on column app.ledger_entry.account is 'address, treasury, merchant, payout, fees, network, operator or unattributed (db/migrations/010_ledger.sql says what they are).';
comment on column app.ledger_entry.chain is 'Chain code.';
comment on column app.ledger_entry.token is 'Token code.';
comment on column app.ledger_entry.merchant_id is 'The merchant that the movement belongs to; null for the operator''s own and for unattributed value.';
comment on column app.ledger_entry.address is 'The address, for the account address.';
comment on column app.ledger_entry.amount is 'Debit (positive) or credit (negative), in base units.';
comment on column app.ledger_entry.created_at is 'When it was posted.';

create function app.refuse_entry_change() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  raise exception 'ledger entries are never changed' using errcode = 'P0003';
end $$;
create trigger append_only before update or delete on app.ledger_entry for each row execute function app.refuse_entry_change();

create function app.assert_balanced() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  perform from added group by posting, chain, token having sum(amount) <> 0;
  if found then raise exception 'a posting does not add up to zero' using errcode = 'P0003'; end if;
  return null;
end $$;
create trigger balanced after insert on app.ledger_entry
  referencing new table as added for each statement execute function app.assert_balanced();

-- What can be moved, kept up to date ----------------------------------------------------------------------------------------------------

create table app.holding (
  chain text not null,
  address text not null,
  token text not null,
  merchant_id uuid not null,
  amount numeric not null,
  primary key (chain, address, token)
);
create index holding_largest on app.holding (merchant_id, chain, token, amount desc) where amount > 0;
comment on table app.holding is 'What a deposit address holds of final, credited money that no sweep has taken: the sum of its entries in the ledger.';
comment on column app.holding.chain is 'Chain code.';
comment on column app.holding.address is 'The address.';
comment on column app.holding.token is 'Token code.';
comment on column app.holding.merchant_id is 'The merchant whose user''s address it is.';
comment on column app.holding.amount is 'Amount in base units.';

create table app.treasury (
  chain text not null,
  token text not null,
  balance numeric not null default 0,
  reserved numeric not null default 0,
  primary key (chain, token)
);
comment on table app.treasury is 'What the treasury holds by the ledger, and what is promised to transactions that are not final. Its row locks order everything that spends from it.';
comment on column app.treasury.chain is 'Chain code.';
comment on column app.treasury.token is 'Token code.';
comment on column app.treasury.balance is 'Sum of the account treasury, in base units.';
comment on column app.treasury.reserved is 'Amounts and highest network fees of transactions under way.';

create table app.treasury_share (
  chain text not null,
  token text not null,
  merchant_id uuid not null references app.merchant,
  amount numeric not null default 0,
  reserved numeric not null default 0,
  primary key (chain, token, merchant_id)
);
comment on table app.treasury_share is 'Whose money the treasury holds. Nobody is paid from what belongs to another merchant.';
comment on column app.treasury_share.chain is 'Chain code.';
comment on column app.treasury_share.token is 'Token code.';
comment on column app.treasury_share.merchant_id is 'The merchant.';
comment on column app.treasury_share.amount is 'What was swept from the merchant''s addresses, and what sweeping it cost them, less the gross of completed payouts. Below zero: the operator has advanced it.';
comment on column app.treasury_share.reserved is 'Gross of the payments under way.';

-- The operator's own money in the treasury, not promised to anything: fees earned, top-ups, less network costs and what was advanced to
-- merchants whose addresses are not swept yet. The rest belongs to merchants.
create function app.operator_funds(of_chain text, of_token text) returns numeric
language sql stable set search_path = pg_catalog as $$
  select coalesce((select balance - reserved from app.treasury where chain = of_chain and token = of_token), 0)
    - coalesce((select sum(amount - reserved) from app.treasury_share where chain = of_chain and token = of_token and amount > reserved), 0)
$$;
comment on function app.operator_funds is 'The operator''s own money in the treasury, in base units, that is not promised to anything; below zero after unforeseen losses.';

alter table app.chain add column native_token text;
comment on column app.chain.native_token is 'Token code of the native coin, in which network fees are paid.';
update app.chain set native_token = case chain when 'POLYGON' then 'POL' else chain end;
alter table app.chain alter column native_token set not null;

create function app.native_token(of_chain text) returns text
language sql stable set search_path = pg_catalog as $$
  select native_token from app.chain where chain = of_chain
$$;
alter table app.asset add column min_payout numeric(78, 0) not null default 1;
comment on column app.asset.min_payout is 'The smallest net amount of a payout, in base units.';

-- Deposits that become final ------------------------------------------------------------------------------------------------------------

alter table chain.cursor add column promotion bigint not null default 0;
comment on column chain.cursor.promotion is 'How often deposits of the chain became final so far; each gets the number of its time.';
alter table app.deposit add column promotion bigint;
comment on column app.deposit.promotion is 'Number, on its chain, of the time at which it became final; null before. A payout claims up to a number.';
update app.deposit set promotion = 0 where status = 'final';
drop index app.deposit_unsettled;
create index deposit_unsettled on app.deposit (merchant_id, chain, token, promotion, seq) include (amount)
  where status = 'final' and credited and settlement_id is null;
create index deposit_settlement on app.deposit (settlement_id, seq) where settlement_id is not null;

-- A treasury belongs to no merchant: what it receives is in app.deposit, too, for the same life cycle, and is never credited to anybody.
alter table app.deposit alter column merchant_id drop not null, alter column user_id drop not null,
  add constraint nobody_is_not_credited check (not credited or merchant_id is not null);
comment on column app.deposit.merchant_id is 'The merchant whose address it is; null for a treasury.';
comment on column app.deposit.user_id is 'The user whose address it is; null for a treasury.';

create table app.adjustment (
  id uuid primary key default uuidv7(),
  merchant_id uuid not null references app.merchant,
  chain text not null,
  token text not null,
  amount numeric(78, 0) not null check (amount <> 0),
  deposit_id uuid,
  reason text not null,
  settlement_id uuid,
  created_at timestamptz not null default clock_timestamp()
);
create index adjustment_unsettled on app.adjustment (merchant_id, chain, token) where settlement_id is null;
create index adjustment_deposit on app.adjustment (deposit_id);
comment on table app.adjustment is 'Debts of merchants and what cancels them: a deposit that was lost after it was paid out. The next payout claims them with the deposits.';
comment on column app.adjustment.id is 'Id.';
comment on column app.adjustment.merchant_id is 'The merchant.';
comment on column app.adjustment.chain is 'Chain code.';
comment on column app.adjustment.token is 'Token code.';
comment on column app.adjustment.amount is 'What it changes the balance by: below zero for a debt.';
comment on column app.adjustment.deposit_id is 'The deposit that was lost, or came back.';
comment on column app.adjustment.reason is 'deposit_lost; deposit_back: it became final again; payout_failed: the payout that had claimed it gave it back; payout_recovered and paid_after_all: a payout that an older copy of the database had forgotten, or given up.';
comment on column app.adjustment.settlement_id is 'The payout that claimed it; null until then.';
comment on column app.adjustment.created_at is 'When it was made.';

-- One posting, given as JSON: [{"account", "token", "amount", "merchant_id"?, "address"?}, ...]. For single movements; deposits, which come
-- in thousands, are posted by chain.promote itself.
create function app.post(of_kind text, of_reference text, of_chain text, entries jsonb) returns void
language sql set search_path = pg_catalog as $$
  insert into app.ledger_entry (posting, kind, reference, account, chain, token, merchant_id, address, amount)
  select p.posting, of_kind, of_reference, e.account, of_chain, e.token, e.merchant_id, e.address, e.amount
  from (select nextval('app.ledger_posting') as posting) p,
    jsonb_to_recordset(entries) as e (account text, token text, amount numeric, merchant_id uuid, address text)
  where e.amount <> 0
$$;

-- Deposits that have become final, as one posting.
create function app.post_final_deposits(of_chain text, ids uuid[], of_promotion bigint) returns void
language plpgsql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare posting bigint := nextval('app.ledger_posting');
begin
  with part as materialized (
    select case when d.user_id is null then 'top_up' else 'deposit' end as kind,
      case when d.user_id is null then 'treasury' else 'address' end as debited,
      case when d.user_id is null then 'operator' when d.credited then 'merchant' else 'unattributed' end as owed_to,
      case when d.credited then d.merchant_id end as merchant_id, case when d.user_id is not null then d.address end as address, d.token,
      sum(d.amount) as amount
    from unnest(ids) as i (id) join app.deposit d on d.id = i.id join app.asset a on a.chain = of_chain and a.token = d.token
    group by 1, 2, 3, 4, 5, 6
  ), held as (
    insert into app.holding as h (chain, address, token, merchant_id, amount)
    select of_chain, address, token, merchant_id, amount from part where owed_to = 'merchant' order by address, token
    on conflict (chain, address, token) do update set amount = h.amount + excluded.amount
  ), topped_up as (
    insert into app.treasury as t (chain, token, balance)
    select of_chain, token, amount from part where owed_to = 'operator' order by token
    on conflict (chain, token) do update set balance = t.balance + excluded.balance
  )
  insert into app.ledger_entry (posting, kind, reference, account, chain, token, merchant_id, address, amount)
  select posting, kind, 'promotion:' || of_chain || ':' || of_promotion, debited, of_chain, token, merchant_id, address, amount from part
  union all
  select posting, kind, 'promotion:' || of_chain || ':' || of_promotion, owed_to, of_chain, token, merchant_id, null, -sum(amount)
  from part group by kind, owed_to, token, merchant_id;
end $$;

-- What was final before there was a ledger.
select app.post_final_deposits(chain, array_agg(id), 0) from app.deposit where status = 'final' group by chain;
