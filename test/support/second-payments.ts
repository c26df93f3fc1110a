// Outgoing payments that a test signs and mines as it likes, also in ways that no honest chain allows: for second
// payments, on each family. Promises: what the chain holds is computed from the written blocks alone, so that a test
// can compare the ledger with it.
import {expect} from 'vitest'
import type {ChainWriter, TestConfirmedTx, TestTransfer} from './chain-writer.ts'
import {ChainWriter as Writer} from './chain-writer.ts'
import {type TestDatabase, testDatabase} from './database.ts'
import {Money, networkFee} from './money.ts'
import {idOf, makeMerchant, watchAddress} from './people.ts'

export type Kind = 'payout' | 'withdrawal' | 'sweep' | "return's sweep" | "return's withdrawal" | 'fund' | 'defund'

export interface Payment {
  id: string
  kind: Kind
  token: string
  /** What it pays to somebody else: nothing, if it is a sweep. */
  pays: number
  payout?: string
  merchant?: string
}

export interface Signing {
  kind?: 'effect' | 'cancel'
  /** If false, only custody's journal has it. */
  stored?: boolean
  /** On Bitcoin: one more input, which no other attempt of the payment has. */
  extra?: string
}

/** Contents of a block. */
interface Contents {
  transfers: TestTransfer[]
  confirmedTxs: TestConfirmedTx[]
}

export abstract class Forge {
  abstract readonly chain: 'ETH' | 'BTC'
  abstract readonly db: TestDatabase
  abstract readonly writer: ChainWriter

  abstract begin(kind: Kind, token: string): Promise<Payment>
  abstract sign(payment: Payment, signing?: Signing): Promise<string>
  abstract contents(txid: string, success?: boolean): Promise<Contents>
  /** A foreign transaction that uses up the conflict key of a payment. */
  abstract theft(payment: Payment): Promise<TestConfirmedTx>
  /** What our addresses hold in final blocks, as `address token` to an amount. */
  abstract holdings(): Promise<Map<string, bigint>>
  abstract close(): Promise<void>

  /** These transactions in a new block. */
  async mine(txids: string[], {success = true} = {}): Promise<void> {
    const all = await Promise.all(txids.map(txid => this.contents(txid, success)))
    await this.writer.write({
      add: [{transfers: all.flatMap(one => one.transfers), confirmedTxs: all.flatMap(one => one.confirmedTxs)}],
    })
  }

  finalise(height = this.writer.head.height): Promise<boolean> {
    return this.writer.finalise(height)
  }

  /** Stops a payment, so that custody would sign a cancel. */
  async stop({id, payout}: Payment): Promise<void> {
    if (payout) await this.db.rows('select app.cancel_payout_by_operator($1)', [payout])
    else await this.db.rows('update app.outgoing_payment set cancelling = true where id = $1', [id])
  }

  async incidents(): Promise<{id: string; kind: string; subject: string; details: Record<string, unknown>}[]> {
    return this.db.rows('select id, kind, subject, details from app.incident where resolved_at is null order by kind')
  }

  async resolve(decision: string, kind = 'second_payment'): Promise<void> {
    const open = await this.db.rows<{id: string}>(
      'select id from app.incident where resolved_at is null and kind = $1',
      [kind],
    )
    for (const {id} of open) await this.db.rows('select app.resolve_incident($1, $2)', [id, decision])
  }

  async isHalted(): Promise<boolean> {
    const [row] = await this.db.rows<{halted: boolean}>(
      'select halted_at is not null as halted from chain.cursor where chain = $1',
      [this.chain],
    )
    return row!.halted
  }

  doublePays(): Promise<{id: string; kind: string; status: string; paid: string}[]> {
    return this.db.rows('select * from audit.no_double_pay order by id')
  }

  /** The ledger says of each address of ours what the chain holds there. */
  async assertHoldings(): Promise<void> {
    const held = await this.holdings()
    const rows = await this.db.rows<{address: string; token: string; amount: string}>(
      'select * from app.ledger_holdings($1, $2)',
      [this.chain, [...new Set([...held.keys()].map(key => key.split(' ')[0]!))]],
    )
    const wrong = rows.filter(({address, token, amount}) => BigInt(amount) !== (held.get(`${address} ${token}`) ?? 0n))
    expect(wrong.map(row => ({...row, onChain: held.get(`${row.address} ${row.token}`) ?? 0n}))).toEqual([])
  }

