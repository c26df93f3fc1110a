// Payouts of Tron: the flow of accounts (../accounts/flow.ts), by transactions that expire
// (../accounts/expiring-attempts.ts). A payment reserves the most that it may cost, because only the block that takes
// it shows whether its recipient had an account.
import type pg from 'pg'
import {z} from 'zod'
import {mostStakingFee, mostTokenBytesFee} from '../../../chains/tron/bytes.ts'
import type {Prices} from '../../../chains/tron/client.ts'
import {codeHashes} from '../../../chains/tron/inspect-token.ts'
import type {TronSettings} from '../../../chains/tron/settings.ts'
import {expiringAttempts} from '../accounts/expiring-attempts.ts'
import {beginWithdrawalBy, flowOf} from '../accounts/flow.ts'
import {treasuryOf} from '../accounts/holdings.ts'
import type {Now, Payment, Rules} from '../accounts/rules.ts'
import {type Context, type PayoutChain, resendByAge, type Wait} from '../context.ts'
import {responses, type Signed, units} from '../custody-client.ts'
import type {Withdrawal} from '../family.ts'
import {assumedEnergy} from './fees.ts'
import {type Lending, lendingNow, likelyFee} from './lending.ts'
import {broadcast, cannotSweep, type Tron, tooDearAt, tooDearNow, tron, unpayable} from './node.ts'
import {offers} from './offers.ts'
import {readSigned} from './second-reader.ts'
import {tendStake} from './stake.ts'
import {nativeSweeps, tokenSweeps} from './sweep.ts'
import {paymentFee, refusalOf, refusedByRecipient, takesFee, tokenRefusal} from './tokens.ts'

const Response = z
  .object({
    ok: z.literal(true),
    txid: z.string().regex(/^[0-9a-f]{64}$/),
    raw: z.string(),
    amount: units,
    max_fee: units,
    may_burn: units.optional(),
  })
  .transform(({max_fee, may_burn, ...signed}): Signed => {
    return {...signed, feeDetails: may_burn === undefined ? {} : {may_burn}, maxFee: BigInt(max_fee)}
  })

export function open(settings: TronSettings): PayoutChain {
  const chain = tron(settings)
  return {
    ...flowOf(rulesOf(chain)),
    ...expiringAttempts({
      family: settings.family,
      notNow: () => tooDearNow(chain),
      offers: (to, outgoingPayments) => offers(to, chain, outgoingPayments),
      responses: responses(Response, z.never()),
      resendAfterMs: resendByAge,
      broadcast: raws => broadcast(chain, raws),
    }),
    readSigned: (to, planned, signed) => readSigned(to, settings, planned, signed),
    codeHashes: () => codeHashes(settings, chain.nodes),
    refusal: async (to, of) => await refusalOf(chain, of, await treasuryOf(to.pool, settings.chain.code)),
  }
}

function rulesOf(chain: Tron): Rules {
  const {settings} = chain
  const isNative = (token: string) => token === settings.chain.assets[0].token
  const unpayableNow = (payment: Payment) =>
    isNative(payment.token) ? unpayable(chain, payment.recipient) : refusedByRecipient(chain, payment)
  return {
    settings,
    atOnce: 20,
    now: to => now(to, chain, isNative),
    estimate: async (to, payment) =>
      isNative(payment.token)
        ? ((await unpayableNow(payment)) ?? settings.maxPaymentFee)
        : await paymentFee(to, chain, payment),
    maxTokenSweepFee: settings.tokenSweepFee,
    cannotSweep: async (to, {token, treasury, from: {address, amount}}) =>
      (await cannotSweep(chain, treasury)) ??
      (isNative(token) ? undefined : await tokenRefusal(chain, token, treasury)) ??
      (await takesFee(to, chain, {token, amount, source: address, recipient: treasury})),
    unpayable: unpayableNow,
    tend: to => tendStake(to, chain, [...settings.tokens.values()]),
  }
}

async function now(to: Context, chain: Tron, isNative: (token: string) => boolean): Promise<Now | Wait> {
  const {settings, nodes} = chain
  const prices = await nodes.ask(node => node.prices())
  const tooDear = tooDearAt(settings, prices)
  return tooDear ?? nowAt(chain, isNative, prices, await lendingNow(to, chain, prices))
}

function nowAt(chain: Tron, isNative: (token: string) => boolean, prices: Prices, lending: Lending | undefined): Now {
  const {settings, energy} = chain
  const {maxSweepFee, maxPaymentFee} = settings
  const tokenSweepFee = (token: string) =>
    likelyFee(prices, lending, energy.get(token) ?? assumedEnergy) + mostTokenBytesFee(settings)
  return {
    reserve: maxPaymentFee,
    leastFee: 0n,
    fundFee: maxPaymentFee,
    delegates: {fee: mostStakingFee(settings), mostLent: settings.maxDelegated},
    likelySweepFee: token => (isNative(token) ? maxSweepFee : tokenSweepFee(token) + maxPaymentFee),
    sweeps: (to, of, holdings) =>
      isNative(of.token) ? nativeSweeps(to, chain, holdings) : tokenSweeps(to, chain, {prices, lending}, of, holdings),
  }
}

export async function beginWithdrawal(db: pg.Client, settings: TronSettings, withdrawal: Withdrawal): Promise<string> {
  const isNative = withdrawal.token === settings.chain.assets[0].token
  const most = isNative ? settings.maxPaymentFee : settings.tokenPaymentFee
  return await beginWithdrawalBy(db, rulesOf(tron(settings)), withdrawal, most)
}
