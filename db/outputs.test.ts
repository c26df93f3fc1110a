// Outputs, and the transactions that spend them: what is reserved, paid, swept and returned as change. Each step runs
// with the role of its process; a ChainWriter is the chain. After each step the books must balance.
import fc from 'fast-check'
import pg from 'pg'
import {afterAll, beforeAll, describe, expect, test} from 'vitest'
import {assertBooks} from '../test/support/books.ts'
import {ChainWriter, type TestConfirmedTx, type TestTransfer} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {idOf, makeMerchant, watchAddress} from '../test/support/people.ts'
import {until} from '../test/support/until.ts'

const treasury = 'bcrt1qtreasury'

/** A transaction of ours, with the outputs that custody would give it. */
interface Transaction {
  txid: string
  inputs: string[]
  outputs: {recipient: string; amount: bigint}[]
  fee: bigint
}

/** A foreign transaction that spends a foreign coin to addresses of ours. */
interface Parent {
  txid: string
  coin: string
  to: [recipient: string, amount: bigint][]
}

const shown = ({txid, coin, to}: Parent) =>
  to.map(([recipient, amount], output_index) => ({
    txid,
    output_index,
    token: 'BTC',
    amount: String(amount),
    sender: 'bcrt1qsomebody',
    recipient,
    inputs: [coin],
  }))

class Coins {
  readonly db: TestDatabase
  readonly chain: ChainWriter
  readonly api: pg.Pool
  readonly jobs: pg.Pool
  readonly transactions = new Map<string, Transaction>()
  #count = 0

  private constructor(db: TestDatabase, chain: ChainWriter) {
    this.db = db
    this.chain = chain
    this.api = new pg.Pool({connectionString: db.url('sluice_api'), max: 2})
    this.jobs = new pg.Pool({connectionString: db.url('sluice_jobs'), max: 2})
    for (const pool of [this.api, this.jobs]) pool.on('error', () => {}) // dropping the database may come before their goodbye
  }

  static async open(): Promise<Coins> {
    const db = await testDatabase()
    await db.rows(
      `insert into custody.address (address, family, derivation_index, purpose) values ($1, 'bitcoin', 0, 'treasury')`,
      [treasury],
    )
    await db.rows(`select custody.watch_treasury('bitcoin')`)
    return new Coins(db, await ChainWriter.open(db, 'BTC'))
  }

  async close(): Promise<void> {
    await Promise.all([this.api.end(), this.jobs.end(), this.chain.close()])
    await this.db.drop()
  }

  name(what: string): string {
    this.#count += 1
    return `${what}${this.#count}`
  }

  /** A merchant with a payout address, and as many addresses as asked for. */
  async merchant(addresses = 1): Promise<{id: string; addresses: string[]}> {
    const id = await makeMerchant(this.db, ['BTC'])
    await this.db.rows(`select app.set_payout_address($1, 'BTC', $2)`, [id, this.name('bcrt1qshop')])
    const names = Array.from({length: addresses}, () => this.name('bcrt1quser'))
    for (const address of names)
      await watchAddress(this.db, id, {address, family: 'bitcoin', watched: ['BTC'], chains: ['BTC']})
    return {id, addresses: names}
  }

  /** A final payment to an address of ours; resolves to the output. */
  async deposit(recipient: string, amount: bigint): Promise<string> {
    const txid = this.name('in')
    await this.block([{txid, token: 'BTC', amount, recipient}])
    await this.finalise()
    return `${txid}:0`
  }

  async block(transfers: TestTransfer[], confirmedTxs: TestConfirmedTx[] = []): Promise<void> {
    await this.chain.write({add: [{transfers, confirmedTxs}]})
  }

  /** What the source shows of unconfirmed payments to us, of several outputs each. */
  async poll(...parents: Parent[]): Promise<void> {
    await this.chain.query(`select chain.note_unconfirmed('BTC', $1)`, [JSON.stringify(parents.flatMap(shown))])
  }

  /** A foreign payment in a block, with what it spends, and what follows it there. */
  async mineParent(
    {txid, coin, to}: Parent,
    confirmedTxs: TestConfirmedTx[] = [],
    also: TestTransfer[] = [],
  ): Promise<void> {
    const transfers = to.map(([recipient, amount], outputIndex) => ({
      txid,
      outputIndex,
      token: 'BTC',
      amount,
      recipient,
    }))
    const kept = JSON.stringify(shown({txid, coin, to}))
    await this.chain.write({
      add: [{transfers: [...transfers, ...also], confirmedTxs}],
      also: () => this.chain.query(`select chain.note_mined('BTC', $1, $2, $3)`, [kept, [txid], [coin]]),
    })
  }

  async cpfp(inputs: string[], fee: number): Promise<string> {
    const [row] = await this.db.rows<{id: string}>(`select app.begin_cpfp('BTC', $1, $2, 150) as id`, [inputs, fee])
    return row!.id
  }

  async finalise(): Promise<void> {
    await this.chain.finalise(this.chain.head.height)
  }

  /** A payout that is sweeping; resolves to its id. */
  async claim({id}: {id: string}, {sweepFirst = false} = {}): Promise<string> {
    const {rows} = await this.api.query(`select app.create_payout($1, 'BTC', 'BTC', $2, null, null) as reply`, [
      id,
      sweepFirst,
    ])
    const payout = idOf(JSON.parse(rows[0].reply).id)
    await this.work('begin_sweeping', payout)
    return payout
  }

  async work<T = null>(name: string, ...values: unknown[]): Promise<T> {
    const places = values.map((_, n) => `$${n + 1}`)
    const {rows} = await this.jobs.query(`select app.${name}(${places}) as result`, values)
    return rows[0].result
  }

