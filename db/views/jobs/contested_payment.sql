-- Payments of which more than one attempt may still pay: a rewind has taken back the proof that an earlier attempt expired, after a later one was
-- signed. Computed from custody's journal and the chain, never stored. Nothing of them is signed or sent until one is final, or all others expired.
create or replace view app.contested_payment as
select f.chain, f.subject_id, count(*) as attempts from app.attempt_fate f join app.chain c on c.chain = f.chain and c.attempts_exclude_by = 'expiry'
where f.fate <> 'dead' group by f.chain, f.subject_id having count(*) > 1 and bool_and(f.fate <> 'final');
comment on view app.contested_payment is 'Payments on chains whose transactions expire of which more than one attempt may still pay, and none has.';
comment on column app.contested_payment.subject_id is 'The payout, the sweep or the withdrawal, as in custody.journal.';
comment on column app.contested_payment.attempts is 'How many.';
grant select on app.contested_payment to sluice_custody, sluice_jobs;
