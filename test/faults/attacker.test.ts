// An attacker with the full database rights of the API, of the worker and of both processes of the dashboard, and
// custody's token; and then one who writes rows as the owner of the database. Runs on a real database, with the real
// custody process and its socket. Promises: every refusal has the right code and is recorded. In the end every journal
// entry pays an address on its merchant's whitelist, or our treasury, and no merchant was paid more than its addresses
// received.
import {randomBytes, randomUUID} from 'node:crypto'
import {once} from 'node:events'
import type {Store} from '@subsquid/typeorm-store'
import pg from 'pg'
import {decodeFunctionData, erc20Abi, getAddress, type Hex, keccak256, parseTransaction} from 'viem'
import {afterAll, beforeAll, beforeEach, describe, expect, test} from 'vitest'
import {type EvmChain, chain as registered} from '../../chains/registry.ts'
import type {ReadBlock} from '../../indexers/block.ts'
import {ConfirmedTx} from '../../indexers/entities.ts'
import {writeBlocks} from '../../indexers/match.ts'
import {ChainWriter} from '../support/chain-writer.ts'
import {type CustodyProcess, killCustody, startCustody} from '../support/custody.ts'
import {signIn} from '../support/dashboard.ts'
import {type TestDatabase, testDatabase} from '../support/database.ts'
import {idOf, makeMerchant} from '../support/people.ts'
import {newHome, removeHome} from '../support/processes.ts'
import {until} from '../support/until.ts'
import {treasuryOf} from '../support/world.ts'

const gwei = 10n ** 9n
const usdc = 10n ** 6n
const ether = 10n ** 18n
const fees = {max_fee_per_gas: `${2n * gwei}`, max_priority_fee_per_gas: `${gwei}`, gas_limit: 100_000}
/** The fees that a worker may claim for a transaction. */
const cheapest = {max_fee_per_gas: '1', max_priority_fee_per_gas: '1', gas_limit: 1}
const networkFee = `${2n * gwei * 100_000n}`
const usdcContract = (registered('ETH') as EvmChain).assets[1]!.contract!.toLowerCase()

let db: TestDatabase
let home: string
let custody: CustodyProcess
let chain: ChainWriter
let treasury: string
const attacker = {} as Record<'api' | 'jobs' | 'auth' | 'dashboard', pg.Client>

beforeAll(async () => {
  db = await testDatabase()
  home = newHome()
  await start()
  for (const role of ['api', 'jobs', 'auth', 'dashboard'] as const) {
    attacker[role] = new pg.Client({connectionString: db.url(`sluice_${role}`)})
    await attacker[role].connect()
  }
  treasury = await treasuryOf(db, 'evm')
  chain = await ChainWriter.open(db, 'ETH')
  await arrive(treasury, 'ETH', 1000n * ether)
  await arrive(treasury, 'USDC', 1_000_000n * usdc)
})

beforeEach(() => useUp())

afterAll(async () => {
  await killCustody(custody)
  for (const client of Object.values(attacker)) await client.end()
  await chain.close()
  await db.drop()
  await removeHome(home)
})

async function start(): Promise<void> {
  const limits = {ETH_PAYOUT_LIMIT: 'ETH:50', ETH_DAILY_LIMIT: 'ETH:60', ETH_MAX_PAYMENT_FEE: '0.2'}
  const settings = {ADDRESS_POOL_SIZE: '100', ...limits}
  custody = await startCustody(db, home, settings)
}

// --- actors ---

interface Shop {
  id: string
  /** The address of its user, out of custody's pool. */
  address: string
  /** Whitelisted, and its payout address. */
  wallet: string
}

const newAddress = () => getAddress(`0x${randomBytes(20).toString('hex')}`)
const newTxid = () => `0x${randomBytes(32).toString('hex')}`

/** A merchant whose user received `amount` of a token, finally. */
async function openShop(amount: bigint, coin = 'USDC'): Promise<Shop> {
  const id = await makeMerchant(db, ['ETH'])
  await attacker.api.query(`select app.provision_user($1, 'user', array['ETH'])`, [id])
  const [user] = await db.rows<{address: string}>('select address from app.address where merchant_id = $1', [id])
  const shop = {id, address: user!.address, wallet: newAddress()}
  await whitelist(shop, shop.wallet)
  await payTo(shop, shop.wallet)
  await arrive(shop.address, coin, amount)
  return shop
}

async function arrive(recipient: string, coin: string, amount: bigint): Promise<void> {
  await chain.write({add: [[{txid: newTxid(), token: coin, amount, recipient}]]})
  await chain.finalise(chain.head.height)
}

const whitelist = (shop: Shop, address: string) =>
  db.rows(`insert into custody.whitelist (merchant_id, chain, address) values ($1, 'ETH', $2)`, [shop.id, address])
const payTo = (shop: Shop, address: string) =>
  attacker.api.query(`select app.set_payout_address($1, 'ETH', $2)`, [shop.id, address])

/** Requests a payout like the API; returns its id. */
async function claim(shop: Shop, coin = 'USDC'): Promise<string> {
  const sql = `select app.create_payout($1, 'ETH', $2, false, null, null)::json ->> 'id' as id`
  const {rows} = await attacker.api.query<{id: string}>(sql, [shop.id, coin])
  return rows[0]!.id.replace('pay_', '')
}

/** Takes a payout to its payment like the worker; returns the nonce. */
async function begin(payout: string): Promise<number> {
  await attacker.jobs.query('select app.begin_sweeping($1)', [payout])
  await attacker.jobs.query('select app.end_sweeping($1)', [payout])
  await attacker.jobs.query('select app.begin_payment($1, $2)', [payout, networkFee])
  const [outgoingPayment] = await db.rows<{nonce: number}>(
    `select nonce from app.outgoing_payment where payout_id = $1 and kind = 'payout'`,
    [payout],
  )
  return outgoingPayment!.nonce
}

const pay = (payout: string, nonce: number, more: object = {}) => ({
  intent: 'pay',
  payout_id: idOf(payout),
  nonce,
  ...fees,
  ...more,
})

interface Result {
  ok: boolean
  code?: string
  txid?: string
  raw?: Hex
}

const ask = (path: string, body: unknown, bearer?: string): Promise<{status: number; body: {results: Result[]}}> =>
  custody.ask(path, body, bearer)

async function sign(intent: object): Promise<Result> {
  const {status, body} = await ask('/sign', {intents: [intent]})
  expect({status, body}).toMatchObject({status: 200})
  return body.results[0]!
}

const countOf = async (table: 'journal' | 'refusal'): Promise<number> => {
  const sql = {
    journal: `select count(*) as n from custody.journal where kind <> 'pool'`,
    refusal: 'select count(*) as n from custody.refusal',
  }
  return Number((await db.rows<{n: string}>(sql[table]))[0]!.n)
}

