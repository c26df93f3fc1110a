// A world with a chain of outputs that the test writes, and intents to spend them. For tests of what custody signs.
import {randomBytes, randomUUID} from 'node:crypto'
import {address, crypto, initEccLib, networks, script, Transaction} from 'bitcoinjs-lib'
import * as secp256k1 from 'tiny-secp256k1'
import {type Merchant, WrittenWorld} from '../written-world.ts'

const network = networks.regtest
initEccLib(secp256k1) // for P2TR addresses

/** An output of ours that custody may spend. */
export interface TestOutput {
  outpoint: string
  address: string
  value: bigint
}

/** The parsed bytes of a transaction. Every signature of it was checked against the output that it spends. */
export interface Read {
  txid: string
  inputs: string[]
  outputs: [address: string, value: bigint][]
  fee: bigint
  vsize: number
}

export const newTxid = () => randomBytes(32).toString('hex')

const aPoint = () => secp256k1.pointFromScalar(randomBytes(32), true)!.subarray(1)

/** Foreign addresses, one of each kind that a payout can go to. */
export const destinations = {
  p2pkh: () => address.toBase58Check(randomBytes(20), network.pubKeyHash),
  p2sh: () => address.toBase58Check(randomBytes(20), network.scriptHash),
  p2wpkh: () => address.toBech32(randomBytes(20), 0, network.bech32),
  p2wsh: () => address.toBech32(randomBytes(32), 0, network.bech32),
  p2tr: () => address.toBech32(aPoint(), 1, network.bech32),
}

export class WrittenBitcoin extends WrittenWorld {
  readonly #outputs = new Map<string, TestOutput>()
  readonly #unconfirmed: {txid: string; output_index: number}[] = []

  static async open(settings: Record<string, string> = {}): Promise<WrittenBitcoin> {
    return new WrittenBitcoin(await WrittenWorld.parts('BTC', {BTC_NETWORK: 'regtest', ...settings}))
  }

  /** Makes a merchant whose payout address is whitelisted. */
  merchant(payoutAddress = destinations.p2wpkh()): Promise<Merchant> {
    return this.merchantPaidTo(payoutAddress, ['BTC'])
  }

  /** Pays outputs to an address in one transaction, final by default. */
  async outputs(to: string, values: bigint[], {final = true, token = 'BTC'} = {}): Promise<string[]> {
    const txid = newTxid()
    const transfers = values.map((amount, outputIndex) => ({txid, outputIndex, token, amount, recipient: to}))
    await this.writer.write({add: [transfers]})
    if (final) await this.finalise()
    return values.map((value, vout) => {
      const outpoint = `${txid}:${vout}`
      this.#outputs.set(outpoint, {outpoint, address: to, value})
      return outpoint
    })
  }

  async output(to: string, value: bigint, options?: {final?: boolean; token?: string}): Promise<string> {
    return (await this.outputs(to, [value], options))[0]!
  }

