// A world with an EVM chain that the test writes. For tests of what custody signs.
import {randomBytes, randomUUID} from 'node:crypto'
import {getAddress} from 'viem'
import {hashOf} from '../chain-writer.ts'
import {type Merchant, WrittenWorld} from '../written-world.ts'

let number = 0

export const newAddress = () => getAddress(`0x${randomBytes(20).toString('hex')}`)

export class WrittenEvm extends WrittenWorld {
  static async open(settings: Record<string, string> = {}): Promise<WrittenEvm> {
    return new WrittenEvm(await WrittenWorld.parts('ETH', settings))
  }

  /** A merchant with a payout address, by default whitelisted on the first chain. */
  merchant({whitelisted = true} = {}): Promise<Merchant> {
    return this.merchantPaidTo(newAddress(), ['ETH', 'POLYGON'], whitelisted)
  }

  /** A transfer to an address, final by default. */
  async deposit(address: string, amount: bigint, {token = 'ETH', final = true} = {}): Promise<void> {
    number += 1
    await this.writer.write({add: [[{txid: hashOf(`deposit ${number}`), token, amount, recipient: address}]]})
    if (final) await this.finalise()
  }

  /** A transaction of the treasury in a block that is final by default. */
  async include(
    txid: string,
    nonce: number,
    {sender = this.treasury, success = true, final = true, fee = 0n} = {},
  ): Promise<void> {
    await this.writeSent([{txid, account: sender, nonce, success, fee}], final)
  }

  /** The id of a payout of the whole balance that is swept, and can be paid. */
  async swept(merchant: Merchant, amount = 1000n, token = 'ETH'): Promise<string> {
    await this.deposit(merchant.address, amount, {token})
    const payout = await this.request(merchant, token)
    await this.db.rows('select app.begin_sweeping($1)', [payout])
    await this.db.rows('select app.end_sweeping($1)', [payout])
    return payout
  }
}

export const fees = {max_fee_per_gas: '2000000000', max_priority_fee_per_gas: '1000000000', gas_limit: 21_000}
/** The intent for a sweep of ether from this address. */
export const sweepIntent = (address: string, more: object = {}) => ({
  intent: 'sweep',
  outgoing_payment_id: randomUUID(),
  chain: 'ETH',
  token: 'ETH',
  address,
  amount: '500000000000000',
  nonce: 0,
  ...fees,
  ...more,
})
/** The lowest fees that can replace `fees`. */
export const higherFees = {...fees, max_fee_per_gas: '2250000000', max_priority_fee_per_gas: '1125000000'}
export const tokenGas = {gas_limit: 120_000}
