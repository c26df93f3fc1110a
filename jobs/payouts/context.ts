// What the tasks of payouts share: the chains that have a node, custody, and how long things may take.
import type pg from 'pg'
import {RetryableError} from '../../service/errors.ts'
import type {Logger} from '../../service/log.ts'
import type {ChainSettings, Settings} from '../../service/settings.ts'
import {Custody} from './custody.ts'
import {Node} from './node.ts'

export interface PayoutChain {
  settings: ChainSettings
  /** Token code of the native coin. */
  native: string
  node: Node
}

export interface Context {
  pool: pg.Pool
  /** By code; a chain without a node is not here. */
  chains: Map<string, PayoutChain>
  custody: Custody
  payoutTimeoutMs: number
  replaceAfterMs: number
  log: Logger
}

export function openContext(settings: Settings, pool: pg.Pool, log: Logger): Context {
  const chains = [...settings.chains.values()].flatMap(of => {
    if (!of.rpcUrl) return []
    return [[of.chain.code, {settings: of, native: of.chain.assets[0].token, node: new Node(of.rpcUrl)}] as const]
  })
  const {payoutTimeoutMs, replaceAfterMs} = settings
  return {
    pool,
    chains: new Map(chains),
    custody: new Custody(settings.home),
    payoutTimeoutMs,
    replaceAfterMs,
    log,
  }
}

export async function closeContext({chains, custody}: Context): Promise<void> {
  for (const {node} of chains.values()) node.close()
  await custody.close()
}

/** Contract of a token; undefined for the native coin. */
export function contractOf({settings, native}: PayoutChain, token: string): string | undefined {
  if (token === native) return
  for (const [contract, code] of settings.tokens) if (code === token) return contract
  throw new Error(`${settings.chain.code} has no contract for ${token}`)
}

/** What an address holds of a token at the newest block. */
export async function balancesOf(chain: PayoutChain, token: string, addresses: string[]): Promise<bigint[]> {
  if (!addresses.length) return []
  const contract = contractOf(chain, token)
  return contract ? await chain.node.tokenBalances(contract, addresses) : await chain.node.nativeBalances(addresses)
}

/** Why nothing new leaves a chain now; undefined if nothing is wrong. */
export async function whyHalted({pool}: Context, chain: string): Promise<string | undefined> {
  const {rows} = await pool.query<{why: string | null}>('select app.why_halted($1) as why', [chain])
  return rows[0]!.why ?? undefined
}

/** The result of `work`, or what `otherwise` makes of an error that may pass. */
export async function retryable<T, U>(work: Promise<T>, otherwise: (why: string) => Promise<U>): Promise<T | U> {
  try {
    return await work
  } catch (error) {
    if (!(error instanceof RetryableError)) throw error
    return await otherwise(error.message)
  }
}
