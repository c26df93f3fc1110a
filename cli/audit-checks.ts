// The invariants of the database, as queries. Promises: each returns what breaks it, and nothing where all is right; together they are read
// at one moment. What an open incident, or an operator's decision to keep a deposit, explains is no finding: sluice incident list has it.
//
// What no query can tell is left to others: that an address re-derives from the seed (sluice custody verify), and what the chains hold
// (audit-chain.ts).

export interface Check {
  name: string
  /** What holds. */
  claim: string
  /** Rows that break it. */
  sql: string
}

/** Whether an incident about this subject is open, or was kept. */
const explained = (subject: string, kinds: string) =>
  `exists (select from app.incident k where k.subject = ${subject} and k.kind like '${kinds}'
    and (k.resolved_at is null or k.resolution = 'kept'))`

export const checks: Check[] = [
  {
    name: 'conservation',
    claim: 'final deposits = balances + gross of payouts that did not fail',
    sql: `
      select chain, token, merchant_id, sum(received) as received, sum(held) as balance_and_payouts from (
        select chain, token, merchant_id, amount as received, 0 as held from app.deposit where status = 'final' and credited
        union all select chain, token, merchant_id, 0, amount from app.balance_now
        union all select chain, token, merchant_id, 0, gross from app.payout where status <> 'failed'
        union all select chain, token, merchant_id, 0, -amount from app.adjustment where reason = 'paid_after_all'
      ) part group by chain, token, merchant_id having sum(received) <> sum(held)`,
  },
  {
    name: 'balances',
    claim: 'each balance = the sum of its unsettled deposits and debts',
    sql: 'select * from app.balance_audit',
  },
  {
    name: 'ledger',
    claim: 'what is kept beside the ledger = the sum of its entries',
    sql: 'select * from app.ledger_audit',
  },
  {
    name: 'postings',
    claim: 'the entries of each posting add up to zero for each token',
    sql: 'select posting, chain, token, sum(amount) from app.ledger_entry group by posting, chain, token having sum(amount) <> 0',
  },
  {
    name: 'nothing below zero',
    claim: 'no address, no treasury and no reservation is below zero',
    sql: `
      select 'holding' as what, chain, token, address, amount from app.holding where amount < 0
      union all select 'treasury', chain, token, null, balance from app.treasury where balance < 0
      union all select 'reserved', chain, token, null, reserved from app.treasury where reserved < 0
      union all select 'reserved share', chain, token, merchant_id::text, reserved from app.treasury_share where reserved < 0`,
  },
  {
    name: 'no double credit',
    claim: 'of the deposits at one output at most one is not reorged',
    sql: `
      select chain, txid, output_index, count(*) from app.deposit where status <> 'reorged'
      group by chain, txid, output_index having count(*) > 1`,
  },
  {
    name: 'deposits are on the chain',
    claim: 'every deposit that is not reorged is the transfer that the chain holds, or that is on its way into a block',
    sql: `
      select d.id, d.chain, d.txid, d.output_index, d.status from app.deposit d
      left join chain.transfer t on t.id = d.chain || ':' || d.txid || ':' || d.output_index
        and t.recipient = d.address and t.token = d.token and t.amount = d.amount and t.block_height = d.block_height
      where d.status <> 'reorged' and t.id is null and not ${explained('d.id::text', 'final_deposit_%')}
        and not (d.status = 'pending' and d.block_height is null and exists (select from chain.unmined u
          where u.id = d.chain || ':' || d.txid || ':' || d.output_index and u.recipient = d.address and u.amount = d.amount))`,
  },
  {
    name: 'finality',
    claim: 'deposits and spends are final at or below the final height, and nothing below it is still pending',
    sql: `
      select d.id, d.status, d.block_height, c.final_height from app.deposit d join chain.cursor c using (chain)
      where ((d.status = 'final' and d.block_height > c.final_height) or (d.status = 'pending' and d.block_height <= c.final_height))
        and not ${explained('d.id::text', 'final_deposit_%')}
      union all
      select s.id, s.status, i.block_height, c.final_height from app.spend s join chain.cursor c using (chain)
      join app.spend_inclusion i on i.spend_id = s.id
      where i.excludes and (s.status = 'final') <> (i.block_height <= c.final_height) and not ${explained('s.id::text', 'final_payment_vanished')}`,
  },
  {
    name: 'payouts add up',
    claim: 'gross = fee + net = the sum of what was claimed, and a failed payout holds nothing',
    sql: `
      select p.id, p.status, p.gross, coalesce(d.amount, 0) + coalesce(j.amount, 0) as claimed from app.payout p
      left join (select settlement_id, sum(amount) as amount from app.deposit where settlement_id is not null group by settlement_id) d
        on d.settlement_id = p.id
      left join (select settlement_id, sum(amount) as amount from app.adjustment where settlement_id is not null group by settlement_id) j
        on j.settlement_id = p.id
      where p.gross <> p.fee + p.net
        or (not exists (select from app.claim c where c.payout_id = p.id and c.finished_at is null)
          and not exists (select from app.adjustment a where a.settlement_id = p.id and a.reason = 'payout_recovered')
          and coalesce(d.amount, 0) + coalesce(j.amount, 0) <> case when p.status = 'failed' then 0 else p.gross end)`,
  },
  {
    name: 'no double pay',
    claim: 'a completed payout has one final transaction of its net to its address; no other payout has any',
    sql: `
      select p.id, p.status, count(distinct i.txid) as paid from app.payout p
      left join app.spend s on s.payout_id = p.id and s.kind = 'payout'
      left join app.outbound_tx o on o.spend_id = s.id and o.kind = 'effect'
      left join chain.inclusion i on i.chain = o.chain and i.txid = o.txid and i.success
        and i.block_height <= (select c.final_height from chain.cursor c where c.chain = o.chain)
      where not ${explained('s.id::text', 'final_payment_vanished')}
      group by p.id having count(distinct i.txid) <> (p.status = 'completed')::int
      union all
      select p.id, p.status, null from app.payout p join app.spend s on s.payout_id = p.id and s.kind = 'payout'
      join app.outbound_tx o on o.spend_id = s.id and o.kind = 'effect'
      where (o.amount, o.recipient, o.token, o.chain) <> (p.net, p.address, p.token, p.chain)`,
  },
  {
    name: 'events',
    claim: 'each change of a deposit, and the end of each payout, has exactly one event',
    sql: `
      select d.id, d.version as expected, count(e.id) as found from app.deposit d
      left join app.event e on e.subject_id = d.id and e.type like 'deposit.%'
      group by d.id having count(e.id) <> case when d.credited then d.version else 0 end
      union all
      select p.id, (p.status in ('completed', 'failed'))::int, count(e.id) from app.payout p
      left join app.event e on e.subject_id = p.id and e.type like 'payout.%'
      group by p.id having count(e.id) <> (p.status in ('completed', 'failed'))::int
        or count(e.id) filter (where e.type <> 'payout.' || p.status) > 0`,
  },
  {
    name: 'deliveries',
    claim: 'what counts as delivered was answered with success',
    sql: `
      select d.id from app.delivery d where d.status = 'delivered'
        and not exists (select from app.delivery_attempt a where a.delivery_id = d.id and a.error is null)`,
  },
  {
    name: 'nonces',
    claim: 'the nonces of each sender have no gap, in our books and in what the chain holds',
    sql: `
      select n.chain, n.address, n.next_nonce, count(s.id) as spends from app.sender n
      left join app.spend s on s.chain = n.chain and s.sender = n.address
      group by n.chain, n.address having count(s.id) <> n.next_nonce or max(s.nonce) >= n.next_nonce
      union all
      select chain, sender, max(nonce) + 1, count(distinct nonce) from chain.inclusion
      group by chain, sender having count(distinct nonce) <> max(nonce) + 1`,
  },
  {
    name: 'outputs',
    claim:
      'an output is spent or reserved by one spend, from its lead on, and what is unspent adds up to holdings and treasury',
    sql: `
      select u.chain, u.txid || ':' || u.vout as output, 'reserved by a spend that is over' as wrong
      from app.output u join app.spend s on s.id = u.spend_id where u.spent_by is null and s.status = 'final'
      union all
      select u.chain, u.txid || ':' || u.vout, 'spent by another transaction than its spend says'
      from app.output u join app.spend s on s.id = u.spend_id
      where u.spent_by is not null and (s.status <> 'final' or s.txid is distinct from u.spent_by) and s.outcome is distinct from 'displaced'
      union all
      select u.chain, u.txid || ':' || u.vout, 'spent, and in no block'
      from app.output u where u.spent_by is not null
        and not exists (select from chain.inclusion i where i.chain = u.chain and i.txid = u.spent_by)
        and not ${explained('u.spend_id::text', 'final_payment_vanished')}
      union all
      select s.chain, s.id::text, 'does not have its lead' from app.spend s
      where app.uses_outputs(s.chain) and s.outcome is distinct from 'displaced' and not s.recovered
        and not exists (select from app.bump b where b.spend_id = s.id and s.status <> 'final' -- the parent is not final
          and not exists (select from app.output u where u.chain = s.chain and u.txid = b.txid))
        and not exists (select from app.output u where u.spend_id = s.id and u.txid || ':' || u.vout = s.sender and u.from_attempt = 1)
      union all
      select chain, coalesce(address, 'treasury'), 'has ' || kept || ' in outputs, and ' || posted || ' in the books'
      from app.ledger_audit where what = 'output'`,
  },
  {
    name: 'no unknown transaction',
    claim: 'every transaction that an address of ours sent was stored before',
    sql: `
      select i.id, i.sender, i.nonce from chain.inclusion i
      where not exists (select from app.outbound_tx o where o.chain = i.chain and o.txid = i.txid)
        and not ${explained("i.chain || ':' || i.txid", 'unknown_transaction')}`,
  },
  {
    name: 'journal',
    claim: 'custody signed what was stored, and numbered it without a gap',
    sql: `
      select o.chain, o.txid from app.outbound_tx o
      left join custody.journal j on j.stream = o.chain and j.txid = o.txid where j.raw is distinct from o.raw
      union all
      select stream, 'entries: ' || count(*) || ', highest: ' || max(seq) from custody.journal group by stream having count(*) <> max(seq)`,
  },
  {
    name: 'whitelist',
    claim: 'every destination was on its whitelist when it was first signed for',
    sql: `
      select j.stream, j.seq, j.destination from custody.journal j
      where j.kind in ('pay', 'withdraw')
        and not exists (select from custody.journal before where before.subject_id = j.subject_id and before.kind = j.kind
          and before.stream = j.stream and before.seq < j.seq)
        and not exists (select from custody.whitelist w
          where w.merchant_id is not distinct from j.merchant_id and w.chain = j.stream and w.address = j.destination
            and w.active_at - interval '1 second' <= j.signed_at -- by custody's clock, the others by the database's
            and (w.removed_at is null or w.removed_at + interval '1 second' > j.signed_at))`,
  },
  {
    name: 'merchants apart',
    claim: 'addresses, deposits and payouts belong to the merchant to whom the address was handed',
    sql: `
      select a.chain, a.address from app.address a left join custody.address o on o.address = a.address
      where a.merchant_id is distinct from o.merchant_id
      union all
      select d.chain, d.id::text from app.deposit d left join custody.address o on o.address = d.address
      where d.merchant_id is distinct from o.merchant_id
      union all
      select d.chain, d.id::text from app.deposit d join app.payout p on p.id = d.settlement_id
      where (d.merchant_id, d.chain, d.token) <> (p.merchant_id, p.chain, p.token)`,
  },
  {
    name: 'idempotency keys',
    claim: 'each key has its own payout, of its merchant, and the reply names it',
    sql: `
      select k.merchant_id, k.key from app.idempotency_key k left join app.payout p on p.id = k.payout_id and p.merchant_id = k.merchant_id
      where p.id is null or k.body::json->>'id' is distinct from app.public_id('pay', p.id)
      union all
      select merchant_id, 'twice' from app.idempotency_key group by merchant_id, payout_id having count(*) > 1`,
  },
]
