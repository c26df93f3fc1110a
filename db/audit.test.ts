// The stored audits and what follows from them: when the next one is due, which incidents open, stay silent and heal;
// what takes too long; and how long a treasury can pay network fees.
import {afterAll, beforeAll, beforeEach, describe, expect, test} from 'vitest'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {beginToPay, includeFinally, makeTreasury, networkFee, topUp} from '../test/support/evm/payouts.ts'
import {Money} from '../test/support/money.ts'
import {PaymentRequests} from '../test/support/payment-requests.ts'
import {makeMerchant, makeUser} from '../test/support/people.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.drop())

interface Finding {
  name: string
  count: number
  found: object[]
}

/** An audit with these findings, of checks that no other test uses. */
async function audit(...findings: Finding[]): Promise<void> {
  await db.rows('select app.finish_audit(app.begin_audit(), $1, null)', [
    JSON.stringify(findings.map(finding => ({claim: 'all is well', ...finding}))),
  ])
}

const wrong = (name: string, ...found: object[]): Finding => ({name, count: found.length, found})

const incidents = (name: string) =>
  db.rows(
    `select chain, kind, (details ->> 'count')::int as count, details -> 'found' as found, resolution from app.incident
     where subject = 'audit:' || $1 order by id`,
    [name],
  )

async function keep(name: string): Promise<void> {
  await db.rows(
    `select app.resolve_incident(id, 'kept') from app.incident where subject = 'audit:' || $1 and resolved_at is null`,
    [name],
  )
}

describe('what an audit finds', () => {
  test('opens one incident per check, which the next audit updates, and which closes when an audit finds nothing', async () => {
    await audit(wrong('one', {id: 'a'}), wrong('another'))
    const incident = {chain: null, kind: 'audit', count: 1, found: [{id: 'a'}], resolution: null}
    expect(await incidents('one')).toEqual([incident])
    await audit(wrong('one', {id: 'a'}, {id: 'b'}))
    expect(await incidents('one')).toEqual([{...incident, count: 2, found: [{id: 'a'}, {id: 'b'}]}])
    await audit(wrong('another'))
    expect(await incidents('one')).toMatchObject([{resolution: null}]) // it was not looked at
    await audit(wrong('one'))
    expect(await incidents('one')).toMatchObject([{resolution: 'healed'}])
    expect(await incidents('another')).toEqual([])
    await audit(wrong('one', {id: 'a'}))
    expect(await incidents('one')).toMatchObject([{resolution: 'healed'}, {resolution: null}])
  })

  test('is not reported again once an operator accepts it, until something else is found', async () => {
    await audit(wrong('kept', {id: 'a'}))
    await keep('kept')
    await audit(wrong('kept', {id: 'a'}))
    expect(await incidents('kept')).toMatchObject([{resolution: 'kept'}])
    await audit(wrong('kept', {id: 'b'}))
    expect(await incidents('kept')).toMatchObject([{resolution: 'kept'}, {found: [{id: 'b'}], resolution: null}])
    await keep('kept')
    await audit({...wrong('kept', {id: 'b'}), count: 2})
    expect(await incidents('kept')).toMatchObject([{}, {resolution: 'kept'}, {count: 2, resolution: null}])
  })

  test('is stored with its run for a year', async () => {
    await audit(wrong('old'))
    await db.rows(`update app.audit_run set started_at = now() - interval '366 days'`)
    await audit(wrong('new'))
    expect(await db.rows('select name from app.audit_finding')).toEqual([{name: 'new'}])
    expect(await db.rows('select from app.audit_run')).toHaveLength(1)
  })
})

describe('an audit is due', () => {
  const isDue = async () => (await db.rows('select app.audit_is_due() as due'))[0]!.due
  const run = (started: string, finished: string | null) =>
    db.rows('insert into app.audit_run (started_at, finished_at) values (now() - $1::interval, now() - $2::interval)', [
      started,
      finished,
    ])
  beforeEach(async () => {
    await db.rows('delete from app.audit_run')
    await db.rows(`update public.sluice_migration set applied_at = now() - interval '11 minutes'`)
  })

  test('when there was none yet, but not in the first ten minutes of a database', async () => {
    expect(await isDue()).toBe(true)
    await db.rows(`update public.sluice_migration set applied_at = now() - interval '9 minutes'`)
    expect(await isDue()).toBe(false)
  })

  test.each([
    ['a day after the last one', '25 hours', '24 hours 1 minute', true],
    ['not before', '25 hours', '23 hours', false],
    ['an hour after one began that was cut off', '61 minutes', null, true],
    ['not while one may be running', '59 minutes', null, false],
  ])('%s', async (_, started, finished, due) => {
    await run(started, finished)
    expect(await isDue()).toBe(due)
  })
})

test('numbers in findings are strings, however large', async () => {
  await db.rows(`insert into app.treasury (chain, token, balance) values ('ETH', 'ETH', -123456789012345678901)`)
  const checks = await db.rows<{name: string; found: object[]}>(`select name, found from app.audit_checks()`)
  expect(checks.find(({name}) => name === 'nothing_below_zero')!.found).toEqual([
    {what: 'treasury', chain: 'ETH', token: 'ETH', whose: null, amount: '-123456789012345678901'},
  ])
  await db.rows('delete from app.treasury')
})

test('a check that finds much shows its first ten findings, the same ones each time', async () => {
  await db.rows(
    `insert into app.treasury (chain, token, balance) select 'ETH', 'T' || n, -1 from generate_series(100, 150) n order by random()`,
  )
  const find = async () =>
    (await db.rows(`select count::int, found from app.audit_checks() where name = 'nothing_below_zero'`))[0]!
  const {count, found} = await find()
  expect(count).toBe(51)
  expect(found).toHaveLength(10)
  await db.rows(`update app.treasury set reserved = 0 where token > 'T120'`) // other places in the table
  expect(await find()).toEqual({count, found})
  await db.rows('delete from app.treasury')
})

