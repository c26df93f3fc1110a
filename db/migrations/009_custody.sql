-- What custody holds: every address that it ever derived and whose it is, what it signed, what it refused, and where money may go.
--
-- Writers: custody (addresses, journal, refusals), app.take_address (who an address was handed to, once), an operator (whitelist). The API
-- and the worker read whose an address is and what is whitelisted, and change nothing here.
--
-- Invariants: an address is handed to one merchant, once, for ever; the journal is append-only, its numbers follow each other without a
-- gap in each stream, and each entry carries the hash of the one before it, as the file beside the database does.

create schema custody;
comment on schema custody is 'What custody holds: addresses and whose they are, the journal of what it signed, and the whitelist of destinations.';
grant usage on schema custody to sluice_custody, sluice_indexer, sluice_api, sluice_jobs;
grant usage on schema chain to sluice_custody;

-- Whoever owns a function that the owner's code calls can put other code in its place, which then runs as the owner: nothing that others
-- call belongs to a process's role. (graphile_worker's schema changes hands in db/migrate.ts.)
do $$ begin
  execute format('alter function app.enqueue owner to %I', current_user);
  execute format('alter function app.oldest_due_job_age_seconds owner to %I', current_user);
end $$;

-- Addresses -----------------------------------------------------------------------------------------------------------------------------

alter table app.pool_address set schema custody;
alter table custody.pool_address rename to address;
alter index custody.pool_address_free rename to address_free;
alter table custody.address rename constraint pool_address_pkey to address_pkey;
alter table custody.address drop constraint pool_address_family_derivation_index_key;
alter table custody.address
  add column purpose text not null default 'deposit' check (purpose in ('deposit', 'treasury')),
  add column merchant_id uuid,
  add column retired_at timestamptz,
  add column match_key text not null generated always as (case family when 'evm' then lower(address) else address end) stored,
  add constraint address_path unique (family, purpose, derivation_index),
  add constraint handed_to_a_merchant check (merchant_id is null or taken_at is not null);
create unique index address_match on custody.address (match_key);
create index address_merchant on custody.address (merchant_id) where merchant_id is not null;
drop index custody.address_free;
create index address_free on custody.address (family, derivation_index) where taken_at is null and retired_at is null and purpose = 'deposit';
comment on table custody.address is 'Every address that custody ever derived, in order, and the merchant that it was handed to; those that are not taken wait for a user.';
comment on column custody.address.purpose is 'deposit: for a user. treasury: where sweeps go, and payouts come from.';
comment on column custody.address.merchant_id is 'The merchant whose user it was handed to. Written once, by the function that hands it out; what custody signs rests on it.';
comment on column custody.address.retired_at is 'When it was given up unused, because an older copy of the database would have handed it out a second time; else null.';
comment on column custody.address.match_key is 'The address as indexers look it up.';

update custody.address p set merchant_id = a.merchant_id from app.address a where a.address = p.address;

create function custody.refuse_change() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  raise exception 'custody: % of % is not allowed', lower(tg_op), tg_table_name using errcode = 'P0003';
end $$;
create trigger handed_out_once before update on custody.address for each row
  when (old.address <> new.address or old.family <> new.family or old.purpose <> new.purpose or old.derivation_index <> new.derivation_index
    or (old.taken_at is not null and (new.taken_at is distinct from old.taken_at or new.merchant_id is distinct from old.merchant_id))
    or (old.retired_at is not null and new.retired_at is distinct from old.retired_at))
  execute function custody.refuse_change();
create trigger never_deleted before delete on custody.address for each row execute function custody.refuse_change();

-- The treasury is watched as any other address is, and belongs to no user: what it receives that no sweep of ours moved is a top-up.
alter table app.address alter column user_id drop not null, alter column merchant_id drop not null,
  add constraint user_and_merchant check ((user_id is null) = (merchant_id is null));
comment on column app.address.user_id is 'The user that it was handed out for; null for a treasury.';
comment on column app.address.merchant_id is 'The user''s merchant; null for a treasury.';

create function custody.watch_treasury(of_family text) returns void
language sql security definer set search_path = pg_catalog as $$
  insert into app.address (chain, match_key, address, is_provisioned)
  select c.chain, t.match_key, t.address, false from custody.address t join app.chain c using (family)
  where t.purpose = 'treasury' and t.family = of_family
  on conflict do nothing
$$;
comment on function custody.watch_treasury is 'Has the treasury of a family watched on each of its chains. Safe to run again.';

-- As in 007_api.sql, but for where the address comes from, and that the merchant is written down beside it.
create or replace function app.take_address(of_merchant uuid, of_user uuid, of_family text) returns void
language plpgsql set search_path = pg_catalog as $$
declare taken text;
begin
  select a.address into taken from app.address a join app.chain c using (chain) where a.user_id = of_user and c.family = of_family limit 1;
  if taken is null then
    update custody.address p set taken_at = clock_timestamp(), merchant_id = of_merchant
    where p.address = (
      select f.address from custody.address f
      where f.family = of_family and f.purpose = 'deposit' and f.taken_at is null and f.retired_at is null
      order by f.derivation_index limit 1 for update skip locked)
    returning p.address into taken;
    if taken is null then raise exception 'no free % address in the pool', of_family using errcode = 'SL503'; end if;
  end if;
  insert into app.address (chain, match_key, address, user_id, merchant_id, is_provisioned)
  select c.chain, case of_family when 'evm' then lower(taken) else taken end, taken, of_user, of_merchant, false
  from app.chain c where c.family = of_family
  on conflict do nothing;
end $$;

