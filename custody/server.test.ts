// Custody's socket: the token, and the form of requests.
import {randomUUID} from 'node:crypto'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {fees, newAddress, sweepIntent, WrittenEvm} from '../test/support/evm/written-world.ts'

let world: WrittenEvm

beforeAll(async () => {
  world = await WrittenEvm.open()
})
afterAll(() => world.close())

test('every request without the token is refused', async () => {
  const {address} = await world.merchant()
  const before = await world.journal()
  for (const token of ['', 'wrong', 'x'.repeat(43)])
    for (const path of ['/sign', '/check', '/nothing'])
      expect(await world.custody.ask(path, {intents: [sweepIntent(address)]}, token)).toMatchObject({
        status: 401,
        body: {error: 'unauthorized'},
      })
  expect(await world.journal()).toEqual(before)
})

test('only known intents are accepted, and a request is accepted as a whole or not at all', async () => {
  const {address} = await world.merchant()
  const before = await world.journal()
  const good = sweepIntent(address)
  const bad = [
    {...good, destination: newAddress()},
    {...good, intent: 'transfer'},
    {...good, amount: 500},
    {...good, amount: '-1'},
    {...good, amount: '1e3'},
    {...good, nonce: -1},
    {...good, nonce: 0.5},
    {...good, gas_limit: 2 ** 24 + 1}, // EIP-7825
    {...good, address: `${address}00`},
    {...good, chain: 'DOGE'},
    {...good, outgoing_payment_id: 'x'},
    {intent: 'pay', payout_id: randomUUID(), nonce: 0},
    {hash: `0x${'00'.repeat(32)}`},
  ]
  for (const one of bad) {
    const {status, body} = await world.custody.ask('/sign', {intents: [good, one]})
    expect([status, body.error], JSON.stringify(one)).toEqual([400, 'invalid_request'])
    expect(body.details[0].path).toMatch(/^intents\.1/)
  }
  for (const body of [{}, {intents: []}, {intents: Array(201).fill(good)}, [], 'nonsense', '{"intents":[']) {
    expect(await world.custody.ask('/sign', body)).toMatchObject({status: 400, body: {error: 'invalid_request'}})
  }
  expect(await world.custody.ask('/check', {payout_id: 'x'})).toMatchObject({status: 400})
  expect(await world.custody.ask('/keys', {})).toMatchObject({status: 404})
  expect(await world.journal()).toEqual(before)
})

test('intents of several families are accepted in one request, with responses in the same order', async () => {
  const pay = (nonce: number) => ({intent: 'pay', payout_id: randomUUID(), nonce, ...fees})
  const payOutputs = {intent: 'pay_outputs', payout_id: randomUUID(), inputs: [`${'ab'.repeat(32)}:0`], fee: '1000'}
  const intents = [pay(2), payOutputs, pay(1)]
  expect(await world.sign(...intents)).toEqual(
    intents.map(({payout_id}) => ({
      ok: false,
      code: 'unknown_settlement',
      message: `there is no payout ${payout_id}`,
    })),
  )
  const noted = await world.db.rows<{request: unknown}>('select request from custody.refusal order by id')
  expect(noted.map(({request}) => request)).toEqual([intents[1], intents[2], intents[0]]) // lower nonces first
})
