// What a stolen worker can do to a nonce, and to the journal, with requests that custody takes.
import {afterAll, beforeAll, expect, test} from 'vitest'
import {sweepIntent, tokenGas, WrittenEvm} from '../../test/support/evm/written-world.ts'

const gwei = 10n ** 9n
let world: WrittenEvm

beforeAll(async () => {
  world = await WrittenEvm.open({ETH_MAX_FEE_GWEI: '500'})
})
afterAll(() => world.close())

const sign = async (intent: object) => (await world.custody.ask('/sign', {intents: [intent]})).body.results[0]

test('the same sweep twice in one request for authorisations gets the same one twice, and blocks nothing', async () => {
  const {address} = await world.merchant()
  const intent = sweepIntent(address, {token: 'USDC', amount: '5000000', nonce: 0, ...tokenGas})
  await world.forgeOutgoingPayment(intent)
  const {outgoing_payment_id, chain, token, amount} = intent as Record<string, unknown>
  const request = {outgoing_payment_id, chain, token, address, amount}
  const {body} = await world.custody.ask('/authorise', {sweeps: [request, request]})
  expect(body.results).toEqual([
    {ok: true, data: expect.any(String)},
    {ok: true, data: body.results[0].data},
  ])
  expect(await sign(intent)).toMatchObject({ok: true})
})

test('a transaction that no block can hold, at the highest price, keeps no nonce of the treasury for ever', async () => {
  const {address} = await world.merchant()
  const intent = sweepIntent(address, {token: 'USDC', amount: '5000000', nonce: 1, ...tokenGas})
  await world.forgeOutgoingPayment(intent)
  const most = {max_fee_per_gas: String(500n * gwei), max_priority_fee_per_gas: String(500n * gwei)}
  const useless = await sign({...intent, ...most, gas_limit: 1}) // less than any transaction needs: no node takes it
  await world.db.rows('select app.cancel_outgoing_payment($1)', [intent.outgoing_payment_id])
  const cancel = {intent: 'cancel', chain: 'ETH', sender: world.treasury, nonce: 1, ...most, gas_limit: 21_000}
  const refused = await sign(cancel)
  const higher = (500n * gwei * 9n + 7n) / 8n
  const above = await sign({...cancel, max_fee_per_gas: String(higher), max_priority_fee_per_gas: String(higher)})
  expect({useless: useless.ok, codes: [refused.code, above.code]}).not.toEqual({
    useless: true,
    codes: ['fee_too_low', 'fee_above_cap'],
  })
})
