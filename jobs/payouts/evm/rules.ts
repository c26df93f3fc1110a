// What the flow of accounts (../accounts/flow.ts) must know of EVM chains. A sweep of the native coin leaves its fee on
// the address, which pays it. A sweep of a token moves all of it; the treasury pays, or sends the address gas for it.
// Amounts are by the balances of the newest block: an address that looks empty, because its sweep is in a block that is
// not final, is not swept again.
import {least} from '../../../base/bigints.ts'
import {isFunded} from '../../../chains/evm/settings.ts'
import {freeGas, type Holding, type Sweep} from '../accounts/holdings.ts'
import type {Now, Rules, Sweeping} from '../accounts/rules.ts'
import type {Context, Payout, Wait} from '../context.ts'
import {type Fees, nativeSweep} from './fees.ts'
import {assumedGas, fundGas, likelySweepGas, sweepGas, tokenSweepGas, transferCall} from './gas.ts'
import {balancesOf, contractOf, type Evm} from './node.ts'
import {offered, paymentFee} from './offered.ts'
import {refusedByRecipient} from './payment.ts'
import {blockIfRefused, takesFee, tokenRefusal} from './refusals.ts'

export function rulesOf(chain: Evm): Rules {
  return {
    settings: chain.settings,
    atOnce: 200,
    now: () => now(chain),
    estimate: async (to, payment) => (await takesFee(to, chain, payment)) ?? (await paymentFee(chain, payment)),
    maxTokenSweepFee: chain.settings.tokenSweepFee,
    cannotSweep: async (to, {token, treasury, from: {address, amount}}) =>
      (await tokenRefusal(to, chain, token)) ??
      (await takesFee(to, chain, {token, amount, source: address, recipient: treasury})),
    unpayable: payment => refusedByRecipient(chain, payment),
  }
}

async function now(chain: Evm): Promise<Now | Wait> {
  const fees = await offered(chain)
  if ('reason' in fees) return fees
  const {maxFeePerGas: price} = fees
  const fundFee = price * fundGas
  return {
    reserve: least(price * assumedGas.payment, chain.settings.maxPaymentFee), // before the fee can be estimated
    leastFee: price * assumedGas.transfer,
    fundFee,
    likelySweepFee: token => price * likelySweepGas(chain, token) + (isFunded(chain.settings, token) ? fundFee : 0n),
    sweeps: (to, of, holdings) =>
      isFunded(chain.settings, of.token)
        ? fundedSweeps(to, chain, fees, of, holdings)
        : sweeps(chain, price, of, holdings),
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
 * Sweeps that addresses pay for with their gas. One that has at least what the chain asks for now goes with that; one
 * that has less first gets what lasts through some full blocks. An address that the token does not let go moves
 * nothing, and is blocked.
 */
async function fundedSweeps(
  to: Context,
  chain: Evm,
  {maxFeePerGas: price, maxPriorityFeePerGas: tip}: Fees,
  {token, treasury}: Sweeping,
  holdings: Holding[],
): Promise<Sweep[]> {
  const addresses = holdings.map(({address}) => address)
  const balances = await balancesOf(chain, token, addresses)
  const free = await freeGas(to, chain.settings.chain.code, addresses)
  const amounts = holdings.map(({amount}, i) => least(BigInt(amount), balances[i]!))
  const calls = addresses.map((source, i) =>
    transferCall(chain, {token, source, recipient: treasury, amount: amounts[i]!}),
  )
  const estimates = await chain.node.estimates(calls)
  const found: Sweep[] = []
  for (const [i, address] of addresses.entries()) {
    const limit = tokenSweepGas(estimates[i]!, {fromGas: true})
    const [holds, has] = [balances[i]!, free[i]!]
    if ('failure' in limit) {
      if (limit.isSure) await blockIfRefused(to, chain, {token, address}, calls[i]!)
      found.push({address, amount: 0n, maxFee: 0n, holds})
      continue
    }
    const [asked, enough] = [limit.gas * price, (limit.gas * (price + tip)) / 2n]
    const sweep = {address, amount: amounts[i]!, holds}
    found.push(has >= enough ? {...sweep, maxFee: least(asked, has)} : {...sweep, maxFee: asked, lacks: asked - has})
  }
  return found
}

/**
 * Before the treasury has what a payout pays, the recipient is asked about the least that can be sent. A token's
 * transfer of nothing is one.
 */
export async function unpayable(chain: Evm, {token, recipient, treasury}: Payout): Promise<Wait | undefined> {
  const amount = contractOf(chain, token) ? 0n : 1n
  return await refusedByRecipient(chain, {token, recipient, amount, source: treasury})
}
