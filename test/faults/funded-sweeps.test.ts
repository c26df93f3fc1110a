// Payouts of a token whose addresses sweep it themselves, with gas that the treasury sends them: USDT on a real chain,
// by real processes. What is on an address for its merchant pays no fee of ours, and what is left of the gas is the
// operator's. After each test the books are right, and say what the chain says.
import type {ChildProcess} from 'node:child_process'
import {setTimeout as sleep} from 'node:timers/promises'
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {assertBooks} from '../support/books.ts'
import {EvmWorld, ether, type Shop, usdc as unit} from '../support/evm/world.ts'
import {until} from '../support/until.ts'

const gwei = 10n ** 9n

let world: EvmWorld
let worker: ChildProcess

beforeAll(async () => {
  world = await EvmWorld.open()
  worker = await world.startWorker()
})
afterAll(async () => {
  await world?.close()
})
afterEach(async () => {
  world.node.behave = undefined
  world.isMining = true
  await assertBooks(world.db)
})

const netOf = (gross: bigint) => gross - gross / 100n

/** What the service did for an address, in order: gas that it sent, sweeps, and gas that it brought back. */
async function doneFor(address: string): Promise<{kind: string; outcome: string | null; amount: string}[]> {
  return await world.db.rows(
    `select kind, outcome, amount::text as amount from app.outgoing_payment
     where recipient = $1 and kind = 'fund' or source = $1 and kind in ('sweep', 'defund') order by created_at`,
    [address],
  )
}

/** What the ledger has of ether on an address: its merchant's, and the operator's gas. */
async function etherOn(address: string): Promise<{merchants: bigint; gas: bigint}> {
  const [row] = await world.db.rows<{merchants: string; gas: string}>(
    `select coalesce((select sum(amount) from app.holding where address = $1 and token = 'ETH'), 0)::text as merchants,
       coalesce((select sum(amount) from app.gas where address = $1), 0)::text as gas`,
    [address],
  )
  return {merchants: BigInt(row!.merchants), gas: BigInt(row!.gas)}
}

async function agreesWithTheChain({addresses}: Shop): Promise<void> {
  for (const address of addresses) {
    const {merchants, gas} = await etherOn(address)
    expect([address, merchants + gas]).toEqual([address, await world.held('ETH', address)])
  }
}

test('its addresses get gas, sweep themselves, and the payout arrives to the last unit; ether of their merchant stays', async () => {
  const shop = await world.openShop('USDT', [600n * unit, 400n * unit])
  const [first] = shop.addresses as [string, string]
  await world.pay('ETH', [first], [ether / 1000n])
  const id = await world.request(shop, 'USDT', true)
  const {network_fee} = await world.becomes(id, 'completed')
  expect(await world.received(shop, 'USDT')).toBe(netOf(1000n * unit))
  for (const address of shop.addresses)
    expect(await doneFor(address)).toEqual([
      {kind: 'fund', outcome: 'done', amount: expect.any(String)},
      {kind: 'sweep', outcome: 'done', amount: address === first ? '600000000' : '400000000'},
    ])
  expect((await etherOn(first)).merchants).toBe(ether / 1000n)
  expect((await etherOn(first)).gas).toBeGreaterThan(0n)
  await agreesWithTheChain(shop)
  const [cost] = await world.db.rows<{fees: string}>(
    'select sum(fee_paid)::text as fees from app.outgoing_payment where payout_id = $1',
    [id],
  )
  expect(String(network_fee)).toBe(cost!.fees)
})

test('the next sweep of an address uses what is left of its gas, and only what is missing is sent', async () => {
  const shop = await world.openShop('USDT', [5n * unit])
  const [address] = shop.addresses as [string]
  await world.becomes(await world.request(shop, 'USDT', true), 'completed')
  const {gas: left} = await etherOn(address)
  await world.pay('USDT', shop.addresses, [7n * unit])
  await world.becomes(await world.request(shop, 'USDT', true), 'completed')
  expect(await world.received(shop, 'USDT')).toBe(netOf(5n * unit) + netOf(7n * unit))
  const funds = (await doneFor(address)).filter(({kind}) => kind === 'fund').map(({amount}) => BigInt(amount))
  expect(left).toBeGreaterThan(0n)
  expect(funds.slice(1).every(amount => amount < funds[0]!)).toBe(true)
  await agreesWithTheChain(shop)
})

