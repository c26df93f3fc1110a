// Tokens that an operator adds to a running service, on a real chain with real processes: what their contracts are, and
// the strange ones among them.
import type {ChildProcess} from 'node:child_process'
import {
  type Abi,
  encodeDeployData,
  encodeFunctionData,
  getAddress,
  getContractAddress,
  type Hex,
  stringToHex,
} from 'viem'
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {accounts} from '../../devnet/evm/constants.ts'
import contracts from '../../devnet/evm/contracts.json' with {type: 'json'}
import {tokens} from '../../devnet/evm/tokens.ts'
import {assertBooks} from '../support/books.ts'
import {CommandLine} from '../support/command-line.ts'
import {localChainId} from '../support/evm/anvil.ts'
import {EvmWorld, type Shop} from '../support/evm/world.ts'
import {until} from '../support/until.ts'

const strange = contracts.StrangeToken as {abi: Abi; bytecode: Hex}
const manners = {usual: 0, silent: 1, falseOnFailure: 2, falseOnSuccess: 3, fee: 4, shares: 5, twice: 6}
type Manner = keyof typeof manners

let world: EvmWorld
let worker: ChildProcess
let commandLine: CommandLine
/** Money is missing on the chain, and the audit says so. */
let isShort = false

beforeAll(async () => {
  world = await EvmWorld.open()
  worker = await world.startWorker()
  commandLine = new CommandLine(world.db, {
    ETH: {
      rpc_url: world.anvil.wsUrl,
      local: true,
      settings: {
        ETH_RPC_URL: world.anvil.wsUrl,
        ETH_CHAIN_ID: String(localChainId),
        ETH_USDC_CONTRACT: world.anvil.usdc,
        ETH_TOKENS: world.anvil.ownTokens,
        ETH_TRACES: 'debug',
      },
    },
  })
})
afterAll(async () => {
  commandLine?.close()
  await world?.close()
})
afterEach(async () => {
  world.node.behave = undefined
  await assertBooks(world.db)
  if (isShort) return
  const {stdout} = await commandLine.sluice('audit', '--json')
  expect(JSON.parse(stdout)).toMatchObject({right: true})
})

/** A new token; account 1 holds all of it. */
async function deploy(symbol: string, {decimals = 6n, manner = 'usual' as Manner} = {}): Promise<Hex> {
  const from = accounts[1]!.address
  const nonce = BigInt(await world.anvil.call<string>('eth_getTransactionCount', [from, 'pending']))
  const args = [stringToHex(symbol, {size: 32}), decimals, manners[manner]]
  const txid = await world.anvil.send({data: encodeDeployData({...strange, args})})
  await isMined(txid)
  return getContractAddress({from, nonce})
}

async function isMined(txid: string): Promise<void> {
  await until(async () => await world.anvil.call('eth_getTransactionReceipt', [txid]), {
    timeoutMs: 20_000,
    what: 'a transaction to be mined',
  })
}

async function ask(contract: Hex, functionName: string, args: unknown[]): Promise<void> {
  await isMined(
    await world.anvil.send({to: contract, data: encodeFunctionData({abi: strange.abi, functionName, args})}),
  )
}

async function pay(contract: Hex, to: string, amount: bigint): Promise<void> {
  await ask(contract, 'transfer', [getAddress(to), amount])
}

const add = (contract: string, ...more: string[]) =>
  commandLine.json('token', 'add', '--chain', 'ETH', '--contract', contract, '--min', '1', '--yes', ...more)
const misuse = (contract: string, ...more: string[]) =>
  commandLine.misuse('token', 'add', '--chain', 'ETH', '--contract', contract, '--min', '1', '--yes', ...more)
const refusal = (contract: string, ...more: string[]) =>
  commandLine.failure('token', 'add', '--chain', 'ETH', '--contract', contract, '--min', '1', '--yes', ...more)

async function deposits(address: string): Promise<{token: string; status: string; credited: boolean}[]> {
  return await world.db.rows(
    `select token, status, credited from app.deposit where address = $1 order by block_height`,
    [address],
  )
}

const idsOf = async (address: string) =>
  (
    await world.db.rows<{id: string}>(
      `select app.public_id('dep', id) as id from app.deposit where address = $1 order by block_height`,
      [address],
    )
  ).map(({id}) => id)

async function becomesFinal(address: string, count: number): Promise<void> {
  const isFinal = async () => (await deposits(address)).filter(({status}) => status === 'final').length === count
  await until(isFinal, {timeoutMs: 40_000, what: `${count} final deposits`})
}

const receivedBy = (contract: string, {wallet}: Shop) => world.anvil.tokenBalance(wallet, contract)

