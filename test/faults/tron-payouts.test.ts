// Payouts on Tron, by real processes: a requested payout arrives once, exactly, whatever the chain, the node and the
// workers do meanwhile. After each test the books are right. No transaction expires here: tron-expiry.test.ts has
// those.
import type {ChildProcess} from 'node:child_process'
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {settingsFrom} from '../../chains/settings.ts'
import {tronSettings} from '../../chains/tron/settings.ts'
import {contracts, parameters} from '../../devnet/tron/constants.ts'
import {tron} from '../../jobs/audit/tron/balances.ts'
import {assertBooks} from '../support/books.ts'
import {faults} from '../support/rpc-proxy.ts'
import {longLifetimeMs, TronWorld, trx} from '../support/tron/world.ts'
import {until} from '../support/until.ts'
import type {Shop} from '../support/world.ts'

const activation = parameters.getCreateAccountFee + parameters.getCreateNewAccountFeeInSystemContract

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

const netOf = (gross: bigint) => gross - gross / 100n
const received = ({wallet}: Shop) => world.holds(wallet)

// --- without faults ---

test('the treasury advances a payout that it can afford: the net arrives to the last sun, and a new account is a network fee', async () => {
  const shop = await world.openShop([10n * trx])
  const before = world.holds(world.treasury)
  const id = await world.request(shop, 'TRX')
  const payout = await world.becomes(id, 'completed')
  expect([received(shop), BigInt(payout.network_fee)]).toEqual([netOf(10n * trx), activation])
  expect(world.holds(world.treasury)).toBe(before - netOf(10n * trx) - activation)
  expect(await world.outgoingPayments(id)).toMatchObject([{kind: 'payout', status: 'final', outcome: 'done'}])
  expect(await world.reserved()).toBe(0n)
})

test('with sweep_first each address is swept and left empty, as long as its bytes are free; then it pays for them', async () => {
  const shop = await world.openShop([10n * trx, 20n * trx])
  const [address] = shop.addresses
  const fees: string[] = []
  for (let n = 0; n < 3; n++) {
    if (n) await world.pay([address!], [30n * trx])
    if (n) await world.untilBalance(shop, 30n * trx)
    fees.push((await world.becomes(await world.request(shop, 'TRX', true), 'completed', 40_000)).network_fee)
    expect(world.holds(address!)).toBeLessThan(10_000n)
  }
  expect(received(shop)).toBe(3n * netOf(30n * trx))
  expect(BigInt(fees[2]!)).toBeGreaterThan(265_000n) // its bytes, at 1000 sun each
  const left = await world.db.rows<{amount: string}>(`select amount from app.holding where address = any($1)`, [
    shop.addresses,
  ])
  expect(left.reduce((sum, {amount}) => sum + BigInt(amount), 0n)).toBe(world.holds(address!))
})

test('two equal payouts to one address, at the same time, are paid by two transactions', async () => {
  const shops = [await world.openShop([10n * trx])]
  shops.push(await world.openShop([10n * trx], {wallet: shops[0]!.wallet}))
  const ids = await Promise.all(shops.map(shop => world.request(shop, 'TRX')))
  const [one, other] = await Promise.all(ids.map(id => world.becomes(id, 'completed')))
  expect(one!.txid).not.toBe(other!.txid)
  expect(received(shops[0]!)).toBe(2n * netOf(10n * trx))
  const [first, second] = [await world.rawDataOf(one!.txid!), await world.rawDataOf(other!.txid!)]
  expect(first.timestamp).not.toBe(second.timestamp)
})

test('nobody can pay a contract: such a payout fails, nothing is signed, and the balance is back', async () => {
  const shop = await world.openShop([10n * trx], {wallet: contracts.disperse})
  const id = await world.request(shop, 'TRX')
  await world.becomes(id, 'destination_not_payable')
  const {error_code} = await world.agedUntilFailed(id, 'destination_not_payable')
  expect([error_code, await world.attempts(id)]).toEqual(['destination_not_payable', []])
  await world.untilBalance(shop, 10n * trx)
})

