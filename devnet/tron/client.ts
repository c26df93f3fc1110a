// The client of a local Tron chain.
import {z} from 'zod'
import {type Asset, chain as registered} from '../../chains/registry.ts'
import {bytesOf} from '../../chains/tron/address.ts'
import {encode} from '../../chains/tron/protobuf.ts'
import {
  callData,
  type Frame,
  rawDataOf,
  reference,
  type Transaction,
  transferData,
} from '../../chains/tron/transaction.ts'
import {askInfo, baseUnits, type Head, LocalClient, type Payment, type ReorgOptions} from '../client.ts'
import {contracts, tokens} from './constants.ts'
import {creationData, disperseData} from './contracts.ts'
import {addressOfKey, newKey, sign} from './keys.ts'
import {shown, types} from './transaction-types.ts'

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
    return z.string().parse(await this.rpc('devnet_pay', [to, String(baseUnits(amount, asset)), token]))
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

  /** The native coin, and every token of the chain, whether a service knows it or not. */
  override get assets(): readonly (Asset | (typeof tokens)[number])[] {
    return [registered(this.chain).assets[0], ...tokens]
  }

  async balance(token: string, address: string): Promise<bigint> {
    return BigInt(z.string().parse(await this.rpc('devnet_balance', [address, this.asset(token).token])))
  }

  /** What the energy of a busy contract costs more in the next blocks, in ten-thousandths: at most 34,000. */
  async setEnergyFactor(contract: string, factor: number): Promise<void> {
    await this.rpc('devnet_energy_factor', [contract, factor])
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

function frameOf({on, expiration}: Signing, feeLimit?: bigint): Frame {
  const times = {timestamp: timestamp(), expiration: expiration ?? Date.now() + dayMs / 2}
  return {...reference(on.height, on.hash), ...times, feeLimit}
}

/** A payment by the account of a key, not sent. */
export function payment(signing: Signing, to: string, amount: bigint): Transaction {
  const {key} = signing
  return sign(transferData(frameOf(signing), {from: addressOfKey(key), to, amount}), key)
}

interface Call {
  contract: string
  data: Uint8Array
  value?: bigint
  feeLimit?: bigint
}

const usualFeeLimit = 1_000_000_000n

/** A call of a contract. */
export function call(signing: Signing, {contract, data, value = 0n, feeLimit = usualFeeLimit}: Call): Transaction {
  const {key} = signing
  return sign(callData(frameOf(signing, feeLimit), {from: addressOfKey(key), contract, value, data}), key)
}

/** A call of the contract that pays these, out of the value that comes with it. */
export function dispersal(
  signing: Signing,
  outputs: {to: string; amount: bigint}[],
  value = outputs.reduce((sum, {amount}) => sum + amount, 0n),
): Transaction {
  return call(signing, {contract: contracts.disperse, value, data: disperseData(outputs)})
}

/** Creates a contract. */
export function creation(
  signing: Signing,
  {name, bytecode, feeLimit = usualFeeLimit}: {name: string; bytecode: Uint8Array; feeLimit?: bigint},
): Transaction {
  const {key} = signing
  return sign(creationData(frameOf(signing, feeLimit), {from: addressOfKey(key), name, bytecode}), key)
}

const resourceCodes = {bandwidth: 0n, energy: 1n}

/** What an account does with TRX that it stakes, in sun. */
export type Staking =
  | {action: 'freeze' | 'unfreeze'; resource: keyof typeof resourceCodes; amount: bigint}
  | {action: 'delegate' | 'undelegate'; resource: keyof typeof resourceCodes; amount: bigint; with: string}
  | {action: 'withdraw'}

export function staking(signing: Signing, staking: Staking): Transaction {
  const {key} = signing
  const owner = bytesOf(addressOfKey(key))
  const type = types[staking.action]
  return sign(rawDataOf(frameOf(signing), shown.get(type)!.name, type, stakingMessage(owner, staking)), key)
}

function stakingMessage(owner: Uint8Array, staking: Staking): Uint8Array {
  if (staking.action === 'withdraw') return encode([[1, owner]])
  const code = resourceCodes[staking.resource]
  if ('with' in staking)
    return encode([
      [1, owner],
      [2, code],
      [3, staking.amount],
      [4, bytesOf(staking.with)],
    ])
  return encode([
    [1, owner],
    [2, staking.amount],
    [3, code],
  ])
}
