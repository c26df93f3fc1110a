// How much gas transactions need: asked of the node at the newest block, for each kind, because forks change it
// (EIP-8037 multiplied it for whatever makes the state grow). Promises: no limit is fixed here; what a transaction may
// cost is limited in coins, by the settings and again by custody. A transaction that the node says would fail is not
// made; a sweep of a token is given up then (refusals.ts), because it would hold up the treasury's nonces.
import {most} from '../../../base/bigints.ts'
import {leastGas} from '../../../chains/evm/gas-limits.ts'
import {isFunded} from '../../../chains/evm/settings.ts'
import {type Context, retryable} from '../context.ts'
import {type OutgoingPayment, waitOutgoingPayment} from '../outgoing-payments.ts'
import {refused} from '../sign-attempts.ts'
import {withRoom} from './fees.ts'
import {type Call, contractOf, type Estimate, type Evm, tokenTransfer} from './node.ts'
import {paymentCall, paymentGas, refusedByRecipient, roomPercent} from './payment.ts'
import {giveUp, takesFee} from './refusals.ts'

/** Assumed before the node is asked: for what is reserved, and whether a sweep is worth beginning. */
export const assumedGas = {
  /** A transfer of native coins to an account without code, under the rules of 2026. */
  transfer: 21_000n,
  tokenSweep: 120_000n,
  fundedSweep: 100_000n,
  payment: 250_000n,
} as const

/** The most gas that a fund needs: what paymentGas makes of a transfer. */
export const fundGas = withRoom(assumedGas.transfer, roomPercent)

const retryMs = 5000

/** What sweeping a token from an address is likely to need: as much as the newest sweep that was estimated. */
export function likelySweepGas(chain: Evm, token: string): bigint {
  const {transfer, fundedSweep, tokenSweep} = assumedGas
  const assumed = token === chain.native ? transfer : isFunded(chain.settings, token) ? fundedSweep : tokenSweep
  return chain.sweepGas.get(token) ?? assumed
}

/** The call by which an address sweeps a token itself. */
export function transferCall(
  chain: Evm,
  {token, source, recipient, amount}: Pick<OutgoingPayment, 'token' | 'source' | 'recipient' | 'amount'>,
): Call {
  return {from: source, to: contractOf(chain, token)!, data: tokenTransfer(recipient, amount)}
}

/** The gas limit of a token's sweep, or why there is none. */
export const tokenSweepGas = (estimate: Estimate, {fromGas}: {fromGas: boolean}): Estimate =>
  paymentGas(estimate, fromGas ? leastGas.tokenTransfer : leastGas.tokenSweep)

/** The same, after the node was asked about native coins: they need the same from each address, since none has code. */
export async function sweepGas(
  chain: Evm,
  {token, from, treasury}: {token: string; from: string; treasury: string},
): Promise<bigint> {
  if (token === chain.native) {
    const [estimate] = await chain.node.estimates([{from, to: treasury, value: 1n}])
    if ('gas' in estimate!) chain.sweepGas.set(token, estimate.gas)
  }
  return likelySweepGas(chain, token)
}

/** Whether an address moves its own coins to the treasury: its merchant's, or gas that it does not need. */
export const isNativeSweep = ({kind, token}: Pick<OutgoingPayment, 'kind' | 'token'>, {native}: Evm): boolean =>
  (kind === 'sweep' || kind === 'defund') && token === native

/**
 * The gas limit of the next attempt of each of these, by id. `earlier`: the gas limits of their newest attempts; a
 * replacement has at least as much. Those without a limit wait, or were given up.
 */
