-- The dashboard: who may sign in for which merchant, and what was done there. Two roles, so that neither process can do all of it:
--
--   sluice_auth        signs people in. It alone reads and writes the schema auth, the tables of the library better-auth: passwords (hashed), second
--                      factors, sessions. It has no access to anything of a merchant.
--   sluice_dashboard   shows the pages. It has no access to any table. Each function that it may call takes the token of a session and finds the person
--                      and the merchant by it, so without a live session it reads and changes nothing.
--
-- Invariants: a person belongs to one merchant, for ever. A session counts only once its person has shown a second factor. An invitation is used
-- once, within a day. The audit log is only added to. A form that is sent twice changes nothing the second time (dashboard.change_request).
-- Locks, always in this order: invitation, person, merchant.

do $$
declare role_name text;
begin
  foreach role_name in array array['sluice_auth', 'sluice_dashboard'] loop
    begin
      execute format('create role %I login', role_name);
    exception when duplicate_object or unique_violation then null; -- made before, or by a migration that runs at the same time
    end;
  end loop;
end $$;
alter role sluice_auth set statement_timeout = '10s';
alter role sluice_dashboard set statement_timeout = '10s';

-- The names are those that better-auth 1.7 asks for; the unique indexes that it does not make are ours.
create schema auth;
comment on schema auth is 'People, their passwords and second factors, and their sessions: the tables of the library better-auth, for sluice_auth alone.';
grant usage on schema auth to sluice_auth;
alter role sluice_auth set search_path = auth;

create schema dashboard;
comment on schema dashboard is 'The dashboard: members of merchants, invitations, the audit log, and the functions through which its two processes work.';
grant usage on schema dashboard to sluice_auth, sluice_dashboard;

create table auth."user" (
  id uuid primary key default uuidv7(),
  name text not null,
  email text not null unique check (email = lower(email)),
  "emailVerified" boolean not null,
  image text,
  "createdAt" timestamptz not null default clock_timestamp(),
  "updatedAt" timestamptz not null default clock_timestamp()
);
comment on table auth."user" is 'People who may sign in.';
comment on column auth."user".id is 'Id.';
comment on column auth."user".name is 'Name for people.';
comment on column auth."user".email is 'The address with which the person signs in, in lower case. Nothing is sent to it.';
comment on column auth."user"."emailVerified" is 'Always true: an operator gave the invitation to the person.';
comment on column auth."user".image is 'Not used; the library asks for it.';
comment on column auth."user"."createdAt" is 'When the invitation was accepted.';
comment on column auth."user"."updatedAt" is 'When the row last changed.';
grant select, insert, update on auth."user" to sluice_auth;

create table auth.session (
  id uuid primary key default uuidv7(),
  "expiresAt" timestamptz not null,
  token text not null unique,
  "createdAt" timestamptz not null default clock_timestamp(),
  "updatedAt" timestamptz not null default clock_timestamp(),
  "ipAddress" text,
  "userAgent" text,
  "userId" uuid not null references auth."user" on delete cascade,
  "secondFactorAt" timestamptz
);
create index session_person on auth.session ("userId");
comment on table auth.session is 'Browsers that are signed in. Deleting a row ends the session at once.';
comment on column auth.session."expiresAt" is 'When it ends if it is not used.';
comment on column auth.session.token is 'The secret in the cookie of the browser.';
comment on column auth.session."createdAt" is 'When the person signed in.';
comment on column auth.session."updatedAt" is 'When it was last prolonged.';
comment on column auth.session."ipAddress" is 'Where the person signed in from.';
comment on column auth.session."userAgent" is 'What the browser said it is.';
comment on column auth.session."userId" is 'The person.';
comment on column auth.session."secondFactorAt" is 'When the person last showed a second factor in this session; null before: the session then shows nothing of a merchant.';
grant select, insert, update, delete on auth.session to sluice_auth;

