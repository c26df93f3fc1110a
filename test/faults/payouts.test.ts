// Payouts on a real chain, by real processes: a requested payout arrives once, exactly, whatever the chain, the node,
// custody and the workers do meanwhile. After each test the books are right.
import type {ChildProcess} from 'node:child_process'
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {Client, makeKey, startApi} from '../support/api.ts'
import {assertBooks} from '../support/books.ts'
import {askCustody} from '../support/custody.ts'
import {EvmWorld, ether, jpyc, type Shop, usdc} from '../support/evm/world.ts'
import {type Call, faults} from '../support/rpc-proxy.ts'
import {until} from '../support/until.ts'

const gwei = 10n ** 9n
/** The first four bytes of transfer(address,uint256). */
const tokenTransfer = '0xa9059cbb'

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

async function balanceOf({id}: Shop, token: string): Promise<string | undefined> {
  const [row] = await world.db.rows<{amount: string}>(
    'select amount::text from app.balance_now where merchant_id = $1 and token = $2',
    [id, token],
  )
  return row?.amount
}

const isBroadcast = ({method}: Call) => method === 'eth_sendRawTransaction'

/** A payout whose signed payment waits in the mempool, where no block takes it. */
async function payingButNotMined(): Promise<{shop: Shop; id: string}> {
  const shop = await world.openShop('ETH', [ether])
  world.isMining = false
  const id = await world.request(shop, 'ETH')
  await world.becomes(id, 'paying')
  await until(async () => Number((await world.anvil.call<{pending: string}>('txpool_status')).pending) === 1, {
    timeoutMs: 30_000,
    what: 'the payment to be in the pool',
  })
  return {shop, id}
}

/** Mines blocks too expensive for the waiting transaction, until a second attempt is stored. */
async function tooDearUntilReplaced(id: string): Promise<string[]> {
  return await until(
    async () => {
      await world.anvil.mineAt(20n * gwei)
      const attempts = await world.db.rows<{txid: string}>(
        'select o.txid from app.outgoing_attempt o join app.outgoing_payment s on s.id = o.outgoing_payment_id where s.payout_id = $1 order by attempt',
        [id],
      )
      return attempts.length > 1 && attempts.map(({txid}) => txid)
    },
    {timeoutMs: 20_000, what: 'a replacement', intervalMs: 300},
  )
}

// --- without faults ---

test('the treasury advances a payout it can afford: the net arrives to the last wei, and nothing is swept', async () => {
  const shop = await world.openShop('ETH', [ether])
  const id = await world.request(shop, 'ETH')
  const payout = await world.becomes(id, 'completed')
  expect(await world.received(shop, 'ETH')).toBe(netOf(ether))
  expect(await world.outgoingPayments(id)).toMatchObject([{kind: 'payout', status: 'final', outcome: 'done'}])
  expect(payout).toMatchObject({waiting_reason: null, error_code: null})
  expect(BigInt(payout.network_fee)).toBeGreaterThan(0n)
})

test.each([
  ['USDC', usdc],
  ['EURC', usdc],
  ['JPYC', jpyc],
] as const)(
  'the amount of %s that the treasury cannot advance is swept first, from the largest addresses, as few as possible',
  async (token, unit) => {
    const shop = await world.openShop(token, [100n * unit, unit, 50n * unit])
    const id = await world.request(shop, token)
    await world.becomes(id, 'completed')
    expect(await world.received(shop, token)).toBe(netOf(151n * unit))
    const left = await Promise.all(shop.addresses.map(address => world.held(token, address)))
    expect(left.toSorted()).toEqual([0n, 0n, unit])
    for (const address of shop.addresses) expect(await world.anvil.balance(address)).toBe(0n) // it needed no gas
  },
)

