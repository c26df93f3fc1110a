// USDT on Tron, by real processes, on contracts that run: deposits, sweeps with TRX that the treasury sends the
// addresses, and payouts. What is on an address for its merchant pays no fee of ours, and what is left of the TRX is
// the operator's. After each test the books are right, and say what the chain says.
import type {ChildProcess} from 'node:child_process'
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {settingsFrom} from '../../chains/settings.ts'
import {bytesOf} from '../../chains/tron/address.ts'
import {tronSettings} from '../../chains/tron/settings.ts'
import {tron} from '../../jobs/audit/tron/balances.ts'
import {assertBooks} from '../support/books.ts'
import {longLifetimeMs, TronWorld, trx, unit, usdt} from '../support/tron/world.ts'
import {until} from '../support/until.ts'
import type {Shop} from '../support/world.ts'

let world: TronWorld
let worker: ChildProcess

beforeAll(async () => {
  world = await TronWorld.open({lifetimeMs: longLifetimeMs})
  worker = await world.startWorker()
})
afterAll(async () => {
  await world?.close()
})
afterEach(async () => {
  world.node.behave = undefined
  world.isHeld = false
  world.isMining = true
  await assertBooks(world.db)
})

const transferTopic = 'ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'
const netOf = (gross: bigint) => gross - gross / 100n
const openShop = (amounts: bigint[], wallet?: string) => world.openShop(amounts, {token: 'USDT', wallet})

interface Done {
  id: string
  kind: string
  outcome: string | null
  amount: string
  fee: string | null
}

/** What the service did for an address, in order: TRX that it sent, and sweeps. */
async function doneFor(address: string): Promise<Done[]> {
  return await world.db.rows<Done>(
    `select id, kind, outcome, amount::text as amount, fee_paid::text as fee from app.outgoing_payment
     where recipient = $1 and kind = 'fund' or source = $1 and kind = 'sweep' order by created_at`,
    [address],
  )
}

/** The gas on an address by the ledger; the rest of its TRX is its merchant's. */
async function gasOn(address: string): Promise<bigint> {
  const [row] = await world.db.rows<{amount: string}>('select amount::text as amount from app.gas where address = $1', [
    address,
  ])
  return BigInt(row?.amount ?? 0)
}

/** The audit compares all addresses of a shop, and the treasury, at a solidified block. */
async function agreesWithTheChain({addresses}: Shop): Promise<void> {
  const asked = tron.ask(
    {query: (sql: string, values: unknown[]) => world.db.rows(sql, values).then(rows => ({rows}))} as never,
    tronSettings(settingsFrom('TRON', world.environment)),
  )
  expect(await asked.poll(addresses)).toMatchObject({differences: [], unread: []})
  await asked.close()
}

test('addresses without an account get TRX, sweep themselves, and the payout arrives; TRX of the merchant stays', async () => {
  const shop = await openShop([600n * unit, 400n * unit])
  const [first, second] = shop.addresses as [string, string]
  await world.pay([first], [5n * trx])
  const id = await world.request(shop, 'USDT', true)
  const {network_fee} = await world.becomes(id, 'completed', 60_000)
  expect(world.holdsUsdt(shop.wallet)).toBe(netOf(1000n * unit))
  for (const address of shop.addresses) {
    const done = await doneFor(address)
    expect(done.map(({kind, outcome}) => [kind, outcome])).toEqual([
      ['fund', 'done'],
      ['sweep', 'done'],
    ])
    expect([world.holdsUsdt(address), await gasOn(address)]).toEqual([0n, expect.any(BigInt)])
  }
  expect(BigInt((await doneFor(second))[0]!.fee!)).toBe(1_100_000n) // it made the account
  expect(world.holds(first)).toBe(5n * trx + (await gasOn(first)))
  expect(world.holds(second)).toBe(await gasOn(second))
  await agreesWithTheChain(shop)
  const [cost] = await world.db.rows<{fees: string}>(
    'select sum(fee_paid)::text as fees from app.outgoing_payment where payout_id = $1',
    [id],
  )
  expect(String(network_fee)).toBe(cost!.fees)
})