test('when fees rise while a sweep waits, its address gets what is missing, and the sweep is replaced', async () => {
  const shop = await world.openShop('USDT', [5n * unit])
  const [address] = shop.addresses as [string]
  const id = await world.request(shop, 'USDT', true)
  const isSent = async () => (await doneFor(address)).some(({kind, outcome}) => kind === 'sweep' && !outcome)
  world.node.behave = async ({method}, pass) => {
    if (method === 'eth_sendRawTransaction' && (await isSent())) world.isMining = false
    return await pass()
  }
  await until(async () => !world.isMining, {timeoutMs: 30_000, what: 'the sweep to be sent', intervalMs: 20})
  world.node.behave = undefined
  await until(
    async () => {
      await world.anvil.mineAt(20n * gwei)
      return (await doneFor(address)).filter(({kind, outcome}) => kind === 'fund' && outcome === 'done').length > 1
    },
    {timeoutMs: 60_000, what: 'more gas', intervalMs: 300},
  )
  await until(
    async () => {
      await world.anvil.mineAt(20n * gwei)
      return (await world.payout(id)).status === 'completed'
    },
    {timeoutMs: 60_000, what: 'the payout to be completed', intervalMs: 300},
  )
  await world.anvil.mineAt(gwei / 10n)
  expect((await world.outgoingPayments(id)).filter(({kind}) => kind === 'sweep')).toMatchObject([
    {outcome: 'done', attempts: 2},
  ])
  expect(await world.received(shop, 'USDT')).toBe(netOf(5n * unit))
  await agreesWithTheChain(shop)
}, 180_000)

test('a reorganisation that takes the gas, or the sweep, delays the payout and loses nothing', async () => {
  for (const kind of ['fund', 'sweep']) {
    const shop = await world.openShop('USDT', [5n * unit])
    const [address] = shop.addresses as [string]
    world.isMining = false
    const id = await world.request(shop, 'USDT', true)
    await until(
      async () => {
        const {pending} = await world.anvil.call<{pending: string}>('txpool_status')
        const isOpen = (await doneFor(address)).some(one => one.kind === kind && !one.outcome)
        if (!isOpen) await world.anvil.mine(Number(pending) ? 3 : 1) // else it might be mined before it is seen
        return isOpen && Number(pending) > 0
      },
      {timeoutMs: 60_000, what: `the ${kind} to be in the pool`, intervalMs: 200},
    )
    await world.anvil.mine()
    await world.anvil.reorg(1)
    world.isMining = true
    await world.becomes(id, 'completed')
    expect(await world.received(shop, 'USDT')).toBe(netOf(5n * unit))
    await agreesWithTheChain(shop)
  }
}, 180_000)

test('dust that strangers send to an address while it gets gas is its merchant’s, and pays nothing', async () => {
  const shop = await world.openShop('USDT', [5n * unit])
  const [address] = shop.addresses as [string]
  const id = await world.request(shop, 'USDT', true)
  const dust = 10n ** 12n
  await until(async () => (await doneFor(address)).length, {timeoutMs: 30_000, what: 'the gas to be under way'})
  await world.pay('ETH', [address], [dust])
  await world.pay('USDT', [address], [1n])
  await world.becomes(id, 'completed')
  expect(await world.received(shop, 'USDT')).toBe(netOf(5n * unit))
  expect((await etherOn(address)).merchants).toBe(dust)
  await agreesWithTheChain(shop)
})

test('a treasury without ether sends no gas, and the payout says what is missing until it comes', async () => {
  const [row] = await world.db.rows<{balance: string}>(`select balance::text from app.treasury where token = 'ETH'`)
  await world.db.rows(`update app.treasury set reserved = reserved + $1 where token = 'ETH'`, [row!.balance])
  const shop = await world.openShop('USDT', [5n * unit])
  const id = await world.request(shop, 'USDT', true)
  expect((await world.becomes(id, 'insufficient_treasury_funds')).waiting_detail).toMatch(/^ETH for sweeping short by /)
  expect(await doneFor(shop.addresses[0]!)).toEqual([])
  await world.db.rows(`update app.treasury set reserved = reserved - $1 where token = 'ETH'`, [row!.balance])
  await world.becomes(id, 'completed')
})

test('fees that make gas and sweep dearer than the operator allows send nothing, and the payout waits', async () => {
  await world.kill(worker)
  worker = await world.startWorker({settings: {ETH_TOKEN_SWEEP_FEE: '0.000000000001'}})
  const shop = await world.openShop('USDT', [5n * unit])
  const id = await world.request(shop, 'USDT', true)
  expect((await world.becomes(id, 'fee_above_cap')).waiting_detail).toContain('ETH_TOKEN_SWEEP_FEE')
  expect(await doneFor(shop.addresses[0]!)).toEqual([])
  await world.kill(worker)
  worker = await world.startWorker()
  await world.becomes(id, 'completed')
})

