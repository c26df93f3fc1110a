// Payouts of Solana: the flow of accounts (../accounts/flow.ts), by transactions that expire
// (../accounts/expiring-attempts.ts). A sweep of SOL leaves its address empty, because an account holds nothing or at
// least the rent; for the same reason the treasury keeps that much. A token needs an account of its own at its
// recipient, which the treasury makes and pays for; no account is ever closed. A transaction lives for half a minute
// and any leader may forget it, so the same bytes are sent every two seconds.
import type pg from 'pg'
import {z} from 'zod'
import {mintHashes} from '../../../chains/solana/check-tokens.ts'
import type {SolanaSettings} from '../../../chains/solana/settings.ts'
import {expiringAttempts} from '../accounts/expiring-attempts.ts'
import {beginWithdrawalBy, flowOf} from '../accounts/flow.ts'
import type {Now, Payment, Rules} from '../accounts/rules.ts'
import {type PayoutChain, shortOfFunds} from '../context.ts'
import {responses, type Signed, units} from '../custody-client.ts'
import type {Withdrawal} from '../family.ts'
import {highestSweepFee} from './fees.ts'
import {
  behindNow,
  broadcast,
  cannotSweep,
  nativeSweeps,
  paymentReserve,
  type Solana,
  shortOf,
  solana,
  unpayable,
} from './node.ts'
import {offers} from './offers.ts'
import {readSigned} from './second-reader.ts'
import {paymentFee, refusalOf, tokenRefusal, tokenSweeps, tokenUnpayable} from './tokens.ts'

const resendMs = 2000

const Response = z
  .object({
    ok: z.literal(true),
    txid: z.string().regex(/^[1-9A-HJ-NP-Za-km-z]{64,88}$/),
    raw: z.string(),
    amount: units,
    max_fee: units,
    priority_fee: units,
    rent: units.optional(),
  })
  .transform(({max_fee, priority_fee, rent, ...signed}): Signed => {
    return {...signed, feeDetails: {priority_fee, ...(rent !== undefined && {rent})}, maxFee: BigInt(max_fee)}
  })

export function open(settings: SolanaSettings): PayoutChain {
  const chain = solana(settings)
  return {
    ...flowOf(rulesOf(chain)),
    ...expiringAttempts({
      family: settings.family,
      notNow: to => behindNow(to, chain),
      offers: (to, payments) => offers(to, chain, payments),
      responses: responses(Response, z.never()),
      resendAfterMs: () => resendMs,
      broadcast: raws => broadcast(chain, raws),
    }),
    readSigned: (to, planned, signed) => readSigned(to, settings, planned, signed),
    codeHashes: () => chain.nodes.ask(node => mintHashes(settings, node)),
    refusal: (_, of) => refusalOf(chain, of),
  }
}

function rulesOf(chain: Solana): Rules {
  const {settings} = chain
  const isNative = (token: string) => token === settings.chain.assets[0].token
  const now = async (): Promise<Now> => ({
    reserve: await paymentReserve(chain),
    leastFee: 0n,
    likelySweepFee: () => highestSweepFee(settings),
    sweeps: (_, of, holdings) =>
      isNative(of.token) ? nativeSweeps(chain, holdings) : tokenSweeps(chain, of, holdings),
  })
  const unpayableNow = (payment: Payment) =>
    isNative(payment.token) ? unpayable(chain, payment) : tokenUnpayable(chain, payment)
  return {
    settings,
    atOnce: 20,
    now: async to => (await behindNow(to, chain)) ?? (await now()),
    estimate: async (to, payment) =>
      isNative(payment.token)
        ? ((await unpayable(chain, payment)) ?? (await paymentReserve(chain)))
        : await paymentFee(to, chain, payment),
    maxTokenSweepFee: settings.tokenSweepFee,
    cannotSweep: async (to, of) =>
      (await cannotSweep(chain, of)) ?? (isNative(of.token) ? undefined : await tokenRefusal(to, chain, of)),
    unpayable: unpayableNow,
    shortOf: async (to, payout, short) =>
      isNative(payout.token) ? await shortOf(to, chain, payout, short) : shortOfFunds(short),
  }
}

export async function beginWithdrawal(
  db: pg.Client,
  settings: SolanaSettings,
  withdrawal: Withdrawal,
): Promise<string> {
  const chain = solana(settings)
  const isNative = withdrawal.token === settings.chain.assets[0].token
  const rent = isNative ? 0n : settings.maxAccountRent
  return await beginWithdrawalBy(db, rulesOf(chain), withdrawal, rent + (await paymentReserve(chain)))
}