/** Custody refuses for this reason, records that, and signs nothing. */
async function refused(intent: object, code: string): Promise<void> {
  const before = {journal: await countOf('journal'), refusal: await countOf('refusal')}
  expect(await sign(intent)).toMatchObject({ok: false, code, message: expect.any(String)})
  expect({journal: await countOf('journal'), refusal: await countOf('refusal')}).toEqual({
    journal: before.journal,
    refusal: before.refusal + 1,
  })
  const [noted] = await db.rows<{code: string; request: object}>(
    'select code, request from custody.refusal order by id desc limit 1',
  )
  expect(noted).toEqual({code, request: expect.objectContaining(intent)})
}

/** Inserts rows without triggers and foreign keys. */
async function asOwner(sql: string, values: unknown[] = []): Promise<void> {
  const client = await db.pool.connect()
  try {
    await client.query('set session_replication_role = replica')
    await client.query(sql, values)
  } finally {
    await client.query('reset session_replication_role')
    client.release()
  }
}

/** A payout that was never requested, in the status in which custody pays it. */
async function forgePayout(shop: Shop, gross: bigint, address = shop.wallet, status = 'swept'): Promise<string> {
  const id = randomUUID()
  await asOwner(
    `insert into app.payout (id, merchant_id, chain, token, status, gross, fee_bps, fee, net, address, sweep_first)
     values ($1, $2, 'ETH', 'USDC', $3, $4, 0, 0, $4, $5, false)`,
    [id, shop.id, status, `${gross}`, address],
  )
  return id
}

/** A nonce that is not in use. */
const freshNonce = () => 100_000

/** Gives an invented payout the next nonce, or one further ahead, in place of any unsigned owner of that nonce. */
async function bind(payout: string, ahead = 0): Promise<number> {
  const nonce = (await nextNonce()) + ahead
  await asOwner(`delete from app.outgoing_payment where chain = 'ETH' and fee_payer = $1 and nonce = $2`, [
    treasury,
    nonce,
  ])
  await asOwner(
    `insert into app.outgoing_payment (kind, chain, token, amount, source, recipient, fee_payer, nonce, payout_id, merchant_id, max_fee)
     select 'payout', chain, token, net, $2, address, $2, $3, id, merchant_id, 1 from app.payout where id = $1`,
    [payout, treasury, nonce],
  )
  await goOnAfter(nonce)
  return nonce
}

/** The treasury's first nonce that was neither signed nor mined. */
async function nextNonce(): Promise<number> {
  const [next] = await db.rows<{nonce: number}>(
    `select 1 + greatest((select max(nonce) from custody.journal where stream = 'ETH' and sender = $1),
       (select max(nonce) from chain.confirmed_tx where chain = 'ETH' and account = $1), -1)::int as nonce`,
    [treasury],
  )
  return next!.nonce
}

/** From now on the worker gives out only nonces of the treasury above this one. */
const goOnAfter = (nonce: number) =>
  asOwner(`update app.sender set next_nonce = greatest(next_nonce, $2) where chain = 'ETH' and address = $1`, [
    treasury,
    nonce + 1,
  ])

/** The intent for a forged payout. */
const payForged = async (payout: string, more: object = {}) => pay(payout, await bind(payout), more)

/** Uses up nonces of the treasury that belong to transactions which are never signed, like the worker. */
async function useUp(): Promise<void> {
  const unsigned = `from app.outgoing_payment s where s.chain = 'ETH' and s.fee_payer = $1 and s.status <> 'final' and not exists (
    select from custody.journal j where j.stream = s.chain and j.conflict_key = s.conflict_key)`
  await asOwner(`update app.outgoing_payment set cancelling = true where id in (select id ${unsigned})`, [treasury])
  const rows = await db.rows<{nonce: number}>(`select nonce ${unsigned} order by nonce`, [treasury])
  for (const {nonce} of rows) expect(await sign(cancel(treasury, nonce))).toMatchObject({ok: true})
}

const cancel = (sender: string, nonce: number, more: object = {}) => ({
  intent: 'cancel',
  chain: 'ETH',
  sender,
  nonce,
  ...fees,
  gas_limit: 21_000,
  ...more,
})

// --- with the rights of the API, of the worker and of the dashboard ---

test('no role can write a row of any table directly, but sign-in the tables of its library', async () => {
  const tables = await db.rows<{name: string; a: string}>(
    `select c.oid::regclass::text as name, (select quote_ident(attname) from pg_attribute where attrelid = c.oid and attnum > 0 order by attnum limit 1) as a
     from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname in ('app', 'auth', 'chain', 'custody', 'dashboard') and c.relkind in ('r', 'p')`,
  )
  expect(tables.map(({name}) => name)).toEqual(
    expect.arrayContaining([
      'app.payout',
      'app.outgoing_payment',
      'app.holding',
      'app.balance',
      'chain.transfer',
      'chain.confirmed_tx',
      'custody.address',
      'custody.whitelist',
      'auth.session',
      'dashboard.member',
    ]),
  )
  const written: string[] = []
  for (const [role, client] of Object.entries(attacker)) {
    for (const {name, a} of tables) {
      if (role === 'auth' && name.startsWith('auth.')) continue
      for (const sql of [
        `insert into ${name} default values`,
        `update ${name} set ${a} = default`,
        `delete from ${name}`,
        `truncate ${name}`,
      ]) {
        const code = await client.query(sql).then(
          () => 'done',
          (error: pg.DatabaseError) => error.code,
        )
        if (code !== '42501') written.push(`${sql}: ${code}`)
      }
    }
  }
  expect(written).toEqual([])
})

test('an invented payout, or one in another state, is not paid', async () => {
  const shop = await openShop(100n * usdc)
  await refused(pay(randomUUID(), freshNonce()), 'unknown_settlement')
  const payout = await claim(shop)
  await refused(pay(payout, freshNonce()), 'wrong_state')
  await attacker.jobs.query(`select app.fail_payout($1, 'cancelled', '')`, [payout])
  await refused(pay(payout, freshNonce()), 'wrong_state')
})

test('money goes only to the whitelist of its own merchant, whatever address the API registers', async () => {
  const [a, b] = [await openShop(100n * usdc), await openShop(7n * usdc)]
  for (const address of [newAddress(), b.wallet]) {
    await payTo(a, address)
    const payout = await claim(a)
    const nonce = await begin(payout)
    expect(await ask('/check', {payout_id: idOf(payout)})).toMatchObject({body: {ok: false, code: 'not_whitelisted'}})
    await refused(pay(payout, nonce), 'not_whitelisted')
    await attacker.jobs.query(`select app.fail_payout($1, 'cancelled', '')`, [payout])
    while (
      (await attacker.jobs.query(`select app.allocate_deposits($1, 'ETH', 'USDC', 100) as more`, [a.id])).rows[0].more
    );
  }
  for (const own of [b.address, treasury]) await expect(payTo(a, own)).rejects.toMatchObject({code: 'SL422'})
})

