-- Compares the sums that are stored beside the ledger, because payouts decide by them, with the entries that they stand for. Reserved amounts are in
-- no entry: they are compared with the payouts, outgoing payments (app.outgoing_payment) and returns under way that they are reserved for. Unspent
-- outputs (Bitcoin) are compared with the holding of their address, and with the treasury.
create or replace view app.ledger_audit as
with entry as (
  select account, kind, chain, token, merchant_id, address, sum(amount) as amount from app.ledger_entry
  group by account, kind, chain, token, merchant_id, address
), compared (what, chain, token, merchant_id, address, kept, posted) as (
  select 'holding', chain, token, merchant_id, address, sum(kept), sum(posted) from (
    select chain, token, merchant_id, address, amount as kept, 0 as posted from app.holding
    union all
    select chain, token, merchant_id, address, 0, amount from entry where account = 'address' and merchant_id is not null
  ) h group by chain, token, merchant_id, address
  union all
  select 'treasury', chain, token, null, null, sum(kept), sum(posted) from (
    select chain, token, balance as kept, 0 as posted from app.treasury
    union all select chain, token, 0, amount from entry where account = 'treasury'
  ) t group by chain, token
  union all
  select 'gas', chain, app.native_token(chain), null, address, sum(kept), sum(posted) from (
    select chain, address, amount as kept, 0 as posted from app.gas
    union all select chain, address, 0, amount from entry where account = 'gas'
  ) g group by chain, address
  union all
  select 'staked', chain, app.native_token(chain), null, null, sum(kept), sum(posted) from (
    select chain, amount as kept, 0 as posted from app.stake
    union all select chain, amount, 0 from app.unstaking where reclaimed_at is null
    union all select chain, 0, amount from entry where account = 'staked'
  ) g group by chain
  union all
  select 'lent', chain, app.native_token(chain), null, address, sum(kept), sum(posted) from (
    select chain, address, amount as kept, 0 as posted from app.delegation
    union all
    select s.chain, s.recipient, 0, case s.kind when 'delegate' then s.amount else -s.amount end from app.outgoing_payment s
    where s.kind in ('delegate', 'undelegate') and s.outcome = 'done'
    union all -- what was mined although it had ended otherwise
    select s.chain, s.recipient, 0, case s.kind when 'delegate' then s.amount else -s.amount end
    from app.second_payment n join app.outgoing_payment s on s.id = n.outgoing_payment_id
    where s.kind in ('delegate', 'undelegate') and n.booked_at is not null and n.txid is distinct from s.txid
      and exists (select from chain.confirmed_tx i where i.chain = n.chain and i.txid = n.txid and i.success)
  ) g group by chain, address
  union all
  select 'gas_reserved', chain, app.native_token(chain), null, address, sum(kept), sum(posted) from (
    select chain, address, reserved as kept, 0 as posted from app.gas
    union all
    select s.chain, s.fee_payer, 0, s.max_fee + case when s.kind = 'defund' then s.amount else 0 end from app.outgoing_payment s
    where s.status <> 'final' and s.from_gas
  ) g group by chain, address
  union all
  select 'treasury_share', chain, token, merchant_id, null, sum(kept), sum(posted) from (
    select chain, token, merchant_id, amount as kept, 0 as posted from app.treasury_share
    union all
    select chain, token, merchant_id, 0, case when kind = 'sweep' then amount else -amount end from entry
    where (kind = 'sweep' and account = 'treasury') or (kind = 'network_fee' and account = 'address' and merchant_id is not null) or (kind = 'payout' and account = 'payout')
  ) s group by chain, token, merchant_id
  union all
  select 'treasury_reserved', chain, token, null, null, sum(kept), sum(posted) from (
    select chain, token, reserved as kept, 0 as posted from app.treasury
    union all
    select s.chain, s.token, 0, s.amount - s.swept_in from app.outgoing_payment s left join app.payout p on p.id = s.payout_id
    where s.status <> 'final' and (s.kind in ('withdrawal', 'fund', 'stake') or (s.kind = 'payout' and p.status in ('swept', 'paying')))
    union all
    select s.chain, app.native_token(s.chain), 0, s.max_fee from app.outgoing_payment s
    where s.status <> 'final' and s.fee_payer = app.treasury_address(s.chain)
    union all
    select s.chain, s.token, 0, u.amount from app.unattributed_decision u join app.outgoing_payment s on s.id = u.sweep_id where app.is_held(u)
  ) r group by chain, token
  union all
  select 'share_reserved', chain, token, merchant_id, null, sum(kept), sum(posted) from (
    select chain, token, merchant_id, reserved as kept, 0 as posted from app.treasury_share
    union all
    select p.chain, p.token, p.merchant_id, 0, p.gross - s.swept_in from app.payout p join app.outgoing_payment s on s.payout_id = p.id and s.kind = 'payout'
    where p.status in ('swept', 'paying')
  ) r group by chain, token, merchant_id
  union all
  select 'merchant', chain, token, merchant_id, null, sum(kept), sum(posted) from (
    select chain, token, merchant_id, amount as kept, 0 as posted from app.balance_now
    union all select chain, token, merchant_id, 0, -amount from entry where account = 'merchant'
  ) m group by chain, token, merchant_id
  union all
  select 'payout', chain, token, merchant_id, null, sum(kept), sum(posted) from (
    select chain, token, merchant_id, gross as kept, 0 as posted from app.payout where status not in ('completed', 'failed')
    union all select chain, token, merchant_id, 0, -amount from entry where account = 'payout'
  ) p group by chain, token, merchant_id
  union all
  select 'output', chain, token, null, address, sum(kept), sum(posted) from (
    select u.chain, app.native_token(u.chain) as token, u.address, u.amount as kept, 0 as posted from app.output u
    where u.spent_by is null and u.merchant_id is not null
    union all
    select h.chain, h.token, h.address, 0, h.amount from app.holding h where app.uses_outputs(h.chain)
    union all
    select u.chain, app.native_token(u.chain), null, u.amount, 0 from app.output u where u.spent_by is null and u.merchant_id is null
    union all
    select t.chain, t.token, null, 0, t.balance from app.treasury t where app.uses_outputs(t.chain)
  ) u group by chain, token, address
  union all
  select 'unattributed', chain, token, null, null, sum(kept), sum(posted) from (
    select d.chain, d.token, d.amount as kept, 0 as posted from app.deposit d join app.asset a on a.chain = d.chain and a.token = d.token
    where not d.credited and d.merchant_id is not null and d.status = 'final'
    union all -- what left it: network fees, and the returns
    select chain, token, -amount, 0 from entry where account = 'unattributed' and kind = 'return'
    union all
    select chain, token, 0, -amount from entry where account = 'unattributed'
  ) u group by chain, token
)
select what, chain, token, merchant_id, address, kept, posted from compared where kept <> posted;
comment on view app.ledger_audit is 'Sums that are stored beside the ledger and differ from it. Always empty; a row is a bug.';
comment on column app.ledger_audit.what is 'holding, treasury, treasury_share, treasury_reserved, share_reserved, gas (the operator''s, on an address), gas_reserved, staked (the treasury''s coins), lent (of them, to an address), merchant (the balance), payout (claimed), output (unspent outputs against the holding of an address, or the treasury) or unattributed.';
comment on column app.ledger_audit.merchant_id is 'The merchant, if it is about one.';
comment on column app.ledger_audit.address is 'The address, if it is about one.';
comment on column app.ledger_audit.kept is 'The stored amount, in base units.';
comment on column app.ledger_audit.posted is 'The amount by the ledger, in base units; for reserved amounts, by what is under way.';
