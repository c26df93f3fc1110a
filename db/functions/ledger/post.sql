-- The ledger: every movement of money is a posting, written in the transaction that causes it. Callers: deposits that became final or are taken
-- back, claims and releases of payouts, outgoing payments that are final, decisions about unattributed value, custody's reconciliation.
--
-- Accounts, each for a chain and token; a positive amount is a debit, a negative one a credit:
--   address       + what final transfers brought to a deposit address, - what left it (with the address; merchant null: unattributed)
--   treasury      + what the treasury holds
--   merchant      - what a merchant can be paid (app.balance_now, with the sign turned)
--   payout        - what payouts under way have claimed
--   fees          - service fees earned
--   network       + network fees paid
--   operator      - top-ups of the treasury, less withdrawals and second payments
--   unattributed  - value at our addresses that is credited to no merchant
--   staked        + the operator's coins that are staked, or unstaked and not back yet
--   gas           + what the treasury sent an address for its sweeps, - what they cost it, and what went back (with the address)
-- Invariants: the entries of a posting add up to zero for each chain and token; entries are never changed or deleted. Triggers refuse the rest
-- (P0003).

-- A movement and what follows from it have one time: of the first posting of a transaction, which has its locks by then. (So the order of times is that
-- of what the movements read of each other.)
create or replace function app.posting_time() returns timestamptz
language plpgsql set search_path = pg_catalog as $$
begin
  if coalesce(current_setting('app.posted_at', true), '') = '' then perform set_config('app.posted_at', clock_timestamp()::text, true); end if;
  return current_setting('app.posted_at')::timestamptz;
end $$;
comment on function app.posting_time is 'The time of all that this transaction posts.';

-- For single movements. app.post_final_deposits posts deposits that became final, which come in thousands.
create or replace function app.post(of_kind text, of_reference text, of_chain text, entries jsonb) returns void
language sql set search_path = pg_catalog as $$
  insert into app.ledger_entry (posting, kind, reference, account, chain, token, merchant_id, address, amount, created_at)
  select p.posting, of_kind, of_reference, e.account, of_chain, e.token, e.merchant_id, e.address, e.amount, p.at
  from (select nextval('app.ledger_posting') as posting, app.posting_time() as at) p,
    jsonb_to_recordset(entries) as e (account text, token text, amount numeric, merchant_id uuid, address text)
  where e.amount <> 0
$$;
comment on function app.post is 'Writes one posting, given as JSON: [{account, token, amount, merchant_id?, address?}, ...], amounts in base units. Entries of zero are left out.';

create or replace function app.assert_balanced() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  perform from added group by posting, chain, token having sum(amount) <> 0;
  if found then raise exception 'a posting does not add up to zero' using errcode = 'P0003'; end if;
  return null;
end $$;
comment on function app.assert_balanced is 'Trigger: refuses a posting that does not add up to zero for each chain and token.';
create or replace trigger balanced after insert on app.ledger_entry
  referencing new table as added for each statement execute function app.assert_balanced();

create or replace function app.refuse_entry_change() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  raise exception 'ledger entries are never changed' using errcode = 'P0003';
end $$;
comment on function app.refuse_entry_change is 'Trigger: refuses to change or delete an entry of the ledger.';
create or replace trigger append_only before update or delete on app.ledger_entry for each row execute function app.refuse_entry_change();
