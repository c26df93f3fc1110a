// What sluice custody reconcile recognises of transactions that a lost journal had, and what it leaves to an operator.
// The tests write the chain.
import {readFileSync} from 'node:fs'
import pg from 'pg'
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {newTxid, WrittenBitcoin} from '../../test/support/bitcoin/written-world.ts'
import {assertBooks} from '../../test/support/books.ts'
import {hashOf} from '../../test/support/chain-writer.ts'
import {fees, newAddress, WrittenEvm} from '../../test/support/evm/written-world.ts'
import {junk, type Merchant} from '../../test/support/written-world.ts'
import {families} from '../families.ts'
import {localKeys} from '../keys/key-store.ts'
import {sealOf} from '../keys/seal.ts'
import {journalFile} from './file.ts'
import {enterFound} from './found.ts'
import {incompleteMark} from './incomplete.ts'

let world: WrittenEvm
let client: pg.Client
let nonce = 0
let count = 0

beforeAll(async () => {
  world = await WrittenEvm.open()
  client = new pg.Client({connectionString: world.db.ownerUrl})
  await client.connect()
  await world.deposit(world.treasury, 10n ** 18n)
})
afterAll(async () => {
  await client.end()
  await world.close()
})
afterEach(async () => {
  await world.writer.write({add: [[]]}) // what was entered ends its payments with the next block
  await world.db.rows(
    `select app.resolve_incident(id, 'kept') from app.incident where resolved_at is null and kind = 'unknown_transaction'`,
  )
  await world.finalise()
  await assertBooks(world.db)
})

interface Moved {
  recipient: string
  amount: bigint
  sender?: string
  token?: string
}

interface Sent {
  /** By default of the treasury. */
  account?: string
  nonce?: number
  success?: boolean
  isFinal?: boolean
  /** The time of its block; by default now. */
  at?: Date
}

/** A transaction in a block that neither the journal nor the database has, as the indexer writes it. */
async function send(
  moved: Moved[],
  {account = world.treasury, isFinal = true, at, ...more}: Sent = {},
): Promise<string> {
  count += 1
  const txid = hashOf(`unknown ${count}`)
  const confirmedTxs = [{txid, account, nonce: account === world.treasury ? nonce : 0, fee: 10n, ...more}]
  nonce += account === world.treasury ? 1 : 0
  await world.writer.write({add: [{confirmedTxs}]})
  if (at) await world.db.rows('update chain.confirmed_tx set block_time = $2 where txid = $1', [txid, at])
  const parts = moved.map(({recipient, amount, sender = world.treasury, token = 'ETH'}) => ({
    sender,
    recipient,
    token,
    amount: String(amount),
  }))
  await world.db.rows(`select chain.note_moved('ETH', $1)`, [JSON.stringify({[txid]: parts})])
  if (isFinal) await world.finalise()
  return txid
}

const enter = () => enterFound(client, async () => await sealOf(await localKeys(junk, families)))
/** What was entered, in words by txid, and the txids that were left. */
async function found(): Promise<{entered: Record<string, string>; left: string[]}> {
  const {entered, left} = await enter()
  return {entered: Object.fromEntries(entered.map(({txid, what}) => [txid, what])), left: left.map(({txid}) => txid)}
}

/** A payout of 990 base units. */
async function requested(merchant: Merchant): Promise<string> {
  await world.deposit(merchant.address, 1000n)
  return await world.request(merchant, 'ETH')
}
const named = (payout: string) => `payout pay_${payout.replaceAll('-', '')}`
const payoutsOf = ({id}: Merchant) =>
  world.db.rows<{status: string; gross: string; txid: string | null}>(
    'select status, gross::text, txid from app.payout where merchant_id = $1 order by created_at',
    [id],
  )
/** The next block comes: what is final ends its payment. */
const nextBlock = async () => {
  await world.writer.write({add: [[]]})
  await world.finalise()
}