  async outgoingPaymentOf(payout: string): Promise<string> {
    const [outgoingPayment] = await this.db.rows<{id: string}>(
      `select id from app.outgoing_payment where payout_id = $1 and kind = 'payout'`,
      [payout],
    )
    return outgoingPayment!.id
  }

  /**
   * Signs and stores the next attempt of an outgoing payment; resolves to its txid, or to nothing if it came too late,
   * or its inputs hold too little.
   */
  async attempt(
    outgoingPayment: string,
    fee: bigint,
    kind: 'effect' | 'cancel' = 'effect',
  ): Promise<string | undefined> {
    const txid = this.name('out')
    const [s] = await this.db.rows<{
      kind: string
      amount: string
      recipient: string
      next: number
      inputs: string[]
      sum: string
    }>(
      `select s.kind, s.amount, s.recipient, (select count(*)::int + 1 from app.outgoing_attempt o where o.outgoing_payment_id = s.id) as next,
         array_agg(u.txid || ':' || u.vout order by u.txid || ':' || u.vout <> s.first_input, u.txid) as inputs, sum(u.amount) as sum
       from app.outgoing_payment s join (select outgoing_payment_id, txid, vout, amount from app.output
         union all select outgoing_payment_id, txid, vout, amount from app.cpfp_output) u on u.outgoing_payment_id = s.id
       where s.id = $1 group by s.id`,
      [outgoingPayment],
    )
    const isPaid = kind === 'effect' && s!.kind !== 'sweep'
    const paid = isPaid ? [{recipient: s!.recipient, amount: BigInt(s!.amount)}] : []
    const change = BigInt(s!.sum) - fee - (isPaid ? BigInt(s!.amount) : 0n)
    if (change < 0n) return // no transaction gives more than it takes, and custody signs none that claims to
    const outputs = change > 0n ? [...paid, {recipient: treasury, amount: change}] : paid
    const amount = kind === 'cancel' ? 0n : isPaid ? s!.amount : change
    if (
      !(await this.work<boolean>('store_signed', outgoingPayment, s!.next, kind, txid, '02', amount, fee, {
        network_fee: String(fee),
        vsize: 100,
      }))
    )
      return
    this.transactions.set(txid, {txid, inputs: s!.inputs, outputs, fee})
    return txid
  }

  /** A transaction of ours is mined, as the indexer would write it. */
  async mine(txid: string): Promise<void> {
    const {inputs, outputs, fee} = this.transactions.get(txid)!
    await this.block(
      outputs.flatMap(({recipient, amount}, outputIndex) =>
        recipient === treasury ? [{txid, outputIndex, token: 'BTC', amount, recipient}] : [],
      ),
      inputs.map((outpoint, input) => ({txid, outpoint, input, fee})),
    )
  }

  async mineFinally(txid: string): Promise<void> {
    await this.mine(txid)
    await this.finalise()
  }

  async status(payout: string): Promise<string> {
    const [row] = await this.db.rows<{status: string}>('select status from app.payout where id = $1', [payout])
    return row!.status
  }

  async treasurys(): Promise<string[]> {
    const rows = await this.db.rows<{outpoint: string}>(
      `select txid || ':' || vout as outpoint from app.free_output where merchant_id is null`,
    )
    return rows.map(({outpoint}) => outpoint)
  }

  /** Free outputs, as owner and amount. */
  free(): Promise<{owner: string; amount: string}[]> {
    return this.db.rows(`select case when merchant_id is null then 'treasury' else 'merchant' end as owner, amount
      from app.free_output order by amount`)
  }
}

/** The balance, and what of it is held back. */
async function balanceOf(coins: Coins, merchant: {id: string}): Promise<number[]> {
  const [row] = await coins.db.rows<{shown: number[]}>(
    'select array[amount::int, held_back::int] as shown from app.balance_now where merchant_id = $1',
    [merchant.id],
  )
  return row?.shown ?? [0, 0]
}

let coins: Coins
beforeAll(async () => {
  coins = await Coins.open()
})
afterAll(() => coins.close())