const dearNetwork = () => ({
  chainParameter: Object.entries({...parameters, getTransactionFee: 2000n}).map(([key, value]) => ({
    key,
    value: Number(value),
  })),
})

test('nothing is begun while the network asks for more than the operator allows', async () => {
  const shop = await world.openShop([10n * trx])
  world.lie('/getchainparameters', dearNetwork)
  const id = await world.request(shop, 'TRX')
  const {waiting_detail} = await world.becomes(id, 'fee_above_cap')
  expect(waiting_detail).toMatch('TRON_MAX_SWEEP_FEE allows 300000')
  expect(await world.outgoingPayments(id)).toEqual([])
  world.node.behave = undefined
  await world.becomes(id, 'completed')
})

test('what was begun is not signed while the network asks for more than the operator allows', async () => {
  const shop = await world.openShop([10n * trx])
  await world.kill(worker)
  const doomed = await world.startWorker({crashAt: 'send: before sign'})
  const id = await world.request(shop, 'TRX')
  await until(async () => doomed.signalCode, {timeoutMs: 20_000, what: 'the worker to die'})
  world.lie('/getchainparameters', dearNetwork)
  worker = await world.startWorker()
  await world.becomes(id, 'fee_above_cap')
  expect([await world.outgoingPayments(id), await world.attempts(id)]).toMatchObject([[{kind: 'payout'}], []])
  world.node.behave = undefined
  await world.becomes(id, 'completed')
})

test('a transaction names a block that was final, and has no memo', async () => {
  const shop = await world.openShop([10n * trx])
  const {txid} = await world.becomes(await world.request(shop, 'TRX'), 'completed')
  const {refBytes, refHash, memo} = await world.rawDataOf(txid!)
  const height = Buffer.from(refBytes).readUInt16BE()
  const [entry] = await world.db.rows<{from: number; hash: string}>(
    `select (details -> 'lifetime' ->> 'from')::int as from, b.hash from custody.journal j
     join chain.block b on b.height = (details -> 'lifetime' ->> 'from')::int and b.chain = 'TRON' where txid = $1`,
    [txid],
  )
  expect([height, Buffer.from(refHash).toString('hex'), memo.length]).toEqual([
    entry!.from,
    entry!.hash.slice(16, 32),
    0,
  ])
})

// --- the node ---

test.each<[string, () => unknown]>([
  ['has no response', () => faults.drop()],
  ['has an error', () => faults.error('class java.lang')],
  ['is refused', () => ({code: 'SERVER_BUSY', message: 'no'})],
])('a payment that the node takes, and which %s, is paid once', async (_, answer) => {
  const shop = await world.openShop([10n * trx])
  world.lie('/broadcasthex', async pass => {
    await pass()
    return answer()
  })
  const id = await world.request(shop, 'TRX')
  const {txid} = await world.becomes(id, 'completed')
  expect([received(shop), (await world.attempts(id)).map(({txid}) => txid)]).toEqual([netOf(10n * trx), [txid]])
})

test('bytes that the node has already are taken', async () => {
  const {shop, id, txid} = await world.held()
  const before = await world.lastSent(txid)
  await world.wakePayment(id)
  await until(async () => +(await world.lastSent(txid))! > +before!, {
    timeoutMs: 5000,
    what: 'the bytes to be sent again',
  })
  const errors = await world.db.rows('select broadcast_error from app.outgoing_attempt where txid = $1', [txid])
  expect(errors).toEqual([{broadcast_error: null}])
  world.isHeld = false
  await world.becomes(id, 'completed')
  expect(received(shop)).toBe(netOf(10n * trx))
})

test('a payment under way reserves what it moves, and the most that it may cost', async () => {
  const {shop, id} = await world.held()
  expect(await world.reserved()).toBe(netOf(10n * trx) + activation)
  world.isHeld = false
  await world.becomes(id, 'completed')
  expect([await world.reserved(), received(shop)]).toEqual([0n, netOf(10n * trx)])
})

