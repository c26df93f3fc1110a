-- Payment requests: an exact amount to an address of its own, paid once, by a payer who is no user of the merchant.
--
-- What arrives at such an address is a row of app.deposit with payment_request_id in place of user_id: it is derived, becomes final, is taken back,
-- counts in the balance, is claimed and swept like every deposit, by the same code. But it has no event, and no list of deposits shows it.
--
-- Writers: the API makes a request and takes its address (app.create_payment_request). app.refresh_payment updates it at COMMIT of every transaction
-- that changes its receipts, once, however many. The jobs worker updates expired ones each second (app.expire_payment_requests).
-- Readers: the API, the payment page, analysts through views.
--
-- Invariants:
--   * one request for each (merchant, external_id); one address for each request, from the pool, for ever;
--   * a receipt has the requested chain and token (app.receipt); anything else at the address is unattributed;
--   * status, received, pending, late, txid and paid_at follow from the receipts and the end (the expiry, or when it was cancelled) alone
--     (app.payment_of), at every commit;
--   * position is set while status is paid or underpaid, and rises whenever what GET /payments shows of the request changes.
-- Locks, always in this order: chain.cursor, deposits, payment request. The function that expires requests locks nothing else.

create sequence app.payment_position;
comment on sequence app.payment_position is 'Positions in GET /payments.';

create table app.payment_request (
  id uuid primary key default uuidv7(),
  merchant_id uuid not null references app.merchant,
  external_id text not null,
  chain text not null,
  token text not null,
  amount numeric(78, 0) not null check (amount > 0),
  page_token text not null unique,
  idempotency_key text,
  request_hash bytea,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  expired_at timestamptz,
  cancelled_at timestamptz,
  metadata jsonb not null default '{}',
  return_url text,
  status text not null default 'awaiting' check (status in ('awaiting', 'detected', 'paid', 'expired', 'underpaid', 'cancelled')),
  received numeric(78, 0) not null default 0,
  pending numeric(78, 0) not null default 0,
  late boolean not null default false,
  txid text,
  paid_at timestamptz,
  position bigint,
  seq bigint not null generated always as identity,
  unique (merchant_id, external_id),
  unique (merchant_id, idempotency_key),
  foreign key (chain, token) references app.asset,
  check ((idempotency_key is null) = (request_hash is null)),
  check ((status = 'paid') = (received >= amount) and (status = 'paid') = (paid_at is not null)),
  check ((status in ('paid', 'underpaid')) = (position is not null))
);
-- GET /v1/payment-requests, the newest first.
create index payment_request_status_page on app.payment_request (merchant_id, status, seq desc);
-- GET /payments, the newest change first.
create unique index payment_request_page on app.payment_request (merchant_id, position desc) where position is not null;
create index payment_request_asset_page on app.payment_request (merchant_id, chain, token, position desc) where position is not null;
-- Underpaid ones are few among those that were paid.
create index payment_request_underpaid_page on app.payment_request (merchant_id, position desc) where status = 'underpaid';
-- What expires next.
create index payment_request_expiry on app.payment_request (expires_at) where expired_at is null and status in ('awaiting', 'detected');
-- A merchant's days, for analysts.
create index payment_request_created on app.payment_request (merchant_id, created_at);
-- Counted for the metrics: ended requests are kept for ever, and are not in it.
create index payment_request_open on app.payment_request (chain, status) where status in ('awaiting', 'detected');
comment on table app.payment_request is 'What merchants asked to be paid, each to an address of its own, and what was paid of it. Never deleted.';
comment on column app.payment_request.id is 'Id; merchants know the request by external_id.';
comment on column app.payment_request.external_id is 'The merchant''s reference, which begins with its prefix.';
comment on column app.payment_request.amount is 'The requested amount, in base units.';
comment on column app.payment_request.page_token is 'The secret in the URL of the request''s page: 192 random bits.';
comment on column app.payment_request.idempotency_key is 'Idempotency-Key of the call that made it; null if it had none.';
comment on column app.payment_request.request_hash is 'SHA-256 of the body of that call.';
comment on column app.payment_request.created_at is 'When it was made.';
comment on column app.payment_request.expires_at is 'When it expires; what comes later is late.';
comment on column app.payment_request.expired_at is 'When its status was decided after it expired or was cancelled; null before.';
comment on column app.payment_request.cancelled_at is 'When the merchant cancelled it; what comes later is late. Null unless it did.';
comment on column app.payment_request.metadata is 'What the merchant notes about it: an object of strings.';
comment on column app.payment_request.return_url is 'Where the payment page sends the payer back to; null if not given.';
comment on column app.payment_request.status is 'awaiting; detected: money was seen, and is not enough or not final yet; paid; expired, or cancelled: nothing came; underpaid: it expired with less than the requested amount.';
comment on column app.payment_request.received is 'Sum of the final receipts, in base units.';
comment on column app.payment_request.pending is 'Sum of the receipts that are not final yet, in base units.';
comment on column app.payment_request.late is 'True if some of what was received came after it expired.';
comment on column app.payment_request.txid is 'Transaction of the final receipt with which the sum reached the amount; of the last receipt until then.';
comment on column app.payment_request.paid_at is 'When that receipt became final; null while the amount is not reached.';
comment on column app.payment_request.seq is 'Order of creation, for pages.';
comment on column app.payment_request.position is 'Order in GET /payments; null while it is not there.';
grant select on app.payment_request to sluice_api;

-- Here, because app.address is made before the requests.
alter table app.address add foreign key (payment_request_id) references app.payment_request;

-- Once for each request at the end of a transaction, because it costs as much as there are receipts: ten thousand receipts in one block would
-- otherwise be added up ten thousand times.
create unlogged table app.touched_payment (txn xid8 not null, payment_request_id uuid not null, primary key (txn, payment_request_id));
comment on table app.touched_payment is 'Payment requests whose receipts a running transaction changed; each row makes one update at COMMIT. Empty between transactions.';
comment on column app.touched_payment.txn is 'The transaction.';
comment on column app.touched_payment.payment_request_id is 'The payment request.';

-- What the functions for the API return. The API adds the payment URI, which it makes from these parts, and the page's URL.
create type app.payment_response as (body text, chain text, token text, address text, amount text);
comment on type app.payment_response is 'A payment request as its merchant made it, and its current state: the body, and the parts of its URI.';
