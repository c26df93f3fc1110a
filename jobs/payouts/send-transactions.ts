// Task send_transactions: has custody sign the outgoing payments that are due on a chain, stores the bytes, and
// broadcasts them until they are in a block.
//
// Safe to run twice, or concurrently (an advisory lock keeps that rare): an outgoing payment's nonce is in a committed
// row before custody is asked. Custody returns the same bytes for a repeated intent. Only stored bytes are broadcast,
// and only while they may be mined. app.store_signed takes one attempt per number. A node may be given the same bytes
// any number of times. After a crash, the row makes the outgoing payment due again.
import type {Task} from 'graphile-worker'
import {z} from 'zod'
import type {ReasonCode} from '../../base/reasons.ts'
import {step} from '../../base/step.ts'
import {storable} from '../../base/text.ts'
import {
  type Context,
  noNode,
  type PayoutChain,
  retryable,
  type Stored,
  unreachable,
  type Wait,
  whyHalted,
} from './context.ts'
import {dueOutgoingPayments, lowestUnsigned, type OutgoingPayment, waitOutgoingPayment} from './outgoing-payments.ts'
import {signAndStore} from './sign-attempts.ts'

/** Its block may still leave the chain. */
const inBlockCheckMs = 15_000
const nodeRetryMs = 3000
const batch = 200

const Payload = z.object({chain: z.string()})

export function sendTransactions(to: Context): Task {
  return async (payload, {abortSignal}) => {
    const {chain} = Payload.parse(payload)
    await alone(to, chain, async () => {
      while (!abortSignal?.aborted) {
        const due = await dueOutgoingPayments(to, chain, batch)
        if (!due.length) return
        await pass(to, chain, due)
      }
    })
  }
}

/** Does nothing if another worker is running it. The tick, once a second, finds what that worker did not see. */
async function alone({pool}: Context, chain: string, work: () => Promise<void>): Promise<void> {
  const client = await pool.connect()
  try {
    const {rows} = await client.query<{taken: boolean}>('select app.try_lock_sending($1) as taken', [chain])
    if (!rows[0]!.taken) return
    try {
      await work()
    } finally {
      await client.query('select app.unlock_sending($1)', [chain])
    }
  } finally {
    client.release()
  }
}

/** Handles each of these outgoing payments once. Each gets a new due time. */
async function pass(to: Context, code: string, due: OutgoingPayment[]): Promise<void> {
  const chain = to.chains.get(code)
  if (!chain) {
    for (const {id} of due) await waitOutgoingPayment(to, id, {reason: 'no_node', detail: noNode(code), ms: 30_000})
    return
  }
  const open = await withoutWaiting(to, chain, await withoutEnded(to, due))
  const signed = await attempts(to, chain, code, open)
  await broadcast(
    to,
    chain,
    code,
    open.flatMap(outgoingPayment => signed.get(outgoingPayment.id) ?? stillWanted(outgoingPayment)),
  )
}

/**
 * Ends cancelled payments that need no transaction for that: nothing that was signed can be mined, and no nonce is
 * taken. Returns the others.
 */
async function withoutEnded({pool}: Context, outgoingPayments: OutgoingPayment[]): Promise<OutgoingPayment[]> {
  const ended = new Set<string>()
  for (const {id, newest, cancelling, nonce, isIncluded} of outgoingPayments) {
    if ((newest && newest.fate !== 'dead') || !cancelling || nonce !== null || isIncluded) continue
    const {rows} = await pool.query<{has_ended: boolean}>('select app.end_unsigned($1) as has_ended', [id])
    if (rows[0]!.has_ended) ended.add(id)
  }
  return outgoingPayments.filter(({id}) => !ended.has(id))
}

/** Has those wait for which nothing is to be signed or sent now, and returns the others. */
async function withoutWaiting(to: Context, chain: PayoutChain, due: OutgoingPayment[]): Promise<OutgoingPayment[]> {
  const open: OutgoingPayment[] = []
  for (const outgoingPayment of due) {
    const wait = whyIdle(chain, outgoingPayment)
    if (wait) await waitOutgoingPayment(to, outgoingPayment.id, {...wait, ms: inBlockCheckMs})
    else open.push(outgoingPayment)
  }
  return open
}