test('with sweep_first every address worth it is swept before anything is paid, and dust is left alone', async () => {
  const dust = 5n * 10n ** 13n // more than a sweep costs, and not worth it: it is held back
  const shop = await world.openShop('ETH', [ether, 2n * ether, dust])
  const id = await world.request(shop, 'ETH', true)
  await world.becomes(id, 'completed')
  expect(await world.received(shop, 'ETH')).toBe(netOf(3n * ether))
  expect(await balanceOf(shop, 'ETH')).toBe(String(dust))
  expect((await world.outgoingPayments(id)).map(({kind, outcome}) => `${kind} ${outcome}`)).toEqual([
    'sweep done',
    'sweep done',
    'payout done',
  ])
  const left = await Promise.all(shop.addresses.map(address => world.anvil.balance(address)))
  expect(left).toContain(dust)
  for (const amount of left) expect(amount).toBeLessThan(10n ** 14n)
})

test('the smallest payout of a token with 18 decimals is exact to its last unit', async () => {
  const least = (jpyc * 100n) / 99n // its net is 100 JPYC
  expect([netOf(least), netOf(least - 1n)]).toEqual([jpyc, jpyc - 1n])
  const shop = await world.openShop('JPYC', [least - 1n])
  await expect(world.request(shop, 'JPYC')).rejects.toThrow('the balance is below the smallest payout (100 JPYC)')
  await world.pay('JPYC', shop.addresses, [1n])
  await world.becomes(await world.request(shop, 'JPYC'), 'completed')
  expect(await world.received(shop, 'JPYC')).toBe(jpyc)
})

test('an address with much money is swept without a payout, if the operator asked for it', async () => {
  const amounts = {USDC: [600n * usdc, 400n * usdc], JPYC: [6n * jpyc, 4n * jpyc]}
  const shops = {USDC: await world.openShop('USDC', amounts.USDC), JPYC: await world.openShop('JPYC', amounts.JPYC)}
  const collector = await world.startWorker({settings: {ETH_COLLECT_ABOVE: 'USDC:500,JPYC:500.000000000000000001'}})
  const balances = (token: 'USDC' | 'JPYC') =>
    Promise.all(shops[token].addresses.map(address => world.held(token, address)))
  for (const token of ['USDC', 'JPYC'] as const)
    await until(async () => (await balances(token)).includes(0n), {timeoutMs: 15_000, what: 'the address to be swept'})
  await world.kill(collector)
  for (const token of ['USDC', 'JPYC'] as const)
    expect((await balances(token)).toSorted()).toEqual([0n, amounts[token][1]])
  await until(async () => !(await world.db.rows(`select from app.outgoing_payment where status <> 'final'`)).length, {
    timeoutMs: 15_000,
    what: 'the sweep to be final',
  })
})

// --- waiting ---

test('a payout to an address off the whitelist waits, continues once it is whitelisted, and fails after too long', async () => {
  const shop = await world.openShop('ETH', [ether], {whitelisted: false})
  const id = await world.request(shop, 'ETH')
  expect(await world.becomes(id, 'not_whitelisted')).toMatchObject({status: 'pending'})
  await world.whitelist(shop.id, shop.wallet)
  await world.becomes(id, 'completed')

  await world.unlist(shop)
  await world.pay('ETH', shop.addresses, [2n * ether])
  const late = await world.request(shop, 'ETH')
  await world.becomes(late, 'not_whitelisted')
  await world.db.rows(
    `update app.payout set created_at = now() - interval '73 hours', next_step_at = now() where id = $1`,
    [late],
  )
  expect(await world.becomes(late, 'failed')).toMatchObject({error_code: 'address_not_whitelisted'})
  expect(await balanceOf(shop, 'ETH')).toBe(`${2n * ether}`)
  expect(await world.received(shop, 'ETH')).toBe(netOf(ether))
})

test('a payout whose address left the whitelist during its sweeps is not paid until the address is back', async () => {
  const shop = await world.openShop('ETH', [ether])
  world.isMining = false
  const id = await world.request(shop, 'ETH', true)
  await world.becomes(id, 'sweeps')
  await world.unlist(shop)
  world.isMining = true
  expect(await world.becomes(id, 'not_whitelisted')).toMatchObject({status: 'swept'})
  expect(await world.received(shop, 'ETH')).toBe(0n)
  await world.whitelist(shop.id, shop.wallet)
  await world.becomes(id, 'completed')
})