create table auth.account (
  id uuid primary key default uuidv7(),
  "accountId" text not null,
  "providerId" text not null,
  "userId" uuid not null references auth."user" on delete cascade,
  "accessToken" text,
  "refreshToken" text,
  "idToken" text,
  "accessTokenExpiresAt" timestamptz,
  "refreshTokenExpiresAt" timestamptz,
  scope text,
  password text,
  "createdAt" timestamptz not null default clock_timestamp(),
  "updatedAt" timestamptz not null default clock_timestamp(),
  unique ("providerId", "accountId"),
  unique ("userId", "providerId")
);
comment on table auth.account is 'Passwords, one for each person.';
comment on column auth.account."accountId" is 'The person again.';
comment on column auth.account."providerId" is 'Always credential: a password.';
comment on column auth.account."userId" is 'The person.';
comment on column auth.account."accessToken" is 'Not used; the library asks for it.';
comment on column auth.account."refreshToken" is 'Not used; the library asks for it.';
comment on column auth.account."idToken" is 'Not used; the library asks for it.';
comment on column auth.account."accessTokenExpiresAt" is 'Not used; the library asks for it.';
comment on column auth.account."refreshTokenExpiresAt" is 'Not used; the library asks for it.';
comment on column auth.account.scope is 'Not used; the library asks for it.';
comment on column auth.account.password is 'The password, hashed with scrypt and a salt of its own.';
comment on column auth.account."createdAt" is 'When it was made.';
comment on column auth.account."updatedAt" is 'When it last changed.';
grant select, insert, update on auth.account to sluice_auth;

create table auth.verification (
  id uuid primary key default uuidv7(),
  identifier text not null,
  value text not null,
  "expiresAt" timestamptz not null,
  "createdAt" timestamptz not null default clock_timestamp(),
  "updatedAt" timestamptz not null default clock_timestamp()
);
create index verification_identifier on auth.verification (identifier);
comment on table auth.verification is 'What a sign-in under way has to show: a second factor, or the reply to a challenge of a passkey.';
comment on column auth.verification.identifier is 'What it is for.';
comment on column auth.verification.value is 'What is expected.';
comment on column auth.verification."expiresAt" is 'When it ends.';
comment on column auth.verification."createdAt" is 'When it began.';
comment on column auth.verification."updatedAt" is 'When it last changed.';
grant select, insert, update, delete on auth.verification to sluice_auth;

-- Not the library's: its codes can be used twice, and its recovery codes can be read with its secret.
create table auth.authenticator (
  user_id uuid primary key references auth."user" on delete cascade,
  secret text not null,
  set_up_at timestamptz not null default clock_timestamp()
);
comment on table auth.authenticator is 'Authenticators (TOTP, RFC 6238), one for each person, from the moment that a code of it was shown.';
comment on column auth.authenticator.user_id is 'The person.';
comment on column auth.authenticator.secret is 'Its secret, encrypted with DASHBOARD_SECRET.';
comment on column auth.authenticator.set_up_at is 'When it was set up.';
grant select on auth.authenticator to sluice_auth;

create table auth.recovery_code (
  user_id uuid not null references auth."user" on delete cascade,
  code_hash bytea not null check (octet_length(code_hash) = 32),
  primary key (user_id, code_hash)
);
comment on table auth.recovery_code is 'Recovery codes that are left. Each works once, in place of a code of the authenticator.';
comment on column auth.recovery_code.user_id is 'The person.';
comment on column auth.recovery_code.code_hash is 'SHA-256 of the code, which has 80 random bits.';
grant select on auth.recovery_code to sluice_auth;

create table auth.passkey (
  id uuid primary key default uuidv7(),
  name text,
  "publicKey" text not null,
  "userId" uuid not null references auth."user" on delete cascade,
  "credentialID" text not null unique,
  counter int not null,
  "deviceType" text not null,
  "backedUp" boolean not null,
  transports text,
  "createdAt" timestamptz default clock_timestamp(),
  aaguid text
);
create index passkey_person on auth.passkey ("userId");
comment on table auth.passkey is 'Passkeys (WebAuthn). One counts as both factors: the device verifies the person.';
comment on column auth.passkey.name is 'The person''s name for it.';
comment on column auth.passkey."publicKey" is 'The public key.';
comment on column auth.passkey."userId" is 'The person.';
comment on column auth.passkey."credentialID" is 'The id that the device gave it.';
comment on column auth.passkey.counter is 'How often the device signed, if it counts.';
comment on column auth.passkey."deviceType" is 'Whether it stays on one device.';
comment on column auth.passkey."backedUp" is 'Whether the device keeps a copy elsewhere.';
comment on column auth.passkey.transports is 'How the device is reached.';
comment on column auth.passkey."createdAt" is 'When it was made.';
comment on column auth.passkey.aaguid is 'The model of the device.';
grant select, insert, update, delete on auth.passkey to sluice_auth;