test('whoever makes sessions and forms of the dashboard, too, moves no money to an address that is not on the whitelist', async () => {
  const [shop, other] = [await openShop(100n * usdc), await openShop(7n * usdc)]
  const {userId} = await signIn(db, shop.id)
  const token = newTxid()
  await attacker.auth.query(
    `insert into auth.session ("userId", token, "expiresAt", "secondFactorAt") values ($1, $2, now() + interval '1 day', now())`,
    [userId, token],
  )
  const form = (sql: string, ...values: unknown[]) =>
    attacker.dashboard.query(`select dashboard.${sql} as result`, [token, randomUUID(), ...values])
  for (const address of [newAddress(), other.wallet]) {
    await form('set_payout_address($1, $2, $3, $4)', 'ETH', address)
    const {rows} = await form('create_payout($1, $2, $3, $4, false, $5)', 'ETH', 'USDC', address)
    const payout: string = rows[0].result.id.replace('pay_', '')
    await refused(pay(payout, await begin(payout)), 'not_whitelisted')
    await attacker.jobs.query(`select app.fail_payout($1, 'cancelled', '')`, [payout])
    await attacker.jobs.query(`select app.allocate_deposits($1, 'ETH', 'USDC', 100)`, [shop.id])
  }
  for (const own of [shop.address, treasury])
    await expect(form('set_payout_address($1, $2, $3, $4)', 'ETH', own)).rejects.toMatchObject({code: 'SL422'})
})

test('sign-in makes nobody a member of a merchant without the link of an invitation', async () => {
  const shop = await openShop(1n * usdc)
  const {userId} = await signIn(db, shop.id)
  const stranger = randomUUID()
  await attacker.auth.query(`insert into auth."user" (id, name, email, "emailVerified") values ($1, 'Eve', $2, true)`, [
    stranger,
    `${stranger}@example.test`,
  ])
  await attacker.auth.query(
    `insert into auth.session ("userId", token, "expiresAt", "secondFactorAt") values ($1::uuid, $1::uuid::text, now() + interval '1 day', now())`,
    [stranger],
  )
  await expect(attacker.dashboard.query('select dashboard.me($1)', [stranger])).rejects.toMatchObject({code: 'SLAUT'})
  for (const person of [stranger, userId])
    await expect(
      attacker.auth.query('insert into dashboard.member (user_id, merchant_id) values ($1, $2)', [person, shop.id]),
    ).rejects.toMatchObject({code: '42501'})
})

test('a whitelist entry that was removed, or whose waiting time is not over, does not count', async () => {
  const shop = await openShop(100n * usdc)
  const payout = await claim(shop)
  const nonce = await begin(payout)
  await db.rows('update custody.whitelist set removed_at = clock_timestamp() where merchant_id = $1', [shop.id])
  await refused(pay(payout, nonce), 'not_whitelisted')
  await db.rows(
    `insert into custody.whitelist (merchant_id, chain, address, active_at) values ($1, 'ETH', $2, clock_timestamp() + interval '1 hour')`,
    [shop.id, shop.wallet],
  )
  await refused(pay(payout, nonce), 'not_whitelisted')
})

test('the same intent again gives the same bytes; another intent for the settlement can only share its nonce', async () => {
  const shop = await openShop(100n * usdc)
  const payout = await claim(shop)
  const nonce = await begin(payout)
  const first = await sign(pay(payout, nonce))
  expect(first).toMatchObject({ok: true, txid: keccak256(first.raw!)})
  const signed = await countOf('journal')
  expect(await sign(pay(payout, nonce))).toEqual(first)
  expect(await countOf('journal')).toBe(signed)
  await refused(pay(payout, freshNonce()), 'settlement_changed')
  expect(await sign(pay(payout, nonce, {max_fee_per_gas: `${2n * gwei + 1n}`}))).toEqual(first) // a fee increase too small for a replacement
  await refused(
    pay(payout, nonce, {max_fee_per_gas: `${10n ** 15n}`, max_priority_fee_per_gas: `${2n * gwei}`}),
    'fee_above_cap',
  )
  const replacement = await sign(
    pay(payout, nonce, {max_fee_per_gas: `${3n * gwei}`, max_priority_fee_per_gas: `${2n * gwei}`}),
  )
  expect(parseTransaction(replacement.raw!)).toMatchObject({nonce, data: parseTransaction(first.raw!).data})
})

test('a nonce that pays one settlement pays no other', async () => {
  const [a, b] = [await openShop(100n * usdc), await openShop(100n * usdc)]
  const first = await claim(a)
  const nonce = await begin(first)
  expect(await sign(pay(first, nonce))).toMatchObject({ok: true})
  const second = await claim(b)
  await begin(second)
  await refused(pay(second, nonce), 'settlement_changed')
})

test('a payout whose payment was signed cannot be failed by the worker, and its deposits are claimed by no other', async () => {
  const shop = await openShop(100n * usdc)
  const payout = await claim(shop)
  expect(await sign(pay(payout, await begin(payout)))).toMatchObject({ok: true})
  // The worker keeps the signed bytes, and claims that nothing was signed.
  const {rows} = await attacker.jobs.query(`select app.fail_payout($1, 'cancelled', '') as failed`, [payout])
  expect(rows[0]).toEqual({failed: false})
  await expect(claim(shop)).rejects.toThrow('there is nothing to pay out')
})

test('a payment cannot be stored under another payout than the one it was signed for', async () => {
  const [a, b] = [await openShop(100n * usdc), await openShop(50n * usdc)]
  const [ofA, ofB] = [await claim(a), await claim(b)]
  const nonces = [await begin(ofA), await begin(ofB)]
  const paid = await sign(pay(ofA, nonces[0]!))
  const [outgoingPayment] = await db.rows<{id: string}>(`select id from app.outgoing_payment where payout_id = $1`, [
    ofB,
  ])
  const filing = attacker.jobs.query(`select app.store_signed($1, 1, 'effect', $2, $3, 1, 1, $4)`, [
    outgoingPayment!.id,
    paid.txid,
    paid.raw,
    cheapest,
  ])
  await expect(filing).rejects.toThrow('was signed with another nonce')
  await refused(await payForged(await forgePayout(a, 1n * usdc + 1n)), 'exceeds_received')
})

test('a payment that arrived does not fail because the worker stored it with another amount', async () => {
  const shop = await openShop(100n * usdc)
  const payout = await claim(shop)
  const nonce = await begin(payout)
  const {txid, raw} = await sign(pay(payout, nonce))
  const [outgoingPayment] = await db.rows<{id: string}>(`select id from app.outgoing_payment where payout_id = $1`, [
    payout,
  ])
  const lie = [outgoingPayment!.id, txid, raw, `${1n * usdc}`, cheapest]
  await attacker.jobs.query(`select app.store_signed($1, 1, 'effect', $2, $3, $4, 1, $5)`, lie)
  const sent = {txid: txid!, senderKey: treasury.toLowerCase(), nonce, executed: true, fee: 1n}
  const transfer = {txid: txid!, outputIndex: 1, kind: 'token' as const, token: 'USDC', sender: treasury.toLowerCase()}
  const paid = {...transfer, amount: 99n * usdc, recipientKey: shop.wallet.toLowerCase()}
  expect(await indexed({sent: [sent], candidates: [paid]})).toMatchObject([{txid, success: true}])
  expect(await indexed({sent: [sent], candidates: [{...paid, amount: 1n * usdc}]})).toMatchObject([
    {txid, success: false},
  ])
})