test('a payout that waits for exactly this is completed by it, of equal ones the oldest; what paid more often is a payout that the copy does not have', async () => {
  const shop = await world.merchant()
  const [first, second] = [await requested(shop), await requested(shop)]
  const paid = {recipient: shop.payoutAddress, amount: 990n}
  const txids = [await send([paid]), await send([paid]), await send([paid])]
  const {entered, left} = await found()
  expect([entered[txids[0]!], entered[txids[1]!]]).toEqual([named(first), named(second)])
  expect(entered[txids[2]!]).toMatch(/^a payout that this copy does not have: it is pay_[0-9a-f]{32} from now on$/)
  expect(left).toEqual([])
  await nextBlock()
  const completed = txids.map(txid => ({status: 'completed', gross: '1000', txid}))
  expect((await payoutsOf(shop)).sort((a, b) => txids.indexOf(a.txid!) - txids.indexOf(b.txid!))).toEqual(completed)
  const balance = 'select amount::text from app.balance_now where merchant_id = $1'
  expect(await world.db.rows(balance, [shop.id])).toEqual([{amount: '-1000'}]) // its deposit is not read yet
  expect(await found()).toEqual({entered: {}, left: []})
})

test('what is in no final block is left, and entered when it is', async () => {
  const shop = await world.merchant()
  const payout = await requested(shop)
  const txid = await send([{recipient: shop.payoutAddress, amount: 990n}], {isFinal: false})
  expect((await enter()).left).toMatchObject([
    {txid, isFinal: false, paid: `0.00000000000000099 ETH to ${shop.payoutAddress}`},
  ])
  await world.finalise()
  expect((await found()).entered).toEqual({[txid]: named(payout)})
})

test('what custody cannot have signed so, and what may be several things, is left to an operator', async () => {
  const [shop, twin] = [await world.merchant(), await world.merchant()]
  const payout = await requested(shop)
  await world.deposit(twin.address, 1000n)
  await world.whitelist(shop.id, twin.payoutAddress)
  const [to, stranger] = [shop.payoutAddress, newAddress()]
  const left = [
    await send([{recipient: to, amount: 990n}], {success: false}),
    await send([]),
    await send([{recipient: stranger, amount: 990n}]),
    await send([
      {recipient: to, amount: 990n},
      {recipient: stranger, amount: 1n},
    ]),
    await send([
      {recipient: to, amount: 990n},
      {recipient: to, amount: 990n},
    ]),
    await send([{recipient: to, amount: 990n, sender: twin.address}], {account: twin.address}),
    await send([{recipient: to, amount: 990n, token: newAddress()}]),
    await send([{recipient: twin.payoutAddress, amount: 990n}]), // on the whitelists of two merchants
    await send([{recipient: world.treasury, amount: 500n, sender: shop.address}], {
      account: shop.address,
      nonce: 7,
    }).then(async txid => {
      await world.db.rows('update app.holding set amount = amount - 900 where address = $1', [shop.address])
      return txid
    }),
  ]
  expect((await found()).left.toSorted()).toEqual(left.toSorted())
  await world.db.rows('update app.holding set amount = amount + 900 where address = $1', [shop.address])
  expect((await found()).left.toSorted()).toEqual(left.slice(0, -1).toSorted()) // the ledger has it on the address
  expect(await payoutsOf(shop)).toMatchObject([{status: 'pending'}])
  await world.db.rows('select app.cancel_payout_by_operator($1)', [payout])
})

test('a payout that was requested later than the block is not what it paid', async () => {
  const shop = await world.merchant()
  const payout = await requested(shop)
  const txid = await send([{recipient: shop.payoutAddress, amount: 990n}], {at: new Date(Date.now() - 3 * 3_600_000)})
  expect((await found()).entered[txid]).toMatch(/^a payout that this copy does not have/)
  await world.db.rows('select app.cancel_payout_by_operator($1)', [payout])
})

test('the time of a block may be a little before the request of what it paid', async () => {
  const shop = await world.merchant()
  const payout = await requested(shop)
  const txid = await send([{recipient: shop.payoutAddress, amount: 990n}], {at: new Date(Date.now() - 3_600_000)})
  expect((await found()).entered).toEqual({[txid]: named(payout)})
})

