-- A payout whose payment has not begun waits only so long (PAYOUT_TIMEOUT_MS), whatever it waits for. Then it fails with that reason, and what it claimed is
-- in the balance again: what was swept meanwhile stays the merchant's in the treasury. If a nonce was taken, a cancel uses it up.
--
-- Promises: the time counts from the request, without the time in which an incident of the chain was open, and without the time until an entry of the
-- whitelist that has been made counts. A payment that has begun ends only if it waits for something. Nothing ends while an incident of the chain is open, nor while a signed transaction may pay: what is paying ends
-- only with proof.
-- Locks: those of app.fail_payout.

create or replace function app.payout_waited(p app.payout) returns interval
language sql stable set search_path = pg_catalog as $$
  select clock_timestamp() - p.created_at - coalesce(sum(upper(r) - lower(r)), '0') -- a clock may have been set back
  from unnest((
    select range_agg(e.excused) * multirange(tstzrange(p.created_at, greatest(clock_timestamp(), p.created_at))) from (
      select tstzrange(i.opened_at, coalesce(i.resolved_at, clock_timestamp())) as excused from app.incident i
      where i.chain = p.chain and i.opened_at <= coalesce(i.resolved_at, clock_timestamp())
      union all
      select tstzrange(w.added_at, least(w.active_at, w.removed_at)) from custody.whitelist w
      where w.merchant_id = p.merchant_id and w.chain = p.chain and w.address = p.address and w.added_at < least(w.active_at, w.removed_at)
    ) e)) r
$$;
comment on function app.payout_waited is 'How long ago a payout was requested, without the time of halts and of entries of the whitelist that count later.';

create or replace function app.time_out_payout(of_payout uuid, timeout_ms bigint) returns text
language plpgsql security definer set search_path = pg_catalog as $$
declare
  p app.payout := (select o from app.payout o where o.id = of_payout);
  why record;
  code text;
begin
  if p.status is null or p.status not in ('pending', 'sweeping', 'swept') or timeout_ms is null
    or p.created_at > clock_timestamp() - timeout_ms * interval '1 millisecond' then -- cheap, and true of nearly all
    return null;
  end if;
  if app.why_halted(p.chain) is not null or app.payout_waited(p) < timeout_ms * interval '1 millisecond' then return null; end if;
  select w.reason, w.detail, k.message, k.fails into why from app.why_payout_waits(p) w left join app.reason k using (reason);
  if why.reason is null and not app.is_cancellable(p) then return null; end if;
  code := coalesce(why.fails, 'timed_out');
  if not app.fail_payout(of_payout, code, 'it could not be carried out in time: ' || coalesce(why.message, 'what it needs was still under way')) then return null; end if;
  update app.payout o set error_detail = nullif(concat_ws(': ', why.reason, why.detail), '') where o.id = of_payout;
  return code;
end $$;
comment on function app.time_out_payout is 'Fails a payout that has waited this long before its payment, with the reason that it waits for; returns the code, or null if it goes on.';
grant execute on function app.time_out_payout to sluice_jobs;
