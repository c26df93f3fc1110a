-- Tokens that an operator adds to the running service, and disables (sluice token). Only the owner of the database can.
--
-- Promises: a token counts from the first block that was not read when it was added, up to the last one that was read
-- when it was disabled, and so again whenever these blocks are read: both take the lock of the cursor, under which each
-- batch of blocks ends. What came before and after is unattributed, under the address of its contract. Balances of a
-- disabled token can still be paid out. A code, a name and a contract are there once.
-- Errors: SL422 the code, the name or the contract is taken; P0002 there is no such token, or the chain is not followed.
-- Locks: chain.cursor.

create or replace function app.add_token(of_chain text, given jsonb) returns int
language plpgsql set search_path = pg_catalog as $$
declare
  t record;
  taken text;
  head int := (select c.head_height from chain.cursor c where c.chain = of_chain for update);
begin
  if head is null then raise exception 'the chain % is not followed', of_chain using errcode = 'P0002'; end if;
  select * into t from jsonb_to_record(given) as r (token text, name text, display_name text, decimals int, contract text, sweep jsonb,
    min_payout numeric, sweep_min numeric, payout_limit numeric, daily_limit numeric, code_hash text);
  taken := case
    when exists (select from app.asset a where a.chain = of_chain and a.token = t.token) then 'the code ' || t.token
    when exists (select from app.asset a where a.name = t.name) then 'the name ' || t.name
    when exists (select from app.token k where k.chain = of_chain and k.contract = t.contract) or exists (
      select from app.chain c cross join jsonb_array_elements(c.assets) a where c.chain = of_chain and a ->> 'contract' = t.contract)
      then 'the contract ' || t.contract end;
  if taken is not null then
    raise exception '% is taken on %, by a token that counts or that was disabled; sluice token list shows them', taken, of_chain using errcode = 'SL422';
  end if;
  insert into app.asset (chain, token, name, display_name, decimals, min_payout, min_payment, sweep_min, sweep_by, code_hash)
  values (of_chain, t.token, t.name, t.display_name, t.decimals, t.min_payout, greatest(div(t.sweep_min, 100), 1), t.sweep_min, t.sweep ->> 'by',
    t.code_hash);
  insert into app.token (chain, token, contract, sweep, from_height, payout_limit, daily_limit)
  values (of_chain, t.token, t.contract, t.sweep, head + 1, t.payout_limit, t.daily_limit);
  return head + 1;
end $$;
comment on function app.add_token is 'Adds a token of a contract to a chain, given as JSON with amounts in base units; returns the first block whose transfers are deposits.';

create or replace function app.disable_token(of_chain text, of_token text) returns int
language plpgsql set search_path = pg_catalog as $$
declare head int := (select c.head_height from chain.cursor c where c.chain = of_chain for update);
begin
  update app.token k set until_height = head, disabled_at = clock_timestamp()
  where k.chain = of_chain and k.token = of_token and k.until_height is null;
  if not found then raise exception 'there is no token % on % that was added and is not disabled', of_token, of_chain using errcode = 'P0002'; end if;
  return head;
end $$;
comment on function app.disable_token is 'Disables a token that was added; returns the last block whose transfers are deposits.';

create or replace function app.is_disabled(of_chain text, of_token text) returns boolean
language sql stable security definer set search_path = pg_catalog as $$
  select exists (select from app.token k where k.chain = of_chain and k.token = of_token and k.until_height is not null)
$$;
comment on function app.is_disabled is 'Whether a token counts no more: nothing can be asked for in it.';
grant execute on function app.is_disabled to sluice_api;

-- The worker looks once an hour.
create or replace function app.note_code(of_chain text, of_token text, hash text) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare before text := (select a.code_hash from app.asset a where a.chain = of_chain and a.token = of_token for no key update);
begin
  update app.asset a set code_hash = hash where a.chain = of_chain and a.token = of_token and a.code_hash is distinct from hash;
  if before is null or before = hash then return false; end if;
  insert into app.incident (kind, subject, details)
  values ('token_changed', of_chain || ':' || of_token, jsonb_build_object('chain', of_chain, 'token', of_token, 'before', before, 'now', hash))
  on conflict do nothing;
  return true;
end $$;
comment on function app.note_code is 'Notes the hash of the code of a token''s contract; true if it had another one before, which opens an incident.';
grant execute on function app.note_code to sluice_jobs;

-- What left an address of ours and did not arrive whole. Nothing of the token is swept or paid while the incident is open.
create or replace function chain.note_short(of_chain text, contract text, of_txid text, sent numeric, arrived numeric) returns void
language sql security definer set search_path = pg_catalog as $$
  insert into app.incident (kind, subject, details)
  select 'token_takes_fee', of_chain || ':' || a.token,
    jsonb_build_object('chain', of_chain, 'token', a.token, 'txid', of_txid, 'sent', sent::text, 'arrived', arrived::text)
  from app.asset a where a.chain = of_chain and contract in (a.token, app.contract_of(of_chain, a.token))
  on conflict do nothing
$$;
comment on function chain.note_short is 'Opens an incident of a token of which less arrived than was sent, both in base units.';
grant execute on function chain.note_short to sluice_indexer;

create or replace function app.fee_incident(of_chain text, of_token text) returns bigint
language sql stable security definer set search_path = pg_catalog as $$
  select i.id from app.incident i where i.kind = 'token_takes_fee' and i.subject = of_chain || ':' || of_token and i.resolved_at is null limit 1
$$;
comment on function app.fee_incident is 'The open incident of a token that takes a fee on transfers; null if there is none.';
grant execute on function app.fee_incident to sluice_jobs;

create or replace function app.contract_of(of_chain text, of_token text) returns text
language sql stable security definer set search_path = pg_catalog as $$
  select coalesce((select k.contract from app.token k where k.chain = of_chain and k.token = of_token),
    (select nullif(t ->> 'contract', '') from app.chain c cross join jsonb_array_elements(c.assets) t where c.chain = of_chain and t ->> 'token' = of_token))
$$;
comment on function app.contract_of is 'The contract of a token, as the indexer writes it while the token does not count; null for a native coin.';

-- The indexer knows the tokens of the settings, and writes all others by their contracts.
create or replace function chain.name_tokens(of_chain text) returns void
language sql set search_path = pg_catalog as $$
  update chain.transfer t set token = k.token
  from app.token k, (select distinct x.id from chain.touched x where x.txn = pg_current_xact_id() and x.chain = of_chain) x
  where k.chain = of_chain and t.id = x.id and t.token = k.contract and t.block_height between k.from_height and coalesce(k.until_height, t.block_height)
$$;
comment on function chain.name_tokens is 'Gives transfers that the calling transaction touched the code of their token, if it was added and counts at their height.';