const nonceOf = async (payout: string) =>
  (await world.db.rows<{nonce: number}>('select nonce from app.outgoing_payment where payout_id = $1', [payout]))[0]!
    .nonce

/** A payout whose payment is begun; what is sent next has its nonce. */
async function begun(shop: Merchant): Promise<string> {
  const payout = await world.swept(shop)
  await world.db.rows('select app.begin_payment($1, 42000000000000)', [payout])
  nonce = await nonceOf(payout)
  return payout
}

/** One whose payment custody has signed with this nonce. */
async function signed(shop: Merchant): Promise<{payout: string; nonce: number}> {
  const payout = await begun(shop)
  expect(await world.sign({intent: 'pay', payout_id: payout, nonce, ...fees})).toMatchObject([{ok: true}])
  return {payout, nonce}
}

const keep = async (): Promise<string> =>
  await world.db
    .rows(`select app.resolve_incident(id, 'kept') from app.incident where resolved_at is null`)
    .then(() => 'kept', String)

test('what a payout that is under way has been replaced by is its payment: not kept while it is in no final block, nor once it left the chain', async () => {
  const shop = await world.merchant()
  const {payout, nonce: taken} = await signed(shop)
  const txid = await send([{recipient: shop.payoutAddress, amount: 990n}], {isFinal: false})
  expect((await enter()).left).toMatchObject([{txid}])
  expect(await keep()).toContain(`${txid} may have paid what ${named(payout)} still waits to pay`)
  await world.writer.write({drop: 1, add: [[]]})
  expect(await keep()).toContain(`${txid} may have paid what ${named(payout)} still waits to pay`)
  nonce = taken
  count -= 1
  await send([{recipient: shop.payoutAddress, amount: 990n}])
  expect((await found()).entered).toEqual({[txid]: named(payout)})
  await nextBlock()
  expect(await payoutsOf(shop)).toMatchObject([{status: 'completed', txid}])
})

test('what was signed with one nonce is not paid with another: that is a payout that the copy does not have, and the rest can be kept', async () => {
  const shop = await world.merchant()
  await signed(shop)
  const cancelled = await send([])
  const txid = await send([{recipient: shop.payoutAddress, amount: 990n}]) // requested again, and paid
  const {entered, left} = await found()
  expect(entered[txid]).toMatch(/^a payout that this copy does not have/)
  expect(left).toEqual([cancelled])
  expect(await keep()).toBe('kept')
  await nextBlock()
  expect((await payoutsOf(shop)).map(({status}) => status).sort()).toEqual(['completed', 'failed'])
  expect(await world.db.rows('select amount::text from app.balance_now where merchant_id = $1', [shop.id])).toEqual([
    {amount: '0'},
  ])
})

test.each(['decided in the copy', 'decided since'])(
  'unattributed value that was returned is returned, and not returned again: %s',
  async when => {
    const shop = await world.merchant()
    await world.api.query(`select app.provision_user($1, $2, array['POLYGON'])`, [shop.id, when])
    const [{address}] = (await world.db.rows<{address: string}>(
      `select a.address from app.address a join app.user u on u.id = a.user_id where u.external_ref = $1`,
      [when],
    )) as [{address: string}]
    await world.deposit(address, 3000n)
    const [{id}] = (await world.db.rows<{id: string}>(
      'select id from app.deposit where address = $1 and not credited',
      [address],
    )) as [{id: string}]
    const own = newAddress()
    await world.whitelist(null, own)
    const decide = () => world.db.rows('select app.return_unattributed($1, $2)', [id, own])
    if (when === 'decided in the copy') await decide()
    const moved = 2980n // the most that the fee could have been is not what it was
    const txids = [
      await send([{sender: address, recipient: world.treasury, amount: moved}], {account: address}),
      await send([{recipient: own, amount: moved}]),
    ]
    if (when === 'decided in the copy') expect(await keep()).toMatch(/may have paid what return of dep_/)
    const {entered, left} = await found()
    expect([Object.keys(entered), left]).toEqual([txids, []])
    await nextBlock()
    await expect(decide()).rejects.toThrow('was returned already')
    expect(await world.db.rows('select from app.due_return')).toEqual([])
    expect(
      await world.db.rows(
        `select s.outcome as swept, w.outcome as paid, w.amount::text from app.unattributed_decision u
         join app.outgoing_payment s on s.id = u.sweep_id join app.outgoing_payment w on w.id = u.withdrawal_id where u.deposit_id = $1`,
        [id],
      ),
    ).toEqual([{swept: 'done', paid: 'done', amount: String(moved)}])
  },
)

