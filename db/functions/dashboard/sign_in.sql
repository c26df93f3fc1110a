-- Signing in, called by sluice_auth: the limit of attempts, codes that count once, the second factor of a session, and the audit log.
--
-- Promises: an attempt counts before it is checked, so a hundred guesses at once are no more than ten in a row; restarts and further processes change
-- nothing about that. A code is accepted once. Showing a second factor, or changing the password, gives the session another token, and the old one is
-- dead with the commit. A session ends a week after the person signed in, however it is used. A person who has a second factor changes it, and the
-- password, only in a session that showed it within ten minutes.
-- Locks: the person (auth."user"); an advisory lock for each subject of attempts. Errors: SLAUT no live session; SLSTP the second factor has to be shown
-- again; SL404 there is no such passkey; SL422 refused, the message says why.

create or replace function dashboard.begin_attempt(of_subject text) returns bigint
language plpgsql security definer set search_path = pg_catalog as $$
declare hashed bytea := sha256(convert_to(of_subject, 'UTF8')); attempt bigint;
begin
  perform pg_advisory_xact_lock(hashtextextended('dashboard.attempt ' || of_subject, 0));
  delete from dashboard.attempt a where a.at < clock_timestamp() - interval '15 minutes';
  if (select count(*) from dashboard.attempt a where a.subject = hashed) >= 10 then return null; end if;
  insert into dashboard.attempt (subject) values (hashed) returning id into attempt;
  return attempt;
end $$;
comment on function dashboard.begin_attempt is 'Counts an attempt to guess a password or a code, before it is checked. Returns its id; null after ten wrong ones within 15 minutes.';

create or replace function dashboard.forget_attempt(of_attempt bigint) returns void
language sql security definer set search_path = pg_catalog as $$
  delete from dashboard.attempt a where a.id = of_attempt
$$;
comment on function dashboard.forget_attempt is 'The attempt was right, so it does not count. Wrong ones before it still do.';

