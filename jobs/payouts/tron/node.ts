// The node, as payouts ask it. Promises: a response is checked; a request ends in one, or in a RetryableError. What it
// says is never a proof: it only decides what is tried. (The client of chains/tron is used, not tronweb: tronweb takes
// some of a node's errors for results, and takes a second and 50 to 120 MB to load.)
import {eachOf} from '../../../base/each-of.ts'
import {tokenGuard} from '../../../chains/token-guard.ts'
import {transferBytes} from '../../../chains/tron/bytes.ts'
import {refusedToken} from '../../../chains/tron/check-tokens.ts'
import {type Prices, TronNodes} from '../../../chains/tron/client.ts'
import type {TronSettings} from '../../../chains/tron/settings.ts'
import {notPayable, retryMs, shortOfFunds, type Wait} from '../context.ts'
import {bandwidthFee, tooDear} from './fees.ts'

/** A chain of the family, and its nodes. */
export interface Tron {
  settings: TronSettings
  nodes: TronNodes
  /** Resolves once the contracts of all tokens are what the settings say. */
  tokensAreRight: () => Promise<void>
  /** What the newest sweep of a token used when it was tried, by token. */
  energy: Map<string, bigint>
}

export function tron(settings: TronSettings): Tron {
  const nodes = new TronNodes(settings)
  return {settings, nodes, tokensAreRight: tokenGuard(() => refusedToken(settings, nodes)), energy: new Map()}
}

/** The wait while the network asks for more than the operator allows. */
export async function tooDearNow({settings, nodes}: Tron): Promise<Wait | undefined> {
  return tooDearAt(settings, await nodes.ask(node => node.prices()))
}

export function tooDearAt(settings: TronSettings, prices: Prices): Wait | undefined {
  const detail = tooDear(settings, prices)
  return detail === undefined ? undefined : {reason: 'fee_above_cap', detail, ms: retryMs.soon}
}

/**
 * What a sweep of each address costs: nothing, if it has bytes for nothing and is none of `paying`; else it burns
 * coins.
 */
export async function sweepFees({nodes}: Tron, addresses: string[], paying: Set<string>): Promise<bigint[]> {
  return await nodes.ask(async node => {
    const fee = bandwidthFee(await node.prices())
    const isFree = async (address: string) => !paying.has(address) && (await node.isFree(address, transferBytes))
    return await eachOf(addresses, async address => ((await isFree(address)) ? 0n : fee))
  })
}

/** Why a recipient cannot be paid; undefined if it can. A new account is no reason. A contract stays one. */
export async function unpayable({nodes}: Tron, recipient: string): Promise<Wait | undefined> {
  const account = await nodes.ask(node => node.account(recipient))
  if (!account?.isContract) return undefined
  return notPayable(
    'destination_not_payable',
    'the recipient is a contract, which the network does not let anybody pay',
  )
}

/** Why nothing can be swept to the treasury: the first sweep would have to pay for its account. */
export async function cannotSweep({settings, nodes}: Tron, treasury: string): Promise<Wait | undefined> {
  if (await nodes.ask(node => node.account(treasury))) return undefined
  return shortOfFunds(
    `the treasury ${treasury} has no account on ${settings.chain.displayName} yet: send it some coins`,
  )
}

/**
 * Broadcasts signed transactions. Returns the node's error for each, undefined if it took it; neither proves anything.
 */
export async function broadcast({nodes}: Tron, raws: string[]): Promise<(string | undefined)[]> {
  return await nodes.ask(node => eachOf(raws, raw => node.broadcast(raw)))
}