test("an operator's withdrawal of what a sweep of the merchant's money brought is no return of something larger", async () => {
  const shop = await world.merchant()
  await world.api.query(`select app.provision_user($1, 'both', array['POLYGON'])`, [shop.id])
  const [{address}] = (await world.db.rows<{address: string}>(
    `select a.address from app.address a join app.user u on u.id = a.user_id where u.external_ref = 'both'`,
  )) as [{address: string}]
  await world.deposit(address, 3000n) // unattributed
  await world.api.query(`select app.provision_user($1, 'both', array['ETH'])`, [shop.id])
  await world.deposit(address, 1000n)
  const own = newAddress()
  await world.whitelist(null, own)
  const txids = [
    await send([{sender: address, recipient: world.treasury, amount: 980n}], {account: address}),
    await send([{recipient: own, amount: 980n}]),
  ]
  expect((await found()).entered).toEqual({
    [txids[0]!]: `a sweep of ${address}`,
    [txids[1]!]: expect.stringMatching(/^a withdrawal that this copy does not have/),
  })
  await nextBlock()
  expect(
    await world.db.rows(
      'select from app.unattributed_decision u join app.deposit d on d.id = u.deposit_id where d.address = $1',
      [address],
    ),
  ).toEqual([])
})

test("what an address sent back that its merchant's coins there do not cover was gas, and what they cover was a sweep", async () => {
  await world.db.rows(`update app.asset set sweep_by = 'fund' where chain = 'ETH' and token = 'USDC'`)
  const {address} = await world.merchant()
  await world.deposit(address, 1000n)
  const toTreasury = (amount: bigint, nonce: number) =>
    send([{sender: address, recipient: world.treasury, amount}], {account: address, nonce})
  const fund = await send([{recipient: address, amount: 5000n}])
  expect((await found()).entered).toEqual({[fund]: `gas for ${address}`})
  await nextBlock()
  const [back, tooMuch, sweep] = [await toTreasury(3000n, 0), await toTreasury(4991n, 1), await toTreasury(900n, 2)]
  const {entered, left} = await found()
  expect(entered).toEqual({[back]: `gas of ${address}`, [sweep]: `a sweep of ${address}`})
  expect(left).toEqual([tooMuch])
  await nextBlock()
  const holds = `select amount::int from app.gas where address = $1
    union all select amount::int from app.holding where address = $1 and token = 'ETH'`
  expect(await world.db.rows(holds, [address])).toEqual([{amount: 1990}, {amount: 90}])
  await world.db.rows(`update app.asset set sweep_by = null where chain = 'ETH' and token = 'USDC'`)
})

test('one that does not fit does not keep the others from being entered', async () => {
  const [shop, other] = [await world.merchant(), await world.merchant()]
  const payout = await requested(other)
  await world.db.rows('update app.merchant set fee_bps = 10000 where id = $1', [shop.id]) // nothing would have been left to pay
  const odd = [
    await send([{recipient: shop.payoutAddress, amount: 990n}]),
    await send([{recipient: other.payoutAddress, amount: 0n}]),
  ]
  const txid = await send([{recipient: other.payoutAddress, amount: 990n}])
  const {entered, left} = await found()
  expect(entered).toEqual({[txid]: named(payout)})
  expect(left).toEqual(odd)
  await world.db.rows('update app.merchant set fee_bps = 100 where id = $1', [shop.id])
})