test('the next sweep of an address uses what is left of its TRX, and only what is missing is sent', async () => {
  const shop = await openShop([5n * unit])
  const [address] = shop.addresses as [string]
  await world.becomes(await world.request(shop, 'USDT', true), 'completed', 60_000)
  const left = await gasOn(address)
  await world.pay(shop.addresses, [7n * unit], 'USDT')
  await world.becomes(await world.request(shop, 'USDT', true), 'completed', 60_000)
  const [one, other] = (await doneFor(address)).filter(({kind}) => kind === 'fund')
  expect(left).toBeGreaterThan(0n)
  expect(BigInt(other!.amount)).toBeLessThan(BigInt(one!.amount))
  await agreesWithTheChain(shop)
})

test("the fee of a sweep of TRX stays on an address that has gas: it is never burnt of the operator's", async () => {
  const shop = await openShop([5n * unit])
  await world.becomes(await world.request(shop, 'USDT', true), 'completed', 60_000)
  await world.pay(shop.addresses, [9n * trx])
  await world.becomes(await world.request(shop, 'TRX', true), 'completed', 60_000)
  const swept = (await doneFor(shop.addresses[0]!)).at(-1)!
  expect(swept).toMatchObject({kind: 'sweep', outcome: 'done'})
  expect(9n * trx - BigInt(swept.amount)).toBeGreaterThan(250_000n)
  await agreesWithTheChain(shop)
})

test('while the TRX of an address leaves for nothing, its USDT waits: nothing of the TRX burns for bytes', async () => {
  const shop = await openShop([5n * unit])
  const [address] = shop.addresses as [string]
  await world.pay([address], [9n * trx])
  world.isHeld = true
  const coins = await world.request(shop, 'TRX', true)
  await until(async () => (await doneFor(address)).length, {timeoutMs: 20_000, what: 'the sweep of TRX'})
  const tokens = await world.request(shop, 'USDT', true)
  await world.becomes(tokens, 'sweeps')
  expect((await doneFor(address)).map(({kind}) => kind)).toEqual(['sweep'])
  world.isHeld = false
  await world.becomes(coins, 'completed', 60_000)
  await world.becomes(tokens, 'completed', 60_000)
  const [first, ...others] = await doneFor(address)
  expect([first!.amount, first!.fee]).toEqual([String(9n * trx), '0'])
  expect(others.map(({kind}) => kind)).toEqual(['fund', 'sweep'])
  await agreesWithTheChain(shop)
})

test('a payment says how much its energy may burn: what a new holder costs, and never more than is allowed', async () => {
  const shop = await openShop([50n * unit])
  const id = await world.request(shop, 'USDT')
  const {txid} = await world.becomes(id, 'completed', 60_000)
  const {feeLimit} = await world.rawDataOf(txid!)
  const [paid] = await world.db.rows<{fee: string; most: string}>(
    `select fee_paid::text as fee, max_fee::text as most from app.outgoing_payment where payout_id = $1 and kind = 'payout'`,
    [id],
  )
  expect(feeLimit).toBeGreaterThan(2n * BigInt(paid!.fee))
  expect(BigInt(paid!.most)).toBeLessThanOrEqual(30n * trx)
  expect(await world.reserved()).toBe(0n)
})

test('a contract that becomes too busy is not called, and is again once it costs less', async () => {
  world.tron.setEnergyFactor(usdt, 34_000)
  const shop = await openShop([50n * unit])
  world.lie('/getchainparameters', async pass => {
    const {chainParameter} = (await pass()) as {chainParameter: {key: string; value: number}[]}
    return {chainParameter: chainParameter.map(one => (one.key === 'getEnergyFee' ? {...one, value: 1000} : one))}
  })
  const id = await world.request(shop, 'USDT', true)
  const {waiting_detail} = await world.becomes(id, 'fee_above_cap')
  expect(waiting_detail).toMatch('TRON_TOKEN_')
  world.node.behave = undefined
  world.tron.setEnergyFactor(usdt, 0)
  await world.becomes(id, 'completed', 60_000)
})

