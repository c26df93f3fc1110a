// Every way in which value reaches an address, on a real node, read by real indexers with both tracers: the credited
// amounts equal those of the chain, to the last wei.
import {afterAll, beforeAll, expect, test} from 'vitest'
import {type TestDatabase, testDatabase} from '../support/database.ts'
import {Anvil} from '../support/evm/anvil.ts'
import {depositsOf, Indexer} from '../support/indexer.ts'
import {makeMerchant, makeUser} from '../support/people.ts'

let db: TestDatabase
let anvil: Anvil
let merchantId: string
let indexers: Indexer[] = []

beforeAll(async () => {
  ;[db, anvil] = await Promise.all([testDatabase(), Anvil.start()])
  merchantId = await makeMerchant(db)
  // The same chain twice: as ETH by debug_traceBlockByHash over a websocket, and as POLYGON, where USDC is not
  // supported, by trace_block over HTTP.
  indexers = [
    Indexer.start({db, rpcUrl: anvil.wsUrl, settings: {USDC_CONTRACT: anvil.usdc, TRACES: 'debug'}}),
    Indexer.start({db, rpcUrl: anvil.httpUrl, chain: 'POLYGON', settings: {TRACES: 'trace'}}),
  ]
})
afterAll(async () => {
  await Promise.all(indexers.map(indexer => indexer.stop()))
  await anvil?.stop()
  await db?.drop()
})

const newUser = (chains?: string[]) => makeUser(db, merchantId, chains)

/** Mines what waits, and waits until both indexers have it. */
async function mined(blocks = 1): Promise<void> {
  const head = await anvil.mine(blocks)
  await Promise.all(indexers.map(indexer => indexer.reaches(head)))
}

/** The transfers of a transaction: output, recipient, token and amount. */
async function seen(txid: string, chain?: string): Promise<unknown[]> {
  return (await depositsOf(db, txid, chain)).map(({output, address, token, amount}) => [output, address, token, amount])
}

test('money that reaches an address by a payment, a token transfer or a contract is credited once, with either tracer', async () => {
  const [a, b, c] = await Promise.all([newUser(), newUser(), newUser()])
  const {usdc, fakeUsdc} = anvil
  const payment = await anvil.send({to: a.address, value: 10n ** 18n + 1n})
  const token = await anvil.sendUsdc(a.address, 2_500_000n)
  const fake = await anvil.sendUsdc(a.address, 2_500_000n, fakeUsdc)
  const many = await anvil.multi(
    'pay',
    [
      [a.address, b.address, a.address],
      [1n, 2n, 3n],
    ],
    6n,
  )
  const undone = await anvil.multi('payAndRevertInside', [c.address], 5n)
  const bequest = await anvil.multi('payBySelfdestruct', [b.address], 7n)
  const tokens = await anvil.multi('payTokens', [usdc, [a.address, b.address, a.address], [11n, 12n, 13n]])
  const failed = await anvil.multi(
    'pay',
    [
      [a.address, b.address],
      [8n, 9n],
    ],
    8n,
  )
  const nothing = [
    await anvil.send({to: a.address}),
    await anvil.sendUsdc(a.address, 0n),
    await anvil.multi('pay', [[a.address], [0n]]),
  ]
  await mined()

  expect(await seen(payment)).toEqual([[0, a.address, 'ETH', '1000000000000000001']])
  expect(await seen(payment, 'POLYGON')).toEqual([[0, a.address, 'POL', '1000000000000000001']])
  expect(await seen(token)).toEqual([[1, a.address, 'USDC', '2500000']])
  expect(await seen(tokens)).toEqual([
    [1, a.address, 'USDC', '11'],
    [2, b.address, 'USDC', '12'],
    [3, a.address, 'USDC', '13'],
  ])
  for (const [chain, native] of [['ETH', 'ETH'] as const, ['POLYGON', 'POL'] as const]) {
    expect(await seen(many, chain)).toEqual([
      [1_000_001, a.address, native, '1'],
      [1_000_002, b.address, native, '2'],
      [1_000_003, a.address, native, '3'],
    ])
    expect(await seen(bequest, chain)).toEqual([[1_000_002, b.address, native, '7']])
    for (const txid of [undone, failed, ...nothing]) expect(await seen(txid, chain)).toEqual([])
  }
  // An unsupported token is stored under its contract address, and credited to nobody.
  expect(await depositsOf(db, fake)).toMatchObject([{token: fakeUsdc, amount: '2500000', credited: false, events: ''}])
  expect(await depositsOf(db, token, 'POLYGON')).toMatchObject([{token: usdc, credited: false, events: ''}])

  const {height} = await anvil.block()
  await mined(9)
  await Promise.all(indexers.map(indexer => indexer.finalises(height)))
  expect(await db.rows(`select distinct status from app.deposit`)).toEqual([{status: 'final'}])
  for (const {address} of [a, b, c]) {
    const sums = await db.rows<{chain: string; token: string; sum: string}>(
      `select chain, token, sum(amount)::text as sum from app.deposit where address = $1 group by chain, token`,
      [address],
    )
    const sum = (chain: string, token: string) =>
      sums.find(row => row.chain === chain && row.token === token)?.sum ?? '0'
    expect([sum('ETH', 'ETH'), sum('POLYGON', 'POL')]).toEqual(Array(2).fill(`${await anvil.balance(address)}`))
    expect([sum('ETH', 'USDC'), sum('POLYGON', usdc)]).toEqual(Array(2).fill(`${await anvil.tokenBalance(address)}`))
  }
  expect(await db.rows('select chain, token, amount::text from app.balance_now order by chain, token')).toEqual([
    {chain: 'ETH', token: 'ETH', amount: '1000000000000000014'},
    {chain: 'ETH', token: 'USDC', amount: '2500036'},
    {chain: 'POLYGON', token: 'POL', amount: '1000000000000000014'},
  ])
  expect(await db.rows('select * from app.balance_audit')).toEqual([])
})

test('a transfer on a chain that is not enabled is stored, and credited to nobody', async () => {
  const {address} = await newUser(['ETH'])
  const txid = await anvil.send({to: address, value: 1n})
  await mined()
  expect(await depositsOf(db, txid, 'ETH')).toMatchObject([{credited: true, events: 'pending'}])
  expect(await depositsOf(db, txid, 'POLYGON')).toMatchObject([{credited: false, events: ''}])
})

test('a chain that was indexed with one tracer is not read with the other, and waits with the reason', async () => {
  const [eth] = indexers
  await eth!.stop()
  const other = Indexer.start({db, rpcUrl: anvil.httpUrl, settings: {TRACES: 'trace'}})
  try {
    const isTold = () => other.logs.some(line => JSON.stringify(line).includes('ETH_TRACES=debug, and it is trace now'))
    await expect.poll(isTold, {timeout: 30_000}).toBe(true)
  } finally {
    await other.stop()
  }
  eth!.start()
  await mined()
})
