// Payouts of Tron: the flow of accounts (../accounts/flow.ts), by transactions that expire
// (../accounts/expiring-attempts.ts). A payment reserves the most that it may cost, because only the block that takes
// it shows whether its recipient had an account.
import type pg from 'pg'
import {z} from 'zod'
import {TronNodes} from '../../../chains/tron/client.ts'
import type {TronSettings} from '../../../chains/tron/settings.ts'
import {expiringAttempts} from '../accounts/expiring-attempts.ts'
import {beginWithdrawalBy, flowOf} from '../accounts/flow.ts'
import type {Now, Rules} from '../accounts/rules.ts'
import {type PayoutChain, resendByAge} from '../context.ts'
import {responses, type Signed, units} from '../custody-client.ts'
import type {Withdrawal} from '../family.ts'
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
  return {
    ...flowOf(rulesOf(chain)),
    ...expiringAttempts({
      family: settings.family,
      notNow: () => tooDearNow(chain),
      responses: responses(Response, z.never()),
      resendAfterMs: resendByAge,
      broadcast: raws => broadcast(chain, raws),
    }),
  }
}

function rulesOf(chain: Tron): Rules {
  const {settings} = chain
  const now: Now = {
    reserve: settings.maxPaymentFee,
    likelySweepFee: () => settings.maxSweepFee,
    sweeps: (to, _, holdings) => sweeps(to, chain, holdings),
  }
  return {
    settings,
    atOnce: 20,
    now: async () => (await tooDearNow(chain)) ?? now,
    cannotSweep: (_, {treasury}) => cannotSweep(chain, treasury),
    unpayable: ({recipient}) => unpayable(chain, recipient),
  }
}

export async function beginWithdrawal(db: pg.Client, settings: TronSettings, withdrawal: Withdrawal): Promise<string> {
  const rules = rulesOf({settings, nodes: new TronNodes(settings)})
  return await beginWithdrawalBy(db, rules, withdrawal, settings.maxPaymentFee)
}
