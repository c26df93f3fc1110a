// Money without a node: merchants with deposits, their payouts, and the transactions, each made with the role of the
// process that does it in production. A ChainWriter is the chain. Amounts are small: gas costs 1, a transaction takes
// 10 gas, the service fee is 1 %.

import {randomBytes} from 'node:crypto'
import pg from 'pg'
import {getAddress} from 'viem'
import {ChainWriter, type TestConfirmedTx, type TestTransfer} from './chain-writer.ts'
import {type TestDatabase, testDatabase} from './database.ts'
import {makeTreasury} from './evm/payouts.ts'
import {idOf, makeMerchant, makeUser, type TestUser} from './people.ts'

export const networkFee = 10

/** The gas price that a transaction offers, as the worker stores it. */
/** The highest fee, and what it offers for its place in a block, as app.store_signed takes them. */
export function gasAt(price: number): [maxFee: number, feeDetails: object] {
  const feeDetails = {max_fee_per_gas: price, max_priority_fee_per_gas: price, gas_limit: networkFee}
  return [price * networkFee, feeDetails]
}

export interface Mined {
  success?: boolean
  fee?: number
}

export class Money {
  readonly db: TestDatabase
  readonly eth: ChainWriter
  readonly treasury: string
  /** Connections with the rights of the API and of the worker. */
  readonly api: pg.Pool
  readonly jobs: pg.Pool
  #txids = 0

  private constructor(db: TestDatabase, eth: ChainWriter, treasury: string) {
    this.db = db
    this.eth = eth
    this.treasury = treasury
    this.api = new pg.Pool({connectionString: db.url('sluice_api'), max: 20})
    this.jobs = new pg.Pool({connectionString: db.url('sluice_jobs'), max: 8})
    for (const pool of [this.api, this.jobs]) pool.on('error', () => {}) // the database may be dropped before they close
  }

  static async open(): Promise<Money> {
    const db = await testDatabase()
    return new Money(db, await ChainWriter.open(db, 'ETH'), await makeTreasury(db))
  }

  async close(): Promise<void> {
    await Promise.all([this.api.end(), this.jobs.end(), this.eth.close()])
    await this.db.drop()
  }

  newTxid(): string {
    this.#txids += 1
    return `0xtx${this.#txids}`
  }

  /** A merchant with a payout address, and one user. */
  async merchant(): Promise<TestUser> {
    const id = await makeMerchant(this.db, ['ETH'])
    const address = getAddress(`0x${randomBytes(20).toString('hex')}`)
    await this.db.rows(`select app.set_payout_address($1, 'ETH', $2)`, [id, address])
    return makeUser(this.db, id, ['ETH'])
  }

  /** Where payouts of the merchant go on ETH. */
  async payoutAddress(merchantId: string): Promise<string> {
    const sql = `select address from app.payout_address where merchant_id = $1 and chain = 'ETH'`
    return (await this.db.rows<{address: string}>(sql, [merchantId]))[0]!.address
  }

  /** One more user with its own address. Transfers to it are unattributed if the chain is not enabled. */
  user(merchantId: string, chains = ['ETH']): Promise<TestUser> {
    return makeUser(this.db, merchantId, chains)
  }

  /** A transfer to an address, in its own block, which is final by default. Resolves to its txid. */
  async deposit(address: string, amount: number, {token = 'USDC', final = true} = {}): Promise<string> {
    const txid = this.newTxid()
    await this.block([{txid, token, amount: BigInt(amount), recipient: address}], [])
    if (final) await this.finalise()
    return txid
  }

  /** The operator's own money. */
  async topUp(token: string, amount: number): Promise<void> {
    await this.deposit(this.treasury, amount, {token})
  }

  block(transfers: TestTransfer[], confirmedTxs: TestConfirmedTx[]): Promise<void> {
    return this.eth.write({add: [{transfers, confirmedTxs}]})
  }

  async finalise(height = this.eth.head.height): Promise<void> {
    if (!(await this.eth.finalise(height))) throw new Error(`block ${height} cannot be final`)
  }

  /**
   * As an operator requests it: a final transfer is gone, everything after it is there again, and final blocks are
   * final again. Whether the transfer is really gone is left to decide.
   */
  async lose(txid: string, finalHeight = this.eth.head.height): Promise<void> {
    const at = this.eth.blocks.findIndex(({transfers}) => transfers.some(transfer => transfer.txid === txid))
    const tail = this.eth.blocks.slice(at)
    await this.rewindBelow(at)
    const add = tail.map(({transfers, confirmedTxs}) => {
      return {transfers: transfers.filter(transfer => transfer.txid !== txid), confirmedTxs}
    })
    await this.eth.write({add})
    await this.finalise(finalHeight)
    await this.db.rows(
      `select app.resolve_incident(i.id, 'kept') from app.incident i
       where i.resolved_at is null and i.chain is not null and i.subject not in (select d.id::text from app.deposit d where d.txid = $1)`,
      [txid],
    )
  }

  async rewindBelow(height: number): Promise<void> {
    await this.db.rows(`select app.request_rewind('ETH', $1)`, [height - 1])
    await this.eth.rewind(height - 1)
  }