test('two at once: one enters, the other one is refused, and nothing is entered twice', async () => {
  const shop = await world.merchant()
  await send([{recipient: shop.payoutAddress, amount: 990n}])
  const other = new pg.Client({connectionString: world.db.ownerUrl})
  await other.connect()
  const {promise: mayGoOn, resolve: goOn} = Promise.withResolvers<void>()
  const {promise: isAt, resolve: arrived} = Promise.withResolvers<void>()
  const seal = async () => await sealOf(await localKeys(junk, families))
  const first = enterFound(client, async () => {
    arrived()
    await mayGoOn
    return await seal()
  })
  await isAt
  await expect(enterFound(other, seal)).rejects.toThrow('runs already')
  goOn()
  expect((await first).entered).toHaveLength(1)
  expect((await enterFound(other, seal)).entered).toEqual([])
  await other.end()
  expect(await payoutsOf(shop)).toHaveLength(1)
})

test("what went to an address on the operator's whitelist alone is a withdrawal", async () => {
  const own = newAddress()
  await world.whitelist(null, own)
  const txid = await send([{recipient: own, amount: 5000n}])
  expect((await found()).entered[txid]).toMatch(
    /^a withdrawal that this copy does not have: it is [0-9a-f-]{36} from now on$/,
  )
  await nextBlock()
  expect(
    await world.db.rows('select kind, outcome, amount::text from app.outgoing_payment where txid = $1', [txid]),
  ).toEqual([{kind: 'withdrawal', outcome: 'done', amount: '5000'}])
})

test('a withdrawal that waits is what paid exactly that, and is not paid again', async () => {
  const own = newAddress()
  await world.whitelist(null, own)
  const [{id}] = (await world.db.rows<{id: string}>(
    `select app.begin_withdrawal('ETH', 'ETH', 7000, $1, 42000000000000) as id`,
    [own],
  )) as [{id: string}]
  const txid = await send([{recipient: own, amount: 7000n}])
  const [incident] = await world.db.rows<{id: string}>(`select id from app.incident where resolved_at is null`)
  const keep = world.db.rows(`select app.resolve_incident($1, 'kept')`, [incident!.id])
  await expect(keep).rejects.toThrow(`transaction ${txid} may have paid what withdrawal ${id} still waits to pay`)
  expect((await found()).entered).toEqual({[txid]: `withdrawal ${id}`})
  await nextBlock()
  expect(await world.db.rows('select outcome, txid from app.outgoing_payment where id = $1', [id])).toEqual([
    {outcome: 'done', txid},
  ])
})

test('custody takes over what was entered, counts it as paid to the merchant, and signs on', async () => {
  const shop = await world.merchant()
  const waiting = await world.swept(shop) // in the copy; its merchant cancelled it since, and was paid as part of another payout
  await send([{recipient: shop.payoutAddress, amount: 1100n}])
  expect(Object.values((await found()).entered)).toEqual([
    expect.stringMatching(/^a payout that this copy does not have/),
  ])
  await nextBlock()
  const check = await world.custody.ask('/check', {payout_id: waiting})
  expect(check.body).toMatchObject({ok: false, code: 'exceeds_received'})
  const other = await world.swept(await world.merchant())
  await world.db.rows('select app.begin_payment($1, 42000000000000)', [other])
  const [{nonce}] = (await world.db.rows<{nonce: number}>(
    'select nonce from app.outgoing_payment where payout_id = $1',
    [other],
  )) as [{nonce: number}]
  expect(await world.sign({intent: 'pay', payout_id: other, nonce, ...fees})).toMatchObject([{ok: true}])
  const lines = readFileSync(journalFile(world.home), 'utf8')
    .split('\n')
    .filter(line => line.includes('"stream":"ETH"'))
  expect(lines.map(line => JSON.parse(line).hash)).toEqual((await world.journal()).map(({hash}) => hash))
  expect(incompleteMark(journalFile(world.home))).toBeUndefined() // several were entered between two looks of custody
  await world.db.rows('select app.cancel_payout_by_operator($1)', [waiting])
})