test('a payment and a withdrawal that custody refuses give up their nonces, and the payout is paid when its address is back', async () => {
  await world.kill(worker)
  const shop = await world.openShop('ETH', [ether])
  const id = await world.request(shop, 'ETH')
  for (const begin of ['begin_sweeping($1)', 'end_sweeping($1)', 'begin_payment($1, 1000000000000000)'])
    await world.db.rows(`select app.${begin}`, [id])
  const [payment] = await world.db.rows<{id: string}>('select id from app.outgoing_payment where payout_id = $1', [id])
  await world.unlist(shop)
  const [withdrawal] = await world.db.rows<{id: string}>(
    `select app.begin_withdrawal('ETH', 'ETH', 1, '0x000000000000000000000000000000000000bEEF', 1000000000000000) as id`,
  )
  worker = await world.startWorker()
  expect(await world.becomes(id, 'not_whitelisted')).toMatchObject({status: 'swept'})
  const waited = (id: string, time: string) =>
    world.db.rows(
      'update app.payout set created_at = now() - $2::interval, waiting_since = now() - $2::interval, next_step_at = now() where id = $1',
      [id, time],
    )
  await waited(id, '2 minutes')
  const outcomes = 'select outcome from app.outgoing_payment where id = any($1)'
  await until(
    async () => {
      const ended = await world.db.rows<{outcome: string | null}>(outcomes, [[payment!.id, withdrawal!.id]])
      return ended.every(({outcome}) => outcome === 'cancelled')
    },
    {timeoutMs: 60_000, what: 'both nonces to be used up'},
  )
  expect(await world.becomes(id, 'not_whitelisted')).toMatchObject({status: 'swept'})
  await world.whitelist(shop.id, shop.wallet)
  await world.becomes(id, 'completed')
  expect(await world.received(shop, 'ETH')).toBe(netOf(ether))

  await world.unlist(shop)
  await world.pay('ETH', shop.addresses, [ether])
  await world.kill(worker)
  const late = await world.request(shop, 'ETH')
  for (const begin of ['begin_sweeping($1)', 'end_sweeping($1)', 'begin_payment($1, 1000000000000000)'])
    await world.db.rows(`select app.${begin}`, [late])
  worker = await world.startWorker()
  await world.becomes(late, 'not_whitelisted')
  await waited(late, '73 hours')
  expect(await world.becomes(late, 'failed')).toMatchObject({error_code: 'address_not_whitelisted'})
  expect(await balanceOf(shop, 'ETH')).toBe(`${ether}`)
})

test('a payment that was refused for half a minute keeps its nonce and is paid if its address is back before', async () => {
  await world.kill(worker)
  const shop = await world.openShop('ETH', [ether])
  const id = await world.request(shop, 'ETH')
  for (const begin of ['begin_sweeping($1)', 'end_sweeping($1)', 'begin_payment($1, 1000000000000000)'])
    await world.db.rows(`select app.${begin}`, [id])
  await world.unlist(shop)
  worker = await world.startWorker()
  await world.becomes(id, 'not_whitelisted')
  await until(
    async () =>
      (
        await world.db.rows(
          `select from app.outgoing_payment where payout_id = $1 and waiting_reason = 'not_whitelisted'`,
          [id],
        )
      ).length,
    {timeoutMs: 15_000, what: 'custody to refuse the payment'},
  )
  await world.db.rows(
    `update app.payout set waiting_since = now() - interval '2 minutes', next_step_at = now() + interval '1 hour' where id = $1`,
    [id],
  )
  await world.whitelist(shop.id, shop.wallet)
  await world.becomes(id, 'completed')
  expect(await world.outgoingPayments(id)).toMatchObject([{status: 'final', cancelling: false}])
})