// Those below are usual ones, with 6 decimals.
test.each([
  {symbol: 'SILENT', manner: 'silent', decimals: 18n},
  {symbol: 'FALSY', manner: 'falseOnFailure', decimals: 0n},
] as const)(
  '$symbol, with $decimals decimals, is added while the service runs, credited from then on, and paid out exactly',
  async ({symbol, manner, decimals}) => {
    const contract = await deploy(symbol, {manner, decimals})
    const shop = await world.makeShop(1, getAddress(`0x${Buffer.from(symbol.padEnd(20)).toString('hex')}`))
    const [address] = shop.addresses as [string]
    const coin = 10n ** decimals
    await pay(contract, address, 7n * coin)
    await becomesFinal(address, 1)
    expect(await add(contract)).toMatchObject({
      token: symbol,
      name: `ETH-${symbol}`,
      sweep: {by: 'fund'},
      decimals: Number(decimals),
    })
    await pay(contract, address, 500n * coin)
    await becomesFinal(address, 2)
    expect(await deposits(address)).toMatchObject([
      {token: contract.toLowerCase(), credited: false},
      {token: symbol, credited: true},
    ])
    await world.retriedUntil(await world.request(shop, symbol, true), 'completed') // the worker reads of new tokens each 5 s
    expect(await receivedBy(contract, shop)).toBe(495n * coin)

    const [before] = await idsOf(address)
    expect(await commandLine.failure('unattributed', 'credit', before!, '--yes')).toMatch(
      new RegExp(`^sluice: ${symbol} counts on ETH from block \\d+ on, and this came in another block: it can neither`),
    )
    await commandLine.json('token', 'disable', '--chain', 'ETH', '--code', symbol, '--yes')
    const again = ['token', 'disable', '--chain', 'ETH', '--code', symbol]
    expect(await commandLine.failure(...again)).toMatch(`${symbol} on ETH is disabled: it counts up to block`)
    expect(await refusal(contract)).toMatch(/is taken on ETH, by a token that counts or that was disabled/)
    await pay(contract, address, 3n * coin)
    await becomesFinal(address, 3)
    expect((await deposits(address)).at(-1)).toMatchObject({token: contract.toLowerCase(), credited: false})
  },
  120_000,
)

test('USDC and USDT are seen for what they are: how they are swept, what their issuers can, and that they are known', async () => {
  expect(await refusal(world.anvil.usdc)).toMatch(/the code USDC is taken on ETH/)
  const usdt = tokens.find(({token}) => token === 'USDT')!.contract
  expect(await refusal(usdt, '--code', 'USDTWO')).toMatch(/the name|the contract 0x[0-9a-f]{40} is taken on ETH/)
  const copy = world.anvil.fakeUsdc
  expect(await add(copy, '--code', 'COPY')).toMatchObject({
    token: 'COPY',
    sweep: {by: 'eip3009', domain: {name: 'USDC', version: '2'}},
    found: {'its issuer can': 'stop all transfers, freeze an address', 'a transfer': 'arrives whole'},
  })
  const {tokens: all} = await commandLine.json<{tokens: {token: string; sweep_by: string}[]}>(
    'token',
    'list',
    '--chain',
    'ETH',
  )
  expect(all.map(({token, sweep_by}) => [token, sweep_by])).toEqual(
    expect.arrayContaining([
      ['COPY', 'eip3009'],
      ['USDC', 'eip3009'],
      ['USDT', 'fund'],
    ]),
  )
})

test('tokens that cannot be paid out exactly are refused in words, and nothing is added', async () => {
  const before = await world.db.rows('select * from app.asset order by 1, 2')
  const nothing = getAddress(`0x${'12'.repeat(20)}`)
  expect(await refusal(nothing)).toMatch(/there is no contract at 0x1212/)
  expect(await refusal(world.anvil.multisend)).toMatch(/does not say its decimals\(\), so it is no token/)
  expect(await misuse('0x12')).toMatch(/is no contract address on ETH: it must be 0x and 40 hex digits/)
  expect(await misuse(world.anvil.multisend.replace(/[a-f]/, x => x.toUpperCase()))).toMatch(/mistyped/)
  expect(await refusal(await deploy('FEE', {manner: 'fee'}))).toMatch(
    /takes a fee on transfers: of a transfer, less arrives/,
  )
  expect(await refusal(await deploy('FALSE', {manner: 'falseOnSuccess'}))).toMatch(
    /says false for a transfer that should succeed/,
  )
  const twice = await deploy('TWICE', {manner: 'twice'})
  await pay(twice, nothing, 7n)
  expect(await refusal(twice)).toMatch(
    /the events of 0x\w+ in block \d+ say that 14 base units came to an address, and its balance changed by 7/,
  )
  expect(await refusal(await deploy('SHARES', {manner: 'shares'}))).toMatch(/change by themselves/)
  expect(await refusal(await deploy('FINE', {decimals: 77n}))).toMatch(/has 77 decimals/)
  expect(await refusal(await deploy('\u{1f4b8}'))).toMatch(/give one with --code/)
  const good = await deploy('GOOD')
  expect(await refusal(good, '--sweep', 'eip3009')).toMatch(/cannot be swept by eip3009: its contract allows fund/)
  expect(await refusal(good, '--code', 'usdc')).toMatch(/the code USDC is taken/)
  expect(await misuse(good, '--payout-limit', '0.0000001')).toMatch(
    /is no amount of GOOD above zero, which has 6 decimals/,
  )
  expect(await misuse(good, '--payout-limit', '0.5')).toMatch(/--payout-limit allows no payout: 0.5 is less than/)
  expect(await misuse(good, '--daily-limit', '0.5')).toMatch(/--daily-limit allows no payout/)
  expect(await world.db.rows('select * from app.asset order by 1, 2')).toEqual(before)
}, 90_000)

