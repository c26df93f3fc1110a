-- What finds payment requests: what time decides next, the pages of GET /v1/payment-requests, and those that were paid in some time. And events: those of
-- payment requests are in no list that does not ask for them. (payment_request_expiry, payment_request_status_page serve the version before, and
-- event_page also dashboard.news.)
update app.payment_request set decide_at = least(expires_at, cancelled_at)
where decide_at is null and expired_at is null and status in ('awaiting', 'detected');

drop index concurrently if exists app.payment_request_decision;

create index concurrently payment_request_decision on app.payment_request (decide_at) where decide_at is not null;

drop index concurrently if exists app.payment_request_kind_page;

create index concurrently payment_request_kind_page on app.payment_request (merchant_id, status, chain, token, seq desc);

drop index concurrently if exists app.payment_request_paid;

create index concurrently payment_request_paid on app.payment_request (merchant_id, paid_at) where paid_at is not null;

drop index concurrently if exists app.event_default_page;

create unique index concurrently event_default_page on app.event (merchant_id, sequence desc)
where sequence is not null and not is_test and not starts_with(type, 'payment_request.');
-- Transaction
comment on column app.event.type is 'A type of app.event_types().';
comment on column app.event.subject_id is 'The deposit, the payout, or the payment request; of a test the endpoint.';