  /** The confirmed transactions of these blocks are corrected by a reindex: those that `keep` leaves are there. */
  async reindex(from: number, to: number, keep: (txid: string) => boolean): Promise<void> {
    const rows = await this.db.rows<{row: {txid: string}}>(
      'select to_jsonb(i) as row from chain.confirmed_tx i where chain = $1 and block_height between $2 and $3',
      [this.chain, from, to],
    )
    const wanted = rows.map(({row}) => row).filter(({txid}) => keep(txid))
    await this.db.rows('select chain.correct_confirmed_txs($1, $2, $3, $4)', [
      this.chain,
      from,
      to,
      JSON.stringify(wanted),
    ])
  }

  /** Reads everything above a height again, as an operator asked for it. */
  async rewind(to: number, {without = [] as string[]} = {}): Promise<void> {
    const tail = this.writer.blocks.slice(to + 1)
    await this.db.rows('select app.request_rewind($1, $2)', [this.chain, to])
    await this.writer.rewind(to)
    await this.writer.write({
      add: tail.map(({transfers, confirmedTxs}) => ({
        transfers: transfers.filter(({txid}) => !without.includes(txid)),
        confirmedTxs: confirmedTxs.filter(({txid}) => !without.includes(txid)),
      })),
    })
  }
}

const operator = '0xSender'

export class EvmForge extends Forge {
  readonly chain = 'ETH'
  readonly money: Money

  private constructor(money: Money) {
    super()
    this.money = money
  }

  static async open(): Promise<EvmForge> {
    const money = await Money.open()
    await money.topUp('ETH', 1_000_000)
    await money.topUp('USDC', 1_000_000)
    await money.db.rows(`insert into custody.whitelist (chain, address) values ('ETH', $1)`, [operator])
    await money.db.rows(
      `insert into app.asset (chain, token, name, display_name, decimals, min_payout, sweep_min, sweep_by)
       values ('ETH', 'USDT', 'ETH-USDT', 'Tether USD', 6, 1, 1, 'fund')`,
    )
    return new EvmForge(money)
  }

  get db() {
    return this.money.db
  }

  get writer() {
    return this.money.eth
  }

  close(): Promise<void> {
    return this.money.close()
  }

  async begin(kind: Kind, token: string): Promise<Payment> {
    const {money} = this
    if (kind === 'payout') {
      const user = await money.merchant()
      await money.deposit(user.address, 1000, {token})
      const payout = await money.claim(user, token)
      const short = await money.pay(payout)
      if (short) throw new Error(short)
      return {id: await money.payment(payout), kind, token, pays: 990, payout, merchant: user.merchantId}
    }
    if (kind === 'withdrawal') {
      const [row] = await this.db.rows<{id: string}>(`select app.begin_withdrawal('ETH', $1, 500, $2, 10) as id`, [
        token,
        operator,
      ])
      return {id: row!.id, kind, token, pays: 500}
    }
    if (kind === 'sweep') {
      const user = await money.merchant()
      await money.deposit(user.address, 1000, {token})
      await money.sweep(null, [user.address], token)
      const id = await money.sweepOf(user.address, token)
      await money.deposit(user.address, 1100, {token}) // what a second sweep takes
      return {id, kind, token, pays: 0}
    }
    return kind === 'fund' || kind === 'defund' ? this.#beginWithGas(kind, token) : this.#beginReturn(kind, token)
  }

