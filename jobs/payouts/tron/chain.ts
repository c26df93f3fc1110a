// Payouts of Tron: what all families of accounts share whose transactions expire (../expiring.ts). A payment reserves the most that it may cost, because only
// the block that takes it shows whether its recipient had an account.
import {z} from 'zod'
import {TronNodes} from '../../../chains/tron/client.ts'
import type {TronSettings} from '../../../chains/tron/settings.ts'
import {type PayoutChain, resendByAge} from '../context.ts'
import {responses, type Signed, units} from '../custody.ts'
import {openExpiring} from '../expiring.ts'
import {broadcast, cannotSweep, type Tron, tooDearNow, unpayable} from './node.ts'
import {sweeps} from './sweep.ts'

const Response = z
  .object({
    ok: z.literal(true),
    txid: z.string().regex(/^[0-9a-f]{64}$/),
    raw: z.string(),
    amount: units,
    max_fee: units,
  })
  .transform(({max_fee, ...signed}): Signed => ({...signed, feeDetails: {}, maxFee: BigInt(max_fee)}))

export function open(settings: TronSettings): PayoutChain {
  const chain: Tron = {settings, nodes: new TronNodes(settings)}
  return openExpiring({
    settings,
    notNow: () => tooDearNow(chain),
    paymentReserve: async () => settings.maxPaymentFee,
    maxSweepFee: settings.maxSweepFee,
    sweeps: (to, holdings) => sweeps(to, chain, holdings),
    cannotSweep: treasury => cannotSweep(chain, treasury),
    unpayable: ({recipient}) => unpayable(chain, recipient),
    responses: responses(Response, z.never()),
    resendAfterMs: resendByAge,
    broadcast: raws => broadcast(chain, raws),
  })
}