create table auth."rateLimit" (
  id uuid primary key default uuidv7(),
  key text not null unique,
  count int not null,
  "lastRequest" bigint not null
);
comment on table auth."rateLimit" is 'Attempts to sign in, by path and address of the client.';
comment on column auth."rateLimit".id is 'Id.';
comment on column auth."rateLimit".key is 'The path and the client.';
comment on column auth."rateLimit".count is 'Attempts in the present window.';
comment on column auth."rateLimit"."lastRequest" is 'The last attempt, in milliseconds since 1970.';
grant select, insert, update, delete on auth."rateLimit" to sluice_auth;

create table dashboard.member (
  user_id uuid primary key references auth."user",
  merchant_id uuid not null references app.merchant,
  joined_at timestamptz not null default clock_timestamp()
);
create index member_merchant on dashboard.member (merchant_id);
comment on table dashboard.member is 'Which merchant a person acts for.';
comment on column dashboard.member.user_id is 'The person.';
comment on column dashboard.member.merchant_id is 'The merchant. Never changes.';
comment on column dashboard.member.joined_at is 'When the invitation was accepted.';

create table dashboard.invitation (
  token_hash bytea primary key check (octet_length(token_hash) = 32),
  merchant_id uuid not null references app.merchant,
  user_id uuid references auth."user",
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null default clock_timestamp() + interval '1 day',
  used_at timestamptz
);
comment on table dashboard.invitation is 'Links that an operator made (sluice invite): for a new person, or for one who lost a password or a second factor.';
comment on column dashboard.invitation.token_hash is 'SHA-256 of the secret in the link, which has 256 random bits.';
comment on column dashboard.invitation.user_id is 'The person who gets a new password and second factor; null for a new person.';
comment on column dashboard.invitation.created_at is 'When it was made.';
comment on column dashboard.invitation.expires_at is 'When it ends, used or not.';
comment on column dashboard.invitation.used_at is 'When it was used; null before.';

create table dashboard.used_code (
  user_id uuid not null references auth."user",
  step bigint not null,
  primary key (user_id, step)
);
comment on table dashboard.used_code is 'Codes of authenticators that were used: none is accepted twice (RFC 6238, 5.2).';
comment on column dashboard.used_code.user_id is 'The person.';
comment on column dashboard.used_code.step is 'The half minute of the code, counted from 1970.';

create table dashboard.attempt (
  id bigint primary key generated always as identity,
  subject bytea not null,
  at timestamptz not null default clock_timestamp()
);
create index attempt_subject on dashboard.attempt (subject, at);
create index attempt_at on dashboard.attempt (at);
comment on table dashboard.attempt is 'Wrong passwords and codes of the last quarter of an hour, and those that are being checked.';
comment on column dashboard.attempt.subject is 'SHA-256 of what was guessed: the password of an e-mail address, known or not, or the code of a person.';
comment on column dashboard.attempt.at is 'When.';

create table dashboard.audit_entry (
  id bigint primary key generated always as identity,
  at timestamptz not null default clock_timestamp(),
  merchant_id uuid,
  user_id uuid,
  action text not null,
  target text,
  detail text,
  ip text,
  outcome text not null default 'done'
);
create index audit_entry_merchant on dashboard.audit_entry (merchant_id, id desc);
comment on table dashboard.audit_entry is 'What people did in the dashboard, and attempts to sign in. Only added to; no process can alter it.';
comment on column dashboard.audit_entry.id is 'Order.';
comment on column dashboard.audit_entry.at is 'When.';
comment on column dashboard.audit_entry.merchant_id is 'The merchant, which sees it; null if nobody known tried.';
comment on column dashboard.audit_entry.user_id is 'The person; null if not known.';
comment on column dashboard.audit_entry.action is 'What was done, such as api_key.create.';
comment on column dashboard.audit_entry.target is 'To what: an id as merchants see it, or a chain.';
comment on column dashboard.audit_entry.detail is 'More about it, such as the label of a key, or a new address.';
comment on column dashboard.audit_entry.ip is 'Address of the client that signed in.';
comment on column dashboard.audit_entry.outcome is 'done, or why it was refused.';

create table dashboard.change_request (
  id uuid primary key,
  user_id uuid not null references auth."user",
  at timestamptz not null default clock_timestamp()
);
comment on table dashboard.change_request is 'Forms that were sent: each has an id, and the same form sent again changes nothing.';
comment on column dashboard.change_request.id is 'Id that the form was made with.';
comment on column dashboard.change_request.user_id is 'The person.';
comment on column dashboard.change_request.at is 'When it was sent.';