  /** Gas for an address; or 500 of 2000 that it has, back to the treasury. */
  async #beginWithGas(kind: 'fund' | 'defund', token: string): Promise<Payment> {
    const {address} = await this.money.merchant()
    const fund = async (amount: number): Promise<Payment> => {
      await this.money.work('begin_funds', null, 'ETH', 'USDT', [address], [amount], networkFee)
      const [row] = await this.db.rows<{id: string}>('select id from app.outgoing_payment where recipient = $1', [
        address,
      ])
      return {id: row!.id, kind, token, pays: 0}
    }
    if (kind === 'fund') return await fund(500)
    await this.mine([await this.sign(await fund(2000))])
    await this.finalise()
    await this.money.beginDefund(address, 500)
    const [row] = await this.db.rows<{id: string}>(
      `select id from app.outgoing_payment where source = $1 and kind = 'defund'`,
      [address],
    )
    return {id: row!.id, kind, token, pays: 0}
  }

  async #beginReturn(kind: Kind, token: string): Promise<Payment> {
    const {money} = this
    const {merchantId} = await money.merchant()
    const {address} = await money.user(merchantId, [])
    const txid = await money.deposit(address, 1000, {token})
    await this.db.rows(`update app.address set is_provisioned = true where chain = 'ETH' and address = $1`, [address])
    await money.deposit(address, 1100, {token}) // the merchant's
    const [deposit] = await this.db.rows<{id: string}>('select id from app.deposit where txid = $1', [txid])
    await this.db.rows('select app.return_unattributed($1, $2)', [deposit!.id, operator])
    await this.db.rows('select app.begin_return_sweep($1, $2, 10)', [deposit!.id, token === 'ETH' ? 990 : 1000])
    const decision = async () => {
      const [row] = await this.db.rows<{sweep_id: string; withdrawal_id: string; amount: string}>(
        'select sweep_id, withdrawal_id, amount from app.unattributed_decision where deposit_id = $1',
        [deposit!.id],
      )
      return row!
    }
    const sweep = {id: (await decision()).sweep_id, kind, token, pays: 0}
    if (kind === "return's sweep") return sweep
    await this.mine([await this.sign(sweep)])
    await this.finalise()
    await this.db.rows('select app.begin_return_withdrawal($1, 10)', [deposit!.id])
    const {withdrawal_id, amount} = await decision()
    return {id: withdrawal_id, kind, token, pays: Number(amount)}
  }

  async sign({id}: Payment, {kind = 'effect', stored = true}: Signing = {}): Promise<string> {
    if (stored) {
      const [row] = await this.db.rows<{price: number}>(
        'select 1 + count(*)::int as price from app.outgoing_attempt where outgoing_payment_id = $1',
        [id],
      )
      const txid = await this.money.attempt(id, {kind, price: row!.price})
      if (!txid) throw new Error('the attempt was not stored')
      return txid
    }
    const txid = this.money.newTxid()
    const [row] = await this.db.rows<{amount: string}>('select amount from app.outgoing_payment where id = $1', [id])
    await this.money.journal(id, {kind, txid, amount: kind === 'cancel' ? 0 : row!.amount})
    return txid
  }

  async contents(txid: string, success = true): Promise<Contents> {
    const entry = await this.#entry(txid)
    const {token, amount, source, sender, nonce, destination} = entry!
    const arrives = success && destination === this.money.treasury && amount !== '0'
    const transfer = {txid, token, amount: BigInt(amount), recipient: destination, sender: source}
    return {
      transfers: arrives ? [transfer] : [],
      confirmedTxs: [{txid, account: sender, nonce: Number(nonce), success, fee: 7n}],
    }
  }

  async theft({id}: Payment): Promise<TestConfirmedTx> {
    const [row] = await this.db.rows<{account: string; nonce: number}>(
      'select fee_payer as account, nonce from app.outgoing_payment where id = $1',
      [id],
    )
    return {txid: this.money.newTxid(), fee: 3n, ...row!}
  }

  async holdings(): Promise<Map<string, bigint>> {
    const held = new Map<string, bigint>()
    const add = (address: string, token: string, amount: bigint) =>
      held.set(`${address} ${token}`, (held.get(`${address} ${token}`) ?? 0n) + amount)
    const [cursor] = await this.db.rows<{final: number}>(
      `select final_height as final from chain.cursor where chain = 'ETH'`,
    )
    for (const {transfers, confirmedTxs} of this.writer.blocks.slice(0, cursor!.final + 1)) {
      for (const {recipient, token = 'USDC', amount} of transfers) add(recipient, token, amount)
      for (const {txid, account, success = true, fee = 0n} of confirmedTxs) {
        add(account!, 'ETH', -fee)
        const entry = await this.#entry(txid)
        if (entry && success) add(entry.source, entry.token, -BigInt(entry.amount))
        if (entry?.kind === 'fund' && success) add(entry.destination, entry.token, BigInt(entry.amount))
      }
    }
    return held
  }

  async #entry(txid: string) {
    const [entry] = await this.db.rows<{
      kind: string
      token: string
      amount: string
      source: string
      sender: string
      nonce: string
      destination: string
    }>('select kind, token, amount, source, sender, nonce, destination from custody.journal where txid = $1', [txid])
    return entry
  }
}

