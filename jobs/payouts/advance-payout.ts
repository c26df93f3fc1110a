// Task advance_payout: takes a payout step by step until it has to wait. Once its payment has begun,
// send-transactions.ts carries it on, and only what the indexers see ends it.
//
// Safe to run twice, or concurrently: each step is one SQL function that takes the payout's row lock and does nothing
// in another status. What is decided before a step (fees, which addresses to sweep) is decided again when the task runs
// again. Nothing here signs or broadcasts. After a crash, the payout's row makes it due again.
import type {Task} from 'graphile-worker'
import {z} from 'zod'
import {type ReasonCode, reasonOf} from '../../base/reasons.ts'
import {step} from '../../base/step.ts'
import {storable} from '../../base/text.ts'
import {failureOf, inWords} from '../../db/client/failure.ts'
import {
  type Context,
  noNode,
  notPayable,
  type Outcome,
  type Payout,
  type PayoutChain,
  retryable,
  retryMs,
  unreachable,
  untilSwept,
  type Wait,
  whyHalted,
} from './context.ts'

/**
 * How long a payment that custody refuses may hold up others, and how long it is tried if its own transaction is at
 * fault.
 */
const heldUpMs = 30_000
const blocked =
  'the chain does not let some of its deposits leave their addresses, and they are held back; another payout pays the rest'

const Payload = z.object({payout_id: z.uuid()})

export function advancePayout(to: Context): Task {
  return async (payload, {abortSignal}) => {
    const {payout_id} = Payload.parse(payload)
    while (!abortSignal?.aborted) {
      const payout = await read(to, payout_id)
      if (!payout || !(payout.status in steps)) return
      const outcome = await take(to, payout)
      if (outcome !== 'next') return await wait(to, payout, outcome)
    }
  }
}

const steps: Record<string, (to: Context, payout: Payout, chain: PayoutChain) => Promise<Outcome>> = {
  pending: check,
  sweeping: sweep,
  swept: pay,
}

async function take(to: Context, payout: Payout): Promise<Outcome> {
  const halted = await whyHalted(to, payout.chain)
  if (halted) return {reason: 'chain_halted', detail: halted, ms: retryMs.soon}
  if (payout.isBlocked)
    return {reason: 'deposits_blocked', detail: blocked, ms: 0, fails: {as: 'deposits_blocked', afterMs: 0}}
  const chain = to.chains.get(payout.chain)
  if (!chain) {
    return {reason: 'no_node', detail: noNode(payout.chain), ms: retryMs.told}
  }
  try {
    return await retryable(steps[payout.status]!(to, payout, chain), async detail => {
      return {...unreachable(payout.chain, detail), ms: retryMs.soon}
    })
  } catch (error) {
    to.log.error(
      {payout: payout.id, status: payout.status, error: inWords(error)},
      'a step of a payout failed; it will be retried',
    )
    return {reason: failureOf(error)?.reason ?? 'error', detail: inWords(error), ms: retryMs.told}
  }
}

// --- pending ---

/** Nothing is swept for a payout that custody refuses, or whose recipient cannot be paid. */
async function check(to: Context, payout: Payout, chain: PayoutChain): Promise<Outcome> {
  const refusal = (await ask(to, payout)) ?? (await chain.unpayable?.(payout))
  if (refusal) return refusal
  step('payout: before begin_sweeping')
  await to.pool.query('select app.begin_sweeping($1)', [payout.id])
  return 'next'
}

/** Why custody would refuse the payout; undefined if it would not. */
async function ask(to: Context, {id}: Payout): Promise<Wait | undefined> {
  step('payout: before check')
  return await retryable(
    to.custody.check(id).then(response => {
      if (response.ok) return undefined
      const {code, message} = response
      if (code === 'destination_not_payable') return notPayable(code, message)
      return {reason: code, detail: message, ms: retryMs.refused}
    }),
    async detail => ({reason: 'custody_unreachable', detail, ms: retryMs.soon}),
  )
}

// --- sweeping ---

async function sweep(to: Context, payout: Payout, chain: PayoutChain): Promise<Outcome> {
  if (payout.sweepFirst && payout.isAllocating) return {reason: 'allocation', ms: retryMs.soon} // its deposits are not all known yet
  const before = payout.sweepFirst ? await untilSwept(to, payout) : undefined
  if (before) return before
  // Other payouts may be sweeping the same addresses: their money may already have moved on the chain.
  await to.pool.query('select app.await_sweeps($1)', [payout.id])
  return await chain.sweep(to, payout)
}

