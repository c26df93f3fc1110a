// Authorisations before the sweep's transaction: a real custody, asked over its socket, on a real database.
import {randomUUID} from 'node:crypto'
import {decodeFunctionData, type Hex, keccak256, parseAbi, parseTransaction, stringToHex} from 'viem'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {newAddress, sweepIntent, tokenGas, WrittenEvm} from '../../test/support/evm/written-world.ts'

let world: WrittenEvm
let nonce = 0

beforeAll(async () => {
  world = await WrittenEvm.open()
})
afterAll(() => world.close())

/** A sweep of USDC that was begun, as custody is asked to sign it. */
async function begunSweep(more: object = {}) {
  const {address} = await world.merchant()
  const intent = sweepIntent(address, {token: 'USDC', amount: '5000000', nonce: nonce++, ...tokenGas, ...more})
  await world.forgeOutgoingPayment(intent)
  return intent
}

const requestOf = ({outgoing_payment_id, chain, token, address, amount}: ReturnType<typeof sweepIntent>) => {
  return {outgoing_payment_id, chain, token, address, amount}
}

async function authorise(...sweeps: object[]): Promise<{ok: boolean; code?: string; data?: Hex}[]> {
  const {status, body} = await world.custody.ask('/authorise', {sweeps})
  expect(status).toBe(200)
  return body.results
}

const authorisations = async () => (await world.journal()).filter(({kind}) => kind === 'authorise')

test('an authorisation is the data of the sweep that is signed afterwards, journalled, and the same when it is asked for again', async () => {
  const intent = await begunSweep()
  const [given] = await authorise(requestOf(intent))
  expect(given).toEqual({ok: true, data: expect.stringMatching(/^0xef55bec6[0-9a-f]+$/)}) // receiveWithAuthorization
  expect(await authorisations()).toMatchObject([
    {
      stream: 'ETH',
      subject_id: intent.outgoing_payment_id,
      source: intent.address,
      destination: world.treasury,
      amount: '5000000',
      raw: given!.data,
      txid: null,
      sender: null,
      max_fee: null,
      conflict_key: null,
    },
  ])
  expect(await authorise(requestOf(intent))).toEqual([given])
  expect(await authorisations()).toHaveLength(1)
  const [signed] = await world.sign(intent)
  expect(parseTransaction(signed.raw).data).toBe(given!.data)
})

test('nothing is authorised but a token sweep that was begun, as it was begun', async () => {
  const intent = await begunSweep()
  const request = requestOf(intent)
  const before = await authorisations()
  const native = sweepIntent((await world.merchant()).address)
  await world.forgeOutgoingPayment(native)
  const refusals: [object, string][] = [
    [{...request, outgoing_payment_id: randomUUID()}, 'unknown_settlement'],
    [{...request, amount: '5000001'}, 'settlement_changed'],
    [{...request, amount: '0'}, 'settlement_changed'],
    [{...request, token: 'DAI'}, 'settlement_changed'],
    [{...request, address: newAddress()}, 'not_ours'],
    [{...request, address: world.treasury}, 'settlement_changed'],
    [{...request, address: (await world.merchant()).address}, 'settlement_changed'],
    [{...request, chain: 'SOL'}, 'unknown_settlement'],
    [requestOf(native), 'unknown_settlement'],
  ]
  const results = await authorise(...refusals.map(([one]) => one))
  expect(results.map(({code}) => code)).toEqual(refusals.map(([, code]) => code))
  expect(await authorisations()).toEqual(before)
  const [given] = await authorise(request)
  const less = {...request, amount: '4999999'} // its nonce would be the same
  expect([given!.ok, (await authorise(less))[0]!.code]).toEqual([true, 'settlement_changed'])
})

test('a request in another form is refused as a whole', async () => {
  for (const body of [{sweeps: []}, {sweeps: [{}]}, {intents: []}])
    expect((await world.custody.ask('/authorise', body)).status).toBe(400)
})

test('a trial authorises nothing, from an address of ours to the treasury, is always the same, and no sweep is like it', async () => {
  const {address} = await world.merchant()
  const before = await authorisations()
  const trial = {chain: 'ETH', token: 'USDC', address}
  const [given, again, ofTreasury] = await authorise(trial, trial, {...trial, address: world.treasury})
  expect([given!.ok, ofTreasury!.ok, again]).toEqual([true, true, given])
  const abi = parseAbi([
    'function receiveWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)',
  ])
  const [from, to, value, , , trialNonce] = decodeFunctionData({abi, data: given!.data!}).args
  expect([from, to, value, trialNonce]).toEqual([
    address,
    world.treasury,
    0n,
    keccak256(stringToHex('a trial, which moves nothing')),
  ])
  expect(await authorisations()).toEqual(before)
  const refusals: [object, string][] = [
    [{...trial, address: newAddress()}, 'not_ours'],
    [{...trial, token: 'ETH'}, 'unknown_settlement'],
    [{...trial, token: 'DAI'}, 'unknown_settlement'],
    [{...trial, chain: 'SOL'}, 'unknown_settlement'],
  ]
  const results = await authorise(...refusals.map(([one]) => one))
  expect(results.map(({code}) => code)).toEqual(refusals.map(([, code]) => code))
  for (const body of [{sweeps: [{...trial, amount: '1'}]}, {sweeps: [{...trial, nonce: '0x01'}]}])
    expect((await world.custody.ask('/authorise', body)).status).toBe(400)
})

// Last: the chain stays halted.
test('on a halted chain nothing is authorised', async () => {
  const intent = await begunSweep()
  await world.db.rows(
    `insert into app.incident (chain, kind, subject, details) values ('ETH', 'unknown_transaction', 'it', '{}')`,
  )
  const trial = {chain: 'ETH', token: 'USDC', address: intent.address}
  const halted = {ok: false, code: 'chain_halted'}
  expect(await authorise(requestOf(intent), trial)).toMatchObject([halted, halted])
})