/** The confirmed transactions that the indexer would write for the next block. */
async function indexed(block: Pick<ReadBlock, 'sent' | 'candidates'>): Promise<ConfirmedTx[]> {
  const indexer = new pg.Client({connectionString: db.url('sluice_indexer')})
  await indexer.connect()
  const inserted: unknown[] = []
  const store = {
    insert: async (entities: unknown[]) => void inserted.push(...entities),
    em: () => ({query: async (sql: string, values: unknown[]) => (await indexer.query(sql, values)).rows}),
  }
  const {height, hash} = chain.head
  const next = {height: height + 1, hash: newTxid(), parentHash: hash, time: new Date(), spends: [], ...block}
  await writeBlocks(store as unknown as Store, [next], {chain: 'ETH', display: address => getAddress(address)})
  await indexer.end()
  return inserted.filter(entity => entity instanceof ConfirmedTx)
}

test('a settlement can be paid again only after proof on the chain that its payment failed', async () => {
  const shop = await openShop(100n * usdc)
  const payout = await claim(shop)
  const nonce = await begin(payout)
  const paid = await sign(pay(payout, nonce))
  const [outgoingPayment] = await db.rows<{id: string}>(`select id from app.outgoing_payment where payout_id = $1`, [
    payout,
  ])
  const store = `select app.store_signed($1, 1, 'effect', $2, $3, $4, 1, $5)`
  await attacker.jobs.query(store, [outgoingPayment!.id, paid.txid, paid.raw, `${99n * usdc}`, fees])
  await include(paid.txid!, nonce, false)
  const again = await claim(shop)
  expect(await sign(pay(again, await begin(again)))).toMatchObject({ok: true})
})

/** The indexer sees a transaction of the treasury in a block, and the block becomes final. */
async function include(txid: string, nonce: number, success: boolean): Promise<void> {
  await chain.write({add: [[]]})
  const {height, hash} = chain.head
  await chain.query(
    `insert into chain.confirmed_tx (id, chain, txid, block_height, block_hash, block_time, account, nonce, success, fee)
     values ('ETH:' || $1, 'ETH', $1, $2, $3, now(), $4, $5, $6, 1)`,
    [txid, height, hash, treasury, nonce, success],
  )
  await chain.finalise(height)
}

test('transactions with unknown nonces that nobody here stored open one incident for their sender, which counts them', async () => {
  const shop = await openShop(1n * ether, 'ETH')
  const incidents = () =>
    db.rows<{id: string; subject: string; details: object}>(
      'select id, subject, details from app.incident where resolved_at is null order by id',
    )
  const flood = (account: string, from: number, count: number) =>
    Array.from({length: count}, (_, n) => ({txid: newTxid(), account, nonce: from + n, success: true}))
  const first = flood(shop.address, 0, 150)
  const second = flood(shop.address, 150, 150)
  const nonce = await nextNonce()
  await chain.write({add: [{confirmedTxs: first}, {confirmedTxs: flood(treasury, nonce, 1)}, {confirmedTxs: second}]})
  await goOnAfter(nonce)
  const [own, ofTreasury, ...others] = (await incidents()).sort(a => (a.subject.includes(shop.address) ? -1 : 1))
  expect(own).toMatchObject({
    subject: `ETH:${shop.address}`,
    details: {sender: shop.address, count: 300, newest: second.at(-1)!.txid, nonce: 299},
  })
  expect(ofTreasury).toMatchObject({subject: `ETH:${treasury}`, details: {count: 1}})
  expect(others).toEqual([])

  // Read again after a reorganisation, they are not new. After the operator's decision, the next one is.
  await chain.write({drop: 1, add: [{confirmedTxs: second}]})
  expect(await incidents()).toHaveLength(2)
  await db.rows(`select app.resolve_incident(id, 'kept') from app.incident where resolved_at is null`)
  await chain.write({add: [{confirmedTxs: flood(shop.address, 300, 1)}]})
  expect(await incidents()).toMatchObject([{subject: `ETH:${shop.address}`, details: {count: 1, nonce: 300}}])
  await db.rows(`select app.resolve_incident(id, 'kept') from app.incident where resolved_at is null`)
})

const sweep = (
  outgoing_payment_id: string,
  address: string,
  coin: string,
  amount: bigint,
  nonce: number,
  more: object = {},
) => ({
  intent: 'sweep',
  outgoing_payment_id,
  chain: 'ETH',
  token: coin,
  address,
  amount: `${amount}`,
  nonce,
  ...fees,
  ...(coin === 'ETH' && {gas_limit: 21_000}),
  ...more,
})

/** Like the worker, with false amounts: the intents match the rows. */
async function beginSweeps(coin: string, of: {address: string; amount: bigint}[], more: object = {}) {
  await attacker.jobs.query(`select app.begin_sweeps(null, 'ETH', $1, $2, $3, $4)`, [
    coin,
    of.map(({address}) => address),
    of.map(({amount}) => `${amount}`),
    of.map(() => '1'),
  ])
  const rows = await db.rows<{id: string; source: string; amount: string; nonce: number}>(
    `select id, source, amount, nonce from app.outgoing_payment where kind = 'sweep' and status = 'allocated' and token = $1 and source = any($2) order by nonce`,
    [coin, of.map(({address}) => address)],
  )
  return rows.map(({id, source, amount, nonce}) => sweep(id, source, coin, BigInt(amount), nonce, more))
}

test('sweeps go from our addresses to our treasury only, and are bound to their nonce and their outgoing payment', async () => {
  const [a, b] = [await openShop(100n * usdc), await openShop(5n * ether, 'ETH')]
  for (const address of [newAddress(), treasury, a.wallet])
    await refused(sweep(randomUUID(), address, 'USDC', usdc, freshNonce()), 'unknown_settlement')
  const [native] = (await beginSweeps('ETH', [{address: b.address, amount: ether}])) as [ReturnType<typeof sweep>]
  for (const other of [
    {nonce: 1},
    {amount: `${ether + 1n}`},
    {address: a.address},
    {token: 'USDC', gas_limit: 100_000},
  ])
    await refused({...native, ...other}, 'settlement_changed')
  const signed = await sign(native)
  expect(parseTransaction(signed.raw!).to).toBe(treasury.toLowerCase())
  await refused({...native, outgoing_payment_id: randomUUID()}, 'unknown_settlement')
  await refused({...native, nonce: 1}, 'settlement_changed')
  const dearer = {max_fee_per_gas: `${4n * gwei}`, max_priority_fee_per_gas: `${2n * gwei}`}
  await refused({...native, amount: `${2n * ether}`, ...dearer}, 'settlement_changed')
})