  /** Adds unconfirmed outputs of one foreign transaction. */
  async unconfirmed(to: [address: string, value: bigint][], {token = 'BTC'} = {}): Promise<string[]> {
    const txid = newTxid()
    const rows = to.map(([recipient, value], output_index) => {
      const outpoint = `${txid}:${output_index}`
      this.#outputs.set(outpoint, {outpoint, address: recipient, value})
      return {
        txid,
        output_index,
        token,
        amount: String(value),
        sender: 'unknown',
        recipient,
        inputs: [`${newTxid()}:0`],
      }
    })
    this.#unconfirmed.push(...rows)
    await this.writer.query(`select chain.note_unconfirmed('BTC', $1)`, [JSON.stringify(this.#unconfirmed)])
    return rows.map(({output_index}) => `${txid}:${output_index}`)
  }

  /** Writes outputs as unconfirmed again, even if they are confirmed. */
  async noteAgain(outpoints: string[]): Promise<void> {
    const rows = this.#unconfirmed.filter(({txid, output_index}) => outpoints.includes(`${txid}:${output_index}`))
    await this.writer.query(`select chain.note_mined('BTC', $1, '{}', '{}')`, [JSON.stringify(rows)])
  }

  /** Puts their transaction in a block, which is final by default. */
  async mine(outpoints: string[], {final = true} = {}): Promise<void> {
    const transfers = outpoints.map(outpoint => {
      const {address: recipient, value: amount} = this.#outputs.get(outpoint)!
      const [txid, vout] = outpoint.split(':') as [string, string]
      return {txid, outputIndex: Number(vout), token: 'BTC', amount, recipient}
    })
    await this.writer.write({add: [transfers]})
    if (final) await this.finalise()
  }

  /** Begins it like the operator's command, without the checks. Resolves to the id of the outgoing payment. */
  async cpfp(outputs: string[], parentVsize: number, chain = 'BTC'): Promise<string> {
    const [row] = await this.db.rows<{id: string}>(
      `with s as (
         insert into app.outgoing_payment (kind, chain, token, amount, source, recipient, fee_payer, first_input, max_fee)
         values ('sweep', $1, 'BTC', 1, $3, $3, $3, $2, 0) returning id
       )
       insert into app.cpfp (outgoing_payment_id, txid, outputs, parent_inputs, parent_vsize)
       select id, split_part($2, ':', 1), $4, '{}', $5 from s returning outgoing_payment_id as id`,
      [chain, outputs[0], this.treasury, outputs, parentVsize],
    )
    return row!.id
  }

  /** A transaction that spends outputs of ours, in a block that is final by default. */
  async include(txid: string, outpoints: string[], {final = true} = {}): Promise<void> {
    await this.writeSent(
      outpoints.map((outpoint, input) => ({txid, input, outpoint, account: this.#outputs.get(outpoint)!.address})),
      final,
    )
  }

  /** A payout row as an intruder in the database would write it; by default swept, with a fee of 1 %. */
  async swept(merchant: Merchant, gross = 100_000n, more: Record<string, unknown> = {}): Promise<string> {
    const id = randomUUID()
    const fee = gross / 100n
    const row = {
      fee,
      net: gross - fee,
      address: merchant.payoutAddress,
      chain: 'BTC',
      token: 'BTC',
      status: 'swept',
      ...more,
    }
    await this.db.rows(
      `insert into app.payout (id, merchant_id, chain, token, status, gross, fee_bps, fee, net, address, sweep_first)
       values ($1, $2, $3, $4, $5, $6, 100, $7, $8, $9, false)`,
      [id, merchant.id, row.chain, row.token, row.status, gross, row.fee, row.net, row.address],
    )
    return id
  }

  /** Checks every signature against the output that it spends, and parses the bytes. */
  read(raw: string): Read {
    const transaction = Transaction.fromHex(raw)
    let fee = 0n
    const inputs = transaction.ins.map((input, index) => {
      const outpoint = `${Buffer.from(input.hash).reverse().toString('hex')}:${input.index}`
      const {address: of, value} = this.#outputs.get(outpoint)!
      const [signature, publicKey] = input.witness as [Uint8Array, Uint8Array]
      const {data: hash} = address.fromBech32(of)
      const code = Buffer.from([0x76, 0xa9, 0x14, ...hash, 0x88, 0xac])
      const decoded = script.signature.decode(signature)
      const digest = transaction.hashForWitnessV0(index, code, value, decoded.hashType)
      const isSound =
        Buffer.from(crypto.hash160(publicKey)).equals(hash) &&
        decoded.hashType === Transaction.SIGHASH_ALL &&
        secp256k1.verify(digest, publicKey, decoded.signature) &&
        input.sequence === 0xfffffffd
      if (!isSound) throw new Error(`input ${index} has a wrong signature`)
      fee += value
      return outpoint
    })
    const outputs = transaction.outs.map(({script, value}): [string, bigint] => {
      fee -= value
      return [address.fromOutputScript(script, network), value]
    })
    return {txid: transaction.getId(), inputs, outputs, fee, vsize: transaction.virtualSize()}
  }
}