// --- swept ---

async function pay(to: Context, payout: Payout, chain: PayoutChain): Promise<Outcome> {
  const {rows} = await to.pool.query<{reason: ReasonCode | null; detail: string | null}>(
    `select waiting_reason as reason, waiting_detail as detail from app.outgoing_payment where payout_id = $1 and kind = 'payout'`,
    [payout.id],
  )
  const refusal = await ask(to, payout) // the whitelist may have changed since
  if (refusal) {
    // A nonce without a signed transaction holds up every payment after it, whoever is paid.
    if (!rows[0] || reasonOf(refusal.reason!).ends === 'by itself') return refusal
    await to.pool.query('select app.give_nonce_back($1, $2)', [payout.id, heldUpMs])
    return {...refusal, ms: heldUpMs}
  }
  if (rows[0]) return begun(rows[0])
  return (
    (await chain.unpayable?.(payout)) ?? // it may have become a contract
    (await chain.beginPayment?.(to, payout)) ??
    begun({reason: null, detail: null})
  )
}

/**
 * The nonce is taken; the payout waits for whatever its payment waits for. Its status is paying once the payment is
 * signed and stored.
 */
function begun({reason, detail}: {reason: ReasonCode | null; detail: string | null}): Wait {
  const common = {reason, detail: detail ?? undefined, ms: retryMs.soon}
  if (reason === null) return common
  const {ends, fails = 'timed_out'} = reasonOf(reason)
  if (ends === 'by a person') return {reason: null, ms: retryMs.soon} // no longer true: custody was just asked
  return ends === 'never' ? {...common, fails: {as: fails, afterMs: heldUpMs}} : common
}

// --- waiting ---

async function wait(to: Context, {id}: Payout, {reason, detail: words, ms, fails}: Wait): Promise<void> {
  const detail = words === undefined ? undefined : storable(words)
  await to.pool.query('select app.wait_payout($1, $2, $3, $4)', [id, reason, detail ?? null, ms])
  const code = (fails && (await failSoon(to, id, fails, detail))) ?? (await timeOut(to, id))
  if (code)
    to.log.warn(
      {payout: id, code, reason},
      `a payout failed, and the merchant has the balance back: ${detail ?? reason}`,
    )
}

/** Fails a payout that has waited so long for the same reason. Resolves to the code if it has failed. */
async function failSoon(
  {pool}: Context,
  id: string,
  {as, afterMs}: NonNullable<Wait['fails']>,
  detail: string | undefined,
): Promise<string | undefined> {
  const {rowCount} = await pool.query(
    `select from app.payout p cross join lateral app.fail_payout(p.id, $2, $3) as has_failed
     where p.id = $1 and p.waiting_since <= clock_timestamp() - $4 * interval '1 millisecond' and has_failed`,
    [id, as, detail, afterMs],
  )
  return rowCount ? as : undefined
}

/** Fails a payout that has waited too long before its payment, whatever for. Resolves to the code if it has failed. */
async function timeOut({pool, payoutTimeoutMs}: Context, id: string): Promise<string | undefined> {
  const {rows} = await pool.query<{code: string | null}>('select app.time_out_payout($1, $2) as code', [
    id,
    payoutTimeoutMs,
  ])
  return rows[0]!.code ?? undefined
}

async function read({pool}: Context, id: string): Promise<Payout | undefined> {
  const {rows} = await pool.query<Omit<Payout, 'amount'> & {amount: string}>(
    `select p.id, p.chain, p.token, p.merchant_id as "merchantId", p.status, p.net as amount, p.address as recipient, t.address as treasury, p.sweep_first as "sweepFirst",
       exists (select from app.claim l where l.payout_id = p.id and l.finished_at is null) as "isAllocating",
       app.has_blocked_deposits(p.id) and not exists (select from app.outgoing_payment s where s.payout_id = p.id and s.kind = 'payout') as "isBlocked"
     from app.payout p join app.chain c using (chain) join custody.address t on t.family = c.family and t.purpose = 'treasury'
     where p.id = $1`,
    [id],
  )
  return rows[0] && {...rows[0], amount: BigInt(rows[0].amount)}
}
