// The client of a local Bitcoin chain, for the command line, the demo and the tests: pays from the faucet, mines, reorganises.
import {setTimeout as sleep} from 'node:timers/promises'
import {parseUnits} from 'viem'
import {z} from 'zod'

const CALL_TIMEOUT_MS = 120_000
const MINED_TIMEOUT_MS = 30_000
const DECIMALS = 8

const Answer = z.object({result: z.unknown().optional(), error: z.object({message: z.string()}).nullish()})
const Head = z.object({height: z.int(), hash: z.string(), timestamp: z.int()})
const Block = z.object({height: z.int(), hash: z.string(), txids: z.array(z.string())})
const Made = z.object({txid: z.string(), raw: z.string()})
/** What the chain says of itself (`devnet_info`). */
const Info = z.object({
  chain: z.literal('BTC'),
  network: z.literal('regtest'),
  node: z.enum(['bcoin', 'bitcoind']),
  block_interval_ms: z.int(),
  faucet_address: z.string(),
})
export type Info = z.infer<typeof Info>

/** The end of the chain; the time in seconds. */
export type Head = z.infer<typeof Head>
export type Block = z.infer<typeof Block>
/** A transaction and its bytes in hex. */
export type Made = z.infer<typeof Made>
/** An output: the amount in satoshi, the script in hex. */
export type Output = {to: string; amount: bigint} | {script: string; amount: bigint}

export interface ReorgOptions {
  /**
   * What becomes of the transactions of the replaced blocks. dropped (the default): they are in no block and not in the mempool; unmined:
   * in the mempool; same-height: in the new block of their height; later: one block later than before.
   */
  transactions?: 'dropped' | 'unmined' | 'same-height' | 'later'
  /** Raw transactions for the first new block; what conflicts with them is not mined again. */
  include?: string[]
  /** Only these are mined again; the others are dropped, or as `rest` says. */
  only?: string[]
  rest?: 'dropped' | 'unmined'
  /** As on the EVM chains: the same as later. */
  keepTransactions?: boolean
}

/** Finds out whether a local Bitcoin chain is served at http://…; rejects when nothing or something else answers there. */
export async function connectBitcoin(rpcUrl: string): Promise<BitcoinClient> {
  let info: Info
  try {
    info = Info.parse(await call(rpcUrl, 'devnet_info'))
  } catch (cause) {
    throw new Error(`no local Bitcoin chain answers at ${rpcUrl}`, {cause})
  }
  return new BitcoinClient(rpcUrl, info)
}

export class BitcoinClient {
  readonly chain = 'BTC'
  readonly info: Info
  /** http://… */
  readonly url: string

  constructor(url: string, info: Info) {
    this.url = url
    this.info = info
  }

  /** Any method of the node; rejects with its message where it refuses. */
  async rpc(method: string, params: unknown[] = []): Promise<unknown> {
    return await call(this.url, method, params)
  }

  async head(): Promise<Head> {
    return Head.parse(await this.rpc('devnet_head'))
  }

  /** A block of the chain as it is now. */
  async block(at: number | string): Promise<Block> {
    return Block.parse(await this.rpc('devnet_block', [at]))
  }

  /** The txids that wait for a block. */
  async mempool(): Promise<string[]> {
    return z.array(z.string()).parse(await this.rpc('getrawmempool'))
  }

  /** A transaction of the chain or the mempool, in hex. */
  async raw(txid: string): Promise<string> {
    return z.string(`there is no transaction ${txid}`).parse(await this.rpc('devnet_raw', [txid]))
  }

  /**
   * Pays from the faucet in one transaction, which waits for a block: these outputs in this order, the change last. Inputs are the faucet's
   * outpoints that it spends at least; what it chooses itself is in blocks.
   */
  async pay(outputs: Output[], options: {feeRate?: number; inputs?: string[]} = {}): Promise<Made> {
    return Made.parse(await this.rpc('devnet_pay', [outputs.map(onWire), options]))
  }