describe('a payment from outputs', () => {
  test('sweeps and pays at once: the net to the merchant, the rest to the treasury as change, which is no deposit', async () => {
    const merchant = await coins.merchant()
    const [address] = merchant.addresses
    await coins.deposit(treasury, 50_000n)
    const output = await coins.deposit(address!, 1_000_000n)
    const payout = await coins.claim(merchant)
    expect(await coins.work('begin_output_payment', payout, [output], 300)).toBeNull()
    expect(await coins.status(payout)).toBe('swept')
    await assertBooks(coins.db)
    const txid = await coins.attempt(await coins.outgoingPaymentOf(payout), 300n)
    expect(await coins.status(payout)).toBe('paying')
    await coins.mineFinally(txid!)
    expect(await coins.status(payout)).toBe('completed')
    expect(await coins.free()).toEqual([
      {owner: 'treasury', amount: '9700'}, // 1 % of a million, less the network fee
      {owner: 'treasury', amount: '50000'},
    ])
    expect(await coins.db.rows(`select from app.deposit where txid = $1`, [txid])).toEqual([])
    await assertBooks(coins.db)
  })

  test('an output is reserved for one outgoing payment: a second one is refused, and reserves nothing', async () => {
    const merchant = await coins.merchant(2)
    const [first, second] = merchant.addresses
    const output = await coins.deposit(first!, 100_000n)
    const one = await coins.claim(merchant)
    await coins.deposit(second!, 100_000n)
    const two = await coins.claim(merchant)
    expect(await coins.work('begin_output_payment', one, [output], 300)).toBeNull()
    expect(await coins.work('begin_output_payment', two, [output], 300)).toMatch('not free')
    expect(await coins.status(two)).toBe('sweeping')
    await assertBooks(coins.db)
  })

  test.each([
    ['of another merchant', async () => await coins.deposit((await coins.merchant()).addresses[0]!, 500_000n)],
    ['that is not final', async () => 'in0:0'],
  ])('an output %s is none to pay with', async (_what, other) => {
    const merchant = await coins.merchant()
    const output = await coins.deposit(merchant.addresses[0]!, 100_000n)
    const payout = await coins.claim(merchant)
    expect(await coins.work('begin_output_payment', payout, [output, await other()], 300)).toMatch('not free')
    expect(await coins.work('begin_output_payment', payout, [output, output], 300)).toMatch('not free')
  })

  test('each output is compared with the minimum by itself, and one that is spent all the same is not held back', async () => {
    const setSweepMin = (amount: number) => coins.db.rows(`select app.set_sweep_min('BTC', 'BTC', $1)`, [amount])
    await setSweepMin(1000)
    const merchant = await coins.merchant()
    const [address] = merchant.addresses
    const [large, small] = [await coins.deposit(address!, 100_000n), await coins.deposit(address!, 600n)]
    await coins.deposit(address!, 999n)
    expect(await balanceOf(coins, merchant)).toEqual([101_599, 1_599])
    await assertBooks(coins.db)
    const payout = await coins.claim(merchant)
    expect(await balanceOf(coins, merchant)).toEqual([1_599, 1_599])
    expect(await coins.work('begin_output_payment', payout, [large, small], 300)).toBeNull()
    await coins.mineFinally((await coins.attempt(await coins.outgoingPaymentOf(payout), 300n))!)
    expect(await coins.status(payout)).toBe('completed')
    expect(await balanceOf(coins, merchant)).toEqual([1_599, 999])
    await setSweepMin(999)
    expect(await balanceOf(coins, merchant)).toEqual([1_599, 0])
    await setSweepMin(0)
    await assertBooks(coins.db)
  })

  test('outputs that do not cover the net and the fee begin nothing', async () => {
    const merchant = await coins.merchant()
    const output = await coins.deposit(merchant.addresses[0]!, 100_000n)
    const payout = await coins.claim(merchant)
    expect(await coins.work('begin_output_payment', payout, [output], 1001)).toBe(
      'BTC in these outputs short by 0.00000001',
    )
    expect(await coins.status(payout)).toBe('sweeping')
  })

  test('a cancel brings the inputs to the treasury, and the balance back to the merchant', async () => {
    const merchant = await coins.merchant()
    const output = await coins.deposit(merchant.addresses[0]!, 100_000n)
    const payout = await coins.claim(merchant)
    await coins.work('begin_output_payment', payout, [output], 300)
    const outgoingPayment = await coins.outgoingPaymentOf(payout)
    await coins.attempt(outgoingPayment, 300n)
    await coins.db.rows('select app.cancel_payout_by_operator($1)', [payout])
    await coins.mineFinally((await coins.attempt(outgoingPayment, 600n, 'cancel'))!)
    expect(await coins.status(payout)).toBe('failed')
    await assertBooks(coins.db)
    const again = await coins.claim(merchant) // from the treasury's output, which is the merchant's money
    expect(
      await coins.work('begin_output_payment', again, [`${[...coins.transactions.keys()].at(-1)}:0`], 300),
    ).toBeNull()
    await assertBooks(coins.db)
  })

  test('one that is cancelled and was never signed ends at once, and its outputs are free', async () => {
    const merchant = await coins.merchant()
    const output = await coins.deposit(merchant.addresses[0]!, 100_000n)
    const payout = await coins.claim(merchant)
    await coins.work('begin_output_payment', payout, [output], 300)
    const outgoingPayment = await coins.outgoingPaymentOf(payout)
    const end = (id: string) => coins.work<boolean>('end_unsigned', id)
    expect(await end(outgoingPayment)).toBe(false) // nobody cancelled it
    await coins.db.rows('select app.cancel_payout_by_operator($1)', [payout])
    await coins.db.rows(`insert into app.incident (chain, kind, subject, details) values ('BTC', 'audit', 'x', '{}')`)
    expect(await end(outgoingPayment)).toBe(false) // an older copy of the database may not know what was signed
    await coins.db.rows(`select app.resolve_incident(id, 'kept') from app.incident where resolved_at is null`)
    expect(await end(outgoingPayment)).toBe(true)
    expect(await end(outgoingPayment)).toBe(false)
    expect(await coins.status(payout)).toBe('failed')
    await assertBooks(coins.db)
    const again = await coins.claim(merchant)
    expect(await coins.work('begin_output_payment', again, [output], 300)).toBeNull()
    await coins.mineFinally((await coins.attempt(await coins.outgoingPaymentOf(again), 300n))!)
    expect(await coins.status(again)).toBe('completed')
    await assertBooks(coins.db)
  })

  test('one that custody signed does not end without a transaction, although the signature is not stored', async () => {
    const merchant = await coins.merchant()
    const output = await coins.deposit(merchant.addresses[0]!, 100_000n)
    const payout = await coins.claim(merchant)
    await coins.work('begin_output_payment', payout, [output], 300)
    const outgoingPayment = await coins.outgoingPaymentOf(payout)
    await coins.db.rows(
      `insert into custody.journal (stream, seq, kind, subject_id, txid, details, signed_at, hash)
       values ('BTC', 1 + (select count(*) from custody.journal), 'pay', $1, $2, jsonb_build_object('inputs', json_build_array($3::text)), now(), '')`,
      [payout, coins.name('signed'), output],
    )
    await coins.db.rows('select app.cancel_payout_by_operator($1)', [payout])
    expect(await coins.work('end_unsigned', outgoingPayment)).toBe(false)
    await coins.mineFinally((await coins.attempt(outgoingPayment, 600n, 'cancel'))!)
    await assertBooks(coins.db)
  })

  test('a cancel that its inputs cannot pay for takes an output of the treasury, too', async () => {
    const merchant = await coins.merchant()
    const top = await coins.deposit(treasury, 80_000n)
    const output = await coins.deposit(merchant.addresses[0]!, 1000n)
    expect(await coins.work('begin_output_sweep', null, 'BTC', merchant.id, [output], 300)).toBeNull()
    const [{id: sweep}] = (await coins.db.rows<{id: string}>(
      'select id from app.outgoing_payment where first_input = $1',
      [output],
    )) as [{id: string}]
    await coins.attempt(sweep, 300n)
    expect(await coins.work('add_inputs', sweep, 2, [top])).toBe(false)
    await coins.work('cancel_outgoing_payment', sweep)
    expect(await coins.work('add_inputs', sweep, 2, [top])).toBe(true)
    await coins.mineFinally((await coins.attempt(sweep, 2000n, 'cancel'))!)
    await assertBooks(coins.db)
    expect(await coins.free()).toContainEqual({owner: 'treasury', amount: '79000'})
  })

  test('the attempt that confirms decides, and an output that only another attempt had reserved is free again', async () => {
    const merchant = await coins.merchant()
    const top = await coins.deposit(treasury, 70_000n)
    const output = await coins.deposit(merchant.addresses[0]!, 100_000n)
    const payout = await coins.claim(merchant)
    await coins.work('begin_output_payment', payout, [output], 300)
    const outgoingPayment = await coins.outgoingPaymentOf(payout)
    const first = await coins.attempt(outgoingPayment, 300n)
    expect(await coins.work('add_inputs', outgoingPayment, 2, [top])).toBe(true)
    await coins.attempt(outgoingPayment, 5000n)
    await assertBooks(coins.db)
    await coins.mineFinally(first!)
    expect(await coins.status(payout)).toBe('completed')
    expect(await coins.free()).toContainEqual({owner: 'treasury', amount: '70000'})
    await assertBooks(coins.db)
  })

  test('a foreign transaction that spends one of its outputs opens one incident, and decides nothing until an operator has', async () => {
    const merchant = await coins.merchant(2)
    const outputs = [
      await coins.deposit(merchant.addresses[0]!, 100_000n),
      await coins.deposit(merchant.addresses[1]!, 100_000n),
    ]
    const payout = await coins.claim(merchant)
    await coins.work('begin_output_payment', payout, outputs, 300)
    await coins.attempt(await coins.outgoingPaymentOf(payout), 300n)
    const theft = coins.name('theft')
    await coins.block(
      [],
      outputs.map((outpoint, input) => ({txid: theft, outpoint, input})),
    )
    await coins.finalise()
    const open = () => coins.db.rows(`select kind, subject, details from app.incident where resolved_at is null`)
    const [sender] = [...merchant.addresses].sort() // both did, and one stands for the transaction
    expect(await open()).toMatchObject([
      {kind: 'unknown_transaction', subject: `BTC:${sender}`, details: {sender, count: 1, newest: theft}},
    ])
    expect(await coins.status(payout)).toBe('paying')
    await coins.db.rows(`select app.resolve_incident(id, 'kept') from app.incident where resolved_at is null`)
    await coins.block([])
    await coins.finalise()
    expect(await coins.status(payout)).toBe('failed')
  })

  test('a foreign transaction that spends an output of only a later attempt does not exclude an earlier one, which pays', async () => {
    const merchant = await coins.merchant()
    const top = await coins.deposit(treasury, 70_000n)
    const output = await coins.deposit(merchant.addresses[0]!, 100_000n)
    const payout = await coins.claim(merchant)
    await coins.work('begin_output_payment', payout, [output], 300)
    const outgoingPayment = await coins.outgoingPaymentOf(payout)
    const first = await coins.attempt(outgoingPayment, 300n)
    expect(await coins.work('add_inputs', outgoingPayment, 2, [top])).toBe(true)
    await coins.block([], [{txid: coins.name('theft'), outpoint: top, input: 0}])
    await coins.finalise()
    await coins.db.rows(`select app.resolve_incident(id, 'kept') from app.incident where resolved_at is null`)
    await coins.block([])
    await coins.finalise()
    expect(await coins.status(payout)).toBe('paying')
    await coins.mineFinally(first!)
    expect(await coins.status(payout)).toBe('completed')
  })
})