test('no payout begins while the chain asks more than the cap, or while an incident is open', async () => {
  const shop = await world.openShop('ETH', [ether])
  const [incident] = await world.db.rows<{id: string}>(
    `insert into app.incident (chain, kind, subject, details) values ('ETH', 'fork_below_final', 'ETH', '{}') returning id`,
  )
  // (A payout is not accepted then either, so the test wakes it.)
  await expect(world.request(shop, 'ETH')).rejects.toThrow('payouts of ETH are stopped')
  await world.db.rows(`update app.incident set resolved_at = now(), resolution = 'kept' where id = $1`, [incident!.id])

  world.node.behave = async ({method}, pass) => {
    const response = (await pass()) as object
    return method === 'eth_getBlockByNumber'
      ? {...response, baseFeePerGas: `0x${(600n * gwei).toString(16)}`}
      : response
  }
  const id = await world.request(shop, 'ETH')
  expect(await world.becomes(id, 'fee_above_cap')).toMatchObject({
    status: 'sweeping',
    waiting_detail: expect.stringContaining('ETH_MAX_FEE_GWEI allows 500'),
  })
  await world.db.rows(`update app.incident set resolved_at = null, resolution = null where id = $1`, [incident!.id])
  world.node.behave = undefined
  await world.becomes(id, 'chain_halted')
  await world.db.rows(`update app.incident set resolved_at = now(), resolution = 'kept' where id = $1`, [incident!.id])
  await world.becomes(id, 'completed')
})

test("when the day's fee budget is spent payouts wait, with or without a nonce, nothing is cancelled, and raising it wakes them", async () => {
  const [begun, pending] = [await world.openShop('ETH', [ether]), await world.openShop('ETH', [ether])]
  await world.kill(worker)
  await world.killCustody()
  await world.startCustody({settings: {ETH_FEE_BUDGET: '0.000000001'}})
  const ids = [await world.request(begun, 'ETH'), await world.request(pending, 'ETH')]
  for (const begin of ['begin_sweeping($1)', 'end_sweeping($1)', 'begin_payment($1, 1000000000000000)'])
    await world.db.rows(`select app.${begin}`, [ids[0]])
  worker = await world.startWorker()
  for (const id of ids) {
    await world.becomes(id, 'fee_budget_reached')
    const [row] = await world.db.rows('select app.payout_waiting(p) as waiting from app.payout p where id = $1', [id])
    expect(row).toMatchObject({waiting: {code: 'fee_budget_reached', since: expect.any(String)}})
  }
  const isRefused = async () => (await world.outgoingPayments(ids[0]!))[0]!.waiting_reason === 'fee_budget_reached'
  await until(isRefused, {timeoutMs: 10_000, what: 'custody to refuse the payment'})
  await world.db.rows(
    `update app.payout set waiting_since = now() - interval '2 minutes', next_step_at = now() where id = $1`,
    [ids[0]],
  )
  const isPolled = 'select from app.payout where id = $1 and next_step_at > now()'
  await until(async () => (await world.db.rows(isPolled, [ids[0]])).length, {timeoutMs: 10_000, what: 'another look'})
  expect(await world.payout(ids[0]!)).toMatchObject({status: 'swept'}) // a refusal for the day's budget does not fail it
  expect(await world.outgoingPayments(ids[0]!)).toMatchObject([{status: 'allocated', cancelling: false, attempts: 0}])
  expect(await world.outgoingPayments(ids[1]!)).toEqual([]) // it took no nonce
  await world.db.rows(
    `insert into custody.budget_raise (chain, day, amount) values ('ETH', (now() at time zone 'UTC')::date, 1000000000000000000)`,
  )
  for (const id of ids) await world.becomes(id, 'completed')
  await world.killCustody()
  await world.startCustody()
})

test('on a halted chain an operator has a payment replaced, and nothing else is signed', async () => {
  const {shop, id} = await payingButNotMined()
  await world.db.rows(
    `insert into app.incident (chain, kind, subject, details) values ('ETH', 'unknown_transaction', 'it', '{}')`,
  )
  const signed = async () => (await world.outgoingPayments(id))[0]!.attempts
  await world.db.rows('update app.outgoing_payment set next_step_at = clock_timestamp() where payout_id = $1', [id])
  expect(await signed()).toBe(1)
  await world.db.rows('select app.replace_payout_by_operator($1)', [id])
  await until(async () => (await signed()) === 2, {timeoutMs: 10_000, what: 'the replacement'})
  await world.db.rows(`update app.incident set resolved_at = now(), resolution = 'kept' where subject = 'it'`)
  world.isMining = true
  await world.becomes(id, 'completed')
  expect(await world.received(shop, 'ETH')).toBe(netOf(ether))
})

