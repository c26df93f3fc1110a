// What must hold of money after every commit. Each statement finds rows that break a rule.
// Promises: it reads the tables themselves, and uses no sum of the database except those that it compares.
import assert from 'node:assert/strict'
import type {TestDatabase} from './database.ts'

const rules: Record<string, string> = {
  'a balance is the sum of what is unsettled': 'select * from app.balance_audit',
  'the sums beside the ledger agree with it': 'select * from app.ledger_audit',
  'what changed a balance adds up to it, by the totals that statements show': 'select * from audit.running_totals',
  'the deposits behind a posting add up to it': 'select * from audit.statement_lines',
  'the lines of statements add up to their totals': `
    select merchant_id, about, type, sum(amount) from (
      select merchant_id, chain || ':' || token as about, type, amount from app.statement_line
      union all select merchant_id, about, series, -amount from app.total_change
      union all (select distinct on (merchant_id, series, about) merchant_id, about, series, -amount from app.running_total
        order by merchant_id, series, about, until desc)
    ) part where type in ('deposit', 'deposit_lost', 'payout', 'fee', 'adjustment') group by 1, 2, 3 having sum(amount) <> 0`,
  'the entries of a posting add up to zero':
    'select posting, chain, token from app.ledger_entry group by posting, chain, token having sum(amount) <> 0',
  'the amount that a merchant received = the amounts that can be paid out, are being paid out and were paid out': `
    select chain, token, merchant_id, sum(amount) from (
      select chain, token, merchant_id, amount from app.deposit where status = 'final' and credited
      union all select chain, token, merchant_id, -amount from app.balance_now
      union all select chain, token, merchant_id, -gross from app.payout where status <> 'failed'
      union all select chain, token, merchant_id, amount from app.adjustment where reason = 'paid_after_all'
    ) part group by chain, token, merchant_id having sum(amount) <> 0`,
  'the gross amount of a payout is the sum of what it claimed': `
    with debt as (select deposit_id, sum(amount) as amount from app.adjustment group by deposit_id)
    select p.id, p.gross from app.payout p join app.claim c on c.payout_id = p.id and c.kind = 'claim' and c.finished_at is not null
    where p.status <> 'failed' and p.gross <>
      coalesce((select sum(case when b.amount is null or d.status = 'final' then d.amount else 0 end - coalesce(b.amount, 0))
        from app.deposit d left join debt b on b.deposit_id = d.id where d.settlement_id = p.id), 0)
      + coalesce((select sum(a.amount) from app.adjustment a where a.settlement_id = p.id), 0)`,
  'what merchants see a payout made of adds up to its gross': `
    select p.id, p.gross, l.amount from app.payout p
    cross join lateral (select coalesce(sum(amount), 0) as amount from app.payout_parts(p.id, 9223372036854775807, 2147483647)) l
    where p.status <> 'failed' and p.gross <> l.amount and not exists (select from app.claim c where c.payout_id = p.id and c.finished_at is null)`,
  'nothing stays claimed by a payout that failed and was released': `
    select p.id from app.payout p join app.claim c on c.payout_id = p.id and c.kind = 'release' and c.finished_at is not null
    where exists (select from app.deposit d where d.settlement_id = p.id) or exists (select from app.adjustment a where a.settlement_id = p.id)`,
  'failed payouts are released, and no others': `
    select p.id, p.status from app.payout p left join app.claim c on c.payout_id = p.id and c.kind = 'release'
    where (p.status = 'failed') <> (c.id is not null)`,
  'a payout that is over has one event, and other payouts have none': `
    select p.id, p.status from app.payout p left join app.event e on e.subject_id = p.id
    group by p.id having array_remove(array_agg(e.type), null)
      <> case when p.status in ('completed', 'failed') then array['payout.' || p.status] else '{}' end`,
  'a completed payout was paid by the transaction that it names, and a failed payout by none': `
    select p.id, p.status from app.payout p left join app.outgoing_payment s on s.payout_id = p.id and s.kind = 'payout'
    where (p.status = 'completed') <> coalesce(s.outcome = 'done' and s.txid = p.txid and s.amount = p.net and s.recipient = p.address, false)`,
  'a payout pays if and only if a signed payment of it is stored': `
    select p.id, p.status from app.payout p join app.outgoing_payment s on s.payout_id = p.id and s.kind = 'payout'
    where s.status <> 'final' and (p.status = 'paying') <> exists (select from app.outgoing_attempt o where o.outgoing_payment_id = s.id and o.kind = 'effect')`,
  'nonces are handed out in order, without a gap, but for those that unknown transactions used': `
    select n.chain, n.address from app.sender n
    left join (
      select s.chain, s.fee_payer as account, s.nonce from app.outgoing_payment s
      union
      select i.chain, i.account, i.nonce from app.unknown_transaction u join chain.confirmed_tx i using (chain, txid)) s using (chain)
    where s.account = n.address and s.nonce < n.next_nonce
    group by n.chain, n.address having array_agg(s.nonce order by s.nonce) <> array(select generate_series(0, n.next_nonce - 1))`,
  'attempts are numbered from 1, and an outgoing payment is live from the first one on': `
    select s.id, s.status from app.outgoing_payment s left join app.outgoing_attempt o on o.outgoing_payment_id = s.id
    group by s.id having array_remove(array_agg(o.attempt order by o.attempt), null) <> array(select generate_series(1, count(o.txid)::int))
      or (s.status = 'allocated' and count(o.txid) > 0) or (s.status = 'live' and count(o.txid) = 0)`,
  'an outgoing payment whose nonce a final block uses, by a transaction that is known or that an operator has looked at, is final': `
    select s.id, s.status from app.outgoing_payment s join chain.cursor c using (chain)
    join chain.confirmed_tx i on i.chain = s.chain and i.conflict_key = s.conflict_key and i.block_height <= c.final_height
    where s.status <> 'final' and (exists (select from app.outgoing_attempt o where o.chain = i.chain and o.txid = i.txid) or exists (
      select from app.unknown_transaction u join app.incident k on k.id = u.incident_id
      where u.chain = i.chain and u.txid = i.txid and k.resolution = 'kept'))`,
  'an outgoing payment that is final has its transaction in a block, unless a rewind took it away': `
    select s.id, s.txid from app.outgoing_payment s
    where s.status = 'final' and not (s.outcome in ('cancelled', 'expired') and s.txid is null and s.nonce is null) -- it needed none: what was signed can never be mined
      and not (s.kind in ('delegate', 'undelegate') and s.txid is null and s.recovered) -- a node said so (app.find_delegations)
      and not exists (select from chain.confirmed_tx i where i.chain = s.chain and i.txid = s.txid)
      and not (s.outcome = 'conflicted' -- a transaction that conflicts with the parent of a CPFP child pays us, and spends no output of ours
        and exists (select from app.cpfp b where b.outgoing_payment_id = s.id) and exists (select from chain.transfer t where t.chain = s.chain and t.txid = s.txid))
      and not exists (select from app.incident k where k.kind = 'final_payment_vanished' and k.subject = s.id::text and k.resolved_at is null)`,
  'nothing is reserved below zero': `
    select chain, token, reserved from app.treasury where reserved < 0
    union all select chain, token, reserved from app.treasury_share where reserved < 0
    union all select chain, address, reserved from app.gas where reserved < 0`,
  'the gas on an address is what was sent it, less what went back and what its own transactions cost, and never below zero': `
    select g.chain, g.address, g.amount from app.gas g
    where g.amount < 0 or g.amount <> coalesce((select sum(s.amount) from app.outgoing_payment s
        where s.chain = g.chain and s.recipient = g.address and s.kind = 'fund' and s.outcome = 'done'), 0)
      - coalesce((select sum(s.fee_paid) from app.outgoing_payment s where s.chain = g.chain and s.fee_payer = g.address and s.from_gas), 0)
      - coalesce((select sum(n.fee) from app.second_payment n join app.outgoing_payment s on s.id = n.outgoing_payment_id
        where n.chain = g.chain and s.fee_payer = g.address and s.from_gas and n.booked_at is not null), 0)
      + coalesce((select sum(s.amount) from app.second_payment n join app.outgoing_payment s on s.id = n.outgoing_payment_id
        where n.chain = g.chain and s.recipient = g.address and s.kind = 'fund' and n.booked_at is not null and n.incident_id is not null), 0)
      - coalesce((select sum(o.amount) from app.outgoing_payment s join app.outgoing_attempt o on o.chain = s.chain and o.txid = s.txid
        where s.chain = g.chain and s.source = g.address and s.kind = 'defund' and s.outcome = 'done'), 0)
      - coalesce((select sum(j.amount) from app.second_payment n join app.outgoing_payment s on s.id = n.outgoing_payment_id
        join custody.journal j on j.stream = n.chain and j.txid = n.txid
        where n.chain = g.chain and s.source = g.address and s.kind = 'defund' and n.booked_at is not null and n.incident_id is not null), 0)`,
  'an address holds less than nothing only where a final deposit was taken back': `
    select * from app.holding h where amount < 0
      and not exists (select from app.ledger_entry e where e.kind = 'reorg' and e.address = h.address and e.token = h.token)`,
  'network fees are those of final transactions, paid by the operator or out of what is returned': `
    select chain, sum(amount) from (
      select chain, amount from app.ledger_entry where account = 'network'
      union all
      select e.chain, e.amount from app.ledger_entry e join app.outgoing_payment s on s.id::text = e.reference and s.kind = 'sweep'
      where e.kind = 'return' and e.account = 'unattributed'
      union all select chain, -fee_paid from app.outgoing_payment where status = 'final'
      union all select chain, -fee from app.second_payment where booked_at is not null
    ) part group by chain having sum(amount) <> 0`,
  'a payout bears the network fees of its payment and of the sweeps made for it': `
    select p.id from app.payout p
    where p.network_fee <> coalesce((select sum(s.fee_paid) from app.outgoing_payment s where s.payout_id = p.id and s.status = 'final'), 0)`,
  'service fees are those of completed payouts': `
    select chain, token, sum(amount) from (
      select chain, token, amount from app.ledger_entry where account = 'fees'
      union all select chain, token, fee from app.payout where status = 'completed'
    ) part group by chain, token having sum(amount) <> 0`,
  "the operator's money is what reached the treasury and was not swept, less withdrawals and second payments that are no debt": `
    select chain, token, sum(amount) from (
      select chain, token, amount from app.ledger_entry where account = 'operator'
      union all select chain, token, amount from app.deposit join app.asset using (chain, token) where merchant_id is null and status = 'final'
      union all select chain, token, -amount from app.outgoing_payment s where kind = 'withdrawal' and outcome = 'done'
        and not exists (select from app.unattributed_decision u where u.withdrawal_id = s.id)
      union all select n.chain, s.token, -n.amount from app.second_payment n join app.outgoing_payment s on s.id = n.outgoing_payment_id
        left join app.incident k on k.id = n.incident_id where n.booked_at is not null and k.resolution is distinct from 'debt'
      union all -- an output that another transaction of ours had spent: only one of the two took it from the treasury
      select n.chain, s.token, u.amount from app.second_payment n join app.outgoing_payment s on s.id = n.outgoing_payment_id
        join chain.confirmed_tx i on i.chain = n.chain and i.txid = n.txid join app.output u on u.chain = i.chain and i.conflict_key = u.txid || ':' || u.vout
        where n.booked_at is not null and u.spent_by <> n.txid
    ) part group by chain, token having sum(amount) <> 0`,
  'unattributed value is on its addresses, except what the treasury holds for returns': `
    select chain, token, sum(amount) from (
      select chain, token, amount from app.ledger_entry where account = 'unattributed' or (account = 'address' and merchant_id is null)
      union all select s.chain, s.token, u.amount from app.unattributed_decision u join app.outgoing_payment s on s.id = u.sweep_id and s.outcome = 'done'
      where not exists (select from app.outgoing_payment w where w.id = u.withdrawal_id and w.outcome = 'done')
      union all select chain, token, -amount from app.ledger_entry where kind = 'second_payment' and account = 'address'
    ) part group by chain, token having sum(amount) <> 0`,
  'a return moved no more than its deposit, and a credit all of it': `
    select u.deposit_id from app.unattributed_decision u join app.deposit d on d.id = u.deposit_id
    where u.amount > d.amount or d.credited <> (u.decision = 'credit')
      or exists (select from app.outgoing_payment w where w.id = u.withdrawal_id and (w.amount > u.amount or w.recipient <> u.destination))`,
  'a second payment is booked once, and an incident is open for it or decided': `
    select n.txid from app.second_payment n left join app.incident k on k.id = n.incident_id
    where (n.booked_at is null) <> (n.amount is null) or (n.amount > 0 and k.kind is distinct from 'second_payment')
      or (k.id is not null and (k.subject <> n.outgoing_payment_id::text or not k.details -> 'txids' ? n.txid or k.resolution not in ('loss', 'debt')))`,
  'at most one deposit of an output is not reorged': `
    select chain, txid, output_index from app.deposit where status <> 'reorged' group by chain, txid, output_index having count(*) > 1`,
  'a payment request received its final payments in its own token, and is paid with enough of them': `
    select r.id, r.status, r.received, r.pending from app.payment_request r
    cross join lateral (
      select coalesce(sum(d.amount) filter (where d.status = 'final'), 0) as final, coalesce(sum(d.amount) filter (where d.status = 'pending'), 0) as pending
      from app.deposit d join app.address a on a.chain = d.chain and a.address = d.address
      where a.payment_request_id = r.id and (d.chain, d.token) = (r.chain, r.token) and not app.is_from_protocol(d.transfer_kind, d.output_index, d.token)
    ) came
    where (r.received, r.pending) <> (came.final, came.pending) or (r.status = 'paid') <> (r.amount - came.final <= greatest(r.tolerance, least(r.detected_from - 1, div(r.amount, 100))) and came.final >= least(r.detected_from, r.amount))
      or (r.status = 'awaiting' and came.final + came.pending >= r.detected_from) or (r.status = 'underpaid' and came.final < r.detected_from)
      or (r.status in ('expired', 'cancelled') and came.final >= r.detected_from)`,
  'payments for a request count for its merchant, and have no deposit events': `
    select d.id from app.deposit d join app.payment_request r on r.id = d.payment_request_id
    where d.user_id is not null or d.merchant_id is distinct from r.merchant_id or exists (select from app.event e where e.subject_id = d.id)`,
  'only what is not worth a sweep, and was not swept, is held back': `
    select h.* from (
      select chain, token, address, sum(amount) as amount, max(amount) as largest from app.deposit where held_back group by chain, token, address
    ) h join app.asset a using (chain, token) join app.chain c using (chain)
    left join app.holding g using (chain, token, address)
    cross join lateral (select coalesce(sum(s.amount + case when s.fee_payer = s.source then s.max_fee else 0 end), 0) as amount from app.outgoing_payment s
      where (s.chain, s.token, s.source) = (h.chain, h.token, h.address) and s.kind = 'sweep' and s.status <> 'final' and s.merchant_id is not null) leaving
    left join app.blocked_address b using (chain, token, address)
    where (b.address is null and h.largest >= a.sweep_min) or (h.amount > g.amount and g.amount >= 0)
      or (b.address is null and c.attempts_exclude_by <> 'output' and coalesce(g.amount, 0) - leaving.amount >= a.sweep_min)`,
  'on a blocked address, what is still there and not paid out is held back': `
    select d.id, d.chain, d.token, d.address from (
      select d.*, sum(d.amount) over (partition by d.chain, d.token, d.address order by d.finalisation desc, d.seq desc) as with_newer
      from app.deposit d join app.blocked_address b using (chain, token, address) where d.status = 'final' and d.credited
    ) d join app.holding g using (chain, token, address)
    left join app.payout p on p.id = d.settlement_id
    where not d.held_back and d.with_newer <= g.amount and p.status is distinct from 'completed' and not d.settled_before_restore`,
  'a stored idempotency key has a payout and a response':
    'select * from app.idempotency_key where payout_id is null or body is null',
}

export async function assertBooks(db: Pick<TestDatabase, 'pool'>): Promise<void> {
  const names = Object.keys(rules)
  const broken = names.map(name => `(select json_agg(b) from (${rules[name]}) b)`)
  // One statement: one moment. Named, because planning it takes longer than running it.
  const {rows} = await db.pool.query({name: 'books', text: `select array[${broken.join(', ')}]::json[] as rows`})
  const [found] = rows
  const breaches = names.flatMap((name, n) => (found!.rows[n] ? [[name, found!.rows[n]]] : []))
  assert.deepEqual(Object.fromEntries(breaches), {})
}