const treasury = 'bcrt1qtreasury'

/** A transaction of ours: what it spends, and its outputs. */
interface Bitcoin {
  inputs: string[]
  outputs: {recipient: string; amount: bigint}[]
  fee: bigint
}

export class BitcoinForge extends Forge {
  readonly chain = 'BTC'
  readonly db: TestDatabase
  readonly writer: ChainWriter
  readonly transactions = new Map<string, Bitcoin>()
  #count = 0

  private constructor(db: TestDatabase, writer: ChainWriter) {
    super()
    this.db = db
    this.writer = writer
  }

  static async open(): Promise<BitcoinForge> {
    const db = await testDatabase()
    await db.rows(
      `insert into custody.address (address, family, derivation_index, purpose) values ($1, 'bitcoin', 0, 'treasury')`,
      [treasury],
    )
    await db.rows(`select custody.watch_treasury('bitcoin')`)
    return new BitcoinForge(db, await Writer.open(db, 'BTC'))
  }

  async close(): Promise<void> {
    await this.writer.close()
    await this.db.drop()
  }

  #name(what: string): string {
    this.#count += 1
    return `${what}${this.#count}`
  }

  async deposit(recipient: string, amount: bigint): Promise<string> {
    const txid = this.#name('in')
    await this.writer.write({add: [[{txid, token: 'BTC', amount, recipient}]]})
    await this.finalise()
    return `${txid}:0`
  }

  /** A new output of the treasury. */
  topUp(amount: bigint): Promise<string> {
    return this.deposit(treasury, amount)
  }

  async #merchant(): Promise<{id: string; address: string}> {
    const id = await makeMerchant(this.db, ['BTC'])
    const address = this.#name('bcrt1quser')
    await this.db.rows(`select app.set_payout_address($1, 'BTC', $2)`, [id, this.#name('bcrt1qshop')])
    await watchAddress(this.db, id, {address, family: 'bitcoin', watched: ['BTC'], chains: ['BTC']})
    return {id, address}
  }

  async begin(kind: Kind, token = 'BTC'): Promise<Payment> {
    if (kind === 'withdrawal') {
      const inputs = [await this.topUp(100_000n)]
      const [row] = await this.db.rows<{id: string}>(
        `select app.begin_output_withdrawal('BTC', 60000, 'bcrt1qoperator', $1, 300) as id`,
        [inputs],
      )
      return {id: row!.id, kind, token, pays: 60_000}
    }
    const merchant = await this.#merchant()
    await this.topUp(200_000n)
    const output = await this.deposit(merchant.address, 100_000n)
    if (kind === 'sweep') {
      await this.db.rows(`select app.begin_output_sweep(null, 'BTC', $1, $2, 300)`, [merchant.id, [output]])
      return {id: await this.#paymentWith(output), kind, token, pays: 0, merchant: merchant.id}
    }
    const [row] = await this.db.rows<{reply: string}>(
      `select app.create_payout($1, 'BTC', 'BTC', false, null, null) as reply`,
      [merchant.id],
    )
    const payout = idOf(JSON.parse(row!.reply).id)
    await this.db.rows('select app.begin_sweeping($1)', [payout])
    await this.db.rows('select app.begin_output_payment($1, $2, 300)', [payout, [output]])
    return {id: await this.#paymentWith(output), kind, token, pays: 99_000, payout, merchant: merchant.id}
  }

  async #paymentWith(outpoint: string): Promise<string> {
    const [row] = await this.db.rows<{id: string}>('select id from app.outgoing_payment where first_input = $1', [
      outpoint,
    ])
    return row!.id
  }

  async sign({id}: Payment, {kind = 'effect', stored = true, extra}: Signing = {}): Promise<string> {
    const txid = this.#name('out')
    const [s] = await this.db.rows<{
      kind: string
      amount: string
      recipient: string
      next: number
      inputs: string[]
      subject: string
      merchant: string
    }>(
      `select s.kind, s.amount, s.recipient, (select count(*)::int + 1 from app.outgoing_attempt o where o.outgoing_payment_id = s.id) as next,
         array[s.first_input] as inputs, coalesce(s.payout_id, s.id) as subject, s.merchant_id as merchant from app.outgoing_payment s where s.id = $1`,
      [id],
    )
    if (extra && stored) await this.db.rows('select app.add_inputs($1, $2, $3)', [id, s!.next, [extra]])
    const inputs = [...s!.inputs, ...(extra ? [extra] : [])]
    const fee = BigInt(200 * s!.next)
    const isPaid = kind === 'effect' && s!.kind !== 'sweep'
    const paid = isPaid ? [{recipient: s!.recipient, amount: BigInt(s!.amount)}] : []
    const change = (await this.#sum(inputs)) - fee - (isPaid ? BigInt(s!.amount) : 0n)
    this.transactions.set(txid, {inputs, outputs: [...paid, {recipient: treasury, amount: change}], fee})
    const amount = kind === 'cancel' ? 0n : isPaid ? s!.amount : change
    const entryKind = kind === 'cancel' ? kind : {payout: 'pay', withdrawal: 'withdraw', sweep: 'sweep'}[s!.kind]
    await this.db.rows(
      `insert into custody.journal (stream, seq, kind, subject_id, merchant_id, token, amount, destination, source, sender, max_fee, txid, raw, details,
         signed_at, hash)
       select 'BTC', 1 + count(*), $1, $2, $3, 'BTC', $4, $5, $6, $6, $7, $8, '02', $9, now(), $8 from custody.journal where stream = 'BTC'`,
      [entryKind, s!.subject, s!.merchant, amount, s!.recipient, treasury, fee, txid, {inputs}],
    )
    if (stored) {
      const details = {network_fee: String(fee), vsize: 100}
      const values = [id, s!.next, kind, txid, '02', amount, fee, details]
      const [row] = await this.db.rows<{ok: boolean}>(
        'select app.store_signed($1, $2, $3, $4, $5, $6, $7, $8) as ok',
        values,
      )
      if (!row!.ok) throw new Error('the attempt was not stored')
    }
    return txid
  }

  async #sum(outpoints: string[]): Promise<bigint> {
    const [row] = await this.db.rows<{sum: string}>(
      `select sum(amount) as sum from app.output where txid || ':' || vout = any($1)`,
      [outpoints],
    )
    return BigInt(row!.sum)
  }

  async contents(txid: string): Promise<Contents> {
    const {inputs, outputs, fee} = this.transactions.get(txid)!
    const [first] = await this.db.rows<{address: string}>(
      `select address from app.output where txid || ':' || vout = $1`,
      [inputs[0]],
    )
    return {
      transfers: outputs.flatMap(({recipient, amount}, outputIndex) =>
        recipient === treasury ? [{txid, outputIndex, token: 'BTC', amount, recipient, sender: first!.address}] : [],
      ),
      confirmedTxs: inputs.map((outpoint, input) => ({txid, outpoint, input, fee})),
    }
  }

  async theft({id}: Payment): Promise<TestConfirmedTx> {
    const [row] = await this.db.rows<{outpoint: string}>(
      'select first_input as outpoint from app.outgoing_payment where id = $1',
      [id],
    )
    return {txid: this.#name('theft'), input: 0, outpoint: row!.outpoint}
  }

  async holdings(): Promise<Map<string, bigint>> {
    const [cursor] = await this.db.rows<{final: number}>(
      `select final_height as final from chain.cursor where chain = 'BTC'`,
    )
    const blocks = this.writer.blocks.slice(0, cursor!.final + 1)
    const spent = new Set(blocks.flatMap(({confirmedTxs}) => confirmedTxs.map(({outpoint}) => outpoint)))
    const held = new Map<string, bigint>()
    for (const {txid, outputIndex = 0, amount, recipient} of blocks.flatMap(({transfers}) => transfers)) {
      const more = spent.has(`${txid}:${outputIndex}`) ? 0n : amount
      held.set(`${recipient} BTC`, (held.get(`${recipient} BTC`) ?? 0n) + more)
    }
    return held
  }
}
