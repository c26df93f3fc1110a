// A world with a Tron chain that the test writes. For tests of what custody signs.
import {hashOf} from '../chain-writer.ts'
import {WrittenWorld} from '../written-world.ts'

let number = 0

interface Forged {
  kind: string
  /** What the intent asks for; by default the kind of the row. */
  as?: string
  recipient: string
  amount: bigint
  forToken?: string
}

export class WrittenTron extends WrittenWorld {
  static async open(settings: Record<string, string> = {}): Promise<WrittenTron> {
    return new WrittenTron(await WrittenWorld.parts('TRON', settings))
  }

  /** A final transfer to an address. */
  async deposit(address: string, amount: bigint, token = 'TRX'): Promise<void> {
    number += 1
    const txid = hashOf(`deposit ${number}`).slice(2)
    await this.writer.write({add: [[{txid, token, amount, recipient: address}]]})
    await this.finalise()
  }

  /** A transaction of ours in a final block. */
  async include(txid: string, {sender = this.treasury, fee = 0n} = {}): Promise<void> {
    await this.writeSent([{txid, account: sender, success: true, fee}], true)
  }

  /** Begins something as the owner of the database; its intent. */
  async begun(call: string, kind: string) {
    const [row] = await this.db.rows<{id: string}>(`select ${call} as id`)
    return {intent: `${kind}_tron`, outgoing_payment_id: row!.id, chain: 'TRON' as const}
  }

  /** A row of the treasury's stake as an intruder in the database would write it; its intent. */
  async forge({kind, as = kind, recipient, amount, forToken}: Forged) {
    const [row] = await this.db.rows<{id: string}>(
      `insert into app.outgoing_payment (kind, chain, token, amount, source, recipient, fee_payer, max_fee, for_token, resource, recovered)
       values ($1, 'TRON', 'TRX', $2, $3, $4, $3, 1, $5, 'energy', true) returning id`,
      [kind, String(amount), this.treasury, recipient, kind === 'delegate' ? (forToken ?? 'USDT') : null],
    )
    return {intent: `${as}_tron`, outgoing_payment_id: row!.id, chain: 'TRON' as const}
  }

  /** As the worker stores it, so that a block can end its payment. */
  async storeSigned(kind: string, address: string, txid: string): Promise<void> {
    await this.db.rows(
      `select app.store_signed(s.id, 1, 'effect', j.txid, j.raw, j.amount, j.max_fee, '{}') from app.outgoing_payment s
       join custody.journal j on j.subject_id = s.id where s.kind = $1 and s.source = $2 and j.txid = $3`,
      [kind, address, txid],
    )
  }
}
