// The client of a local Solana chain.
import {z} from 'zod'
import {chain as registered} from '../../chains/registry.ts'
import {askInfo, baseUnits, type Head, LocalClient, type Payment, type ReorgOptions} from '../client.ts'
import {addressOfKey, newKey} from './keys.ts'
import {tokens} from './tokens.ts'

export const newAddress = () => addressOfKey(newKey())

export async function connect(url: string): Promise<SolanaClient> {
  return new SolanaClient(url, await askInfo(url))
}

interface SolanaReorgOptions extends ReorgOptions {
  /** The transactions of each new block, in base64; there are as many blocks. */
  inside?: string[][]
}

export class SolanaClient extends LocalClient<number> {
  async transfer({token, to, amount, feeRate}: Payment): Promise<string> {
    const asset = this.asset(token)
    if (feeRate !== undefined) throw new Error(`${this.chain} has no fee rates`)
    return z.string().parse(await this.rpc('devnet_pay', [to, String(baseUnits(amount, asset)), token]))
  }

  /** In hex. */
  async submit(raw: string): Promise<string> {
    return z.string().parse(await this.rpc('devnet_submit', [raw]))
  }

  protected async included(txid: string): Promise<number | undefined> {
    const height = z
      .int()
      .nullable()
      .parse(await this.rpc('devnet_included', [txid]))
    return height ?? undefined
  }

  /** The transactions that wait for a block. */
  async waiting(): Promise<string[]> {
    return z.array(z.string()).parse(await this.rpc('devnet_waiting'))
  }

  /** The native coin, and every token of the chain, whether a service knows it or not. */
  override get assets(): readonly {token: string; decimals: number}[] {
    return [registered(this.chain).assets[0], ...tokens]
  }

  async balance(token: string, address: string): Promise<bigint> {
    return BigInt(z.string().parse(await this.rpc('devnet_balance', [address, this.asset(token).token])))
  }

  /** `skip`: how many slots are skipped before the first block. */
  override async mine(blocks = 1, options: {only?: string[]; skip?: number} = {}): Promise<Head> {
    return await super.mine(blocks, options)
  }

  override async reorg(depth: number, options: SolanaReorgOptions = {}): Promise<Head> {
    return await super.reorg(depth, options)
  }

  newAddress = newAddress
}