test('a top-up of the treasury that a deep reorganisation removed is no output any more', async () => {
  const other = await Coins.open()
  const {height} = other.chain.head
  await other.deposit(treasury, 50_000n)
  await other.db.rows(`update chain.cursor set rewind_to = $1 where chain = 'BTC'`, [height])
  await other.chain.rewind(height)
  await other.block([])
  await other.db.rows(`select app.resolve_incident(id, 'reorged') from app.incident where resolved_at is null`)
  expect(await other.free()).toEqual([])
  await assertBooks(other.db)
  await other.close()
})

test('new coins are in the books when they are final, and can be spent after 100 blocks', async () => {
  const other = await Coins.open()
  const merchant = await other.merchant()
  const [address] = merchant.addresses
  await other.block([{txid: 'mined', token: 'BTC', amount: 100_000n, recipient: address!, sender: 'coinbase'}])
  await other.finalise()
  const payout = await other.claim(merchant)
  const begin = () => other.work<string | null>('begin_output_payment', payout, ['mined:0'], 300)
  await other.chain.write({add: Array.from({length: 99}, () => [])})
  expect(await other.free()).toEqual([])
  expect(await other.db.rows('select app.claimed_outputs($1, 10)', [payout])).toEqual([])
  expect(await begin()).toMatch('not free')
  await assertBooks(other.db)
  await other.block([])
  expect(await begin()).toBeNull()
  await other.close()
})