test('a payment that would fail is not made until it would succeed', async () => {
  const shop = await world.openShop('USDC', [5n * usdc])
  world.node.behave = ({method, params}, pass) => {
    const {data = ''} = (params[0] ?? {}) as {data?: string}
    if (method === 'eth_estimateGas' && data.startsWith(tokenTransfer)) faults.error('execution reverted: paused', 3)
    return pass()
  }
  const id = await world.request(shop, 'USDC')
  expect(await world.becomes(id, 'would_revert')).toMatchObject({
    status: 'swept',
    waiting_detail: expect.stringContaining('paused'),
  })
  world.node.behave = undefined
  await world.becomes(id, 'completed')
})

test('a payout whose recipient refuses it fails before anything is swept; one whose recipient refuses all of it, but not a little, before it is signed', async () => {
  const [refusing, blocked, choosy] = [
    await world.openShop('ETH', [ether]),
    await world.openShop('USDC', [5n * usdc]),
    await world.openShop('ETH', [ether]),
  ]
  await world.anvil.call('anvil_setCode', [refusing.wallet, '0x60006000fd'])
  await world.issuer('USDC', 'blacklist', [blocked.wallet])
  await world.anvil.call('anvil_setCode', [choosy.wallet, '0x60013411600857005b60006000fd']) // it takes 1 wei at most
  const ofEther = await world.request(refusing, 'ETH')
  const ofToken = await world.request(blocked, 'USDC')
  const ofMuch = await world.request(choosy, 'ETH')
  for (const [id, status] of [
    [ofEther, 'pending'],
    [ofToken, 'pending'],
    [ofMuch, 'swept'],
  ] as const) {
    const waits = await world.becomes(id, 'destination_not_payable')
    expect(waits).toMatchObject({
      status,
      waiting_detail: expect.stringMatching(/^the recipient refuses the payment: .*(revert|blacklisted)/i),
    })
  }
  for (const [id, shop, token, amount] of [
    [ofEther, refusing, 'ETH', ether],
    [ofToken, blocked, 'USDC', 5n * usdc],
    [ofMuch, choosy, 'ETH', ether],
  ] as const) {
    const {error_code} = await world.agedUntilFailed(id, 'destination_not_payable')
    expect(error_code).toBe('destination_not_payable')
    await until(async () => (await balanceOf(shop, token)) === String(amount), {timeoutMs: 10_000, what: 'the balance'})
    const kinds = (await world.outgoingPayments(id)).map(({kind}) => kind)
    if (id === ofMuch) expect(kinds).not.toContain('payout')
    else expect(kinds).toEqual([])
  }
})

// A merchant's wallet may be a contract, which uses whatever gas it is given.
test('a payment that may cost more than ETH_MAX_PAYMENT_FEE waits until it costs less', async () => {
  const shop = await world.openShop('ETH', [ether])
  const hex = (n: number) => n.toString(16).padStart(2, '0')
  const stores = Array.from({length: 100}, (_, n) => `60${hex(n + 1)}60${hex(n)}55`) // 2.2 million gas
  await world.anvil.call('anvil_setCode', [shop.wallet, `0x${stores.join('')}00`])
  world.node.behave = async ({method}, pass) => {
    const response = (await pass()) as object
    return method === 'eth_getBlockByNumber' ? {...response, baseFeePerGas: `0x${(40n * gwei).toString(16)}`} : response
  }
  const id = await world.request(shop, 'ETH')
  expect(await world.becomes(id, 'would_revert')).toMatchObject({
    status: 'swept',
    waiting_detail: expect.stringContaining('ETH_MAX_PAYMENT_FEE allows 50000000000000000'),
  })
  expect((await world.outgoingPayments(id)).filter(({kind}) => kind === 'payout')).toEqual([])
  world.node.behave = undefined
  await world.becomes(id, 'completed')
  expect(await world.received(shop, 'ETH')).toBe(netOf(ether))
})