test('rows that take longer than expected are listed with their ids, and others are not', async () => {
  const other = await testDatabase()
  try {
    const writer = await ChainWriter.open(other, 'ETH')
    const merchant = await makeMerchant(other)
    const {address} = await makeUser(other, merchant)
    await writer.write({add: [[{txid: '0x1', amount: 5n, recipient: address}]]})
    await writer.finalise(1)
    await other.rows(`select app.set_payout_address($1, 'ETH', '0xElsewhere')`, [merchant])
    await other.rows(`select app.create_payout($1, 'ETH', 'USDC', false, null, 'x')`, [merchant])
    await other.rows(`select app.create_webhook_endpoint($1, 'https://example.com/hook')`, [merchant])
    await writer.write({add: [[{txid: '0x2', amount: 5n, recipient: address}]]})
    await writer.close()
    const requests = await PaymentRequests.open(other)
    const {id: request} = await requests.create(other.pool, merchant, {})
    const expired = (ago: string) =>
      other.rows(
        'update app.payment_request set expires_at = now() - $2::interval, decide_at = now() - $2::interval where id = $1',
        [request, ago],
      )
    await expired('59 minutes')
    expect(await other.rows('select * from app.stuck')).toEqual([])

    await other.rows(`update app.payout set created_at = now() - interval '25 hours'`)
    await other.rows(`update app.deposit set created_at = now() - interval '25 hours' where status = 'pending'`)
    await other.rows(`update app.event set created_at = now() - interval '11 minutes' where sequence is null`)
    await other.rows(`insert into app.outgoing_payment (kind, chain, token, amount, source, recipient, fee_payer, nonce, max_fee, created_at)
      values ('sweep', 'ETH', 'USDC', 1, 'a', 'b', 'c', 0, 1, now() - interval '25 hours')`)
    await expired('61 minutes')
    const late = await other.rows(`select id, chain, state from app.stuck where what = 'payment request'`)
    expect(late).toEqual([{id: expect.stringMatching(/^m\w+-1$/), chain: 'ETH', state: 'awaiting, and expired'}])
    await other.rows('select app.decide_payment_requests()')
    const found = await other.rows<{what: string; id: string}>('select what, id, chain, state from app.stuck')
    expect(found.map(({what}) => what).sort()).toEqual([...Array(3).fill('event'), 'deposit', 'payout', 'sweep'].sort())
    expect(found.find(({what}) => what === 'payout')).toMatchObject({chain: 'ETH', state: 'pending'})
    for (const {what, id} of found)
      expect(id).toMatch(what === 'sweep' ? /^[0-9a-f-]{36}$/ : /^(pay|dep|evt)_[0-9a-f]{32}$/)
  } finally {
    await other.drop()
  }
})

test("remaining gas is the operator's native coins, in days of the treasury's average fees of the last seven days", async () => {
  const gasLeft = async () => (await db.rows(`select app.gas_left_days('ETH') as days`))[0]!.days as number | null
  const writer = await ChainWriter.open(db, 'ETH')
  await topUp(writer, await makeTreasury(db), 'ETH', 15n * networkFee)
  expect(await gasLeft()).toBeNull()
  const merchant = await makeMerchant(db)
  const {address} = await makeUser(db, merchant)
  await writer.write({add: [[{txid: '0x1', token: 'ETH', amount: networkFee, recipient: address}]]})
  await writer.finalise(writer.head.height)
  await db.rows(`select app.set_payout_address($1, 'ETH', '0x52908400098527886E0F7030069857D2E4169EE7')`, [merchant])
  await db.rows(`select app.create_payout($1, 'ETH', 'ETH', false, null, 'x')`, [merchant])
  const [payout] = await db.rows<{id: string}>('select id from app.payout')
  await includeFinally(db, writer, await beginToPay(db, payout!.id))
  await writer.close()
  const [funds] = await db.rows<{coins: string}>(`select app.operator_funds('ETH', 'ETH') as coins`)
  expect(await gasLeft()).toBeCloseTo((Number(funds!.coins) / Number(networkFee)) * 7, 6)
  await db.rows(
    `begin; set local session_replication_role = replica; update app.ledger_entry set created_at = now() - interval '8 days'; commit`,
  )
  expect(await gasLeft()).toBeNull()
})

test('final blocks that an operator reads again are no finding until they are final again', async () => {
  const money = await Money.open()
  try {
    await money.topUp('ETH', 1000)
    const user = await money.merchant()
    await money.deposit(user.address, 1000)
    const from = money.eth.head.height
    const payout = await money.claim(user)
    await money.work('begin_sweeping', payout)
    await money.sweep(payout, [user.address])
    await money.mineFinally([(await money.attempt(await money.sweepOf(user.address)))!])
    const blocks = money.eth.blocks.slice(from)
    await money.rewindBelow(from)
    money.eth.blocks.push(...blocks)
    await money.eth.readAgain(blocks.length)
    const wrong = () => money.db.rows('select what from audit.finality')
    expect([await money.incidents(), await wrong()]).toEqual([[], []])
    await money.db.rows(`delete from app.incident where kind like 'final%'`)
    expect(await wrong()).toEqual([{what: 'deposit'}, {what: 'sweep'}])
    await money.finalise()
    expect(await wrong()).toEqual([])
  } finally {
    await money.close()
  }
})
