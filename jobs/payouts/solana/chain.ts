// Payouts of Solana: the flow of accounts (../accounts/flow.ts), by transactions that expire
// (../accounts/expiring-attempts.ts). A sweep leaves its address empty, because an account holds nothing or at least
// the rent; for the same reason the treasury keeps that much. A transaction lives for half a minute and any leader may
// forget it, so the same bytes are sent every two seconds.
import type pg from 'pg'
import {z} from 'zod'
import {SolanaNodes} from '../../../chains/solana/client.ts'
import type {SolanaSettings} from '../../../chains/solana/settings.ts'
import {expiringAttempts} from '../accounts/expiring-attempts.ts'
import {beginWithdrawalBy, flowOf} from '../accounts/flow.ts'
import type {Now, Rules} from '../accounts/rules.ts'
import type {PayoutChain} from '../context.ts'
import {responses, type Signed, units} from '../custody-client.ts'
import type {Withdrawal} from '../family.ts'
import {highestSweepFee} from './fees.ts'
import {behindNow, broadcast, cannotSweep, paymentReserve, type Solana, shortOf, sweeps, unpayable} from './node.ts'
import {readSigned} from './second-reader.ts'
import {offersOrRefusals} from './simulate.ts'

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
  return {
    ...flowOf(rulesOf(chain)),
    ...expiringAttempts({
      family: settings.family,
      notNow: to => behindNow(to, chain),
      offers: (_, payments) => offersOrRefusals(chain, payments),
      responses: responses(Response, z.never()),
      resendAfterMs: () => resendMs,
      broadcast: raws => broadcast(chain, raws),
    }),
    readSigned,
  }
}

function rulesOf(chain: Solana): Rules {
  const {settings} = chain
  const now = async (): Promise<Now> => ({
    reserve: await paymentReserve(chain),
    likelySweepFee: () => highestSweepFee(settings),
    sweeps: (_, __, holdings) => sweeps(chain, holdings),
  })
  return {
    settings,
    atOnce: 20,
    now: async to => (await behindNow(to, chain)) ?? (await now()),
    cannotSweep: (_, {treasury}) => cannotSweep(chain, treasury),
    unpayable: payment => unpayable(chain, payment),
    shortOf: (to, payout, short) => shortOf(to, chain, payout, short),
  }
}

export async function beginWithdrawal(
  db: pg.Client,
  settings: SolanaSettings,
  withdrawal: Withdrawal,
): Promise<string> {
  const chain: Solana = {settings, nodes: new SolanaNodes(settings)}
  return await beginWithdrawalBy(db, rulesOf(chain), withdrawal, await paymentReserve(chain))
}