test('a sweep of coins and its fee are no more than the address holds for its merchant', async () => {
  const shop = await openShop(5n * ether, 'ETH')
  const [all] = await beginSweeps('ETH', [{address: shop.address, amount: 5n * ether - 1n}])
  await refused(all!, 'sweep_too_dear') // another has sent gas there, or the fee is more than was said
  const fee = 21_000n * BigInt(fees.max_fee_per_gas)
  await refused({...all!, amount: `${5n * ether - fee + 1n}`}, 'sweep_too_dear')
  await sign({...all!, amount: `${5n * ether - fee}`})
})

test('a cancel moves nothing, and uses only the nonce of the payment it cancels', async () => {
  const shop = await openShop(3n * ether, 'ETH')
  await refused(cancel(newAddress(), 0), 'not_ours')
  for (const nonce of [0, 10]) await refused(cancel(shop.address, nonce), 'unknown_settlement')
  const [swept] = await beginSweeps('ETH', [{address: shop.address, amount: ether}])
  await refused(cancel(shop.address, 0), 'wrong_state') // it was never requested
  await attacker.jobs.query('select app.cancel_outgoing_payment($1)', [swept!.outgoing_payment_id])
  await refused(swept!, 'wrong_state')
  const {raw} = await sign(cancel(shop.address, 0))
  expect(parseTransaction(raw!)).toMatchObject({to: shop.address.toLowerCase(), nonce: 0})
  expect(parseTransaction(raw!).value ?? 0n).toBe(0n)
  const other = await openShop(3n * ether, 'ETH')
  const payout = await claim(other, 'ETH')
  const nonce = await begin(payout)
  const {raw: payment} = await sign(pay(payout, nonce))
  await refused(cancel(treasury, nonce), 'wrong_state')
  await db.rows('select app.cancel_payout_by_operator($1)', [payout])
  await refused(cancel(treasury, nonce), 'fee_too_low') // would be a second transaction rather than a replacement
  expect(parseTransaction(payment!)).toMatchObject({nonce})
})

test('only the operator can begin a withdrawal', async () => {
  const shop = await openShop(100n * usdc)
  const payout = await claim(shop)
  await begin(payout)
  const [outgoingPayment] = await db.rows<{id: string; nonce: number}>(
    'select id, nonce from app.outgoing_payment where payout_id = $1',
    [payout],
  )
  await refused(
    {intent: 'withdraw', outgoing_payment_id: outgoingPayment!.id, nonce: outgoingPayment!.nonce, ...fees},
    'unknown_settlement',
  )
  await refused(
    {intent: 'withdraw', outgoing_payment_id: randomUUID(), nonce: freshNonce(), ...fees},
    'unknown_settlement',
  )
  for (const client of Object.values(attacker))
    await expect(
      client.query(`select app.begin_withdrawal('ETH', 'USDC', 1, $1, 0)`, [newAddress()]),
    ).rejects.toMatchObject({code: '42501'})
})

test('limits hold for one payout and for a day', async () => {
  const [big, ...small] = [
    await openShop(51n * ether, 'ETH'),
    await openShop(40n * ether, 'ETH'),
    await openShop(40n * ether, 'ETH'),
  ]
  const payout = await claim(big, 'ETH')
  await refused(pay(payout, await begin(payout)), 'above_limit')
  await useUp()
  const payouts = [await claim(small[0]!, 'ETH'), await claim(small[1]!, 'ETH')]
  expect(await sign(pay(payouts[0]!, await begin(payouts[0]!)))).toMatchObject({ok: true})
  await refused(pay(payouts[1]!, await begin(payouts[1]!)), 'daily_limit')
})

test('a request without the token, or with anything but an intent, gets only an error', async () => {
  const before = await countOf('journal')
  const shop = await openShop(100n * usdc)
  const payout = await claim(shop)
  const intent = pay(payout, await begin(payout))
  expect(await ask('/sign', {intents: [intent]}, 'guess')).toMatchObject({status: 401, body: {error: 'unauthorized'}})
  expect(await ask('/check', {payout_id: idOf(payout)}, '')).toMatchObject({status: 401})
  const nonsense = [
    {intents: [{intent: 'sign', raw: '0x02', hash: newTxid()}]},
    {intents: [{...intent, destination: newAddress(), intent: 'transfer'}]},
    {intents: [{...intent, nonce: -1}]},
    {intents: []},
    {},
  ]
  for (const body of nonsense)
    expect(await ask('/sign', body)).toMatchObject({status: 400, body: {error: 'invalid_request'}})
  expect(await countOf('journal')).toBe(before)
})

// --- with rows written by the owner, as if even those rights had leaked ---

test('a forged payout is paid at most up to the money the merchant received', async () => {
  const shop = await openShop(100n * usdc)
  await refused(await payForged(await forgePayout(shop, 100n * usdc + 1n)), 'exceeds_received')
  const duplicates = [await forgePayout(shop, 60n * usdc), await forgePayout(shop, 60n * usdc)] as const
  const intents = [pay(duplicates[0], await bind(duplicates[0], 1)), pay(duplicates[1], await bind(duplicates[1]))]
  const {body} = await ask('/sign', {intents})
  expect(body.results.map(({ok, code}) => code ?? ok)).toEqual(['exceeds_received', true]) // the lower nonce comes first
  await refused(await payForged(await forgePayout(shop, 40n * usdc + 1n)), 'exceeds_received')
  await refused(pay(await forgePayout(shop, 1n, newAddress()), freshNonce()), 'not_whitelisted')
  for (const status of ['pending', 'sweeping', 'completed', 'failed'])
    await refused(await payForged(await forgePayout(shop, 1n, shop.wallet, status)), 'wrong_state')
})

test('inflated balances, deposits and holdings give nobody more than the chain brought', async () => {
  const shop = await openShop(100n * usdc)
  await asOwner(`update app.deposit set amount = amount * 1000 where merchant_id = $1`, [shop.id])
  await asOwner(`update app.holding set amount = amount * 1000 where merchant_id = $1`, [shop.id])
  await asOwner(
    `insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count) values ($1, 'ETH', 'USDC', $2, 0)`,
    [shop.id, `${99_900n * usdc}`],
  )
  const payout = await claim(shop)
  const [row] = await db.rows('select gross from app.payout where id = $1', [payout])
  expect(row).toEqual({gross: `${100_000n * usdc}`})
  await refused(pay(payout, await begin(payout)), 'exceeds_received')
})