  /** The transfer is there again, in a new block that is final. */
  async giveBack(txid: string, address: string, amount: number): Promise<void> {
    await this.block([{txid, amount: BigInt(amount), recipient: address}], [])
    await this.finalise()
  }

  /** The operator's decision about every open incident of a chain. */
  async resolve(decision: 'kept' | 'reorged' | 'loss' | 'debt'): Promise<void> {
    const resolve =
      'select app.resolve_incident(id, $1) from app.incident where resolved_at is null and chain is not null'
    for (let again = true; again; ) again = await this.db.rows(resolve, [decision]).then(() => false, isToTryAgain)
  }

  async incidents(): Promise<string[]> {
    const open = await this.db.rows<{kind: string}>(
      'select kind from app.incident where resolved_at is null order by id',
    )
    return open.map(({kind}) => kind)
  }

  // What the API does
  // ------------------------------------------------------------------------------------------------------------------

  /** Resolves to the id of the payout. */
  async claim({merchantId}: TestUser, token = 'USDC', {sweepFirst = false} = {}): Promise<string> {
    return idOf(JSON.parse(await this.request(merchantId, {token, sweepFirst})).id)
  }

  /** Resolves to the response. */
  async request(
    merchantId: string,
    {
      token = 'USDC',
      sweepFirst = false,
      key,
      body = 'body',
    }: {token?: string; sweepFirst?: boolean; key?: string; body?: string},
  ): Promise<string> {
    const {rows} = await this.api.query(`select app.create_payout($1, 'ETH', $2, $3, $4, sha256($5::bytea)) as reply`, [
      merchantId,
      token,
      sweepFirst,
      key,
      body,
    ])
    return rows[0].reply
  }

  /** While this runs nobody can allocate the merchant's deposits: a claim meanwhile leaves that to a job. */
  async withoutAllocation<T>({merchantId}: TestUser, token: string, work: () => Promise<T>): Promise<T> {
    const holder = await this.db.pool.connect()
    try {
      await holder.query('begin')
      await holder.query(`select pg_advisory_xact_lock(hashtextextended('allocate:' || $1 || ':ETH:' || $2, 0))`, [
        merchantId,
        token,
      ])
      return await work()
    } finally {
      await holder.query('rollback')
      holder.release()
    }
  }

  // What the worker does
  // ---------------------------------------------------------------------------------------------------------------

  /** Calls a function as the worker. */
  async work<T = null>(name: string, ...values: unknown[]): Promise<T> {
    const places = values.map((_, n) => `$${n + 1}`)
    const {rows} = await this.jobs.query(`select app.${name}(${places}) as result`, values)
    return rows[0].result
  }

  allocate({merchantId}: TestUser, batch: number, token = 'USDC'): Promise<boolean> {
    return this.work('allocate_deposits', merchantId, 'ETH', token, batch)
  }

  /** Begins sweeps of everything that these addresses hold; resolves to what is short. */
  async sweep(payout: string | null, addresses: string[], token = 'USDC'): Promise<string | null> {
    const held = await this.db.rows<{address: string; amount: string}>(
      `select address, amount - $3::int as amount from app.holding where token = $2 and address = any($1)`,
      [addresses, token, token === 'ETH' ? networkFee : 0],
    )
    const fees = held.map(() => networkFee)
    const amounts = held.map(({amount}) => amount)
    const from = held.map(({address}) => address)
    return this.work<string | null>('begin_sweeps', payout, 'ETH', token, from, amounts, fees)
  }

  /** Begins to bring so much gas back from an address, as if it had used none for 31 days. */
  async beginDefund(address: string, amount: number): Promise<void> {
    await this.db.rows(`update app.gas set used_at = used_at - interval '31 days' where address = $1`, [address])
    await this.work('begin_defunds', 'ETH', [address], [amount], [networkFee])
  }

  /** The outgoing payment of a payout. */
  async payment(payout: string): Promise<string> {
    const [outgoingPayment] = await this.db.rows<{id: string}>(
      `select id from app.outgoing_payment where payout_id = $1 and kind = 'payout'`,
      [payout],
    )
    return outgoingPayment!.id
  }

  /** The sweep of an address that is under way. */
  async sweepOf(address: string, token = 'USDC'): Promise<string> {
    const [outgoingPayment] = await this.db.rows<{id: string}>(
      `select id from app.outgoing_payment where kind = 'sweep' and source = $1 and token = $2 and status <> 'final'`,
      [address, token],
    )
    return outgoingPayment!.id
  }

  /** Takes a pending payout to a nonce for its payment; resolves to what is short. */
  async pay(payout: string): Promise<string | null> {
    await this.work('begin_sweeping', payout)
    await this.work('end_sweeping', payout)
    return this.work<string | null>('begin_payment', payout, networkFee)
  }

