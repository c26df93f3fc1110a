// Payments on Tron that no block takes in time, by real processes: each is signed again once it can never pay, and
// arrives once. After each test the books are right. What is common to chains whose transactions expire is tested with
// the made-up family.
import {setTimeout as sleep} from 'node:timers/promises'
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {bytesOf} from '../../chains/tron/address.ts'
import {parseTransaction} from '../../chains/tron/transaction.ts'
import {assertBooks} from '../support/books.ts'
import {TronWorld, trx, unit} from '../support/tron/world.ts'
import {until} from '../support/until.ts'
import type {Shop} from '../support/world.ts'

let world: TronWorld

beforeAll(async () => {
  world = await TronWorld.open()
  await world.startWorker()
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

// --- the node ---

test('a payment that the node refuses stays open until it expires, and is signed again once', async () => {
  const shop = await world.openShop([10n * trx])
  const refused = new Set<string>()
  world.node.behave = ({method, params: [body]}, pass) => {
    if (!method.endsWith('/broadcasthex')) return pass()
    const {transaction} = body as {transaction: string}
    if (!refused.size) refused.add(transaction)
    return refused.has(transaction) ? {code: 'TRANSACTION_EXPIRATION_ERROR', message: 'no'} : pass()
  }
  const id = await world.request(shop, 'TRX')
  const {txid} = await world.becomes(id, 'completed')
  const attempts = await world.attempts(id)
  expect(attempts).toEqual([
    {txid: parseTransaction(Buffer.from([...refused][0]!, 'hex')).txid, fate: 'dead', lapsed: true},
    {txid, fate: 'final', lapsed: false},
  ])
  expect(received(shop)).toBe(netOf(10n * trx))
})

test('an address whose free bytes the network does not take pays for them after its sweep expired', {
  timeout: 90_000,
}, async () => {
  const shop = await world.openShop([10n * trx])
  const [address] = shop.addresses
  for (let n = 0; n < 2; n++) {
    await world.becomes(await world.request(shop, 'TRX', true), 'completed')
    await world.pay([address!], [10n * trx])
    await world.untilBalance(shop, 10n * trx)
  }
  world.lie('/getaccountresource', () => ({freeNetLimit: 600}))
  const id = await world.request(shop, 'TRX', true)
  await world.becomes(id, 'completed', 80_000)
  const sweeps = (await world.outgoingPayments(id)).filter(({kind}) => kind === 'sweep')
  expect(sweeps.map(({outcome}) => outcome)).toEqual(['expired', 'done'])
  expect([received(shop), world.holds(address!) > 0n]).toEqual([3n * netOf(10n * trx), true])
})

// --- time ---

test('a payment that no block takes expires, and is signed again once, with other bytes', async () => {
  const {shop, id, txid} = await world.held()
  const [dead, second] = await world.signed(id, 2)
  expect(dead).toEqual({txid, fate: 'dead', lapsed: true})
  world.isHeld = false
  const payout = await world.becomes(id, 'completed')
  expect([payout.txid, received(shop)]).toEqual([second!.txid, netOf(10n * trx)])
  const [lapse] = await world.db.rows<{evidence: {solid: unknown[]}}>(
    'select evidence from chain.lapse where txid = $1',
    [txid],
  )
  expect(lapse!.evidence.solid).toHaveLength(1)
})

test('a payment that expired, and whose recipient refuses the next one, fails its payout for that reason', {
  timeout: 120_000,
}, async () => {
  await world.pay([world.treasury], [1000n * unit], 'USDT')
  const shop = await world.openShop([50n * unit], {token: 'USDT'})
  world.isHeld = true
  const id = await world.request(shop, 'USDT')
  const [attempt] = await world.signed(id, 1)
  await world.untilWaiting(attempt!.txid)
  const wallet = Buffer.from(bytesOf(shop.wallet)).toString('hex').slice(2)
  const refused = {result: true, message: Buffer.from('REVERT opcode executed').toString('hex')}
  world.node.behave = ({method, params}, pass) =>
    method.endsWith('/triggerconstantcontract') && JSON.stringify(params).includes(wallet)
      ? {result: refused, transaction: {ret: [{ret: 'FAILED'}]}}
      : pass()
  // Its payout fails half a minute after the end of the payment: at once here.
  const age = `update chain.lapse set lapsed_at = lapsed_at - interval '31 seconds'
    where txid = $1 and lapsed_at > clock_timestamp() - interval '30 seconds' returning txid`
  const {error_code} = await world.becomes(id, 'failed', 60_000, async () => {
    if ((await world.db.rows(age, [attempt!.txid])).length) await world.wakePayment(id)
  })
  expect([error_code, await world.attempts(id)]).toEqual([
    'destination_not_payable',
    [{txid: attempt!.txid, fate: 'dead', lapsed: true}],
  ])
  await world.untilBalance(shop, 50n * unit)
})

test('the very last block that may hold a payment holds it: it is paid, and nothing else is signed', async () => {
  const {shop, id, txid} = await world.held({isMining: false})
  const {expiration} = await world.rawDataOf(txid)
  const {time} = world.tron.block(world.tron.head.height).header
  expect(time).toBeLessThan(expiration)
  while (Date.now() <= expiration) await sleep(expiration - Date.now() + 1) // a timer may fire a millisecond early
  world.tron.mine(1) // its parent is before the end
  expect(world.tron.block(world.tron.head.height).header.time).toBeGreaterThan(expiration)
  world.isMining = true
  const payout = await world.becomes(id, 'completed')
  expect([payout.txid, received(shop)]).toEqual([txid, netOf(10n * trx)])
  expect(await world.attempts(id)).toMatchObject([{fate: 'final'}])
})

test('a block after the end does not hold it, whoever keeps the bytes', async () => {
  const {id, txid} = await world.held()
  const [row] = await world.db.rows<{raw: string}>('select raw from app.outgoing_attempt where txid = $1', [txid])
  await world.signed(id, 2)
  expect(() => world.tron.submit(row!.raw)).toThrow('expired')
  world.isHeld = false
  await world.becomes(id, 'completed')
})

test('a solidified block that goes back changes nothing: no proof rests on it', async () => {
  const {shop, id} = await world.held()
  const old = world.tron.block(2)
  world.lie('/walletsolidity/getblock', async pass => ({
    ...((await pass()) as object),
    blockID: old.hash,
    block_header: {raw_data: await world.headerOf(2)},
  }))
  await sleep(7000) // its transaction has expired meanwhile
  expect((await world.attempts(id)).map(({fate}) => fate)).toEqual(['open'])
  world.node.behave = undefined
  await world.signed(id, 2)
  world.isHeld = false
  await world.becomes(id, 'completed')
  expect(received(shop)).toBe(netOf(10n * trx))
})

test.each(['fund', 'sweep'])(
  'of USDT, a %s that no block takes expires, and another one is made once it is dead',
  {
    timeout: 120_000,
  },
  async kind => {
    const shop = await world.openShop([20n * unit], {token: 'USDT'})
    const [address] = shop.addresses as [string]
    const ended = async () =>
      (await world.outgoingPayments(id)).filter(({outcome}) => outcome).map(({kind, outcome}) => `${kind} ${outcome}`)
    world.isHeld = kind === 'fund'
    const id = await world.request(shop, 'USDT', true)
    if (kind === 'sweep') {
      const isFunded = async () => world.holds(address) > 0n
      await until(isFunded, {timeoutMs: 40_000, what: 'the TRX to be in a block', intervalMs: 20})
      world.isHeld = true // the sweep is signed once that is final
    }
    await until(async () => (await ended()).includes(`${kind} expired`), {
      timeoutMs: 60_000,
      what: `the ${kind} to expire`,
    })
    world.isHeld = false
    await world.becomes(id, 'completed', 60_000)
    expect((await ended()).toSorted()).toEqual(['fund done', 'payout done', 'sweep done', `${kind} expired`].toSorted())
    expect(world.holdsUsdt(shop.wallet)).toBe(netOf(20n * unit))
  },
)