test('a sweep of a token that would fail is not sent; its nonce is used up, and other payouts go on', async () => {
  const [frozen, other] = [await world.openShop('USDC', [5n * usdc]), await world.openShop('USDC', [5n * usdc])]
  const sent: string[] = []
  world.node.behave = ({method, params}, pass) => {
    const {data = '', to = ''} = params[0] as {data?: string; to?: string}
    const isItsSweep = method === 'eth_estimateGas' && to && data.includes(frozen.addresses[0]!.slice(2).toLowerCase())
    if (isItsSweep) faults.error('execution reverted: Blacklistable: account is blacklisted', 3)
    if (method === 'eth_sendRawTransaction') sent.push(String(params[0]))
    return pass()
  }
  const id = await world.request(frozen, 'USDC')
  const ofSweep = async () => (await world.outgoingPayments(id)).find(({kind, outcome}) => kind === 'sweep' && outcome)
  expect(await until(ofSweep, {timeoutMs: 60_000, what: 'the sweep to be given up'})).toMatchObject({
    outcome: 'cancelled',
    attempts: 1,
  })
  await world.becomes(await world.request(other, 'USDC'), 'completed')
  expect(sent.filter(raw => raw.includes(frozen.addresses[0]!.slice(2).toLowerCase()))).toEqual([])
})

test('a treasury without coins for gas delays payouts; they continue automatically after a top-up', async () => {
  const [own] = await world.db.rows<{funds: string}>(`select app.operator_funds('ETH', 'ETH') as funds`)
  const wallet = '0x00000000000000000000000000000000DeaDBeef'
  await world.db.rows(`insert into custody.whitelist (chain, address) values ('ETH', $1)`, [wallet])
  const fee = 100_000n * 10n * gwei
  const amount = BigInt(own!.funds) - fee
  await world.db.rows(`select app.begin_withdrawal('ETH', 'ETH', $1, $2, $3)`, [String(amount), wallet, String(fee)])
  await until(async () => (await world.anvil.balance(wallet)) === amount, {timeoutMs: 15_000, what: 'the withdrawal'})
  await until(async () => !(await world.db.rows(`select from app.outgoing_payment where status <> 'final'`)).length, {
    timeoutMs: 15_000,
    what: 'the withdrawal to be final',
  })
  // The rest of the fee pays for one or two transactions: there are too many addresses for it.
  const addresses = 12
  await world.db.rows(`select app.begin_withdrawal('ETH', 'ETH', app.operator_funds('ETH', 'ETH') - $1, $2, $1)`, [
    String(60_000n * 2n * gwei),
    wallet,
  ])
  const shop = await world.openShop('USDC', Array(addresses).fill(10n * usdc))
  const id = await world.request(shop, 'USDC', true)
  expect(await world.becomes(id, 'insufficient_treasury_funds')).toMatchObject({status: 'sweeping'})
  await world.topUp(10n * ether)
  await world.becomes(id, 'completed')
  expect(await world.received(shop, 'USDC')).toBe(netOf(BigInt(addresses) * 10n * usdc))
})

// --- faults of other parts ---

test('payouts wait while custody is down', async () => {
  const shop = await world.openShop('ETH', [ether])
  await world.killCustody()
  const id = await world.request(shop, 'ETH')
  expect(await world.becomes(id, 'custody_unreachable')).toMatchObject({status: 'pending'})
  await world.startCustody()
  await world.becomes(id, 'completed')
})

test('a node that accepts a payment without a response, and then is away, changes nothing', async () => {
  const shop = await world.openShop('ETH', [ether])
  let taken = 0
  world.node.behave = async (call, pass) => {
    if (taken) return faults.status(503)
    const response = await pass()
    if (!isBroadcast(call)) return response
    taken += 1
    return faults.drop()
  }
  const id = await world.request(shop, 'ETH')
  await world.becomes(id, 'completed') // the indexer saw it, on its own node
  expect(taken).toBe(1)
  expect(await world.received(shop, 'ETH')).toBe(netOf(ether))

  const next = await world.openShop('ETH', [ether])
  const other = await world.request(next, 'ETH')
  await world.becomes(other, 'node_unreachable')
  world.node.behave = undefined
  await world.becomes(other, 'completed')
})