test('addresses that hold much are swept without a payout, with gas, too', async () => {
  await world.kill(worker)
  worker = await world.startWorker({settings: {ETH_COLLECT_ABOVE: 'USDT:500'}})
  const shop = await world.openShop('USDT', [600n * unit])
  const isSwept = async () =>
    (await doneFor(shop.addresses[0]!)).some(one => one.kind === 'sweep' && one.outcome === 'done')
  await until(isSwept, {timeoutMs: 60_000, what: 'the address to be swept'})
  await agreesWithTheChain(shop)
})

/** A shop whose address has swept its token, has ether of its merchant, and more gas than it needs. */
async function shopWithGas(): Promise<{shop: Shop; address: string; left: bigint}> {
  const shop = await world.openShop('USDT', [5n * unit])
  const [address] = shop.addresses as [string]
  await world.pay('ETH', [address], [ether / 1000n])
  await world.db.rows(`select app.begin_funds(null, 'ETH', 'USDT', array[$1], array[$2::numeric], $3)`, [
    address,
    String((3n * ether) / 1000n),
    String(21_000n * 30n * gwei),
  ])
  const hasGas = async () => (await etherOn(address)).gas > 0n
  await until(hasGas, {timeoutMs: 60_000, what: 'the gas to arrive'})
  await world.becomes(await world.request(shop, 'USDT', true), 'completed')
  return {shop, address, left: (await etherOn(address)).gas}
}

const monthLater = (address: string) =>
  world.db.rows(`update app.gas set used_at = used_at - interval '31 days' where address = $1`, [address])

const defundOf = async (address: string) =>
  (await doneFor(address)).find(({kind}) => kind === 'defund') ?? {outcome: undefined, amount: '0'}

test('gas that an address has not used for 30 days returns to the treasury; ether of its merchant stays', async () => {
  const {shop, address, left} = await shopWithGas()
  await sleep(11_000) // the worker looks every ten seconds
  expect((await doneFor(address)).map(({kind}) => kind)).toEqual(['fund', 'sweep'])

  await monthLater(address)
  const isBack = async () => (await defundOf(address)).outcome === 'done'
  await until(isBack, {timeoutMs: 60_000, what: 'the gas to return'})
  const {merchants, gas} = await etherOn(address)
  expect(merchants).toBe(ether / 1000n)
  expect(BigInt((await defundOf(address)).amount)).toBeGreaterThan((left * 9n) / 10n)
  expect(gas).toBeLessThan(left / 10n)
  await agreesWithTheChain(shop)
  const [row] = await world.db.rows<{balance: string}>(`select balance::text from app.treasury where token = 'ETH'`)
  expect(BigInt(row!.balance)).toBe(await world.held('ETH', world.treasury))
})

test('when fees rise meanwhile, less gas returns; when it is not worth them any more, it is given up', async () => {
  for (const {price, what} of [
    {price: 20n * gwei, what: 'less returns'},
    {price: 150n * gwei, what: 'given up'},
  ]) {
    const {shop, address} = await shopWithGas()
    world.node.behave = async ({method}, pass) => {
      if (method === 'eth_sendRawTransaction' && (await defundOf(address)).outcome === null) world.isMining = false
      return await pass()
    }
    await monthLater(address)
    await until(async () => !world.isMining, {timeoutMs: 30_000, what: 'the gas to be sent', intervalMs: 20})
    world.node.behave = undefined
    const {amount: first} = await defundOf(address)
    const isGivenUp = async () =>
      (
        await world.db.rows(
          `select from app.outgoing_payment where source = $1 and kind = 'defund' and failure is not null`,
          [address],
        )
      ).length > 0
    await until(
      async () => {
        await world.anvil.mineAt(price)
        return (await defundOf(address)).outcome === 'done' || (await isGivenUp())
      },
      {timeoutMs: 60_000, what, intervalMs: 300},
    )
    expect(await isGivenUp()).toBe(what === 'given up')
    if (what === 'less returns') expect(BigInt((await defundOf(address)).amount)).toBeLessThan(BigInt(first))
    await world.anvil.mineAt(gwei / 10n)
    world.isMining = true
    await until(async () => (await defundOf(address)).outcome, {timeoutMs: 60_000, what: 'it to end'})
    expect((await etherOn(address)).merchants).toBe(ether / 1000n)
    await agreesWithTheChain(shop)
  }
}, 240_000)
