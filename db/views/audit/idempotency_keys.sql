-- A row is a key that stands for no payout of its merchant, or for another payout than its response names; or a payout with several keys.
create or replace view audit.idempotency_keys as
select k.merchant_id, k.key from app.idempotency_key k left join app.payout p on p.id = k.payout_id and p.merchant_id = k.merchant_id
where p.id is null or k.body::json ->> 'id' is distinct from app.public_id('pay', p.id)
union all
select merchant_id, count(*) || ' keys of one payout' from app.idempotency_key group by merchant_id, payout_id having count(*) > 1;
comment on view audit.idempotency_keys is 'each key has its own payout, of its merchant, and its response names it';
comment on column audit.idempotency_keys.key is 'The key; or how many keys one payout has.';