test('a payment that no block takes is replaced with a higher fee and the same nonce', async () => {
  const {shop, id} = await payingButNotMined()
  const [, second] = await tooDearUntilReplaced(id)
  world.isMining = true
  await world.anvil.mineAt(20n * gwei, 3) // it may be in a block already that is not final
  expect(await world.becomes(id, 'completed')).toMatchObject({txid: second})
  expect(await world.received(shop, 'ETH')).toBe(netOf(ether))
  await world.anvil.mineAt(gwei / 10n)
})

test('a worker that asks about a payout which was signed a moment ago is not refused, and one that has ended is', async () => {
  const {id} = await payingButNotMined()
  const refusals = () => world.db.rows('select code from custody.refusal')
  const before = await refusals()
  const check = async () => (await askCustody(world.home, '/check', {payout_id: id})).body
  expect(await check()).toEqual({ok: true})
  expect(await refusals()).toEqual(before)
  world.isMining = true
  await world.becomes(id, 'completed')
  expect(await check()).toMatchObject({ok: false, code: 'wrong_state', message: 'the payout is completed'})
})

test('if the first attempt confirms after it was replaced, it counts, and nothing is paid twice', async () => {
  const {shop, id} = await payingButNotMined()
  world.node.behave = (call, pass) => (isBroadcast(call) ? `0x${'00'.repeat(32)}` : pass()) // a replacement is never sent
  const [first] = await tooDearUntilReplaced(id)
  await world.anvil.mineAt(gwei / 10n)
  const [attempt] = await world.db.rows<{raw: string}>('select raw from app.outgoing_attempt where txid = $1', [first])
  await world.anvil.resend(attempt!.raw).catch(() => {}) // if this node dropped the cheap one
  await world.anvil.mine(3)
  expect(await world.becomes(id, 'completed')).toMatchObject({txid: first})
  world.node.behave = undefined
  expect(await world.received(shop, 'ETH')).toBe(netOf(ether))
})

test('a payment that is mined and reverts fails the payout, and restores the balance', async () => {
  const {shop, id} = await payingButNotMined()
  await world.anvil.call('anvil_setCode', [shop.wallet, '0x60006000fd'])
  world.isMining = true
  expect(await world.becomes(id, 'failed')).toMatchObject({error_code: 'transaction_reverted', txid: null})
  expect(await world.received(shop, 'ETH')).toBe(0n)
  expect(await balanceOf(shop, 'ETH')).toBe(`${ether}`)
})

test('an operator cancels a payment under way: an empty transaction uses its nonce, and the balance is restored', async () => {
  const {shop, id} = await payingButNotMined()
  const [response] = await world.db.rows<{was: string}>('select app.cancel_payout_by_operator($1) as was', [id])
  expect(response!.was).toBe('cancelling')
  await until(async () => (await world.outgoingPayments(id))[0]!.attempts === 2, {
    timeoutMs: 10_000,
    what: 'the cancel',
  })
  const broadcast = `select from app.outgoing_attempt where kind = 'cancel' and broadcast_at is not null and broadcast_error is null`
  await until(async () => (await world.db.rows(broadcast)).length, {timeoutMs: 10_000, what: 'its broadcast'})
  world.isMining = true
  expect(await world.becomes(id, 'failed')).toMatchObject({error_code: 'cancelled'})
  expect(await world.received(shop, 'ETH')).toBe(0n)
  expect(await balanceOf(shop, 'ETH')).toBe(`${ether}`)
})

