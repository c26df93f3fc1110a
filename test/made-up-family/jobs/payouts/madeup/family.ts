// Payouts of the made-up family: the flow of accounts (../accounts/flow.ts), by transactions that expire. Every
// transaction costs the same fee.
import type pg from 'pg'
import {z} from 'zod'
import {fee, isSigned, parseTransaction} from '../../../chains/madeup/block.ts'
import {ask, NodeError} from '../../../chains/madeup/client.ts'
import type {MadeUpSettings} from '../../../chains/madeup/settings.ts'
import {expiringAttempts} from '../accounts/expiring-attempts.ts'
import {beginWithdrawalBy, flowOf} from '../accounts/flow.ts'
import type {Holding, Sweep} from '../accounts/holdings.ts'
import type {Rules} from '../accounts/rules.ts'
import {type PayoutChain, type PlannedAttempt, type Reading, resendByAge} from '../context.ts'
import {responses, type Signed, units} from '../custody-client.ts'
import type {Withdrawal} from '../family.ts'
import {amountOf} from '../second-reader.ts'

const Response = z
  .object({ok: z.literal(true), txid: z.string(), raw: z.string(), amount: units})
  .transform((signed): Signed => ({...signed, feeDetails: {}, maxFee: fee}))

const rulesOf = (settings: MadeUpSettings): Rules => ({
  settings,
  atOnce: 20,
  now: async () => ({
    reserve: fee,
    likelySweepFee: () => fee,
    sweeps: async (_, __, holdings) => holdings.map(sweepOf),
  }),
  cannotSweep: async () => undefined,
  unpayable: async () => undefined,
})

export function open(settings: MadeUpSettings): PayoutChain {
  return {
    ...flowOf(rulesOf(settings)),
    ...expiringAttempts({
      family: settings.family,
      responses: responses(Response, z.never()),
      resendAfterMs: resendByAge,
      broadcast: raws => Promise.all(raws.map(raw => submit(settings, raw))),
    }),
    readSigned: async (_to, planned, signed) => readSigned(planned, signed),
  }
}

/** Its transactions are JSON: nothing but the one format can read them. */
function readSigned(planned: PlannedAttempt, signed: Signed): Reading {
  const {source, recipient} = planned.outgoingPayment
  const transaction = parseTransaction(signed.raw)
  const {from, txid, outputs} = transaction
  return {
    asked: {
      from: source,
      txid: signed.txid,
      signature: 'right',
      outputs: `${amountOf(planned, signed)} to ${recipient}`,
    },
    says: {
      from,
      txid,
      signature: isSigned(transaction) ? 'right' : 'wrong',
      outputs: outputs.map(({to, amount}) => `${amount} to ${to}`).join(', '),
    },
  }
}

/** All of what each holds. */
const sweepOf = ({address, amount}: Holding): Sweep => ({address, amount: BigInt(amount) - fee, maxFee: fee})

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

export async function beginWithdrawal(
  db: pg.Client,
  settings: MadeUpSettings,
  withdrawal: Withdrawal,
): Promise<string> {
  return await beginWithdrawalBy(db, rulesOf(settings), withdrawal, fee)
}
