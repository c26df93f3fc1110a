// Payouts of Solana: what all families of accounts share whose transactions expire (../expiring.ts). A sweep leaves its address empty, because an account
// holds nothing or at least the rent; for the same reason the treasury keeps that much. A transaction lives for half a minute and any leader may forget it,
// so the same bytes are sent every two seconds.
import {z} from 'zod'
import {SolanaNodes} from '../../../chains/solana/client.ts'
import type {SolanaSettings} from '../../../chains/solana/settings.ts'
import type {PayoutChain} from '../context.ts'
import {responses, type Signed, units} from '../custody.ts'
import {openExpiring} from '../expiring.ts'
import {highestSweepFee} from './fees.ts'
import {
  behindNow,
  broadcast,
  cannotSweep,
  offers,
  paymentReserve,
  type Solana,
  shortOf,
  sweeps,
  unpayable,
} from './node.ts'
import {sweepRefusals} from './simulate.ts'

const resendMs = 2000

const Response = z
  .object({
    ok: z.literal(true),
    txid: z.string().regex(/^[1-9A-HJ-NP-Za-km-z]{64,88}$/),
    raw: z.string(),
    amount: units,
    max_fee: units,
    priority_fee: units,
  })
  .transform(
    ({max_fee, priority_fee, ...signed}): Signed => ({...signed, feeDetails: {priority_fee}, maxFee: BigInt(max_fee)}),
  )

export function open(settings: SolanaSettings): PayoutChain {
  const chain: Solana = {settings, nodes: new SolanaNodes(settings)}
  return openExpiring({
    settings,
    notNow: to => behindNow(to, chain),
    paymentReserve: () => paymentReserve(chain),
    maxSweepFee: highestSweepFee(settings),
    sweeps: (_, holdings) => sweeps(chain, holdings),
    cannotSweep: treasury => cannotSweep(chain, treasury),
    unpayable: to => unpayable(chain, to),
    shortOf: (to, payout, short) => shortOf(to, chain, payout, short),
    offers: outgoingPayments => offers(chain, outgoingPayments),
    sweepRefusals: payments => sweepRefusals(chain, payments),
    responses: responses(Response, z.never()),
    resendAfterMs: () => resendMs,
    broadcast: raws => broadcast(chain, raws),
  })
}