  /** Pays `amount` (a decimal string) from the faucet. Resolves to the txid once it is mined. */
  async send(payment: {token: string; to: string; amount: string; feeRate?: number}): Promise<string> {
    if (payment.token !== 'BTC') throw new Error(`the local BTC chain has no ${payment.token}; it has BTC`)
    const {txid} = await this.pay([{to: payment.to, amount: satoshi(payment.amount)}], {feeRate: payment.feeRate})
    await this.mined(txid)
    return txid
  }

  /** Gives a transaction to the mempool; rejects with the node's reason. Resolves to the txid. */
  async submit(raw: string): Promise<string> {
    return z.string().parse(await this.rpc('sendrawtransaction', [raw]))
  }

  /**
   * Replaces a transaction of the faucet in the mempool by one of a higher fee: it pays the same, or `outputs` instead, which makes it a
   * double spend ([]: everything goes back to the faucet).
   */
  async replace(txid: string, {outputs, feeRate}: {outputs?: Output[]; feeRate?: number} = {}): Promise<Made> {
    return Made.parse(await this.rpc('devnet_replace', [txid, outputs?.map(onWire) ?? null, feeRate]))
  }

  /** A double spend of any transaction of the faucet, in a block or not, that is given to nobody: for mine and reorg to include. */
  async conflict(txid: string, outputs: Output[] = []): Promise<Made> {
    return Made.parse(await this.rpc('devnet_conflict', [txid, outputs.map(onWire)]))
  }

  /** Makes the mempool forget transactions, and what spends of them. */
  async forget(txids: string[]): Promise<void> {
    await this.rpc('devnet_forget', [txids])
  }

  /** Waits until a transaction is in a block, which it makes itself where the chain mines on request only. */
  async mined(txid: string): Promise<void> {
    for (const deadline = Date.now() + MINED_TIMEOUT_MS; ; await sleep(25)) {
      if (!(await this.mempool()).includes(txid)) {
        await this.raw(txid) // else it is gone
        return
      }
      if (Date.now() > deadline) throw new Error(`${txid} was not mined in ${MINED_TIMEOUT_MS / 1000} s`)
      if (this.info.block_interval_ms === 0) await this.mine(1)
    }
  }

  /**
   * Mines so many blocks at once, at most 10,000. The first takes what waits, or `only` these of it, after the raw transactions to
   * `include`, which push out of the mempool what conflicts with them. Their coinbases pay the faucet, or the address `to`.
   */
  async mine(blocks = 1, options: {only?: string[]; include?: string[]; to?: string} = {}): Promise<Head> {
    return Head.parse(await this.rpc('devnet_mine', [blocks, options]))
  }

  /** Replaces the top `depth` blocks by depth + 1 new ones. Rejects when the chain has no more than so many blocks. */
  async reorg(depth: number, {keepTransactions, ...options}: ReorgOptions = {}): Promise<Head> {
    const transactions = options.transactions ?? (keepTransactions ? 'later' : 'dropped')
    return Head.parse(await this.rpc('devnet_reorg', [depth, {...options, transactions}]))
  }

  /** Takes the top `depth` blocks away, with nothing in their place; their transactions wait again, or are dropped. */
  async invalidate(depth: number, options: {transactions?: 'dropped' | 'unmined'} = {}): Promise<Head> {
    return Head.parse(await this.rpc('devnet_invalidate', [depth, options]))
  }
}

function onWire(output: Output): object {
  return {...output, amount: String(output.amount)}
}

/** A plain decimal amount in satoshi; throws on anything else, and on more than eight decimals. */
function satoshi(amount: string): bigint {
  const [, fraction = ''] = /^\d+(?:\.(\d+))?$/.exec(amount) ?? fail(`${amount} is not an amount such as 12 or 0.5`)
  if (fraction.length > DECIMALS) fail(`BTC has ${DECIMALS} decimals; ${amount} has ${fraction.length}`)
  return parseUnits(amount, DECIMALS)
}

function fail(message: string): never {
  throw new Error(message)
}

async function call(url: string, method: string, params: unknown[] = []): Promise<unknown> {
  const response = await fetch(url, {
    method: 'POST',
    headers: {'content-type': 'application/json'},
    body: JSON.stringify({jsonrpc: '1.0', id: 1, method, params}),
    signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
  })
  const {result, error} = Answer.parse(await response.json())
  if (error) throw new Error(error.message)
  return result
}