test('an incident is not kept while a payout waits to pay exactly what one of its transactions paid', async () => {
  const shop = await world.merchant()
  const payout = await requested(shop)
  const txid = await send([{recipient: shop.payoutAddress, amount: 990n}])
  const [{id}] = (await world.db.rows(`select id from app.incident where resolved_at is null`)) as [{id: string}]
  const keep = () => world.db.rows(`select app.resolve_incident($1, 'kept')`, [id])
  await expect(keep()).rejects.toThrow(`transaction ${txid} may have paid what ${named(payout)} still waits to pay`)
  await world.db.rows('select app.cancel_payout_by_operator($1)', [payout])
  await keep()
})

test('on Bitcoin, what brought outputs of one merchant alone to the treasury is a sweep', async () => {
  const chain = await WrittenBitcoin.open()
  const owner = new pg.Client({connectionString: chain.db.ownerUrl})
  await owner.connect()
  const [shop, other] = [await chain.merchant(), await chain.merchant()]
  const sweep = async (outpoints: [of: string, outpoint: string][], amount: bigint, fee: bigint) => {
    const txid = newTxid()
    const confirmedTxs = outpoints.map(([account, outpoint], input) => ({txid, input, outpoint, account, fee}))
    const transfer = {txid, outputIndex: 0, token: 'BTC', amount, sender: outpoints[0]![0], recipient: chain.treasury}
    await chain.writer.write({add: [{confirmedTxs, transfers: [transfer]}]})
    const moved = [{sender: outpoints[0]![0], recipient: chain.treasury, token: 'BTC', amount: String(amount)}]
    await chain.db.rows(`select chain.note_moved('BTC', $1)`, [JSON.stringify({[txid]: moved})])
    await chain.finalise()
    return txid
  }
  const [one, two, three] = await chain.outputs(shop.bitcoin, [100_000n, 200_000n, 300_000n])
  const [foreign] = await chain.outputs(other.bitcoin, [50_000n])
  const [ours] = await chain.outputs(chain.treasury, [300_000n])
  const swept = await sweep(
    [
      [shop.bitcoin, one!],
      [shop.bitcoin, two!],
    ],
    299_000n,
    1000n,
  )
  const left = [
    await sweep([[shop.bitcoin, three!]], 400_000n, 0n), // it spent an output of somebody else, too
    await sweep(
      [
        [other.bitcoin, foreign!],
        [chain.treasury, ours!],
      ],
      348_000n,
      1000n,
    ),
  ]
  const found = await enterFound(owner, async () => await sealOf(await localKeys(junk, families)))
  expect(found.entered.map(({txid, what}) => [txid, what])).toEqual([[swept, 'a sweep']])
  expect(found.left.map(({txid}) => txid).toSorted()).toEqual(left.toSorted())
  await chain.writer.write({add: [[]]})
  await chain.finalise()
  const outputs = `select txid || ':' || vout as outpoint, spent_by, merchant_id is null as ours from app.output where spent_by = $1 or txid = $1 order by amount`
  expect(await chain.db.rows(outputs, [swept])).toEqual([
    {outpoint: one, spent_by: swept, ours: false},
    {outpoint: two, spent_by: swept, ours: false},
    {outpoint: `${swept}:0`, spent_by: null, ours: true},
  ])
  await assertBooks(chain.db)
  await owner.end()
  await chain.close()
})

test('nonces of what was kept are not handed out again; what waits with one of them gets another', async () => {
  const shop = await world.merchant()
  const payout = await begun(shop)
  const first = nonce
  for (let n = 0; n < 2; n++) await send([{recipient: newAddress(), amount: 1n}])
  expect(await keep()).toBe('kept')
  expect(await nonceOf(payout)).toBe(first + 2)
  const [sender] = await world.db.rows<{next_nonce: number}>('select next_nonce from app.sender where address = $1', [
    world.treasury,
  ])
  expect(sender!.next_nonce).toBe(first + 3)
  nonce = first + 2
  await world.db.rows('select app.cancel_payout_by_operator($1)', [payout])
})