create or replace function app.set_payout_address(of_merchant uuid, of_chain text, of_address text) returns text
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform from app.merchant_chain m where m.merchant_id = of_merchant and m.chain = of_chain and m.enabled;
  if not found then raise exception 'not enabled for this account: %', of_chain using errcode = 'SLCHN'; end if;
  perform from custody.address p where p.match_key in (of_address, lower(of_address)) and p.address = of_address;
  if found then
    raise exception 'this address belongs to this service; payouts go to an address of your own' using errcode = 'SL422';
  end if;
  insert into app.payout_address (merchant_id, chain, address) values (of_merchant, of_chain, of_address)
  on conflict (merchant_id, chain) do update set address = excluded.address, updated_at = clock_timestamp();
  return (select row_to_json(p) from (select of_chain as chain, of_address as address) p);
end $$;

-- The journal -----------------------------------------------------------------------------------------------------------------------------

create table custody.journal (
  stream text not null,
  seq bigint not null check (seq > 0),
  kind text not null check (kind in ('pay', 'sweep', 'withdraw', 'cancel', 'pool')),
  subject_id uuid,
  merchant_id uuid,
  token text,
  amount numeric(78, 0),
  destination text,
  source text,
  sender text,
  nonce bigint,
  max_fee numeric(78, 0),
  txid text,
  raw text,
  details jsonb not null default '{}',
  signed_at timestamptz not null,
  hash text not null,
  primary key (stream, seq)
);
create index journal_nonce on custody.journal (stream, sender, nonce) where nonce is not null;
create index journal_txid on custody.journal (txid) where txid is not null;
create index journal_subject on custody.journal (subject_id) where subject_id is not null;
create index journal_paid on custody.journal (merchant_id, stream, token) where kind = 'pay';
create index journal_day on custody.journal (stream, token, signed_at) where kind in ('pay', 'withdraw');
comment on table custody.journal is 'Everything that custody signed, written before the signature left it, here and in a file outside the database. Append-only.';
comment on column custody.journal.stream is 'Chain code; pool:<family> for the entries about derived addresses.';
comment on column custody.journal.seq is 'Number of the entry in its stream: 1, 2, 3 ... without a gap.';
comment on column custody.journal.kind is 'pay: a payout. sweep: an address to the treasury. withdraw: the operator''s own money. cancel: nothing, with the nonce of something else. pool: addresses were derived up to an index.';
comment on column custody.journal.subject_id is 'The payout, the sweep or the withdrawal (app.spend) that it is for.';
comment on column custody.journal.merchant_id is 'The merchant that is paid, or whose address is swept.';
comment on column custody.journal.token is 'Token code.';
comment on column custody.journal.amount is 'What it moves, in base units.';
comment on column custody.journal.destination is 'Where it moves it to.';
comment on column custody.journal.source is 'The address that it is taken from.';
comment on column custody.journal.sender is 'The address that sends the transaction, and whose nonce it uses; not the source where the treasury relays an authorisation.';
comment on column custody.journal.nonce is 'The nonce.';
comment on column custody.journal.max_fee is 'The most that the transaction can cost, in the native coin''s base units.';
comment on column custody.journal.txid is 'Id of the signed transaction.';
comment on column custody.journal.raw is 'The signed transaction.';
comment on column custody.journal.details is 'What else belongs to the entry: fees; gross and fee of the payout; the highest index of a pool entry.';
comment on column custody.journal.signed_at is 'When it was signed.';
comment on column custody.journal.hash is 'SHA-256 over the hash of the entry before it in the stream and this entry, as in the file.';
create trigger append_only before update or delete on custody.journal for each row execute function custody.refuse_change();

create table custody.refusal (
  id bigint primary key generated always as identity,
  code text not null,
  message text not null,
  request jsonb not null,
  refused_at timestamptz not null default clock_timestamp()
);
comment on table custody.refusal is 'What custody was asked to sign and did not.';
comment on column custody.refusal.id is 'Number of the refusal.';
comment on column custody.refusal.code is 'Why, for programs.';
comment on column custody.refusal.message is 'Why, for people.';
comment on column custody.refusal.request is 'What was asked; never a secret.';
comment on column custody.refusal.refused_at is 'When.';

create table custody.whitelist (
  id bigint primary key generated always as identity,
  merchant_id uuid references app.merchant,
  chain text not null,
  address text not null,
  added_at timestamptz not null default clock_timestamp(),
  active_at timestamptz not null default clock_timestamp(),
  removed_at timestamptz
);
create unique index whitelist_entry on custody.whitelist (merchant_id, chain, address) nulls not distinct where removed_at is null;
comment on table custody.whitelist is 'Where money may go: per merchant and chain; without a merchant, where the operator''s own may go.';
comment on column custody.whitelist.id is 'Number of the entry.';
comment on column custody.whitelist.merchant_id is 'The merchant whose payouts may go there; null for withdrawals by the operator.';
comment on column custody.whitelist.chain is 'Chain code.';
comment on column custody.whitelist.address is 'The address, as people see it (EIP-55 on EVM chains).';
comment on column custody.whitelist.added_at is 'When it was added.';
comment on column custody.whitelist.active_at is 'From when on it counts.';
comment on column custody.whitelist.removed_at is 'When it was removed: nothing new is signed to it. Null while it is on the list.';

grant select on custody.address, custody.journal, custody.refusal, custody.whitelist to sluice_custody;
revoke insert on custody.address from sluice_custody;
grant insert (address, family, derivation_index, purpose, retired_at), update (retired_at) on custody.address to sluice_custody;
grant insert on custody.journal, custody.refusal to sluice_custody;
grant execute on function custody.watch_treasury to sluice_custody;
grant select (address, match_key) on custody.address to sluice_indexer;
grant select on custody.address, custody.whitelist to sluice_api, sluice_jobs;
