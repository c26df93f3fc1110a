-- Invitations: links by which a person joins a merchant, or gets a new password and second factor. The command line makes them, as the owner of the
-- database (sluice invite); sluice_auth accepts them.
--
-- Promises: an invitation is used once, within a day, and all that follows from it is one transaction: of two people who use it at the same time one
-- wins, and nothing of the other stays. A reset removes the authenticator, the recovery codes and the passkeys, and ends all sessions.
-- Locks: the invitation, then the person.
-- Errors: SL404 there is no such invitation, merchant or person; SL410 it was used, or is too old; SL422 refused, the message says why.

create or replace function dashboard.invite(of_merchant uuid, of_token_hash bytea, of_email text default null) returns timestamptz
language plpgsql security definer set search_path = pg_catalog as $$
declare person uuid; merchant uuid; expires timestamptz;
begin
  perform from app.merchant m where m.id = of_merchant;
  if not found then raise exception 'there is no merchant with this id' using errcode = 'SL404', detail = 'merchant'; end if;
  if of_email is not null then
    select u.id, b.merchant_id into person, merchant from auth."user" u join dashboard.member b on b.user_id = u.id where u.email = lower(of_email);
    if not found then raise exception 'nobody signs in with this e-mail address' using errcode = 'SL404', detail = 'person'; end if;
    if merchant <> of_merchant then raise exception 'this e-mail address belongs to another merchant' using errcode = 'SL422'; end if;
  end if;
  insert into dashboard.invitation (token_hash, merchant_id, user_id) values (of_token_hash, of_merchant, person) returning expires_at into expires;
  insert into dashboard.audit_entry (merchant_id, user_id, action, detail)
  values (of_merchant, person, case when person is null then 'invitation.create' else 'reset.create' end, 'by the operator');
  return expires;
end $$;
comment on function dashboard.invite is 'Stores the SHA-256 of the secret of a link for a new person of a merchant, or, with of_email, for one who gets a new password and second factor. Returns when it ends.';

create or replace function dashboard.find_invitation(of_token_hash bytea, out state text, out merchant text, out email text)
language sql stable security definer set search_path = pg_catalog as $$
  select case when v.used_at is not null then 'used' when v.expires_at <= clock_timestamp() then 'old' else 'open' end, m.name, u.email
  from dashboard.invitation v join app.merchant m on m.id = v.merchant_id left join auth."user" u on u.id = v.user_id
  where v.token_hash = of_token_hash
$$;
comment on function dashboard.find_invitation is 'An invitation by the SHA-256 of its secret: open, used or old; its merchant; the e-mail address of the person, if it is a reset. Nulls if there is none.';

create or replace function dashboard.accept_invitation(of_token_hash bytea, of_name text, of_email text, password_hash text, from_ip text) returns uuid
language plpgsql security definer set search_path = pg_catalog as $$
declare invitation record; person uuid;
begin
  select * into invitation from dashboard.invitation v where v.token_hash = of_token_hash for update;
  if not found then raise exception 'there is no such invitation' using errcode = 'SL404', detail = 'invitation'; end if;
  if invitation.used_at is not null or invitation.expires_at <= clock_timestamp() then
    raise exception 'this invitation was used, or is too old' using errcode = 'SL410';
  end if;
  person := invitation.user_id;
  if person is null then
    perform app.require_clear_name('The name', of_name);
    insert into auth."user" (name, email, "emailVerified") values (of_name, lower(of_email), true) on conflict (email) do nothing returning id into person;
    if not found then raise exception 'This e-mail address is taken. Please use another one.' using errcode = 'SL422'; end if;
    insert into auth.account ("accountId", "providerId", "userId", password) values (person, 'credential', person, password_hash);
    insert into dashboard.member (user_id, merchant_id) values (person, invitation.merchant_id);
  else
    perform from auth."user" u where u.id = person for update;
    update auth.account a set password = password_hash, "updatedAt" = clock_timestamp() where a."userId" = person and a."providerId" = 'credential';
    delete from auth.authenticator a where a.user_id = person;
    delete from auth.recovery_code c where c.user_id = person;
    delete from auth.passkey p where p."userId" = person;
    delete from auth.session s where s."userId" = person;
  end if;
  update dashboard.invitation v set used_at = clock_timestamp()
  where v.token_hash = of_token_hash or (v.user_id = person and v.used_at is null); -- links for one reset are no links for the next
  perform dashboard.record(person, case when invitation.user_id is null then 'invitation.accept' else 'reset.accept' end, from_ip);
  return person;
end $$;
comment on function dashboard.accept_invitation is 'Uses an invitation: makes the person, with this name, e-mail address and hashed password; or gives the person of a reset this password. Returns the person.';

grant execute on function dashboard.find_invitation, dashboard.accept_invitation to sluice_auth;