test('an address on the blacklist is blocked: its payout fails, nothing is signed, and it is paid once its issuer lets it go', async () => {
  const shop = await openShop([40n * unit])
  const [frozen] = shop.addresses as [string]
  await world.issue('addBlackList', [frozen])
  const id = await world.request(shop, 'USDT', true)
  const blocked = () => world.db.rows('select from app.blocked_address where address = $1', [frozen])
  await until(async () => (await blocked()).length, {timeoutMs: 40_000, what: 'the address to be blocked'})
  expect((await world.becomes(id, 'failed')).error_code).toBe('deposits_blocked')
  expect(await doneFor(frozen)).toEqual([])
  await world.issue('removeBlackList', [frozen])
  await world.db.rows('update app.blocked_address set retry_at = clock_timestamp()')
  await until(async () => !(await blocked()).length, {timeoutMs: 60_000, what: 'the address to be let go'})
  await world.becomes(await world.request(shop, 'USDT', true), 'completed')
})

test('while a fee is taken on transfers no TRX is sent and nothing is swept; the payout says so, and goes on by itself', async () => {
  const shop = await openShop([90n * unit])
  await world.issue('setParams', [15n, 10n * unit])
  const id = await world.request(shop, 'USDT', true)
  expect((await world.becomes(id, 'token_takes_fee')).waiting_detail).toMatch(
    /^of 90000000 base units of USDT, 89865000/,
  )
  expect(await doneFor(shop.addresses[0]!)).toEqual([])
  await world.issue('setParams', [0n, 0n])
  await world.becomes(id, 'completed', 60_000)
  expect(world.holdsUsdt(shop.wallet)).toBe(netOf(90n * unit))
})

test('a worker that dies between the TRX and the sweep, or custody, changes nothing', async () => {
  const shop = await openShop([30n * unit])
  const [address] = shop.addresses as [string]
  await world.kill(worker)
  const doomed = await world.startWorker({crashAt: 'sweep: after begin'})
  const id = await world.request(shop, 'USDT', true)
  await until(async () => (await doneFor(address)).length === 1, {timeoutMs: 40_000, what: 'the fund to begin'})
  await world.kill(doomed)
  worker = await world.startWorker()
  await until(async () => (await doneFor(address))[0]?.outcome === 'done', {timeoutMs: 40_000, what: 'the fund'})
  await world.killCustody()
  await world.startCustody()
  await world.becomes(id, 'completed', 60_000)
  expect((await doneFor(address)).map(({kind, outcome}) => [kind, outcome])).toEqual([
    ['fund', 'done'],
    ['sweep', 'done'],
  ])
  expect(world.holdsUsdt(shop.wallet)).toBe(netOf(30n * unit))
  await agreesWithTheChain(shop)
})

test('a node that makes up a deposit is believed, and the audit finds it', async () => {
  const shop = await openShop([10n * unit])
  const [address] = shop.addresses as [string]
  const word = (hex: string) => hex.padStart(64, '0')
  const log = (to: string) => ({
    address: Buffer.from(bytesOf(usdt)).toString('hex').slice(2),
    topics: [transferTopic, word('1'), word(Buffer.from(bytesOf(to)).toString('hex').slice(2))],
    data: word((7n * unit).toString(16)),
  })
  const lied = new Set<number>()
  world.lie('/gettransactioninfobyblocknum', async pass => {
    const infos = (await pass()) as {contract_address?: string; log?: object[]; blockNumber: number}[]
    if (!infos.length) return infos
    lied.add(infos[0]!.blockNumber)
    return infos.map((info, i) => (i ? info : {...info, log: [...(info.log ?? []), log(address)]}))
  })
  await world.issue('unpause') // in a block whose infos lie
  await world.untilBalance(shop, 17n * unit)
  world.node.behave = undefined
  const asked = tron.ask(
    {query: (sql: string, values: unknown[]) => world.db.rows(sql, values).then(rows => ({rows}))} as never,
    tronSettings(settingsFrom('TRON', world.environment)),
  )
  const {differences} = await asked.poll(shop.addresses)
  expect(differences).toMatchObject([{address, token: 'USDT', ledger: 17n * unit, chain: 10n * unit}])
  expect(lied.size).toBeGreaterThan(0)
})
