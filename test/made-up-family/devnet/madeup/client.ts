// The client of a local chain of the made-up family.
import {randomBytes} from 'node:crypto'
import {z} from 'zod'
import {rawTransaction} from '../../chains/madeup/block.ts'
import {chain as registered} from '../../chains/registry.ts'
import {baseUnits, LocalClient, type Payment} from '../client.ts'

export const newAddress = () => `made1${randomBytes(20).toString('hex')}`

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
    return BigInt(z.string().parse(await this.rpc('received', [address])))
  }

  newAddress = newAddress
}

/** A transaction of an account; of a new one where none is named. */
export function payment(outputs: {to: string; amount: bigint}[], from = newAddress()): string {
  return rawTransaction({from, outputs: outputs.map(({to, amount}) => ({to, amount: String(amount)}))})
}