test('an address handed to one merchant provides money to that merchant only', async () => {
  const [a, b] = [await openShop(100n * usdc), await openShop(7n * usdc)]
  const steal = 'update custody.address set merchant_id = $1 where address = $2'
  await expect(db.rows(steal, [b.id, a.address])).rejects.toMatchObject({code: 'P0003'})
  await asOwner('update app.address set merchant_id = $1 where address = $2', [b.id, a.address])
  await asOwner('update app.deposit set merchant_id = $1 where address = $2', [b.id, a.address])
  await refused(await payForged(await forgePayout(b, 8n * usdc)), 'exceeds_received')
  await arrive(a.address, 'USDC', 50n * usdc)
  await refused(await payForged(await forgePayout(b, 8n * usdc)), 'exceeds_received')
  expect(await sign(await payForged(await forgePayout(a, 150n * usdc)))).toMatchObject({ok: true})
})

test('money that is not final counts for no merchant', async () => {
  const shop = await openShop(10n * usdc)
  await chain.write({add: [[{txid: newTxid(), token: 'USDC', amount: 90n * usdc, recipient: shop.address}]]})
  const payout = await forgePayout(shop, 100n * usdc)
  const intent = await payForged(payout)
  await refused(intent, 'exceeds_received')
  await chain.finalise(chain.head.height)
  expect(await sign(intent)).toMatchObject({ok: true})
})

test('a token that is not ours is not paid, especially not in the native coin', async () => {
  const shop = await openShop(100n * usdc)
  const fake = newAddress().toLowerCase()
  await arrive(shop.address, fake, 500n * ether)
  const payout = await forgePayout(shop, 40n * ether)
  await asOwner('update app.payout set token = $2 where id = $1', [payout, fake])
  await refused(pay(payout, freshNonce()), 'unknown_settlement')
  await asOwner(`update app.payout set chain = 'SOL' where id = $1`, [payout])
  await refused(pay(payout, freshNonce()), 'unknown_settlement')
})

test('the terms signed for a settlement stay, whatever its row says later', async () => {
  const shop = await openShop(100n * usdc)
  const payout = await forgePayout(shop, 50n * usdc)
  const nonce = await bind(payout)
  expect(await sign(pay(payout, nonce))).toMatchObject({ok: true})
  const more = {max_fee_per_gas: `${4n * gwei}`, max_priority_fee_per_gas: `${2n * gwei}`}
  const second = newAddress()
  await whitelist(shop, second)
  await asOwner('update app.payout set address = $2 where id = $1', [payout, second])
  await refused(pay(payout, nonce, more), 'settlement_changed')
  await asOwner('update app.payout set address = $2, gross = gross + 1, net = net + 1 where id = $1', [
    payout,
    shop.wallet,
  ])
  await refused(pay(payout, nonce, more), 'settlement_changed')
  await asOwner(`update app.payout set gross = gross - 1, net = net - 1, token = 'ETH' where id = $1`, [payout])
  await refused(pay(payout, nonce, more), 'settlement_changed')
})

test('a payout whose net differs from its gross less its fee is not paid', async () => {
  const shop = await openShop(100n * usdc)
  const payout = await forgePayout(shop, 50n * usdc)
  const [row] = await db.rows<{name: string}>(
    `select conname as name from pg_constraint where conrelid = 'app.payout'::regclass and pg_get_constraintdef(oid) like '%gross = (fee + net)%'`,
  )
  await db.rows(`alter table app.payout drop constraint ${row!.name}`)
  await asOwner('update app.payout set fee = fee + 1 where id = $1', [payout])
  await refused(pay(payout, freshNonce()), 'amount_not_net')
})

