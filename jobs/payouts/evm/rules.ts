// What the flow of accounts (../accounts/flow.ts) must know of EVM chains. A sweep of the native coin leaves its fee on
// the address, which pays it; a sweep of a token moves all of it, and the treasury pays. Amounts are by the balances of
// the newest block: an address that looks empty, because its sweep is in a block that is not final, is not swept again.
import type {Holding, Sweep} from '../accounts/holdings.ts'
import type {Now, Rules, Sweeping} from '../accounts/rules.ts'
import type {Payout, Wait} from '../context.ts'
import {least, nativeSweep} from './fees.ts'
import {assumedGas, likelySweepGas, sweepGas} from './gas.ts'
import {balancesOf, contractOf, type Evm} from './node.ts'
import {offered, paymentFee} from './offered.ts'
import {refusedByRecipient} from './payment.ts'
import {tokenRefusal} from './refusals.ts'

export function rulesOf(chain: Evm): Rules {
  return {
    settings: chain.settings,
    atOnce: 200,
    now: () => now(chain),
    estimate: payment => paymentFee(chain, payment),
    maxTokenSweepFee: chain.settings.tokenSweepFee,
    cannotSweep: (to, {token}) => tokenRefusal(to, chain, token),
    unpayable: payment => refusedByRecipient(chain, payment),
  }
}

async function now(chain: Evm): Promise<Now | Wait> {
  const fees = await offered(chain)
  if ('reason' in fees) return fees
  const {maxFeePerGas: price} = fees
  return {
    reserve: least(price * assumedGas.payment, chain.settings.maxPaymentFee), // before the fee can be estimated
    leastFee: price * assumedGas.transfer,
    likelySweepFee: token => price * likelySweepGas(chain, token),
    sweeps: (_, of, holdings) => sweeps(chain, price, of, holdings),
  }
}

async function sweeps(chain: Evm, price: bigint, {token, treasury}: Sweeping, holdings: Holding[]): Promise<Sweep[]> {
  const addresses = holdings.map(({address}) => address)
  const balances = await balancesOf(chain, token, addresses)
  const isNative = token === chain.native
  const maxFee = price * (await sweepGas(chain, {token, from: addresses[0]!, treasury}))
  return holdings.map(({address, amount: held}, i) => {
    const holds = balances[i]!
    const amount = nativeSweep({balance: holds, holding: BigInt(held), fee: isNative ? maxFee : 0n})
    return {address, amount, maxFee, holds}
  })
}

/**
 * Before the treasury has what a payout pays, the recipient is asked about the least that can be sent. A token's
 * transfer of nothing is one.
 */
export async function unpayable(chain: Evm, {token, recipient, treasury}: Payout): Promise<Wait | undefined> {
  const amount = contractOf(chain, token) ? 0n : 1n
  return await refusedByRecipient(chain, {token, recipient, amount, source: treasury})
}
