// Payouts of the made-up family: money on deposit addresses is swept to the treasury, and the treasury pays it out. A transaction that expired is signed
// again. Every transaction costs the same fee, so nothing is replaced.
import type pg from 'pg'
import {z} from 'zod'
import {fee} from '../../../chains/madeup/block.ts'
import {ask, NodeError} from '../../../chains/madeup/client.ts'
import type {MadeUpSettings} from '../../../chains/madeup/settings.ts'
import {beginReturnStep, beginSweeps, collectable, type Holding, type Sweep, sweepable} from '../accounts.ts'
import {
  type Context,
  type Outcome,
  type Payout,
  type PayoutChain,
  type PlannedAttempt,
  type ReturnStep,
  resendByAge,
  retryMs,
  shortOfFunds,
  untilSwept,
  type Wait,
} from '../context.ts'
import {responses, type Signed, units} from '../custody.ts'
import type {Withdrawal} from '../family.ts'

const Response = z
  .object({ok: z.literal(true), txid: z.string(), raw: z.string(), amount: units})
  .transform((signed): Signed => ({...signed, feeDetails: {}, maxFee: fee}))

export function open(settings: MadeUpSettings): PayoutChain {
  return {
    sweep: (to, payout) => sweep(to, payout, settings),
    beginPayment: (to, payout) => beginPayment(to, payout, settings),
    plan: async (_to, outgoingPayments) => outgoingPayments.map(outgoingPayment => ({outgoingPayment, kind: 'effect'})),
    intentOf,
    responses: responses(Response, z.never()),
    resendAfterMs: resendByAge,
    broadcast: raws => Promise.all(raws.map(raw => submit(settings, raw))),
    beginReturn: (to, step) => beginReturn(to, step, settings),
    collect: to => collect(to, settings),
    close() {},
  }
}

async function sweep(to: Context, payout: Payout, settings: MadeUpSettings): Promise<Outcome> {
  const sweeps = await sweepsOf(to, payout, settings)
  const short = await beginSweeps(to.pool, payout, sweeps, payout.sweepFirst ? undefined : fee)
  const wait = await untilSwept(to, payout)
  if (wait) return wait
  if (short) return shortOfFunds(short)
  await to.pool.query('select app.begin_paying_from_treasury($1)', [payout.id])
  return 'next'
}

/** The least amount that is worth sweeping from an address. */
const worthwhile = ({sweepFeePercent}: MadeUpSettings): bigint =>
  fee + (fee * 100n + BigInt(sweepFeePercent) - 1n) / BigInt(sweepFeePercent)

const sweepOf = ({address, amount}: Holding): Sweep => ({address, amount: BigInt(amount) - fee, maxFee: fee})

const sweepsOf = async (to: Context, payout: Payout, settings: MadeUpSettings): Promise<Sweep[]> =>
  (await sweepable(to, payout, worthwhile(settings))).map(sweepOf)

async function collect(to: Context, settings: MadeUpSettings): Promise<void> {
  const {code: chain} = settings.chain
  for (const [token, above] of settings.collectAbove) {
    const holdings = await collectable(to, {chain, token, above})
    const worth = holdings.filter(({amount}) => BigInt(amount) >= worthwhile(settings))
    await beginSweeps(to.pool, {id: null, chain, token}, worth.map(sweepOf))
  }
}

async function beginReturn(to: Context, step: ReturnStep, settings: MadeUpSettings): Promise<Wait | undefined> {
  const {depositId, amount} = step
  if (step.step === 'withdrawal')
    return await beginReturnStep(to, 'begin_return_withdrawal($1, $2)', [depositId, String(fee)])
  if (amount < worthwhile(settings))
    return {reason: 'not_worth_moving', detail: `moving ${amount} base units costs ${fee}`, ms: retryMs.soon}
  return await beginReturnStep(to, 'begin_return_sweep($1, $2, $3)', [depositId, String(amount - fee), String(fee)])
}

async function beginPayment(to: Context, payout: Payout, settings: MadeUpSettings): Promise<Wait | undefined> {
  const {rows} = await to.pool.query<{short: string | null}>('select app.begin_payment($1, $2) as short', [
    payout.id,
    String(fee),
  ])
  const {short} = rows[0]!
  if (short === null) return undefined
  await beginSweeps(to.pool, payout, await sweepsOf(to, payout, settings), fee) // another payout used money that this one counted on
  return shortOfFunds(short)
}

function intentOf({outgoingPayment: {id, kind, chain, payoutId}}: PlannedAttempt): object {
  if (kind === 'payout') return {intent: 'pay_madeup', payout_id: payoutId}
  if (kind === 'withdrawal') return {intent: 'withdraw_madeup', outgoing_payment_id: id}
  return {intent: 'sweep_madeup', chain, outgoing_payment_id: id}
}

/** The node's error; undefined if it took the transaction. */
async function submit(settings: MadeUpSettings, raw: string): Promise<string | undefined> {
  try {
    await ask(settings, {method: 'submit', params: [raw], response: z.string()})
    return undefined
  } catch (error) {
    if (error instanceof NodeError) return error.message
    throw error
  }
}

export const asksBeforeWithdrawal = false

export async function beginWithdrawal(
  db: pg.Client,
  {chain}: MadeUpSettings,
  {token, amount, to}: Withdrawal,
): Promise<string> {
  const {rows} = await db.query<{id: string}>('select app.begin_withdrawal($1, $2, $3, $4, $5) as id', [
    chain.code,
    token,
    amount.toString(),
    to,
    String(fee),
  ])
  return rows[0]!.id
}