test('a payment that fell out of the pool is sent again, with the same bytes', async () => {
  const {shop, id, txid} = await world.held()
  world.tron.forget([txid])
  const isSent = async () => {
    await world.wakePayment(id)
    return world.tron.waits(txid)
  }
  await until(isSent, {timeoutMs: 20_000, what: 'the transaction to be sent again'})
  world.isHeld = false
  const payout = await world.becomes(id, 'completed')
  expect([payout.txid, received(shop)]).toEqual([txid, netOf(10n * trx)])
})

// --- time ---

test('nothing is signed while the newest block is of the future', async () => {
  const shop = await world.openShop([10n * trx])
  world.isMining = false
  const head = world.tron.mine(1, {laterMs: 3_600_000})
  await until(
    async () => (await world.db.rows('select from chain.cursor where head_height = $1', [head.height])).length,
    {
      timeoutMs: 20_000,
      what: 'the forged block to be read',
    },
  )
  const id = await world.request(shop, 'TRX')
  await until(async () => (await world.waitsFor(id)) === 'head_stale', {timeoutMs: 20_000, what: 'the payment to wait'})
  expect(await world.attempts(id)).toEqual([])
  world.tron.reorg(1)
  world.isMining = true
  await world.becomes(id, 'completed', 40_000)
  expect(received(shop)).toBe(netOf(10n * trx))
})

// --- forks ---

test('a payment whose block leaves the chain is mined again, with the same bytes', async () => {
  const {shop, id, txid} = await world.held()
  world.isMining = false
  world.isHeld = false
  world.tron.mine(1)
  expect(received(shop)).toBe(netOf(10n * trx))
  world.tron.reorg(1)
  expect(received(shop)).toBe(0n)
  await world.wakePayment(id)
  world.isMining = true
  const payout = await world.becomes(id, 'completed')
  expect(received(shop)).toBe(netOf(10n * trx))
  expect((await world.attempts(id)).filter(({fate}) => fate === 'final')).toMatchObject([{txid: payout.txid}])
  expect((await world.attempts(id))[0]!.txid).toBe(txid)
})

// --- processes ---

test('a worker that dies before it stored what custody signed leaves one transaction', async () => {
  const shop = await world.openShop([10n * trx])
  await world.kill(worker)
  const doomed = await world.startWorker({crashAt: 'send: after sign'})
  const id = await world.request(shop, 'TRX')
  await until(async () => doomed.signalCode, {timeoutMs: 20_000, what: 'the worker to die'})
  const [signed] = await world.signed(id, 1)
  worker = await world.startWorker()
  const {txid} = await world.becomes(id, 'completed')
  expect([txid, received(shop)]).toEqual([signed!.txid, netOf(10n * trx)])
})

// --- the audit ---

test('the audit finds that every address holds what the ledger says, and one that does not', async () => {
  const rows = await world.db.rows<{address: string}>(`select address from custody.address where family = 'tron'`)
  const addresses = rows.map(({address}) => address)
  world.isMining = false // its blocks are much faster than those of a network
  const asked = tron.ask(world.db.pool as never, tronSettings(settingsFrom('TRON', world.environment)))
  expect(await asked.poll(addresses)).toEqual({height: expect.any(Number), differences: [], unread: []})
  expect(await asked.heightAt(new Date(0))).toBe(1)
  expect(await asked.heightAt(new Date(Date.now() + 7_200_000))).toBeGreaterThan(1)
  const [held] = await world.db.rows<{address: string; amount: string}>(
    'select address, amount from app.holding where amount > 0 limit 1',
  )
  const {address} = held!
  const chain = world.holds(address)
  const add = (amount: string) =>
    world.db.rows('update app.holding set amount = amount + $1 where address = $2', [amount, address])
  await add('1')
  const {differences} = await asked.poll(addresses)
  await add('-1')
  expect(differences).toEqual([{address, token: 'TRX', outpoint: '', ledger: chain + 1n, chain}])
})
