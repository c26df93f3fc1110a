// Outgoing payments as the worker reads them: the purpose of each, its newest attempt, and what the indexer saw of it.
import type pg from 'pg'
import type {ReasonCode} from '../../base/reasons.ts'
import {storable} from '../../base/text.ts'

export interface Attempt {
  number: number
  kind: 'effect' | 'cancel'
  txid: string
  raw: string
  amount: bigint
  /** Time since it was stored. */
  ageMs: number
  /** As in app.attempt_fate; null if custody's journal does not have it. */
  fate: 'open' | 'in_block' | 'final' | 'dead' | null
}

export interface OutgoingPayment {
  id: string
  /** A cancel is of a nonce that only has to be used up. */
  kind:
    | 'payout'
    | 'sweep'
    | 'withdrawal'
    | 'cancel'
    | 'fund'
    | 'defund'
    | 'delegate'
    | 'undelegate'
    | 'stake'
    | 'unstake'
    | 'reclaim'
  chain: string
  token: string
  amount: bigint
  source: string
  recipient: string
  /** Our address that pays the network fee; where nonces exclude, the one that sends. */
  feePayer: string
  /** Where nonces exclude: the nonce of the fee payer. */
  nonce: number | null
  /** Where outputs exclude: the output that every attempt spends. */
  firstInput: string | null
  /** Its attempts expire: none has a conflict key. */
  expires: boolean
  payoutId: string | null
  cancelling: boolean
  /** Its network fee is paid with gas that the treasury sent its address. */
  fromGas: boolean
  /** What is staked or lent; null for all other kinds. */
  resource: 'energy' | 'bandwidth' | null
  maxFee: bigint
  /** The final money of `token` that the source holds. */
  holding: bigint
  newest: Attempt | undefined
  /** An attempt of it, or a transaction that excludes all attempts, is in a block. */
  isIncluded: boolean
  /** Where attempts expire: more than one attempt may still be mined, so none is signed or sent. */
  isContested: boolean
  /** The chain has moved long enough since its newest attempt was stored, and none is in a block. */
  isOverdue: boolean
  /**
   * Where nonces exclude: a lower nonce of the fee payer is in no block yet, so this one cannot be mined at any fee.
   */
  isBehind: boolean
  /** An operator wants its newest attempt replaced. */
  isToReplace: boolean
  /** An operator decided to replace or cancel it, even if its chain is halted. */
  isDecided: boolean
  /** It was final until a rewind removed its block. Only the transaction that was mined then is broadcast again. */
  isFinal: boolean
}

interface Row extends Omit<OutgoingPayment, 'amount' | 'maxFee' | 'holding' | 'newest'> {
  amount: string
  maxFee: string
  holding: string
  newest: (Omit<Attempt, 'amount'> & {amount: string}) | null
}

// While a chain or its indexer stands still, nothing is overdue: a replacement would change nothing. (offset 0: else
// the planner may compute the view over all payments that ever were.)
const due = `
  select s.id, s.kind, s.chain, s.token, s.amount, s.source, s.recipient, s.fee_payer as "feePayer", s.nonce, s.first_input as "firstInput", s.payout_id as "payoutId", s.cancelling, s.from_gas as "fromGas", s.resource,
    s.max_fee as "maxFee", coalesce(r.amount, h.amount, 0) as holding, s.status = 'final' as "isFinal",
    exists (select from app.outgoing_confirmed_tx i where i.outgoing_payment_id = s.id offset 0) as "isIncluded",
    s.conflict_key is null as expires, s.conflict_key is null and exists (select from app.contested_payment k
      where k.chain = s.chain and k.subject_id = case s.kind when 'payout' then s.payout_id else s.id end offset 0) as "isContested",
    coalesce(x.decision = 'replace' and n.stored_at < x.decided_at, false) as "isToReplace",
    coalesce(c.head_moved_at - n.stored_at >= $3 * interval '1 millisecond', false) as "isOverdue", exists (
      select from app.outgoing_payment b where b.chain = s.chain and b.fee_payer = s.fee_payer and b.nonce < s.nonce and b.status <> 'final'
        and not exists (select from app.outgoing_confirmed_tx i where i.outgoing_payment_id = b.id offset 0)) as "isBehind",
    x.outgoing_payment_id is not null as "isDecided",
    case when n.txid is not null then json_build_object('number', n.attempt, 'kind', n.kind, 'txid', n.txid, 'raw', n.raw,
      'amount', n.amount::text, 'fate', f.fate, 'ageMs', round(extract(epoch from clock_timestamp() - n.stored_at) * 1000)) end as newest
  from (select * from app.outgoing_payment where chain = $1 and next_step_at <= clock_timestamp() order by next_step_at limit $2) s
  left join lateral (
    select * from app.outgoing_attempt o where o.outgoing_payment_id = s.id order by o.txid is not distinct from s.txid desc, o.attempt desc limit 1) n on true
  left join lateral (select fate from app.attempt_fate f where f.chain = s.chain and f.txid = n.txid offset 0) f on true
  left join app.unattributed_decision r on r.sweep_id = s.id
  left join app.holding h on h.chain = s.chain and h.address = s.source and h.token = s.token
  left join chain.cursor c on c.chain = s.chain
  left join custody.decision x on x.outgoing_payment_id = s.id
  order by s.fee_payer, s.nonce, s.created_at`

/** The outgoing payments due on a chain, ordered by fee payer and nonce. */
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

/**
 * The lowest unsigned nonce of each fee payer, except those of `outgoingPayments` themselves. Custody signs no nonce
 * above it.
 */
export async function lowestUnsigned(
  {pool}: {pool: pg.Pool},
  outgoingPayments: OutgoingPayment[],
): Promise<Map<string, number>> {
  const {rows} = await pool.query<{fee_payer: string; nonce: number}>(
    `select fee_payer, min(nonce) as nonce from app.outgoing_payment
     where chain = $1 and status = 'allocated' and fee_payer = any($2) and nonce is not null and id <> all($3) group by fee_payer`,
    [outgoingPayments[0]?.chain, outgoingPayments.map(({feePayer}) => feePayer), outgoingPayments.map(({id}) => id)],
  )
  return new Map(rows.map(({fee_payer, nonce}) => [fee_payer, nonce]))
}

/** Records what an outgoing payment waits for (null without a reason), and when it is due again. */
export async function waitOutgoingPayment(
  {pool}: {pool: pg.Pool},
  id: string,
  {reason, detail, ms}: {reason?: ReasonCode | null; detail?: string; ms: number},
): Promise<void> {
  await pool.query('select app.wait_outgoing_payment($1, $2, $3, $4)', [
    id,
    reason ?? null,
    detail === undefined ? null : storable(detail),
    ms,
  ])
}