create or replace function dashboard.use_code(of_user uuid, of_step bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
begin
  delete from dashboard.used_code u where u.user_id = of_user and u.step < of_step - 10;
  insert into dashboard.used_code (user_id, step) values (of_user, of_step) on conflict do nothing;
  return found;
end $$;
comment on function dashboard.use_code is 'Uses a code of an authenticator, by its half minute since 1970; false if it was used before.';

create or replace function dashboard.use_recovery_code(of_user uuid, of_code_hash bytea) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
begin
  delete from auth.recovery_code c where c.user_id = of_user and c.code_hash = of_code_hash;
  return found;
end $$;
comment on function dashboard.use_recovery_code is 'Uses a recovery code; false if the person has none with this SHA-256.';

create or replace function dashboard.limit_session() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  new."expiresAt" := least(new."expiresAt", new."createdAt" + interval '7 days');
  return new;
end $$;
comment on function dashboard.limit_session is 'Trigger: a session that is used all the time ends a week after the person signed in.';
create or replace trigger limit_session before insert or update on auth.session
  for each row execute function dashboard.limit_session();

create or replace function dashboard.show_second_factor(old_token text, new_token text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  update auth.session s set token = new_token, "secondFactorAt" = clock_timestamp(), "updatedAt" = clock_timestamp()
  where s.token = old_token and s."expiresAt" > clock_timestamp();
  if not found then raise exception 'this session has ended' using errcode = 'SLAUT'; end if;
end $$;
comment on function dashboard.show_second_factor is 'Notes that the person showed a second factor in this session, which gets another token.';

create or replace function dashboard.second_factors(of_user uuid, out has_authenticator boolean, out recovery_codes int, out passkeys int)
language sql stable security definer set search_path = pg_catalog as $$
  select exists (select from auth.authenticator a where a.user_id = of_user),
    (select count(*)::int from auth.recovery_code c where c.user_id = of_user),
    (select count(*)::int from auth.passkey p where p."userId" = of_user)
$$;
comment on function dashboard.second_factors is 'The second factors that a person has.';

create or replace function dashboard.lock_second_factors(of_token text) returns uuid
language plpgsql security definer set search_path = pg_catalog as $$
declare person uuid; shown timestamptz; factors record;
begin
  select s."userId", s."secondFactorAt" into person, shown from auth.session s where s.token = of_token and s."expiresAt" > clock_timestamp();
  if not found then raise exception 'this session has ended' using errcode = 'SLAUT'; end if;
  perform from auth."user" u where u.id = person for update;
  select * into factors from dashboard.second_factors(person);
  if (factors.has_authenticator or factors.passkeys > 0) and (shown is null or shown < clock_timestamp() - interval '10 minutes') then
    raise exception 'the second factor has to be shown again' using errcode = 'SLSTP';
  end if;
  return person;
end $$;
comment on function dashboard.lock_second_factors is 'The person of a session that may change second factors and the password: none is set up yet, or one was shown within ten minutes. Locks the person.';

create or replace function dashboard.set_recovery_codes(of_token text, code_hashes bytea[]) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare person uuid := dashboard.lock_second_factors(of_token);
begin
  delete from auth.recovery_code c where c.user_id = person;
  insert into auth.recovery_code (user_id, code_hash) select person, unnest(code_hashes);
end $$;
comment on function dashboard.set_recovery_codes is 'Gives the person of a session new recovery codes; the old ones do not work any more.';

create or replace function dashboard.set_authenticator(of_token text, of_secret text, code_hashes bytea[]) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare person uuid := dashboard.lock_second_factors(of_token);
begin
  insert into auth.authenticator (user_id, secret) values (person, of_secret)
  on conflict (user_id) do update set secret = excluded.secret, set_up_at = excluded.set_up_at;
  delete from auth.recovery_code c where c.user_id = person;
  insert into auth.recovery_code (user_id, code_hash) select person, unnest(code_hashes);
end $$;
comment on function dashboard.set_authenticator is 'Sets up the authenticator of the person of a session, in place of one that was there, with new recovery codes.';

create or replace function dashboard.remove_passkey(of_token text, passkey uuid) returns text
language plpgsql security definer set search_path = pg_catalog as $$
declare person uuid := dashboard.lock_second_factors(of_token); factors record; removed text;
begin
  delete from auth.passkey p where p.id = passkey and p."userId" = person returning coalesce(p.name, '') into removed;
  if not found then raise exception 'there is no such passkey' using errcode = 'SL404', detail = 'passkey'; end if;
  select * into factors from dashboard.second_factors(person);
  if not factors.has_authenticator and factors.passkeys = 0 then
    raise exception 'This is your last second factor. Set up another one first.' using errcode = 'SL422';
  end if;
  return removed;
end $$;
comment on function dashboard.remove_passkey is 'Removes a passkey of the person of a session, unless it is the last second factor; returns its name.';

create or replace function dashboard.change_password(old_token text, new_token text, password_hash text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare person uuid := dashboard.lock_second_factors(old_token);
begin
  update auth.account a set password = password_hash, "updatedAt" = clock_timestamp() where a."userId" = person and a."providerId" = 'credential';
  delete from auth.session s where s."userId" = person and s.token <> old_token;
  update auth.session s set token = new_token, "updatedAt" = clock_timestamp() where s.token = old_token;
  if not found then raise exception 'this session has ended' using errcode = 'SLAUT'; end if;
end $$;
comment on function dashboard.change_password is 'Changes the password of the person of a session. The session gets another token; all others of the person end.';

create or replace function dashboard.merchant_name(of_user uuid) returns text
language sql stable security definer set search_path = pg_catalog as $$
  select m.name from dashboard.member b join app.merchant m on m.id = b.merchant_id where b.user_id = of_user
$$;
comment on function dashboard.merchant_name is 'The name of the merchant that a person acts for.';

create or replace function dashboard.record(of_user uuid, of_action text, from_ip text, of_outcome text default 'done', of_target text default null)
returns void
language sql security definer set search_path = pg_catalog as $$
  insert into dashboard.audit_entry (merchant_id, user_id, action, target, ip, outcome)
  values ((select b.merchant_id from dashboard.member b where b.user_id = of_user), of_user, of_action, of_target, from_ip, of_outcome)
$$;
comment on function dashboard.record is 'Adds an entry to the audit log, for the merchant of the person; of_outcome is done, or why it was refused.';

grant execute on function dashboard.begin_attempt, dashboard.forget_attempt, dashboard.use_code, dashboard.use_recovery_code, dashboard.show_second_factor,
  dashboard.second_factors, dashboard.lock_second_factors, dashboard.set_recovery_codes, dashboard.set_authenticator, dashboard.remove_passkey,
  dashboard.change_password, dashboard.merchant_name, dashboard.record to sluice_auth;