/** What wakes it up is the indexer: a block, a rewind, or the proof that a transaction expired. */
function whyIdle(chain: PayoutChain, outgoingPayment: OutgoingPayment): Partial<Wait> | undefined {
  const {expires, newest, cancelling, isIncluded, isContested, isFinal} = outgoingPayment
  if (isIncluded) return {}
  if (isContested)
    return {
      reason: 'payment_contested',
      detail: 'a rewind took back the proof that a transaction had expired; it waits until one is final',
    }
  if (expires && cancelling && !isFinal)
    return {reason: 'expiry', detail: 'it is cancelled, and ends once its transaction has expired'}
  if (newest?.fate === 'dead' && !needsAttempt(chain, outgoingPayment)) return {}
  return undefined
}

/** The first attempt, a cancel, or a replacement of a transaction that is stuck or can never be mined. */
function needsAttempt(chain: PayoutChain, outgoingPayment: OutgoingPayment): boolean {
  const {expires, newest, cancelling, isFinal, isToReplace} = outgoingPayment
  if (isFinal) return false
  if (!newest) return true
  if (expires) return newest.fate === 'dead'
  return (cancelling && newest.kind !== 'cancel') || isToReplace || (chain.isStuck?.(outgoingPayment) ?? false)
}

/**
 * What is broadcast again. Not what can never be mined. Not a payment that is being cancelled: its cancel follows, and
 * an unseen payment should stay unseen.
 */
function stillWanted({id, newest, cancelling, isFinal}: OutgoingPayment): Stored[] {
  if (!newest || newest.fate === 'dead' || (cancelling && newest.kind === 'effect' && !isFinal)) return []
  return [{...newest, outgoingPaymentId: id}]
}

/** The attempts to make now. */
async function attempts(
  to: Context,
  chain: PayoutChain,
  code: string,
  open: OutgoingPayment[],
): Promise<Map<string, Stored>> {
  let wanted = open.filter(one => needsAttempt(chain, one))
  if (!wanted.length) return new Map()
  const wait = async (outgoingPayments: OutgoingPayment[], reason: ReasonCode, detail: string) => {
    for (const {id} of outgoingPayments) await waitOutgoingPayment(to, id, {reason, detail, ms: nodeRetryMs})
    wanted = wanted.filter(outgoingPayment => !outgoingPayments.includes(outgoingPayment))
    return []
  }
  const halted = await whyHalted(to, code)
  if (halted) {
    const undecided = wanted.filter(({isDecided}) => !isDecided)
    await wait(undecided, 'chain_halted', halted)
  }
  const unsigned = await lowestUnsigned(to, wanted)
  const behind = wanted.filter(
    ({newest, feePayer, nonce}) => !newest && nonce !== null && nonce > (unsigned.get(feePayer) ?? nonce),
  )
  await wait(behind, 'nonce_too_high', 'an earlier transaction of the same address is not signed yet')
  if (!wanted.length) return new Map()
  const planned = await retryable(chain.plan(to, wanted), why =>
    wait(wanted, 'node_unreachable', unreachable(code, why).detail),
  )
  return await signAndStore(to, chain, planned)
}

async function broadcast(to: Context, chain: PayoutChain, code: string, attempts: Stored[]): Promise<void> {
  if (!attempts.length) return
  step('send: before broadcast')
  const responses = await retryable(chain.broadcast(attempts.map(({raw}) => raw)), async detail => {
    for (const {outgoingPaymentId} of attempts)
      await waitOutgoingPayment(to, outgoingPaymentId, {...unreachable(code, detail), ms: nodeRetryMs})
    return undefined
  })
  step('send: after broadcast')
  if (!responses) return
  for (const [i, {txid, ageMs}] of attempts.entries())
    await to.pool.query('select app.record_broadcast($1, $2, $3, $4)', [
      code,
      txid,
      responses[i] === undefined ? null : storable(responses[i]),
      Math.round(chain.resendAfterMs(ageMs)),
    ])
}