test('a reindex from before a token was added gives the same deposits, and so does a rewind', async () => {
  const contract = await deploy('AGAIN')
  const shop = await world.makeShop(1, getAddress(`0x${'ae'.repeat(20)}`))
  const [address] = shop.addresses as [string]
  await pay(contract, address, 7n)
  await becomesFinal(address, 1)
  await add(contract)
  await pay(contract, address, 5_000_000n)
  await becomesFinal(address, 2)
  const before = await world.db.rows('select * from app.deposit where address = $1 order by id', [address])
  await commandLine.json('reindex', '--chain', 'ETH', '--from', '1')
  expect(await world.db.rows('select * from app.deposit where address = $1 order by id', [address])).toEqual(before)
  await world.kill(worker)
  worker = await world.startWorker()
  await world.becomes(await world.request(shop, 'AGAIN', true), 'completed')
  expect(await receivedBy(contract, shop)).toBe(4_950_000n)
}, 90_000)

const incidents = (kind: string) =>
  world.db.rows<{id: string; subject: string; details: Record<string, string>}>(
    'select id, subject, details from app.incident where kind = $1 and resolved_at is null',
    [kind],
  )

test('other code behind the address of a token is noticed, and an operator decides about it', async () => {
  const contract = await deploy('PROXY')
  await add(contract)
  const code = await world.anvil.call<string>('eth_getCode', [contract, 'latest'])
  await world.anvil.call('anvil_setCode', [contract, `${code}00`])
  await world.kill(worker)
  worker = await world.startWorker() // it looks at once, then every hour
  const found = await until(async () => (await incidents('token_changed'))[0], {
    timeoutMs: 30_000,
    what: 'the incident',
  })
  expect(found).toMatchObject({subject: 'ETH:PROXY', details: {before: expect.any(String), now: expect.any(String)}})
  await commandLine.json('incident', 'resolve', found.id, '--as', 'kept')
  expect(await incidents('token_changed')).toEqual([])
})

test('a token that takes a fee is neither swept nor paid, until it takes none', async () => {
  const contract = await deploy('LATER')
  await add(contract)
  const shop = await world.makeShop(1, getAddress(`0x${'fe'.repeat(20)}`))
  await pay(contract, shop.addresses[0]!, 500_000_000n)
  await becomesFinal(shop.addresses[0]!, 1)
  await ask(contract, 'become', [manners.fee])
  const id = await world.request(shop, 'LATER', true)
  expect((await world.retriedUntil(id, 'token_takes_fee')).waiting_detail).toMatch(
    /^of 500000000 base units of LATER, 495000000 would arrive/,
  )
  expect((await world.outgoingPayments(id)).filter(({kind}) => kind === 'sweep')).toEqual([])
  await ask(contract, 'become', [manners.usual])
  await world.retriedUntil(id, 'completed')
  expect(await receivedBy(contract, shop)).toBe(495_000_000n)
}, 90_000)

test('a fee that nobody could foresee pays nobody twice: an incident says what is missing, and the token is stopped', async () => {
  const contract = await deploy('SUDDEN')
  await add(contract)
  const shop = await world.makeShop(1, getAddress(`0x${'fd'.repeat(20)}`))
  await pay(contract, shop.addresses[0]!, 500_000_000n)
  await becomesFinal(shop.addresses[0]!, 1)
  await ask(contract, 'become', [manners.fee])
  world.node.behave = async ({method, params}, pass) => (method === 'eth_call' && params[2] ? '0x' : await pass())
  isShort = true
  const id = await world.request(shop, 'SUDDEN', true)
  const {waiting_detail} = await world.retriedUntil(id, 'token_takes_fee')
  const [incident] = await incidents('token_takes_fee')
  expect(incident).toMatchObject({subject: 'ETH:SUDDEN', details: {sent: '500000000', arrived: '495000000'}})
  expect(waiting_detail).toContain(`incident ${incident!.id} is open`)
  expect(await receivedBy(contract, shop)).toBe(0n)
  const {stdout} = await commandLine.sluice('audit')
  expect(stdout).toMatch(/"gone":"5000000".*"token":"SUDDEN"/)
}, 90_000)
