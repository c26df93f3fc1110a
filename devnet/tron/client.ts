// The client of a local Tron chain.
import {z} from 'zod'
import {callData, reference, type Transaction, transferData} from '../../chains/tron/transaction.ts'
import {askInfo, baseUnits, type Head, LocalClient, type Payment, type ReorgOptions} from '../client.ts'
import {contracts} from './constants.ts'
import {disperseData} from './contracts.ts'
import {addressOfKey, newKey, sign} from './keys.ts'

export const newAddress = () => addressOfKey(newKey())

export async function connect(url: string): Promise<TronClient> {
  return new TronClient(url, await askInfo(url))
}

interface TronReorgOptions extends ReorgOptions {
  /** The transactions of each new block, in hex; there are as many blocks. */
  inside?: string[][]
}

export class TronClient extends LocalClient<number> {
  async transfer({token, to, amount, feeRate}: Payment): Promise<string> {
    const asset = this.asset(token)
    if (feeRate !== undefined) throw new Error(`${this.chain} has no fee rates`)
    return z.string().parse(await this.rpc('devnet_pay', [to, String(baseUnits(amount, asset))]))
  }

  async submit(raw: string): Promise<string> {
    return z.string().parse(await this.rpc('devnet_submit', [raw]))
  }

  protected async included(txid: string): Promise<number | undefined> {
    return (
      z
        .int()
        .nullable()
        .parse(await this.rpc('devnet_included', [txid])) ?? undefined
    )
  }

  async balance(_token: string, address: string): Promise<bigint> {
    return BigInt(z.string().parse(await this.rpc('devnet_balance', [address])))
  }

  /** `laterMs`: how much later than now the first block is. */
  override async mine(blocks = 1, options: {only?: string[]; laterMs?: number} = {}): Promise<Head> {
    return await super.mine(blocks, options)
  }

  override async reorg(depth: number, options: TronReorgOptions = {}): Promise<Head> {
    return await super.reorg(depth, options)
  }

  newAddress = newAddress
}

const dayMs = 86_400_000
let last = 0

/** Two equal payments differ in their time. */
function timestamp(): number {
  last = Math.max(last + 1, Date.now())
  return last
}

export interface Signing {
  key: Uint8Array
  /** The block that it names. */
  on: {height: number; hash: string}
  expiration?: number
}

/** A payment by the account of a key, not sent. */
export function payment({key, on, expiration}: Signing, to: string, amount: bigint): Transaction {
  const times = {timestamp: timestamp(), expiration: expiration ?? Date.now() + dayMs / 2}
  const frame = {...reference(on.height, on.hash), ...times}
  return sign(transferData(frame, {from: addressOfKey(key), to, amount}), key)
}

/** A call of the contract that pays these, out of the value that comes with it. */
export function dispersal(
  {key, on, expiration}: Signing,
  outputs: {to: string; amount: bigint}[],
  value = outputs.reduce((sum, {amount}) => sum + amount, 0n),
): Transaction {
  const times = {timestamp: timestamp(), expiration: expiration ?? Date.now() + dayMs / 2}
  const frame = {...reference(on.height, on.hash), ...times, feeLimit: 1_000_000_000n}
  const call = {from: addressOfKey(key), contract: contracts.disperse, value, data: disperseData(outputs)}
  return sign(callData(frame, call), key)
}
