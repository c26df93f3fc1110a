-- Why an outgoing payment had no effect. Locks: none.

create or replace function app.why_failed(s app.outgoing_payment) returns text
language sql stable set search_path = pg_catalog as $$
  select case s.outcome
    when 'reverted' then 'its transaction was mined, and failed'
    when 'conflicted' then 'another transaction took its place'
    when 'expired' then 'no block took its transaction before it expired' || coalesce('; ' || s.failure, '; the node said: ' || (
      select o.broadcast_error from app.outgoing_attempt o where o.outgoing_payment_id = s.id and o.broadcast_error is not null order by o.attempt desc limit 1), '')
    when 'cancelled' then coalesce(s.failure, 'it was given up') end
$$;
comment on function app.why_failed is 'Why an outgoing payment that has ended had no effect, in words for operators; null if it had.';
