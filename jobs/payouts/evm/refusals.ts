// What a refusal of a token's sweep is about: the token as a whole, or one address. Promises: nothing is concluded from
// an error that a node says of itself (../../../chains/evm/node-errors.ts). The same call is asked for an address that
// is known to be good, the treasury, before an address is blamed; and an address is blamed only if its refusal stands
// at a final block, so that no reorganisation takes it back. The calls are those of a sweep: a transfer by the address
// itself, or one that it authorises, which custody gives (POST /authorise). A trial moves nothing.
import {RetryableError} from '../../../base/errors.ts'
import {isFunded} from '../../../chains/evm/settings.ts'
import {treasuryOf} from '../accounts/holdings.ts'
import type {Payment} from '../accounts/rules.ts'
import {blockAddress, ofToken, openFeeIncident, takesFeeNow, tokenRefused} from '../accounts/tokens.ts'
import {type Context, retryable, retryMs, type Wait} from '../context.ts'
import type {OutgoingPayment} from '../outgoing-payments.ts'
import {balancesOf, type Call, contractOf, type Evm, tokenTransfer} from './node.ts'

/**
 * Why no sweep of a token is begun now: its contract would refuse the treasury's, too. Native coins have no contract.
 */
export async function tokenRefusal(to: Context, chain: Evm, token: string): Promise<Wait | undefined> {
  if (token === chain.native) return
  const treasury = await treasuryOf(to.pool, chain.settings.chain.code)
  const trial = await retryable(trialOf(to, chain, {token, address: treasury, treasury}), async detail => detail)
  if (typeof trial === 'string') return {reason: 'custody_unreachable', detail: trial, ms: retryMs.soon}
  if ('code' in trial) return {reason: trial.code, detail: trial.message, ms: retryMs.refused}
  const words = sure(await chain.node.refusal(trial, 'latest'))
  return words === undefined ? undefined : tokenRefused(token, words)
}

/**
 * Why a token is not sent that keeps a part of what is transferred: this transfer is tried. Undefined if it arrives
 * whole, or if nobody can say, such as before its source has the amount.
 */
export async function takesFee(
  to: Context,
  chain: Evm,
  {token, amount, source: from, recipient}: Payment,
): Promise<Wait | undefined> {
  const contract = contractOf(chain, token)
  if (!contract) return
  const known = await openFeeIncident(to, chain.settings.chain.code, token)
  if (known) return known
  const tried = await chain.node.tryTransfer({contract, from, to: recipient, amount})
  if ('unknown' in tried || tried.returned === 'failure' || tried.arrived === amount) return
  return takesFeeNow(token, amount, tried.arrived)
}

/** Gives up a sweep that the node refuses for sure, and blocks its address if the refusal is about that. */
export async function giveUp(to: Context, chain: Evm, one: OutgoingPayment, call: Call, words: string): Promise<void> {
  const {id, chain: code, token, source: address} = one
  const ofAll = await blockIfRefused(to, chain, {token, address}, call)
  to.log.warn({outgoingPayment: id, chain: code, error: ofAll ?? words}, 'a sweep would fail, and is given up')
  await to.pool.query('select app.give_up_outgoing_payment($1, $2)', [id, ofAll ?? `the node says: ${words}`])
}

/**
 * Blocks the address of a sweep (`call`) that the node refuses, if the refusal is about that. Resolves to what is said
 * of the token, if it is about all of it.
 */
export async function blockIfRefused(
  to: Context,
  chain: Evm,
  of: {token: string; address: string},
  call: Call,
): Promise<string | undefined> {
  // If that cannot be asked, nothing is concluded: a sweep that stays would hold up the treasury's nonces.
  const scope = await retryable(scopeOf(to, chain, of.token, call), async () => ({}) as Scope)
  if (scope.address) await blockAddress(to, chain.settings.chain.code, of, scope.address)
  return scope.token && ofToken(of.token, scope.token)
}

/** What a refusal is about, with the node's words; neither: it may pass. */
interface Scope {
  token?: string | undefined
  address?: string | undefined
}

async function scopeOf(to: Context, chain: Evm, token: string, call: Call): Promise<Scope> {
  const words = await tryOut(to, chain, token, await treasuryOf(to.pool, chain.settings.chain.code))
  return words === undefined ? {address: await refusedAtFinal(to, chain, call)} : {token: words}
}

/** What the node says of a call at the newest final block; undefined if it would succeed there. */
async function refusedAtFinal(to: Context, {node, settings}: Evm, call: Call): Promise<string | undefined> {
  const {rows} = await to.pool.query<{height: number}>(
    'select final_height as height from chain.cursor where chain = $1',
    [settings.chain.code],
  )
  return sure(await node.refusal(call, rows[0]!.height))
}

/**
 * Why the chain does not let a token leave an address; undefined if it does. `holds`: what the ledger has there, in
 * base units. Throws RetryableError if that cannot be asked now.
 */
export async function refusalOf(
  to: Context,
  chain: Evm,
  {token, address, holds}: {token: string; address: string; holds: bigint},
): Promise<string | undefined> {
  const words = await tryOut(to, chain, token, address)
  if (words !== undefined) return words
  const [balance] = await balancesOf(chain, token, [address])
  return balance! < holds
    ? `it holds ${balance} base units of ${token} on the chain, and ${holds} in the ledger`
    : undefined
}

/**
 * What the contract says if nothing goes from an address to the treasury now. Throws RetryableError if custody, or the
 * node, does not say.
 */
async function tryOut(to: Context, chain: Evm, token: string, address: string): Promise<string | undefined> {
  const treasury = await treasuryOf(to.pool, chain.settings.chain.code)
  const trial = await trialOf(to, chain, {token, address, treasury})
  if ('code' in trial) throw new RetryableError(`custody gives no trial of ${token}: ${trial.message}`)
  return sure(await chain.node.refusal(trial, 'latest'))
}

/** The call that does so; where the address has to authorise it, custody may refuse. */
async function trialOf(
  to: Context,
  chain: Evm,
  {token, address, treasury}: {token: string; address: string; treasury: string},
) {
  const {settings} = chain
  const contract = contractOf(chain, token)!
  if (isFunded(settings, token)) return {from: address, to: contract, data: tokenTransfer(treasury, 0n)}
  const [given] = await to.custody.authorise([{chain: settings.chain.code, token, address}])
  return given!.ok ? {from: treasury, to: contract, data: given!.data} : given!
}

function sure(refusal: {words: string; isSure: boolean} | undefined): string | undefined {
  if (refusal && !refusal.isSure) throw new RetryableError(`the node cannot say what a call does: ${refusal.words}`)
  return refusal?.words
}