export async function gasLimits(
  to: Context,
  chain: Evm,
  outgoingPayments: OutgoingPayment[],
  earlier: (id: string) => bigint | undefined,
): Promise<Map<string, bigint>> {
  const limits = new Map<string, bigint>()
  const calls = await callsOf(to, chain, outgoingPayments)
  const asked = outgoingPayments.filter(({id}) => calls.has(id))
  const estimates = asked.length ? await chain.node.estimates(asked.map(({id}) => calls.get(id)!)) : []
  for (const [i, one] of asked.entries()) {
    const before = one.cancelling ? undefined : earlier(one.id)
    const estimate = estimates[i]!
    const limit =
      before !== undefined && 'failure' in estimate
        ? before
        : await limitOf(to, chain, one, {call: calls.get(one.id)!, estimate})
    if (limit !== undefined) limits.set(one.id, most(limit, before ?? 0n))
  }
  return limits
}

/**
 * What the node is asked to estimate, by id. The call of a sweep by the treasury needs the address's signature; what
 * custody does not give waits.
 */
async function callsOf(to: Context, chain: Evm, outgoingPayments: OutgoingPayment[]): Promise<Map<string, Call>> {
  const calls = new Map<string, Call>()
  const ofTokens: OutgoingPayment[] = []
  for (const one of outgoingPayments) {
    const {id, kind, cancelling, feePayer, source, recipient, fromGas} = one
    if (cancelling) calls.set(id, {from: feePayer, to: feePayer})
    else if (isNativeSweep(one, chain)) calls.set(id, {from: source, to: recipient, value: 1n})
    else if (fromGas) calls.set(id, transferCall(chain, one))
    else if (kind === 'sweep') ofTokens.push(one)
    else calls.set(id, paymentCall(chain, one))
  }
  for (const [one, data] of await authorisations(to, ofTokens))
    calls.set(one.id, {from: one.feePayer, to: contractOf(chain, one.token)!, data})
  return calls
}

async function authorisations(to: Context, sweeps: OutgoingPayment[]): Promise<[OutgoingPayment, string][]> {
  if (!sweeps.length) return []
  const requests = sweeps.map(({id, chain, token, source: address, amount}) => {
    return {outgoing_payment_id: id, chain, token, address, amount: String(amount)}
  })
  const results = await retryable(to.custody.authorise(requests), async detail => {
    for (const {id} of sweeps) await waitOutgoingPayment(to, id, {reason: 'custody_unreachable', detail, ms: retryMs})
    return []
  })
  const given: [OutgoingPayment, string][] = []
  for (const [i, result] of results.entries()) {
    if (result.ok) given.push([sweeps[i]!, result.data])
    else await refused(to, {outgoingPayment: sweeps[i]!, kind: 'effect'}, result)
  }
  return given
}

/** The gas limit; undefined if the transaction is not made. */
async function limitOf(
  to: Context,
  chain: Evm,
  one: OutgoingPayment,
  {call, estimate}: {call: Call; estimate: Estimate},
): Promise<bigint | undefined> {
  const {id, kind, token, cancelling} = one
  if (cancelling || isNativeSweep(one, chain)) {
    // Nobody's code runs: it needs exactly this. What the address cannot pay is found out with its balance.
    const limit = 'gas' in estimate ? most(estimate.gas, leastGas.transfer) : assumedGas.transfer
    if (!cancelling) chain.sweepGas.set(token, limit)
    return limit
  }
  const limit = kind === 'sweep' ? tokenSweepGas(estimate, one) : paymentGas(estimate)
  if ('gas' in limit) {
    if (kind === 'sweep') chain.sweepGas.set(token, limit.gas)
    const why = kind === 'sweep' && !one.fromGas ? undefined : await takesFee(to, chain, one)
    if (!why) return limit.gas
    if (kind === 'sweep') await to.pool.query('select app.give_up_outgoing_payment($1, $2)', [id, why.detail])
    else await waitOutgoingPayment(to, id, {reason: 'would_revert', detail: why.detail!, ms: retryMs})
    return
  }
  if (kind === 'sweep' && limit.isSure) {
    await giveUp(to, chain, one, call, limit.failure)
    return
  }
  const refused = kind === 'sweep' ? undefined : await refusedByRecipient(chain, one)
  const reason = refused?.reason ?? 'would_revert'
  await waitOutgoingPayment(to, id, {reason, detail: refused?.detail ?? limit.failure, ms: retryMs})
}
