// What a refusal of a token's sweep is about: the token as a whole, or one address. Promises: nothing is concluded from an error that a node says of itself
// (../../../chains/evm/node-errors.ts). The same call is asked for an address that is known to be good, the treasury, before an address is blamed; and an
// address is blamed only if its refusal stands at a final block, so that no reorganisation takes it back. The calls are those of a sweep, whose authorisation
// custody gives (POST /authorise); a trial moves nothing.
import {RetryableError} from '../../../base/errors.ts'
import {inWords} from '../../../db/failure.ts'
import {treasuryOf} from '../accounts.ts'
import {type Context, retryable, retryMs, type Wait} from '../context.ts'
import type {OutgoingPayment} from '../outgoing-payments.ts'
import {balancesOf, type Call, contractOf, type Evm} from './node.ts'

/** Why no sweep of a token is begun now: its contract would refuse the treasury's, too. Native coins have no contract. */
export async function tokenRefusal(to: Context, chain: Evm, token: string): Promise<Wait | undefined> {
  if (token === chain.native) return
  const {code} = chain.settings.chain
  const request = [{chain: code, token, address: await treasuryOf(to, code)}]
  const asked = await retryable(to.custody.authorise(request), async detail => detail)
  if (typeof asked === 'string') return {reason: 'custody_unreachable', detail: asked, ms: retryMs.soon}
  const [given] = asked
  if (!given!.ok) return {reason: given!.code, detail: given!.message, ms: retryMs.refused}
  const detail = await refusalOfToken(to, chain, token, given!.data)
  return detail === undefined ? undefined : {reason: 'token_refused', detail, ms: retryMs.told}
}

async function refusalOfToken(to: Context, chain: Evm, token: string, trial: string): Promise<string | undefined> {
  const words = await askTrial(to, chain, token, trial)
  return words && `the contract of ${token} refuses every sweep now, or the treasury: ${words}`
}

/** Gives up a sweep that the node refuses for sure, and blocks its address if the refusal is about that. */
export async function giveUp(to: Context, chain: Evm, one: OutgoingPayment, call: Call, words: string): Promise<void> {
  const {id, chain: code} = one
  // If that cannot be asked, nothing is concluded: a sweep that stays would hold up the treasury's nonces.
  const {ofToken, ofAddress} = await retryable(scopeOf(to, chain, one, call), async () => ({}) as Scope)
  to.log.warn({outgoingPayment: id, chain: code, error: ofToken ?? words}, 'a sweep would fail, and is given up')
  if (ofAddress) await block(to, one, ofAddress)
  await to.pool.query('select app.give_up_outgoing_payment($1, $2)', [id, ofToken ?? `the node says: ${words}`])
}

/** If that fails, the sweep is given up all the same: it would hold up everybody's payments. */
async function block(to: Context, {id, chain, token, source}: OutgoingPayment, why: string): Promise<void> {
  try {
    const sql = 'select app.block_address($1, $2, $3, $4) as is_blocked'
    const {rows} = await to.pool.query<{is_blocked: boolean}>(sql, [chain, token, source, why])
    if (rows[0]!.is_blocked) to.log.warn({chain, token, outgoingPayment: id}, 'its address is blocked')
  } catch (error) {
    to.log.error({chain, token, outgoingPayment: id, error: inWords(error)}, 'its address could not be blocked')
  }
}

/** What a refusal is about, with the node's words; neither: it may pass. */
interface Scope {
  ofToken?: string | undefined
  ofAddress?: string | undefined
}

async function scopeOf(to: Context, chain: Evm, {chain: code, token}: OutgoingPayment, call: Call): Promise<Scope> {
  const ofToken = await refusalOfToken(to, chain, token, await trialOf(to, chain, token, await treasuryOf(to, code)))
  return ofToken === undefined ? {ofAddress: await refusedAtFinal(to, chain, call)} : {ofToken}
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
 * Why the chain does not let a token leave an address; undefined if it does. `holds`: what the ledger has there, in base units. Throws RetryableError if
 * that cannot be asked now.
 */
export async function refusalOf(
  to: Context,
  chain: Evm,
  {token, address, holds}: {token: string; address: string; holds: bigint},
): Promise<string | undefined> {
  const words = await askTrial(to, chain, token, await trialOf(to, chain, token, address))
  if (words !== undefined) return words
  const [balance] = await balancesOf(chain, token, [address])
  return balance! < holds
    ? `it holds ${balance} base units of ${token} on the chain, and ${holds} in the ledger`
    : undefined
}

/** The data of the call by which the treasury takes nothing from an address. Throws RetryableError if custody does not give it. */
async function trialOf(to: Context, chain: Evm, token: string, address: string): Promise<string> {
  const [given] = await to.custody.authorise([{chain: chain.settings.chain.code, token, address}])
  if (!given!.ok) throw new RetryableError(`custody gives no trial of ${token}: ${given!.message}`)
  return given!.data
}

/** What the contract says to that now. */
async function askTrial(to: Context, chain: Evm, token: string, data: string): Promise<string | undefined> {
  const from = await treasuryOf(to, chain.settings.chain.code)
  return sure(await chain.node.refusal({from, to: contractOf(chain, token)!, data}, 'latest'))
}

function sure(refusal: {words: string; isSure: boolean} | undefined): string | undefined {
  if (refusal && !refusal.isSure) throw new RetryableError(`the node cannot say what a call does: ${refusal.words}`)
  return refusal?.words
}
