// The client of a local Bitcoin chain. Besides the common functions it has payments with several outputs, the mempool,
// and all events of a payment there.
import {randomBytes} from 'node:crypto'
import {z} from 'zod'
import {addressOfScript} from '../../chains/bitcoin/script.ts'
import {askInfo, baseUnits, Head, LocalClient, type Payment, type ReorgOptions} from '../client.ts'
import {regtest} from './regtest.ts'

const Block = z.object({height: z.int(), hash: z.string(), txids: z.array(z.string())})
const Made = z.object({txid: z.string(), raw: z.string()})
export type Block = z.infer<typeof Block>
/** A transaction and its bytes in hex. */
export type Made = z.infer<typeof Made>
/** An output: the amount in satoshi, the script in hex. */
export type Output = {to: string; amount: bigint} | {script: string; amount: bigint}

interface BitcoinReorgOptions extends ReorgOptions {
  /**
   * What happens to the transactions of the replaced blocks. dropped (the default): they are in no block and not in the
   * mempool; unconfirmed: in the mempool; same-height: in the new block of their height; later: one block later than
   * before.
   */
  transactions?: 'dropped' | 'unconfirmed' | 'same-height' | 'later'
  /** Raw transactions for the first new block; what conflicts with them is not mined again. */
  include?: string[]
  /** Only these are mined again; the others are dropped, or as `rest` says. */
  only?: string[]
  rest?: 'dropped' | 'unconfirmed'
}

const Balance = z.object({confirmed: z.string().transform(BigInt)})

export async function connect(url: string): Promise<BitcoinClient> {
  return new BitcoinClient(url, await askInfo(url))
}

export class BitcoinClient extends LocalClient<string> {
  /** A block of the current chain. */
  async block(at: number | string): Promise<Block> {
    return Block.parse(await this.rpc('devnet_block', [at]))
  }

  /** The txids in the mempool. */
  async mempool(): Promise<string[]> {
    return z.array(z.string()).parse(await this.rpc('getrawmempool'))
  }

  /** A transaction of the chain or the mempool, in hex. */
  async raw(txid: string): Promise<string> {
    return z.string(`there is no transaction ${txid}`).parse(await this.rpc('devnet_raw', [txid]))
  }

  /**
   * Pays from the faucet in one unconfirmed transaction: these outputs in this order, the change last. It spends at
   * least the faucet's outpoints in `inputs`; those that it chooses itself are in blocks.
   */
  async pay(outputs: Output[], options: {feeRate?: number; inputs?: string[]} = {}): Promise<Made> {
    return Made.parse(await this.rpc('devnet_pay', [outputs.map(onWire), options]))
  }

  async transfer({token, to, amount, feeRate}: Payment): Promise<string> {
    const {txid} = await this.pay([{to, amount: baseUnits(amount, this.asset(token))}], {feeRate})
    return txid
  }

  async submit(raw: string): Promise<string> {
    return z.string().parse(await this.rpc('sendrawtransaction', [raw]))
  }

  /**
   * Replaces a transaction of the faucet in the mempool by one with a higher fee: it pays the same, or `outputs`
   * instead, which makes it a double spend ([]: everything goes back to the faucet).
   */
  async replace(txid: string, {outputs, feeRate}: {outputs?: Output[]; feeRate?: number} = {}): Promise<Made> {
    return Made.parse(await this.rpc('devnet_replace', [txid, outputs?.map(onWire) ?? null, feeRate]))
  }

  /**
   * A double spend of any transaction of the faucet, in a block or not. It is not sent: mine and reorg can include it.
   */
  async conflict(txid: string, outputs: Output[] = []): Promise<Made> {
    return Made.parse(await this.rpc('devnet_conflict', [txid, outputs.map(onWire)]))
  }

  protected async included(txid: string): Promise<string | undefined> {
    return (await this.mempool()).includes(txid) ? undefined : await this.raw(txid) // else it is gone
  }

  async balance(_token: string, address: string): Promise<bigint> {
    return Balance.parse(await this.rpc('devnet_balance', [address])).confirmed
  }

  newAddress(): string {
    const script = Buffer.concat([Buffer.from('0014', 'hex'), randomBytes(20)]) // P2WPKH
    return addressOfScript(script, regtest(this.chain))!
  }

  /**
   * Mines this many blocks at once, at most 10,000. The first has the raw transactions in `include`, then the
   * unconfirmed ones, or `only` these. Those in `include` remove conflicting ones from the mempool. Coinbases pay the
   * faucet, or the address `to`.
   */
  override async mine(blocks = 1, options: {only?: string[]; include?: string[]; to?: string} = {}): Promise<Head> {
    return await super.mine(blocks, options)
  }

  override async reorg(depth: number, options: BitcoinReorgOptions = {}): Promise<Head> {
    return await super.reorg(depth, options)
  }

  /** Removes the top `depth` blocks without replacing them; their transactions are unconfirmed again, or dropped. */
  async invalidate(depth: number, options: {transactions?: 'dropped' | 'unconfirmed'} = {}): Promise<Head> {
    return Head.parse(await this.rpc('devnet_invalidate', [depth, options]))
  }
}

function onWire(output: Output): object {
  return {...output, amount: String(output.amount)}
}