test('with sweep_first a payout waits for sweeps of the outputs it claimed, and for nothing else', async () => {
  const other = await Coins.open()
  await other.deposit(treasury, 1_000_000n)
  const merchant = await other.merchant(2)
  const outputs = []
  for (const address of merchant.addresses) outputs.push(await other.deposit(address, 100_000n))
  const payout = await other.claim(merchant, {sweepFirst: true})
  await other.db.rows('select app.allocate_all_deposits($1, $2, $3)', [merchant.id, 'BTC', 'BTC'])
  const later = await other.deposit(merchant.addresses[0]!, 100_000n)
  for (const output of [outputs[0], later])
    expect(await other.work('begin_output_sweep', null, 'BTC', merchant.id, [output], 200)).toBeNull()
  await other.work('await_sweeps', payout)
  const waitsFor = await other.db.rows<{id: string; first_input: string}>(
    'select s.id, s.first_input from app.payout_sweep l join app.outgoing_payment s on s.id = l.outgoing_payment_id where l.payout_id = $1',
    [payout],
  )
  expect(waitsFor.map(({first_input}) => first_input)).toEqual([outputs[0]])
  await other.work('begin_output_payment', payout, [outputs[1]!, ...(await other.treasurys())], 300)
  expect(await other.status(payout)).toBe('sweeping')
  await other.mineFinally((await other.attempt(waitsFor[0]!.id, 200n))!)
  await other.work('begin_output_payment', payout, [outputs[1]!, ...(await other.treasurys())], 300)
  expect(await other.status(payout)).toBe('swept')
  await other.close()
})

test('an outgoing payment that an older copy began is given up before another purpose gets its first input', async () => {
  const other = await Coins.open()
  const merchants = [await other.merchant(), await other.merchant()]
  const outputs: string[] = []
  const payouts: string[] = []
  for (const merchant of merchants) {
    outputs.push(await other.deposit(merchant.addresses[0]!, 100_000n))
    payouts.push(await other.claim(merchant))
  }
  for (const [i, payout] of payouts.entries()) await other.work('begin_output_payment', payout, [outputs[i]], 300)
  await other.db.rows(
    `select custody.free_outputs(array[jsonb_populate_record(null::custody.journal, jsonb_build_object('stream', 'BTC', 'kind', 'pay',
       'subject_id', $1::text, 'conflict_key', $2::text, 'details', jsonb_build_object('inputs', jsonb_build_array($2::text))))])`,
    [payouts[0], outputs[1]],
  )
  expect(await other.db.rows('select payout_id, first_input from app.outgoing_payment')).toEqual([
    {payout_id: payouts[0], first_input: outputs[1]},
  ])
  expect(await other.status(payouts[1]!)).toBe('failed')
  await other.close()
})

test('a payment that custody signed and an older copy had not stored stays what it is, although it was cancelled since', async () => {
  const other = await Coins.open()
  const merchant = await other.merchant()
  const output = await other.deposit(merchant.addresses[0]!, 100_000n)
  const payout = await other.claim(merchant)
  await other.work('begin_output_payment', payout, [output], 300)
  const entryOf = (seq: number, kind: string, txid: string) => {
    const of = {
      stream: 'BTC',
      seq,
      kind,
      txid,
      subject_id: payout,
      merchant_id: merchant.id,
      token: 'BTC',
      max_fee: 300,
    }
    const amounts = {amount: kind === 'pay' ? 99_000 : 0, source: treasury, sender: treasury, destination: treasury}
    const details = {
      inputs: [output],
      change: 0,
      gross: '100000',
      fee: '500',
      fee_bps: 50,
      network_fee: '300',
      vsize: 150,
    }
    return {...of, ...amounts, details, raw: '02', hash: `${seq}`, signed_at: new Date()}
  }
  const [pay, cancel] = [entryOf(1, 'pay', other.name('pay')), entryOf(2, 'cancel', other.name('cancel'))]
  await other.db.rows(
    `insert into custody.journal (stream, seq, kind, txid, subject_id, merchant_id, token, max_fee, amount, source, sender, destination, details, raw, hash, signed_at)
     select stream, seq, kind, txid, subject_id, merchant_id, token, max_fee, amount, source, sender, destination, details, raw, hash, signed_at
     from jsonb_populate_record(null::custody.journal, $1)`,
    [JSON.stringify(pay)],
  )
  await other.db.rows('select custody.reconcile($1)', [JSON.stringify([cancel])])
  expect(await other.status(payout)).toBe('paying')
  expect(
    await other.db.rows(`select s.kind, array_agg(o.kind order by o.attempt) as attempts from app.outgoing_payment s
      join app.outgoing_attempt o on o.outgoing_payment_id = s.id group by s.id`),
  ).toEqual([{kind: 'payout', attempts: ['effect', 'cancel']}])
  await other.close()
})