test('a payment that is cancelled before a node has it is never sent, also while its cancel cannot be signed', async () => {
  await world.kill(worker)
  const shop = await world.openShop('ETH', [ether])
  const doomed = await world.startWorker({crashAt: 'send: after store'})
  const id = await world.request(shop, 'ETH')
  await until(async () => doomed.signalCode, {timeoutMs: 20_000, what: 'the worker to die'})
  await world.db.rows('select app.cancel_payout_by_operator($1)', [id])
  await world.killCustody()
  worker = await world.startWorker()
  const waits = async () => (await world.outgoingPayments(id))[0]!.waiting_reason === 'custody_unreachable'
  await until(waits, {timeoutMs: 20_000, what: 'the cancel to wait for custody'})
  const [{sent} = {sent: true}] = await world.db.rows<{sent: boolean}>(
    `select bool_or(a.broadcast_at is not null) as sent from app.outgoing_attempt a join app.outgoing_payment s on s.id = a.outgoing_payment_id
     where s.payout_id = $1`,
    [id],
  )
  expect(sent).toBe(false)
  await world.startCustody()
  expect(await world.becomes(id, 'failed')).toMatchObject({error_code: 'cancelled'})
  expect(await world.received(shop, 'ETH')).toBe(0n)
})

test('a merchant that requests and cancels all the time makes the operator pay for one sweep of each address, and is paid', async () => {
  const shop = await world.openShop('USDC', [10n * usdc, 20n * usdc, 30n * usdc])
  const api = await startApi(world.db)
  const client = new Client(api, (await makeKey(world.db, shop.id)).secret)
  const request = () => client.post('/v1/payouts', {chain: 'ETH', token: 'USDC', sweep_first: true})
  const statusOf = async (id: string) => (await client.get(`/v1/payouts/${id}`)).body.status
  world.isMining = false
  const statuses: number[] = []
  let id = ''
  try {
    while (statuses.length < 100) {
      if (statuses.at(-1) !== 429) {
        // What was cancelled gives back its balance a little later.
        id = await until(async () => (await request()).body.id, {timeoutMs: 20_000, what: 'a payout'})
        await until(async () => (await statusOf(id)) === 'sweeping', {timeoutMs: 20_000, what: 'its sweeps'})
      }
      statuses.push((await client.post(`/v1/payouts/${id}/cancel`)).status)
    }
    world.isMining = true
    await until(async () => (await statusOf(id)) === 'completed', {timeoutMs: 60_000, what: 'the last one to end'})
  } finally {
    await api.close()
  }
  expect(statuses).toEqual([...Array(20).fill(200), ...Array(80).fill(429)])
  expect(await world.received(shop, 'USDC')).toBe(netOf(60n * usdc))
  const sweeps = await world.db.rows(
    `select source from app.outgoing_payment where kind = 'sweep' and merchant_id = $1`,
    [shop.id],
  )
  expect(sweeps.map(({source}) => source).toSorted()).toEqual(shop.addresses.toSorted())
})

test('an address that two payouts need is swept once for both', async () => {
  const shop = await world.openShop('USDC', [10n * usdc])
  world.node.behave = (call, pass) => (isBroadcast(call) ? faults.error('not now') : pass())
  const first = await world.request(shop, 'USDC', true)
  await world.becomes(first, 'sweeps')
  await world.anvil.sendUsdc(shop.addresses[0]!, 5n * usdc)
  await until(async () => (await balanceOf(shop, 'USDC')) === `${5n * usdc}`, {
    timeoutMs: 15_000,
    what: 'the second deposit',
  })
  const second = await world.request(shop, 'USDC', true)
  await world.becomes(second, 'sweeps')
  const [shared] = await world.outgoingPayments(first)
  expect((await world.outgoingPayments(second)).map(({id}) => id)).toEqual([shared!.id])
  world.node.behave = undefined
  await world.becomes(first, 'completed')
  await world.becomes(second, 'completed')
  expect(await world.received(shop, 'USDC')).toBe(netOf(10n * usdc) + netOf(5n * usdc))
})

test('two workers pay each payout once', async () => {
  const other = await world.startWorker()
  const shops = await Promise.all([1n, 2n, 3n].map(n => world.openShop('ETH', [n * ether, n * ether])))
  const ids = await Promise.all(shops.map(shop => world.request(shop, 'ETH', true)))
  for (const id of ids) await world.becomes(id, 'completed')
  await world.kill(other)
  for (const [i, shop] of shops.entries())
    expect(await world.received(shop, 'ETH')).toBe(netOf(BigInt(i + 1) * 2n * ether))
  for (const id of ids) for (const {attempts} of await world.outgoingPayments(id)) expect(attempts).toBe(1)
})
