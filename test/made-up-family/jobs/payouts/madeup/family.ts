// Payouts of the made-up family: money on deposit addresses is swept to the treasury, and the treasury pays it out. A transaction that expired is signed
// again. Every transaction costs the same fee, so nothing is replaced.
import type pg from 'pg'
import {z} from 'zod'
import {fee} from '../../../chains/madeup/block.ts'
import {ask, NodeError} from '../../../chains/madeup/client.ts'
import type {MadeUpSettings} from '../../../chains/madeup/settings.ts'
import {
  type Context,
  type Outcome,
  type Payout,
  type PayoutChain,
  type PlannedAttempt,
  resendByAge,
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
    beginPayment,
    plan: async (_to, outgoingPayments) => outgoingPayments.map(outgoingPayment => ({outgoingPayment, kind: 'effect'})),
    intentOf,
    responses: responses(Response, z.never()),
    resendAfterMs: resendByAge,
    broadcast: raws => Promise.all(raws.map(raw => submit(settings, raw))),
    async collect() {},
    close() {},
  }
}

async function sweep({pool, ...to}: Context, payout: Payout, {sweepFeePercent}: MadeUpSettings): Promise<Outcome> {
  const least = fee + (fee * 100n + BigInt(sweepFeePercent) - 1n) / BigInt(sweepFeePercent)
  const {rows} = await pool.query<{address: string; amount: string}>('select * from app.sweepable($1, $2, 1000)', [
    payout.id,
    String(least),
  ])
  const begun = await pool.query<{short: string | null}>(
    'select app.begin_sweeps($1, $2, $3, $4, $5::numeric[], $6::numeric[], $7) as short',
    [
      payout.id,
      payout.chain,
      payout.token,
      rows.map(({address}) => address),
      rows.map(({amount}) => String(BigInt(amount) - fee)),
      rows.map(() => String(fee)),
      payout.sweepFirst ? null : String(fee),
    ],
  )
  const wait = await untilSwept({pool, ...to}, payout)
  if (wait) return wait
  const {short} = begun.rows[0]!
  if (short) return shortOfFunds(short)
  await pool.query('select app.begin_paying_from_treasury($1)', [payout.id])
  return 'next'
}

async function beginPayment({pool}: Context, {id}: Payout): Promise<Wait | undefined> {
  const {rows} = await pool.query<{short: string | null}>('select app.begin_payment($1, $2) as short', [
    id,
    String(fee),
  ])
  const {short} = rows[0]!
  return short === null ? undefined : shortOfFunds(short)
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
