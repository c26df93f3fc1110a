// Payouts of the made-up family: what all families of accounts share whose transactions expire (../expiring.ts). Every transaction costs the same fee.
import type pg from 'pg'
import {z} from 'zod'
import {fee} from '../../../chains/madeup/block.ts'
import {ask, NodeError} from '../../../chains/madeup/client.ts'
import type {MadeUpSettings} from '../../../chains/madeup/settings.ts'
import {type Holding, insertWithdrawal, type Sweep} from '../accounts.ts'
import {type PayoutChain, resendByAge} from '../context.ts'
import {responses, type Signed, units} from '../custody.ts'
import {openExpiring} from '../expiring.ts'
import type {Withdrawal} from '../family.ts'

const Response = z
  .object({ok: z.literal(true), txid: z.string(), raw: z.string(), amount: units})
  .transform((signed): Signed => ({...signed, feeDetails: {}, maxFee: fee}))

export function open(settings: MadeUpSettings): PayoutChain {
  return openExpiring({
    settings,
    notNow: async () => undefined,
    paymentReserve: async () => fee,
    maxSweepFee: fee,
    sweeps: async (_, holdings) => holdings.map(sweepOf),
    cannotSweep: async () => undefined,
    unpayable: async () => undefined,
    responses: responses(Response, z.never()),
    resendAfterMs: resendByAge,
    broadcast: raws => Promise.all(raws.map(raw => submit(settings, raw))),
  })
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

export async function beginWithdrawal(db: pg.Client, {chain}: MadeUpSettings, withdrawal: Withdrawal): Promise<string> {
  return await insertWithdrawal(db, chain.code, withdrawal, fee)
}