describe('a journal whose rows the owner of the database rewrites', () => {
  const incident = async () =>
    (
      await db.rows<{chain: string}>(
        `select chain from app.incident where kind = 'journal_changed' and resolved_at is null`,
      )
    )[0]
  const found = () => until(incident, {timeoutMs: 15_000, what: 'custody to find it'})
  const isRight = () =>
    until(async () => !(await incident()), {timeoutMs: 15_000, what: 'custody to find it right again'})

  /** Runs `work` with a changed table, and restores the rows of the stream. */
  async function changed(sql: string, values: unknown[], work: () => Promise<void>): Promise<void> {
    const kept = await db.rows(`select * from custody.journal where stream = 'ETH'`)
    await asOwner(sql, values)
    try {
      await work()
    } finally {
      // in one transaction: in between, the file would be ahead of the table, which halts the chain
      const rows = pg.escapeLiteral(JSON.stringify(kept))
      const columns = // with conflict_key, because no trigger writes it here
        'stream, seq, kind, subject_id, merchant_id, token, amount, destination, source, sender, nonce, max_fee, txid, raw, details, signed_at, hash, conflict_key'
      await asOwner(`do $$ begin
        delete from custody.journal where stream = 'ETH';
        insert into custody.journal (${columns}) select ${columns} from jsonb_populate_recordset(null::custody.journal, ${rows});
      end $$`)
    }
    await isRight()
  }

  test.each([
    ['its amount was set to 0', 'update custody.journal set amount = 0 where subject_id = $1'],
    ['its merchant was changed', 'update custody.journal set merchant_id = gen_random_uuid() where subject_id = $1'],
    ['the entry became a cancel', `update custody.journal set kind = 'cancel' where subject_id = $1`],
    ['the entry was deleted', 'delete from custody.journal where subject_id = $1'],
  ])('does not pay a merchant twice after %s, and opens an incident of the chain', async (_, sql) => {
    const shop = await openShop(100n * usdc)
    const payout = await forgePayout(shop, 100n * usdc)
    const first = await payForged(payout)
    expect(await sign(first)).toMatchObject({ok: true})
    expect(await sign(await payForged(await forgePayout(await openShop(1n * usdc), 1n)))).toMatchObject({ok: true})
    await changed(sql, [payout], async () => {
      // Before the change is found, or after: by the sum over the file, or by the row.
      for (const again of [await payForged(await forgePayout(shop, 100n * usdc)), first]) {
        const response = await sign(again)
        expect(['journal_changed', 'exceeds_received', 'settlement_changed']).toContain(response.code)
      }
      expect(await found()).toEqual({chain: 'ETH'})
      await refused(await payForged(await forgePayout(await openShop(1n * usdc), 1n)), 'journal_changed')
    })
    expect(await sign(await payForged(await forgePayout(await openShop(1n * usdc), 1n)))).toMatchObject({ok: true})
  })

  test('is compared as a whole with the file after custody lost its connection, before anything is signed', async () => {
    const shop = await openShop(100n * usdc)
    expect(await sign(await payForged(await forgePayout(shop, 1n * usdc)))).toMatchObject({ok: true})
    const exit = once(custody.process, 'exit')
    await db.rows(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'sluice-custody' and datname = current_database()`,
    )
    await exit
    await changed(`update custody.journal set raw = '0x' where seq = 2 and stream = 'ETH'`, [], async () => {
      await start()
      await refused(await payForged(await forgePayout(shop, 1n * usdc)), 'journal_changed')
      expect(await incident()).toEqual({chain: 'ETH'})
    })
    expect(await sign(await payForged(await forgePayout(shop, 1n * usdc)))).toMatchObject({ok: true})
  })
})

// --- what signing costs ---

test('a nonce far ahead, which would make its transaction unpayable, is signed only after those below it', async () => {
  const [a, b] = [await openShop(100n * usdc), await openShop(100n * usdc)]
  const payouts = [await claim(a), await claim(b)] as const
  const nonces = [await begin(payouts[0]), await begin(payouts[1])] as const
  await refused(pay(payouts[0], 2 ** 31 - 1), 'settlement_changed')
  await refused(pay(payouts[1], nonces[1]), 'nonce_too_high')
  const forged = await forgePayout(a, 1n)
  await refused(pay(forged, await bind(forged, 2 ** 30)), 'nonce_too_high')
  await asOwner('update app.sender set next_nonce = $2 where address = $1', [treasury, nonces[1] + 1])
  await asOwner('delete from app.outgoing_payment where payout_id = $1', [forged])
  const {body} = await ask('/sign', {intents: [pay(payouts[1], nonces[1]), pay(payouts[0], nonces[0])]})
  expect(body.results).toMatchObject([{ok: true}, {ok: true}]) // in the order of their nonces, whatever the order of the request
  expect(body.results.map(({raw}) => parseTransaction(raw!).nonce)).toEqual([nonces[1], nonces[0]])
})

/** The highest possible fees for a unit of gas. */
const dearest = {max_fee_per_gas: `${500n * gwei}`, max_priority_fee_per_gas: `${500n * gwei}`}

test('sweeps and cancels that were not begun are not signed, whatever they would cost', async () => {
  const shop = await openShop(3n * ether, 'ETH')
  const invented = Array.from({length: 140}, (_, nonce) => [
    sweep(randomUUID(), shop.address, 'ETH', 1n, nonce, dearest),
    cancel(treasury, 1_000_000 + nonce, dearest),
  ]).flat()
  const signed = await countOf('journal')
  for (const intents of [invented.slice(0, 140), invented.slice(140)]) {
    const {body} = await ask('/sign', {intents})
    expect(new Set(body.results.map(({code}) => code))).toEqual(new Set(['unknown_settlement']))
  }
  const [begun] = await beginSweeps('ETH', [{address: shop.address, amount: 1n}])
  await refused({...begun, ...dearest}, 'sweep_too_dear')
  await refused(begun!, 'sweep_too_dear')
  const tokens = await openShop(100n * usdc)
  const [unit] = await beginSweeps('USDC', [{address: tokens.address, amount: 1n}])
  await refused(unit!, 'sweep_too_small')
  await attacker.jobs.query('select app.cancel_outgoing_payment($1)', [unit!.outgoing_payment_id])
  await useUp()
  const {address} = await openShop(100n * usdc)
  const [whole] = await beginSweeps('USDC', [{address, amount: 100n * usdc}])
  await refused({...whole, ...dearest}, 'sweep_too_dear') // 0.05 ETH for 100 USDC
  expect(await sign(whole!)).toMatchObject({ok: true})
  expect(await countOf('journal')).toBe(signed + 2) // including the cancel
})

test('Bitcoin cannot be burned as fees: sweeps that were not begun, or cost more than they bring, are refused', async () => {
  const bitcoin = await ChainWriter.open(db, 'BTC')
  const id = await makeMerchant(db, ['BTC'])
  await attacker.api.query(`select app.provision_user($1, 'user', array['BTC'])`, [id])
  const [user] = await db.rows<{address: string}>(`select address from app.address where merchant_id = $1`, [id])
  const txid = newTxid().slice(2)
  const outputs = [30_000n, 30_000n].map((amount, outputIndex) => ({
    txid,
    outputIndex,
    token: 'BTC',
    amount,
    recipient: user!.address,
  }))
  await bitcoin.write({add: [outputs]})
  await bitcoin.finalise(bitcoin.head.height)
  const intent = (outgoing_payment_id: string, inputs: string[], kind = 'sweep') => ({
    intent: `${kind}_outputs`,
    outgoing_payment_id,
    chain: 'BTC',
    inputs,
    fee: '22000',
  })
  const [firstInput, other] = [`${txid}:0`, `${txid}:1`]
  for (const kind of ['sweep', 'cancel']) await refused(intent(randomUUID(), [firstInput], kind), 'unknown_settlement')
  const begin = `select app.begin_output_sweep(null, 'BTC', $1, $2, 1)`
  await arriveInTreasury(bitcoin)
  await attacker.jobs.query(begin, [id, [firstInput]])
  const [outgoingPayment] = await db.rows<{id: string}>(`select id from app.outgoing_payment where chain = 'BTC'`)
  await refused(intent(outgoingPayment!.id, [firstInput]), 'sweep_too_dear') // 22,000 of 30,000 sat
  await refused(intent(outgoingPayment!.id, [firstInput, other]), 'settlement_changed') // more inputs than it reserved
  await refused(intent(outgoingPayment!.id, [firstInput], 'cancel'), 'wrong_state')
  expect(await sign({...intent(outgoingPayment!.id, [firstInput]), fee: '2000'})).toMatchObject({ok: true})
  await bitcoin.close()
})

/** The operator's own money, which pays fees. */
async function arriveInTreasury(bitcoin: ChainWriter): Promise<void> {
  const [row] = await db.rows<{address: string}>(
    `select address from custody.address where purpose = 'treasury' and family = 'bitcoin'`,
  )
  await bitcoin.write({add: [[{txid: newTxid().slice(2), token: 'BTC', amount: 100_000n, recipient: row!.address}]]})
  await bitcoin.finalise(bitcoin.head.height)
}

test('on a halted chain custody signs only what the owner of the database decided about a payment', async () => {
  const shop = await openShop(100n * usdc)
  const payout = await claim(shop)
  const nonce = await begin(payout)
  const {txid, raw} = await sign(pay(payout, nonce))
  const [outgoingPayment] = await db.rows<{id: string}>('select id from app.outgoing_payment where payout_id = $1', [
    payout,
  ])
  await attacker.jobs.query(`select app.store_signed($1, 1, 'effect', $2, $3, 1, 1, $4)`, [
    outgoingPayment!.id,
    txid,
    raw,
    cheapest,
  ])
  const [swept] = await beginSweeps('ETH', [{address: (await openShop(ether, 'ETH')).address, amount: ether / 2n}])
  const next = await claim(await openShop(100n * usdc))
  const unsigned = pay(next, await begin(next))

  await db.rows(
    `insert into app.incident (chain, kind, subject, details) values ('ETH', 'unknown_transaction', 'it', '{}')`,
  )
  const higher = (by: bigint) => ({max_fee_per_gas: `${by * gwei}`, max_priority_fee_per_gas: `${by * gwei}`})
  for (const intent of [unsigned, swept!, pay(payout, nonce, higher(4n))]) await refused(intent, 'chain_halted')
  expect(await ask('/check', {payout_id: idOf(payout)})).toMatchObject({body: {ok: false}})
  for (const client of Object.values(attacker))
    for (const what of ['replace', 'cancel'])
      await expect(client.query(`select app.${what}_payout_by_operator($1)`, [payout])).rejects.toMatchObject({
        code: '42501',
      })
  await db.rows('select app.replace_payout_by_operator($1)', [payout])
  expect(await sign(pay(payout, nonce, higher(4n)))).toMatchObject({ok: true})
  for (const intent of [unsigned, swept!]) await refused(intent, 'chain_halted')
  await db.rows('select app.cancel_payout_by_operator($1)', [payout])
  expect(await sign(cancel(treasury, nonce, higher(8n)))).toMatchObject({ok: true})
  await db.rows(`update app.incident set resolved_at = now(), resolution = 'kept' where subject = 'it'`)
  expect(await sign(unsigned)).toMatchObject({ok: true})
})

const budget = ether / 2n // the default of ETH_FEE_BUDGET: docs/custody.md

/** The possible cost of everything signed today, and the part that final blocks confirm. */
async function promised(): Promise<bigint> {
  const [row] = await db.rows<{sum: string}>(
    `select sum(fee) from (
       select coalesce((select i.fee from chain.confirmed_tx i join chain.cursor c using (chain)
         where i.chain = 'ETH' and i.conflict_key = j.conflict_key and i.block_height <= c.final_height), max(j.max_fee)) as fee
       from custody.journal j where j.stream = 'ETH' group by j.conflict_key) f`,
  )
  return BigInt(row!.sum)
}

test('with all rights of the worker, network fees of a day stay within the budget', async () => {
  const victim = await openShop(100n * usdc)
  const payout = await claim(victim)
  const nonce = await begin(payout)
  expect(await sign(pay(payout, nonce))).toMatchObject({ok: true})
  const merchant = await makeMerchant(db, ['ETH'])
  for (let i = 0; i < 40; i++)
    await attacker.api.query(`select app.provision_user($1, $2, array['ETH'])`, [merchant, `u${i}`])
  const users = await db.rows<{address: string}>('select address from app.address where merchant_id = $1', [merchant])
  await chain.write({
    add: [users.map(({address}) => ({txid: newTxid(), token: 'ETH', amount: ether, recipient: address}))],
  })
  await chain.finalise(chain.head.height)
  const burning = await beginSweeps(
    'ETH',
    users.map(({address}) => ({address, amount: ether / 20n})),
    dearest,
  )
  expect(burning).toHaveLength(40)
  const results = await Promise.all(burning.map(intent => sign(intent))) // 40 requests at once, of 0.0105 ETH each
  const codes = results.map(({ok, code}) => code ?? ok)
  expect(new Set(codes)).toEqual(new Set([true, 'fee_budget_reached']))
  const [most, fee] = [(budget * 3n) / 4n, 21_000n * 500n * gwei]
  expect(await promised()).toBeLessThanOrEqual(most)
  expect(await promised()).toBeGreaterThan(most - fee)

  // No cancel and no other payment: the payment under way has the rest.
  const unsigned = burning[codes.indexOf('fee_budget_reached')]!
  await attacker.jobs.query('select app.cancel_outgoing_payment($1)', [unsigned.outgoing_payment_id])
  await refused(cancel(unsigned.address, 0, dearest), 'fee_budget_reached')
  const next = await claim(await openShop(100n * usdc))
  await refused(pay(next, await begin(next), {...dearest, gas_limit: 100_000}), 'fee_budget_reached')
  await refused(pay(payout, nonce, {...dearest, gas_limit: 300_000}), 'fee_budget_reached')
  expect(await sign(pay(payout, nonce, {...dearest, gas_limit: 200_000}))).toMatchObject({ok: true})
  expect(await ask('/check', {payout_id: idOf(next)})).toMatchObject({body: {ok: false, code: 'fee_budget_reached'}})
  await attacker.jobs.query(`select app.fail_payout($1, 'cancelled', '')`, [next])
  expect(await promised()).toBeLessThanOrEqual(budget)

  // Only the operator can raise it.
  const raise = `insert into custody.budget_raise (chain, day, amount) values ('ETH', (now() at time zone 'UTC')::date, ${ether / 5n})`
  for (const client of Object.values(attacker)) await expect(client.query(raise)).rejects.toMatchObject({code: '42501'})
  await db.rows(raise)
  expect(await sign(cancel(unsigned.address, 0, dearest))).toMatchObject({ok: true})
  expect(await promised()).toBeLessThanOrEqual(budget + ether / 5n)
})

test('in the end no signature pays a foreign address, and nobody was paid more than they received', async () => {
  const entries = await db.rows<{
    kind: string
    merchant_id: string
    token: string
    subject_id: string
    amount: string
    raw: Hex
    sender: string
  }>(`select * from custody.journal where stream = 'ETH'`)
  const allowed = await db.rows<{merchant_id: string; address: string}>(
    'select merchant_id, address from custody.whitelist',
  )
  const wrong = entries.filter(({kind, merchant_id, raw, sender}) => {
    const to = destinationOf(raw)
    if (kind === 'sweep') return to !== treasury
    if (kind === 'cancel') return to !== sender
    return !allowed.some(entry => entry.merchant_id === merchant_id && entry.address === to)
  })
  expect(wrong).toEqual([])
  const over = await db.rows(
    `select merchant_id, token, sum(amount) from (
       select distinct subject_id, merchant_id, token, amount from custody.journal j where kind = 'pay' and not exists (
         select from chain.confirmed_tx i where i.txid = j.txid and not i.success)) paid
     group by merchant_id, token
     having sum(amount) > (select sum(t.amount) from chain.transfer t join custody.address a on a.address = t.recipient
       where a.merchant_id = paid.merchant_id and t.token = paid.token)`,
  )
  expect(over).toEqual([])
})

/** Where the value of a signed transaction goes. */
function destinationOf(raw: Hex): string {
  const {to, data = '0x'} = parseTransaction(raw)
  if (to !== usdcContract) return getAddress(to!)
  const {functionName, args} = decodeFunctionData({abi: [...erc20Abi, receiveWithAuthorization], data})
  if (functionName === 'transfer') return args[0]
  if (functionName === 'receiveWithAuthorization') return args[1]
  throw new Error(`signed a call of ${functionName}`)
}

const receiveWithAuthorization = {
  type: 'function',
  name: 'receiveWithAuthorization',
  stateMutability: 'nonpayable',
  inputs: [
    {name: 'from', type: 'address'},
    {name: 'to', type: 'address'},
    {name: 'value', type: 'uint256'},
    {name: 'validAfter', type: 'uint256'},
    {name: 'validBefore', type: 'uint256'},
    {name: 'nonce', type: 'bytes32'},
    {name: 'v', type: 'uint8'},
    {name: 'r', type: 'bytes32'},
    {name: 's', type: 'bytes32'},
  ],
  outputs: [],
} as const