test('a sweep takes outputs of one merchant to the treasury, and the operator pays the fee', async () => {
  const merchant = await coins.merchant(3)
  const outputs = []
  for (const address of merchant.addresses) outputs.push(await coins.deposit(address, 10_000n))
  expect(await coins.work('begin_output_sweep', null, 'BTC', merchant.id, outputs, 900)).toBeNull()
  expect(await coins.work('begin_output_sweep', null, 'BTC', merchant.id, outputs, 900)).toMatch('not free')
  const [sweep] = await coins.db.rows<{id: string}>(
    `select id from app.outgoing_payment where kind = 'sweep' and status <> 'final'`,
  )
  await coins.mineFinally((await coins.attempt(sweep!.id, 900n))!)
  expect(
    await coins.db.rows('select amount from app.holding where address = any($1) and amount <> 0', [merchant.addresses]),
  ).toEqual([])
  expect(await coins.free()).toContainEqual({owner: 'treasury', amount: '29100'})
})

describe('a CPFP child', () => {
  let coins: Coins
  beforeAll(async () => {
    coins = await Coins.open()
  })
  afterAll(() => coins.close())

  /** An incoming payment that stays unconfirmed. */
  async function stuck(...to: [recipient: string, amount: bigint][]): Promise<Parent> {
    const txid = coins.name('stuck')
    const parent = {txid, coin: `${txid}-coin:0`, to}
    await coins.poll(parent)
    return parent
  }
  const confirmedTxsOf = (child: string) => {
    const {inputs, fee} = coins.transactions.get(child)!
    return inputs.map((outpoint, input) => ({txid: child, outpoint, input, fee}))
  }
  const madeBy = (child: string): TestTransfer[] =>
    coins.transactions.get(child)!.outputs.map(output => ({...output, txid: child, token: 'BTC'}))
  const outcome = async (outgoingPayment: string) =>
    (
      await coins.db.rows<{status: string; outcome: string | null}>(
        'select status, outcome from app.outgoing_payment where id = $1',
        [outgoingPayment],
      )
    )[0]
  const reserved = async () =>
    (await coins.db.rows<{reserved: string}>(`select reserved from app.treasury where chain = 'BTC'`))[0]!.reserved
  const events = async (txid: string) =>
    (
      await coins.db.rows<{type: string}>(
        'select e.type from app.event e join app.deposit d on d.id = e.subject_id where d.txid = $1 order by d.output_index, e.version',
        [txid],
      )
    ).map(({type}) => type)
  const holdings = (addresses: string[]) =>
    coins.db.rows('select amount from app.holding where address = any($1) and amount <> 0', [addresses])

  test.each([['in one block'], ['in two blocks, both final at once'], ['in two blocks, final one after the other']])(
    'is final when parent and child are mined %s: credited once, swept once, and the merchant can be paid',
    async how => {
      await coins.deposit(treasury, 50_000n)
      const merchant = await coins.merchant(2)
      const before = await reserved()
      const parent = await stuck([merchant.addresses[0]!, 60_000n], [merchant.addresses[1]!, 40_000n])
      const inputs = [`${parent.txid}:0`, `${parent.txid}:1`]
      const outgoingPayment = await coins.cpfp(inputs, 3000)
      expect(BigInt(await reserved()) - BigInt(before)).toBe(3000n)
      await assertBooks(coins.db)
      const child = (await coins.attempt(outgoingPayment, 3000n))!
      await assertBooks(coins.db)
      if (how === 'in one block') await coins.mineParent(parent, confirmedTxsOf(child), madeBy(child))
      else {
        await coins.mineParent(parent)
        if (how.endsWith('other')) {
          await coins.finalise()
          await assertBooks(coins.db)
          expect(
            await coins.db.rows('select outgoing_payment_id from app.output where txid = $1', [parent.txid]),
          ).toEqual([{outgoing_payment_id: outgoingPayment}, {outgoing_payment_id: outgoingPayment}])
        }
        await coins.block(madeBy(child), confirmedTxsOf(child))
      }
      expect(await outcome(outgoingPayment)).toEqual({status: 'live', outcome: null})
      await coins.finalise()
      await assertBooks(coins.db)
      expect(await outcome(outgoingPayment)).toEqual({status: 'final', outcome: 'done'})
      expect(await events(parent.txid)).toEqual(Array(2).fill(['deposit.pending', 'deposit.confirmed']).flat())
      expect(await holdings(merchant.addresses)).toEqual([])
      expect(await reserved()).toBe(before)
      expect(await coins.db.rows('select from app.deposit where txid = $1', [child])).toEqual([])
      const payout = await coins.claim(merchant)
      const others = (await coins.treasurys()).filter(output => output !== `${child}:0`)
      expect(await coins.work('begin_output_payment', payout, [`${child}:0`, ...others.slice(0, 1)], 300)).toBeNull()
      await coins.mineFinally((await coins.attempt(await coins.outgoingPaymentOf(payout), 300n))!)
      expect(await coins.status(payout)).toBe('completed')
      await assertBooks(coins.db)
    },
  )

  test('of a top-up of the treasury costs the fee, and the rest can be spent', async () => {
    await coins.deposit(treasury, 50_000n)
    const parent = await stuck([treasury, 70_000n])
    const child = (await coins.attempt(await coins.cpfp([`${parent.txid}:0`], 2000), 2000n))!
    await coins.mineParent(parent, confirmedTxsOf(child), madeBy(child))
    await coins.finalise()
    await assertBooks(coins.db)
    expect(await coins.treasurys()).toContain(`${child}:0`)
    expect(await coins.treasurys()).not.toContain(`${parent.txid}:0`)
  })

  test('that was not signed before its parent is final becomes an ordinary sweep of its reserved outputs', async () => {
    await coins.deposit(treasury, 50_000n)
    const merchant = await coins.merchant()
    const parent = await stuck([merchant.addresses[0]!, 60_000n])
    const outgoingPayment = await coins.cpfp([`${parent.txid}:0`], 3000)
    await coins.mineParent(parent)
    await coins.finalise()
    await assertBooks(coins.db)
    const payout = await coins.claim(merchant)
    expect(await coins.work('begin_output_payment', payout, [`${parent.txid}:0`], 300)).toMatch('not free')
    expect(
      await coins.db.rows('select from app.cpfp_output where outgoing_payment_id = $1', [outgoingPayment]),
    ).toEqual([])
    await coins.mineFinally((await coins.attempt(outgoingPayment, 3000n))!)
    expect(await outcome(outgoingPayment)).toEqual({status: 'final', outcome: 'done'})
    await assertBooks(coins.db)
  })

  test('waits while its parent is gone, and continues when the parent is back', async () => {
    await coins.deposit(treasury, 50_000n)
    const merchant = await coins.merchant()
    const parent = await stuck([merchant.addresses[0]!, 60_000n])
    const outgoingPayment = await coins.cpfp([`${parent.txid}:0`], 3000)
    const child = (await coins.attempt(outgoingPayment, 3000n))!
    await coins.poll()
    await coins.db.rows(`update chain.unconfirmed set missed_since = missed_since - interval '30 seconds'`)
    await coins.poll()
    await coins.block([])
    await coins.finalise()
    expect(await events(parent.txid)).toEqual(['deposit.pending', 'deposit.reorged'])
    expect(await outcome(outgoingPayment)).toEqual({status: 'live', outcome: null})
    await assertBooks(coins.db)
    await coins.mineParent(parent, confirmedTxsOf(child), madeBy(child))
    await coins.finalise()
    expect(await outcome(outgoingPayment)).toEqual({status: 'final', outcome: 'done'})
    await assertBooks(coins.db)
  })

  test('is over, and its fee is free again, only when a final payment to us excludes its parent', async () => {
    await coins.deposit(treasury, 50_000n)
    const merchant = await coins.merchant()
    const before = await reserved()
    const parent = await stuck([merchant.addresses[0]!, 60_000n])
    const outgoingPayment = await coins.cpfp([`${parent.txid}:0`], 3000)
    await coins.attempt(outgoingPayment, 3000n)
    const replacement = {...parent, txid: coins.name('replacement')}
    await coins.mineParent(replacement)
    expect(await outcome(outgoingPayment)).toEqual({status: 'live', outcome: null})
    await coins.finalise()
    expect(await outcome(outgoingPayment)).toEqual({status: 'final', outcome: 'conflicted'})
    expect(await reserved()).toBe(before)
    await assertBooks(coins.db)
    expect(
      await coins.db.rows('select outgoing_payment_id from app.output where txid = $1', [replacement.txid]),
    ).toEqual([{outgoing_payment_id: null}])
  })

  test('that ends at the block in which a payment is final causes no deadlock with storing an attempt of that payment', async () => {
    await coins.deposit(treasury, 50_000n)
    const merchant = await coins.merchant()
    const own = await coins.deposit(merchant.addresses[0]!, 60_000n)
    const payout = await coins.claim(merchant)
    const spare = (await coins.treasurys())[0]!
    expect(await coins.work('begin_output_payment', payout, [own, spare], 300)).toBeNull()
    const payment = await coins.outgoingPaymentOf(payout)
    const first = (await coins.attempt(payment, 300n))!
    const parent = await stuck([merchant.addresses[0]!, 60_000n])
    const outgoingPayment = await coins.cpfp([`${parent.txid}:0`], 3000)
    await coins.mineParent({...parent, txid: coins.name('replacement')})
    await coins.mine(first)

    const storing = await coins.db.pool.connect()
    try {
      await storing.query('begin')
      await storing.query('select from app.payout where id = $1 for update', [payout]) // as app.store_signed does first
      const finalising = coins.finalise().catch((error: Error) => error)
      const waits = async () =>
        (
          await coins.db.rows(
            `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
          )
        ).length > 0
      await until(waits, {timeoutMs: 5000, what: 'finality to wait for the payout'})
      const feeDetails = {network_fee: '400', vsize: 100}
      await storing.query(`select app.store_signed($1, 2, 'effect', $2, '02', 1, 400, $3)`, [
        payment,
        coins.name('out'),
        feeDetails,
      ])
      await storing.query('commit')
      expect(await finalising).toBeUndefined()
    } finally {
      storing.release(true)
    }
    expect(await coins.status(payout)).toBe('completed')
    expect(await outcome(outgoingPayment)).toEqual({status: 'final', outcome: 'conflicted'})
    await assertBooks(coins.db)
  })

  test('is refused for anything but free unconfirmed outputs of one transaction and one owner, worth more than the fee', async () => {
    await coins.deposit(treasury, 50_000n)
    const [one, other] = [await coins.merchant(), await coins.merchant()]
    const [a, b] = [one.addresses[0]!, other.addresses[0]!]
    const parent = await stuck([a, 60_000n], [b, 60_000n], [a, 5000n], [treasury, 5000n])
    const second = await stuck([a, 60_000n])
    await coins.poll(parent, second)
    const out = (n: number, {txid} = parent) => `${txid}:${n}`
    const final = await coins.deposit(a, 60_000n)
    const mined = await stuck([a, 60_000n])
    await coins.poll(parent, second, mined)
    await coins.mineParent(mined)
    const none = 'not unconfirmed outputs of one transaction'
    for (const inputs of [
      [],
      [final],
      [out(0, mined)],
      [out(0), out(1)],
      [out(0), out(3)],
      [out(0), out(0, second)],
      [out(0), out(0)],
      [out(9)],
    ])
      await expect(coins.cpfp(inputs, 1000)).rejects.toThrow(none)
    await expect(coins.cpfp([out(2)], 5000)).rejects.toThrow('no more than the network fee')
    await expect(coins.cpfp([out(0)], 59_999_999)).rejects.toThrow('no more than the network fee')
    const outgoingPayment = await coins.cpfp([out(0), out(2)], 1000)
    for (const inputs of [[out(0)], [out(2)], [out(2), out(0)]])
      await expect(coins.cpfp(inputs, 1000)).rejects.toThrow('a child transaction of ours already spends')
    expect(await coins.cpfp([out(1)], 1000)).not.toBe(outgoingPayment)
    await assertBooks(coins.db)
  })

  test("is refused if the operator's own money does not cover its fee", async () => {
    const other = await Coins.open()
    const merchant = await other.merchant()
    await other.deposit(treasury, 1000n)
    await other.poll({txid: 'poor', coin: 'coin:0', to: [[merchant.addresses[0]!, 60_000n]]})
    await expect(other.cpfp(['poor:0'], 1001)).rejects.toThrow('BTC short by 0.00000001')
    await other.cpfp(['poor:0'], 1000)
    await assertBooks(other.db)
    await other.close()
  })
})

test('after deposits, payments, replacements, cancels and blocks in any order, the books balance after every step', async () => {
  const walk = await Coins.open()
  const merchants = [await walk.merchant(2), await walk.merchant(2)]
  await walk.deposit(treasury, 1_000_000n)
  const free = async (merchant: string | null) => {
    const rows = await walk.db.rows<{outpoint: string}>(
      `select txid || ':' || vout as outpoint from app.output where merchant_id is not distinct from $1 and outgoing_payment_id is null and spent_by is null
       order by amount desc limit 3`,
      [merchant],
    )
    return rows.map(({outpoint}) => outpoint)
  }
  const live = async (n: number) => {
    const rows = await walk.db.rows<{id: string; fee: string; merchant: string; attempts: number}>(
      `select s.id, s.max_fee as fee, s.merchant_id as merchant, (select count(*)::int from app.outgoing_attempt o where o.outgoing_payment_id = s.id) as attempts
       from app.outgoing_payment s where s.status <> 'final' order by s.id`,
    )
    return rows[n % rows.length]
  }
  const actions: Record<string, (n: number) => Promise<unknown>> = {
    deposit: n => walk.deposit(merchants[n % 2]!.addresses[n % 3 === 0 ? 1 : 0]!, BigInt(20_000 + (n % 7) * 10_000)),
    setSweepMin: n => walk.db.rows(`select app.set_sweep_min('BTC', 'BTC', $1)`, [(n % 8) * 10_000]),
    async pay(n) {
      const merchant = merchants[n % 2]!
      const payout = await walk.claim(merchant).catch(() => undefined) // there may be nothing to pay out
      if (!payout) return
      const inputs = [...(await free(merchant.id)), ...(n % 3 ? await free(null) : [])]
      const short = await walk.work('begin_output_payment', payout, inputs, 200 + n)
      if (short) await walk.work('fail_payout', payout, 'timed_out', String(short))
    },
    async sweep(n) {
      const merchant = merchants[n % 2]!
      await walk.work('begin_output_sweep', null, 'BTC', merchant.id, await free(merchant.id), 200 + n)
    },
    async sign(n) {
      const outgoingPayment = await live(n)
      if (outgoingPayment)
        await walk.attempt(outgoingPayment.id, BigInt(outgoingPayment.fee) + BigInt(outgoingPayment.attempts * 200))
    },
    async add(n) {
      const outgoingPayment = await live(n)
      if (outgoingPayment)
        await walk.work(
          'add_inputs',
          outgoingPayment.id,
          outgoingPayment.attempts + 1,
          [...(await free(outgoingPayment.merchant)), ...(await free(null))].slice(0, 2),
        )
    },
    async cancel(n) {
      const outgoingPayment = await live(n)
      if (!outgoingPayment) return
      await walk.db.rows(
        `select app.cancel_payout_by_operator(s.payout_id) from app.outgoing_payment s join app.payout p on p.id = s.payout_id
         where s.id = $1 and p.status not in ('completed', 'failed')`,
        [outgoingPayment.id],
      )
      await walk.attempt(outgoingPayment.id, BigInt(outgoingPayment.fee) + 200n, 'cancel')
    },
    async mine(n) {
      const stored = await walk.db.rows<{txid: string}>(
        `select o.txid from app.outgoing_attempt o join app.outgoing_payment s on s.id = o.outgoing_payment_id where s.status <> 'final' order by o.stored_at`,
      )
      if (stored.length) await walk.mineFinally(stored[n % stored.length]!.txid)
    },
  }
  const step = fc.record({what: fc.constantFrom(...Object.keys(actions)), n: fc.nat(100)})
  await fc.assert(
    fc.asyncProperty(fc.array(step, {minLength: 25, maxLength: 40}), async steps => {
      for (const {what, n} of steps) {
        await actions[what]!(n)
        await assertBooks(walk.db)
      }
    }),
    {numRuns: 12, endOnFailure: true},
  )
  const reached = await walk.db.rows<{outcome: string}>(
    'select distinct outcome from app.outgoing_payment where status = $1 order by 1',
    ['final'],
  )
  expect(reached.map(({outcome}) => outcome)).toEqual(['cancelled', 'done'])
  await walk.close()
}, 120_000)