  /** Stores the next attempt of an outgoing payment; resolves to its txid, or to null if it came too late. */
  async attempt(
    outgoingPayment: string,
    {kind = 'effect', price = 1, amount}: {kind?: 'effect' | 'cancel'; price?: number; amount?: string} = {},
  ): Promise<string | undefined> {
    const txid = this.newTxid()
    const [row] = await this.db.rows<{amount: string; next: number}>(
      `select amount, (select count(*)::int + 1 from app.outgoing_attempt o where o.outgoing_payment_id = s.id) as next from app.outgoing_payment s where id = $1`,
      [outgoingPayment],
    )
    const moved = kind === 'cancel' ? 0 : (amount ?? row!.amount)
    await this.journal(outgoingPayment, {kind, txid, amount: moved})
    const signed = [kind, txid, '0x02', moved, ...gasAt(price)]
    return (await this.work<boolean>('store_signed', outgoingPayment, row!.next, ...signed)) ? txid : undefined
  }

  /**
   * The entry that custody writes before it gives a signature out. It would not pay to an address that is not
   * whitelisted.
   */
  async journal(
    outgoingPayment: string,
    {kind, txid, amount}: {kind: 'effect' | 'cancel'; txid: string; amount: string | number},
  ): Promise<void> {
    await this.db.rows(`begin;
      lock table custody.journal in share row exclusive mode; -- one entry after the other
      insert into custody.whitelist (merchant_id, chain, address)
      select case s.kind when 'payout' then s.merchant_id end, s.chain, s.recipient from app.outgoing_payment s
      where s.id = '${outgoingPayment}' and s.kind <> 'sweep' on conflict do nothing;
      insert into custody.journal (stream, seq, kind, subject_id, merchant_id, token, amount, destination, source, sender, nonce, max_fee, txid, raw,
        details, signed_at, hash)
      select s.chain, 1 + (select coalesce(max(j.seq), 0) from custody.journal j where j.stream = s.chain),
        case when '${kind}' = 'cancel' then 'cancel' when s.kind = 'payout' then 'pay' when s.kind = 'withdrawal' then 'withdraw' else s.kind end,
        case when '${kind}' = 'cancel' then coalesce((select k.subject_id from custody.journal k where k.sender = s.fee_payer and k.nonce = s.nonce limit 1), s.id)
          when s.kind = 'payout' then s.payout_id else s.id end,
        coalesce((select a.merchant_id from custody.address a where a.address = s.source), s.merchant_id), s.token, ${amount}, s.recipient, s.source,
        s.fee_payer, s.nonce, s.max_fee, '${txid}', '0x02', '{"max_fee_per_gas": "1", "max_priority_fee_per_gas": "1", "gas_limit": 10}',
        clock_timestamp(), '${txid}'
      from app.outgoing_payment s where s.id = '${outgoingPayment}';
      commit`)
  }

  /** Signs and stores the payment of a payout that can be paid; resolves to its txid. */
  async payAndSign(payout: string): Promise<string> {
    const short = await this.pay(payout)
    if (short) throw new Error(short)
    return (await this.attempt(await this.payment(payout)))!
  }

  // What the chain does
  // ----------------------------------------------------------------------------------------------------------------

  /** Mines transactions of ours in one block, as the indexer would write them. */
  async mine(txids: string[], {success = true, fee = 7}: Mined = {}): Promise<void> {
    const sent = await this.db.rows<{
      txid: string
      token: string
      amount: string
      recipient: string
      account: string
      nonce: number
    }>(
      `select o.txid, o.token, o.amount, o.recipient, s.fee_payer as account, s.nonce from app.outgoing_attempt o join app.outgoing_payment s on s.id = o.outgoing_payment_id
       where o.txid = any($1) order by s.fee_payer, s.nonce`,
      [txids],
    )
    const toTreasury = sent.filter(({recipient, amount}) => success && recipient === this.treasury && amount !== '0')
    await this.block(
      toTreasury.map(({txid, token, amount, recipient}) => ({txid, token, amount: BigInt(amount), recipient})),
      sent.map(({txid, account, nonce}) => ({txid, account, nonce, success, fee: BigInt(fee)})),
    )
  }

  async mineFinally(txids: string[], mined?: Mined): Promise<void> {
    await this.mine(txids, mined)
    await this.finalise()
  }

  // Results
  // -------------------------------------------------------------------------------------------------------------------

  async status(payout: string): Promise<string> {
    const [row] = await this.db.rows<{status: string}>(
      `select status || coalesce(' ' || error_code, '') as status from app.payout where id = $1`,
      [payout],
    )
    return row!.status
  }

  /** The amount that can be paid out to a merchant. */
  async balance({merchantId}: TestUser, token = 'USDC'): Promise<number> {
    const [row] = await this.db.rows<{amount: string}>(
      'select amount from app.balance_now where merchant_id = $1 and token = $2',
      [merchantId, token],
    )
    return Number(row?.amount ?? 0)
  }

  async operatorFunds(token = 'USDC'): Promise<number> {
    const [row] = await this.db.rows<{funds: string}>(`select app.operator_funds('ETH', $1) as funds`, [token])
    return Number(row!.funds)
  }
}

/** Whether the operator was asked to try again. Some races end like that. */
function isToTryAgain(error: Error & {code?: string}): boolean {
  if (error.code !== '40001') throw error
  return true
}
