// The client of a local chain, whatever its family, for the command line, the demo and the tests: pays from the faucet,
// mines, reorganises. Each family adds what only its chains have.
import {setTimeout as sleep} from 'node:timers/promises'
import {z} from 'zod'
import {type ChainCode, chainCodes, chain as registered} from '../chains/registry.ts'

const callTimeoutMs = 120_000
const minedTimeoutMs = 30_000

const Response = z.object({result: z.unknown().optional(), error: z.object({message: z.string()}).nullish()})
export const Head = z.object({height: z.int(), hash: z.string(), timestamp: z.int()})
/** What a chain reports about itself (devnet_info). */
const Info = z.object({
  chain: z.enum(chainCodes),
  node: z.string(),
  /** 0: it mines on request only. */
  block_interval_ms: z.int(),
  /** A block is final when it and the blocks above it are this many, by default. */
  confirmations: z.int(),
  faucet_address: z.string(),
})

/** The end of the chain; the time in seconds. */
export type Head = z.infer<typeof Head>
export type Info = z.infer<typeof Info>

export interface Payment {
  token: string
  to: string
  /** A plain decimal, in whole coins. */
  amount: string
  /** Its fee rate in sat per virtual byte, on chains where payers choose it. */
  feeRate?: number
}

export interface ReorgOptions {
  /**
   * The transactions of the replaced blocks are mined again, each one block later than before; otherwise they are gone.
   */
  keepTransactions?: boolean
  /** Another transaction with the inputs of this one, the faucet's, is mined instead. */
  doubleSpend?: string
}

/** `Included` is the chain's data about a transaction in a block. */
export abstract class LocalClient<Included = unknown> {
  readonly info: Info
  /** http://… */
  readonly url: string

  constructor(url: string, info: Info) {
    this.url = url
    this.info = info
  }

  get chain(): ChainCode {
    return this.info.chain
  }

  /** Calls any method of the chain or its node; rejects with its message if it refuses. */
  async rpc(method: string, params: unknown[] = []): Promise<unknown> {
    return await call(this.url, method, params)
  }

  async head(): Promise<Head> {
    return Head.parse(await this.rpc('devnet_head'))
  }

  /** Pays from the faucet with an unconfirmed transaction. Resolves to the txid. */
  abstract transfer(payment: Payment): Promise<string>

  /** The same, once it is mined. */
  async send(payment: Payment): Promise<string> {
    const txid = await this.transfer(payment)
    await this.mined(txid)
    return txid
  }

  /** Sends a signed transaction to the mempool. Resolves to the txid. */
  abstract submit(raw: string): Promise<string>

  /** Removes the transactions that wait for a block. */
  async forget(txids: string[]): Promise<void> {
    await this.rpc('devnet_forget', [txids])
  }

  /** Waits until a transaction is in a block. Mines that block if the chain mines on request only. */
  async mined(txid: string): Promise<Included> {
    for (const deadline = Date.now() + minedTimeoutMs; ; await sleep(25)) {
      const included = await this.included(txid)
      if (included !== undefined) return included
      if (Date.now() > deadline) throw new Error(`${txid} was not mined in ${minedTimeoutMs / 1000} s`)
      if (this.info.block_interval_ms === 0) await this.mine(1)
    }
  }

  /** Undefined while a transaction is unconfirmed. */
  protected abstract included(txid: string): Promise<Included | undefined>

  /** Mines this many blocks at once, at most 10,000. */
  async mine(blocks = 1, options: object = {}): Promise<Head> {
    return Head.parse(await this.rpc('devnet_mine', [blocks, options]))
  }

  /** Replaces the top `depth` blocks by depth + 1 new ones. Rejects if the chain is not higher than that. */
  async reorg(depth: number, options: ReorgOptions = {}): Promise<Head> {
    return Head.parse(await this.rpc('devnet_reorg', [depth, options]))
  }

  /** Its assets, whether a service knows them or not. */
  get assets(): readonly {token: string; decimals: number}[] {
    return registered(this.chain).assets
  }

  /** Throws if it has no such asset. */
  asset(token: string): this['assets'][number] {
    const found = this.assets.find(asset => asset.token === token)
    if (found) return found
    throw new Error(
      `the local ${this.chain} chain has no ${token}; it has ${this.assets.map(each => each.token).join(', ')}`,
    )
  }

  /** An address's balance of a token in the blocks of now, in base units. */
  abstract balance(token: string, address: string): Promise<bigint>

  /** An address without a known key. */
  abstract newAddress(): string
}

/** What the chain at a URL reports about itself; rejects if no local chain responds there. */
export async function askInfo(url: string): Promise<Info> {
  try {
    return Info.parse(await call(url, 'devnet_info'))
  } catch (cause) {
    throw new Error(`no local chain responds at ${url}`, {cause})
  }
}

/** A plain decimal amount in base units; throws on anything else, and on more decimals than the asset has. */
export function baseUnits(amount: string, {token, decimals}: {token: string; decimals: number}): bigint {
  const [, coins = '', fraction = ''] = /^(\d+)(?:\.(\d+))?$/.exec(amount) ?? []
  if (!coins) throw new Error(`${amount} is not an amount such as 12 or 0.5`)
  if (fraction.length > decimals) throw new Error(`${token} has ${decimals} decimals; ${amount} has ${fraction.length}`)
  return BigInt(coins + fraction.padEnd(decimals, '0'))
}

async function call(url: string, method: string, params: unknown[] = []): Promise<unknown> {
  const response = await fetch(url, {
    method: 'POST',
    headers: {'content-type': 'application/json'},
    body: JSON.stringify({jsonrpc: '2.0', id: 1, method, params}),
    signal: AbortSignal.timeout(callTimeoutMs),
  })
  const {result, error} = Response.parse(await response.json())
  if (error) throw new Error(error.message)
  return result
}
