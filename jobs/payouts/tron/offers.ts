// What each transaction offers before custody signs it: the most that its energy may burn; or why it is not signed. A
// payment of TRX offers nothing. A transaction whose energy is not enough costs all of it, and moves nothing, so each
// transfer is tried just before.
import {eachOf} from '../../../base/each-of.ts'
import {mostTokenBytesFee} from '../../../chains/tron/bytes.ts'
import type {Prices} from '../../../chains/tron/client.ts'
import {Refusal} from '../accounts/expiring-attempts.ts'
import {type Context, retryMs, type Wait} from '../context.ts'
import type {OutgoingPayment} from '../outgoing-payments.ts'
import {sweepEnergyFee} from './fees.ts'
import type {Tron} from './node.ts'
import {blockIfRefused, paymentEnergy, takenFee, tryTransfer} from './tokens.ts'

export type Offer = {fee_limit?: string}

export async function offers(
  to: Context,
  chain: Tron,
  outgoingPayments: OutgoingPayment[],
): Promise<(Offer | Refusal)[]> {
  const native = chain.settings.chain.assets[0].token
  if (outgoingPayments.every(({token, kind}) => token === native && kind !== 'delegate'))
    return outgoingPayments.map(() => ({}))
  const prices = await chain.nodes.ask(node => node.prices())
  const refused = await refusedDelegates(chain, outgoingPayments)
  return await eachOf(outgoingPayments, async one => {
    if (one.kind === 'delegate') return refused.get(one) ?? {}
    if (one.token === native) return {}
    return one.kind === 'sweep' ? await ofSweep(to, chain, one, prices) : await ofPayment(to, chain, one, prices)
  })
}

async function ofPayment(to: Context, chain: Tron, payment: OutgoingPayment, prices: Prices): Promise<Offer | Refusal> {
  const energy = await paymentEnergy(to, chain, payment, prices)
  return 'ms' in energy ? new Refusal(energy, {givesUp: false}) : {fee_limit: String(energy.limit)}
}

/** It pays with the gas that its address was sent. If that is not enough any more, the next sweep gets some. */
async function ofSweep(to: Context, chain: Tron, sweep: OutgoingPayment, prices: Prices): Promise<Offer | Refusal> {
  const tried = await tryTransfer(chain, sweep)
  const {failure} = tried
  if (failure) {
    const words = failure.isSure ? await blockIfRefused(to, chain, sweep) : undefined
    return refusal(words ?? `the node says: ${failure.words}`, {givesUp: failure.isSure})
  }
  const fee = takenFee(chain, sweep, tried)
  if (fee) return refusal(fee.detail!, {givesUp: true})
  const {expected, limit: wanted} = sweepEnergyFee(tried.energy, prices)
  const limit = sweep.maxFee - mostTokenBytesFee(chain.settings)
  if (limit <= 0n) return await ofLentEnergy(chain, sweep, tried.energy, wanted)
  if (expected <= limit) return {fee_limit: String(limit)}
  return refusal(`the transfer burns ${expected} sun now, and its address was sent ${limit} for that`, {givesUp: true})
}

/**
 * What it may burn covers what it takes, and room, as the network counts lent energy in that, too. It burns nothing:
 * the address has as much.
 */
async function ofLentEnergy(
  {nodes}: Tron,
  {source}: OutgoingPayment,
  needs: bigint,
  limit: bigint,
): Promise<Offer | Refusal> {
  const left = (await nodes.ask(node => node.energy(source)))?.left ?? 0n
  if (left >= needs) return {fee_limit: String(limit)}
  return refusal(`the transfer takes ${needs} energy now, and its address has ${left}`, {givesUp: true})
}

/** Those that the network would refuse are not signed: they would only expire. They share what is free, in order. */
async function refusedDelegates(
  {nodes}: Tron,
  outgoingPayments: OutgoingPayment[],
): Promise<Map<OutgoingPayment, Refusal>> {
  const delegates = outgoingPayments.filter(({kind}) => kind === 'delegate')
  const refused = new Map<OutgoingPayment, Refusal>()
  if (!delegates.length) return refused
  let free = await nodes.ask(node => node.lendable(delegates[0]!.source))
  const hasAccount = await eachOf(delegates, ({recipient}) => nodes.ask(node => node.account(recipient)))
  for (const [i, one] of delegates.entries()) {
    const why = !hasAccount[i]
      ? 'the address has no account yet'
      : one.amount > free
        ? `of the stake, ${free} sun are free, and ${one.amount} were to be lent`
        : undefined
    if (why === undefined) free -= one.amount
    else refused.set(one, refusal(why, {givesUp: true}))
  }
  return refused
}

function refusal(detail: string, {givesUp}: {givesUp: boolean}): Refusal {
  const wait: Wait = {reason: 'would_revert', detail, ms: retryMs.soon}
  return new Refusal(wait, {givesUp})
}
