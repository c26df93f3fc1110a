-- An endpoint that answers 410 (Gone) is disabled when it has answered nothing else for a minute: one such answer among others may be a proxy's mistake.
alter table app.webhook_endpoint add column gone_since timestamptz;
comment on column app.webhook_endpoint.gone_since is 'Time of the first 410 since it answered anything else; null if its last answer was not 410.';
comment on column app.webhook_endpoint.disabled_reason is 'Why they stopped: merchant, gone (nothing but 410 for a minute) or failing (five days without a success).';
