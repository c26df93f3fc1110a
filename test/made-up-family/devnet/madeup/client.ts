// The client of a local chain of the made-up family.
import {randomBytes} from 'node:crypto'
import * as ecc from 'tiny-secp256k1'
import {z} from 'zod'
import {addressOf, type Body, digestOf, rawTransaction} from '../../chains/madeup/block.ts'
import {chain as registered} from '../../chains/registry.ts'
import {baseUnits, LocalClient, type Payment} from '../client.ts'

export function newKey(): Uint8Array {
  for (;;) {
    const key = randomBytes(32)
    if (ecc.isPrivate(key)) return key
  }
}

export const publicKeyOf = (key: Uint8Array): string => Buffer.from(ecc.pointFromScalar(key, true)!).toString('hex')

export const newAddress = () => addressOf(publicKeyOf(newKey()))

export class MadeUpClient extends LocalClient<number> {
  async transfer({token, to, amount, feeRate}: Payment): Promise<string> {
    const [native] = registered(this.chain).assets
    if (token !== native.token || feeRate !== undefined)
      throw new Error(`${this.chain} has only ${native.token}, without fees`)
    return await this.submit(payment([{to, amount: baseUnits(amount, native)}]))
  }

  async submit(raw: string): Promise<string> {
    return z.string().parse(await this.rpc('submit', [raw]))
  }

  protected async included(txid: string): Promise<number | undefined> {
    return (
      z
        .int()
        .nullable()
        .parse(await this.rpc('included', [txid])) ?? undefined
    )
  }

  async balance(_token: string, address: string): Promise<bigint> {
    return BigInt(z.string().parse(await this.rpc('balance', [address])))
  }

  newAddress = newAddress
}

const always: Body['lifetime'] = {from: 0, end: 2 ** 31 - 1}

/** A transaction of the account with this key; of a new one by default. */
export function payment(outputs: {to: string; amount: bigint}[], key = newKey(), lifetime = always): string {
  const written = outputs.map(({to, amount}) => ({to, amount: String(amount)}))
  const body = {publicKey: publicKeyOf(key), outputs: written, lifetime, salt: randomBytes(8).toString('hex')}
  return rawTransaction(body, ecc.sign(digestOf(body), key))
}
