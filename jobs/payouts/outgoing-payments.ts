// Spends as the worker reads them: what each is for, its newest attempt, and what the indexer saw of it.
import type pg from 'pg'

export interface Attempt {
  number: number
  kind: 'effect' | 'cancel'
  txid: string
  raw: string
  amount: bigint
  /** Since it was stored. */
  ageMs: number
}

export interface OutgoingPayment {
  id: string
  kind: 'payout' | 'sweep' | 'withdrawal'
  chain: string
  token: string
  amount: bigint
  source: string
  recipient: string
  sender: string
  nonce: number
  payoutId: string | null
  cancelling: boolean
  maxFee: bigint
  /** What the source holds of final money that it is about. */
  holding: bigint
  newest: Attempt | undefined
  /** A transaction with its nonce is in a block. */
  isIncluded: boolean
  /** It is next, and the chain went on for long enough since its newest attempt was stored, and took none. */
  isStuck: boolean
  /** An operator wants it replaced or cancelled, even if its chain is halted. */
  isDecided: boolean
  /** It was final until a rewind took its block away: what was mined then is passed on again, and nothing else. */
  isFinal: boolean
}

interface Row extends Omit<OutgoingPayment, 'amount' | 'maxFee' | 'holding' | 'newest'> {
  amount: string
  maxFee: string
  holding: string
  newest: (Omit<Attempt, 'amount'> & {amount: string}) | null
}

// A chain that stands still, or an indexer that does, makes nothing stuck: a replacement would change nothing. Nor does a lower nonce that
// is not in a block: what waits behind it needs no higher fee. What an operator decided is made at once.
const due = `
  select s.id, s.kind, s.chain, s.token, s.amount, s.source, s.recipient, s.sender, s.nonce, s.payout_id as "payoutId", s.cancelling,
    s.max_fee as "maxFee", coalesce(r.amount, h.amount, 0) as holding, s.status = 'final' as "isFinal",
    i.nonce is not null as "isIncluded",
    coalesce(x.decision = 'replace' and n.stored_at < x.decided_at, false)
      or coalesce(c.head_moved_at - n.stored_at >= $3 * interval '1 millisecond', false) and not exists (
      select from app.outgoing_payment b where b.chain = s.chain and b.sender = s.sender and b.nonce < s.nonce and b.status <> 'final'
        and not exists (select from chain.confirmed_tx i where i.chain = b.chain and i.sender = b.sender and i.nonce = b.nonce)) as "isStuck",
    x.outgoing_payment_id is not null as "isDecided",
    case when n.txid is not null then json_build_object('number', n.attempt, 'kind', n.kind, 'txid', n.txid, 'raw', n.raw,
      'amount', n.amount::text, 'ageMs', round(extract(epoch from clock_timestamp() - n.stored_at) * 1000)) end as newest
  from (select * from app.outgoing_payment where chain = $1 and next_step_at <= clock_timestamp() order by next_step_at limit $2) s
  left join lateral (
    select * from app.outgoing_attempt o where o.outgoing_payment_id = s.id order by o.txid is not distinct from s.txid desc, o.attempt desc limit 1) n on true
  left join lateral (select i.nonce from chain.confirmed_tx i where i.chain = s.chain and i.sender = s.sender and i.nonce = s.nonce limit 1) i on true
  left join app.unattributed_decision r on r.sweep_id = s.id
  left join app.holding h on h.chain = s.chain and h.address = s.source and h.token = s.token
  left join chain.cursor c on c.chain = s.chain
  left join custody.decision x on x.outgoing_payment_id = s.id
  order by s.sender, s.nonce`

/** What is due on a chain, in the order of senders and nonces. */
export async function dueOutgoingPayments(
  {pool, replaceAfterMs}: {pool: pg.Pool; replaceAfterMs: number},
  chain: string,
  most: number,
): Promise<OutgoingPayment[]> {
  const {rows} = await pool.query<Row>({
    name: 'due_outgoing_payments',
    text: due,
    values: [chain, most, replaceAfterMs],
  })
  return rows.map(({newest, ...row}) => ({
    ...row,
    amount: BigInt(row.amount),
    maxFee: BigInt(row.maxFee),
    holding: BigInt(row.holding),
    newest: newest ? {...newest, amount: BigInt(newest.amount)} : undefined,
  }))
}

/** The lowest nonce of each sender with which nothing is signed, but for those of `outgoingPayments` themselves. Custody signs with none above it. */
export async function lowestUnsigned(
  {pool}: {pool: pg.Pool},
  outgoingPayments: OutgoingPayment[],
): Promise<Map<string, number>> {
  const {rows} = await pool.query<{sender: string; nonce: number}>(
    `select sender, min(nonce) as nonce from app.outgoing_payment
     where chain = $1 and status = 'allocated' and sender = any($2) and id <> all($3) group by sender`,
    [outgoingPayments[0]?.chain, outgoingPayments.map(({sender}) => sender), outgoingPayments.map(({id}) => id)],
  )
  return new Map(rows.map(({sender, nonce}) => [sender, nonce]))
}

/** Notes what an outgoing payment waits for, nothing where there is no reason, and when it is looked at again. */
export async function waitOutgoingPayment(
  {pool}: {pool: pg.Pool},
  id: string,
  {reason, detail, ms}: {reason?: string; detail?: string; ms: number},
): Promise<void> {
  await pool.query('select app.wait_outgoing_payment($1, $2, $3, $4)', [id, reason ?? null, detail ?? null, ms])
}
