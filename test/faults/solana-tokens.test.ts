// Tokens on Solana, by real processes, moved by the network's own programs: deposits on whichever account of an
// address, sweeps that the treasury pays for, payouts that make the account of their recipient, and what an issuer can
// do. After each test the books are right, and say what the chain says.
import type {ChildProcess} from 'node:child_process'
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {settingsFrom} from '../../chains/settings.ts'
import {parsePayment} from '../../chains/solana/message.ts'
import {solanaSettings} from '../../chains/solana/settings.ts'
import {newAddress} from '../../devnet/solana/client.ts'
import {faucet} from '../../devnet/solana/constants.ts'
import {addressOfKey, newKey} from '../../devnet/solana/keys.ts'
import {accountOf, issuerKey, tokenCalled, tokenPayment} from '../../devnet/solana/tokens.ts'
import {Trouble} from '../../devnet/solana/trouble.ts'
import {solana} from '../../jobs/audit/solana/balances.ts'
import {assertBooks} from '../support/books.ts'
import {CommandLine} from '../support/command-line.ts'
import {
  closeTokenAccount,
  createTokenAccount,
  initializeTokenAccount,
  setAuthority,
  transferTokens,
} from '../support/solana/instructions.ts'
import {SolanaWorld, sol} from '../support/solana/world.ts'
import {until} from '../support/until.ts'
import type {Shop} from '../support/world.ts'

const unit = 1_000_000n
const usdc = tokenCalled('USDC')
/** 165 bytes and 128 more, at 5080 lamports for each. */
const accountRent = 1_488_440n
const fee = 5000n

let world: SolanaWorld
let worker: ChildProcess
let commandLine: CommandLine

beforeAll(async () => {
  world = await SolanaWorld.open()
  worker = await world.startWorker()
  const settings = {...world.environment, SOL_RPC_URL_2: ''}
  commandLine = new CommandLine(world.db, {SOL: {rpc_url: world.node.httpUrl, local: true, settings}})
})
afterAll(async () => {
  commandLine?.close()
  await world?.close()
})
afterEach(async () => {
  world.node.behave = undefined
  world.endpoint.trouble = new Trouble()
  world.isHeld = false
  world.isMining = true
  await assertBooks(world.db)
})

const netOf = (gross: bigint) => gross - gross / 100n
const openShop = (amounts: bigint[], wallet?: string) => world.openShop(amounts, {token: 'USDC', wallet})
const holds = (owner: string) => world.holdsToken('USDC', owner)
/** So that the treasury can advance a payout, and nothing is swept first. */
const fundTreasury = () => world.pay([world.treasury], [1000n * unit], 'USDC')

/** What the audit finds between the chain and the ledger, on the addresses of a shop and the treasury. */
async function differences({addresses}: Shop) {
  const asked = solana.ask(
    {query: (sql: string, values: unknown[]) => world.db.rows(sql, values).then(rows => ({rows}))} as never,
    solanaSettings(settingsFrom('SOL', world.environment)),
  )
  return (await asked.poll([...addresses, world.treasury])).differences
}

async function sweepsOf(address: string) {
  return await world.db.rows<{amount: string; outcome: string | null; failure: string | null}>(
    `select amount::text as amount, outcome, failure from app.outgoing_payment where source = $1 and kind = 'sweep' order by created_at`,
    [address],
  )
}

/** A new account of an owner, other than the associated one, with so much of USDC; its address, and what makes it. */
function otherAccount(owner: string, amount: bigint) {
  const key = newKey()
  const at = addressOfKey(key)
  const made = [createTokenAccount(faucet, at, 10n * accountRent), initializeTokenAccount(at, owner, usdc.mint)]
  return {
    key,
    at,
    instructions: [...made, transferTokens(usdc, {from: accountOf(usdc, faucet), to: at, owner: faucet, amount})],
  }
}

// --- the usual way ---

test('a payout arrives whole: its sweeps make the account of the treasury, its payment that of the recipient', async () => {
  const shop = await openShop([600n * unit, 400n * unit])
  const id = await world.request(shop, 'USDC', true)
  const {network_fee} = await world.becomes(id, 'completed')
  expect(holds(shop.wallet)).toBe(netOf(1000n * unit))
  expect(shop.addresses.map(holds)).toEqual([0n, 0n])
  expect(BigInt(network_fee)).toBe(5n * fee + 2n * accountRent)
  expect(await differences(shop)).toEqual([])
  expect(await world.reserved()).toBe(0n)
})

test('a recipient that has an account costs no rent, and the treasury advances what it can afford', async () => {
  await fundTreasury()
  const shop = await openShop([50n * unit])
  await world.done(world.submit(tokenPayment(usdc, {from: faucet, to: shop.wallet, amount: 3n}), []))
  const {network_fee} = await world.becomes(await world.request(shop, 'USDC'), 'completed')
  expect([holds(shop.wallet), BigInt(network_fee)]).toEqual([netOf(50n * unit) + 3n, fee])
})

test('equal payouts to one new recipient, at the same time, make its account once and pay each', async () => {
  const shops = [await openShop([unit * 5n])]
  const {wallet} = shops[0]!
  for (let n = 0; n < 3; n++) shops.push(await openShop([unit * 5n], wallet))
  const ids = await Promise.all(shops.map(shop => world.request(shop, 'USDC')))
  const paid = await Promise.all(ids.map(id => world.becomes(id, 'completed')))
  expect(new Set(paid.map(({txid}) => txid)).size).toBe(4)
  expect(holds(wallet)).toBe(4n * netOf(5n * unit))
  const fees = paid.map(({network_fee}) => BigInt(network_fee)).sort()
  expect(fees.filter(each => each > accountRent)).toHaveLength(1)
})

// --- deposits ---

test('what arrives on any account of an address, or with an account that becomes its own, is a deposit, and is swept', async () => {
  const shop = await world.makeShop(1, newAddress())
  const [address] = shop.addresses as [string]
  const [other, given] = [otherAccount(address, 20n * unit), otherAccount(faucet, 30n * unit)]
  const give = setAuthority(given.at, 'owner of the account', {from: faucet, to: address})
  await world.done(world.submit([...other.instructions], [other.key]))
  await world.done(world.submit([...given.instructions, give], [given.key]))
  await world.pay([address], [10n * unit], 'USDC')
  await world.untilBalance(shop, 60n * unit)
  expect(await differences(shop)).toEqual([])
  await world.becomes(await world.request(shop, 'USDC', true), 'completed')
  expect(holds(shop.wallet)).toBe(netOf(60n * unit))
  expect((await sweepsOf(address))[0]).toMatchObject({amount: String(10n * unit), outcome: 'done'})
  await world.pay([address], [10n * unit], 'USDC')
  await world.becomes(await world.request(shop, 'USDC', true), 'completed')
  expect(await differences(shop)).toEqual([])
})

test('little on several accounts of an address, each less than is worth a sweep, is swept all the same', async () => {
  const shop = await world.makeShop(1, newAddress())
  const [address] = shop.addresses as [string]
  const little = 60_000n
  for (let n = 0; n < 2; n++) {
    const {key, instructions} = otherAccount(address, little)
    await world.done(world.submit(instructions, [key]))
  }
  await world.pay([address], [little], 'USDC')
  await world.untilBalance(shop, 3n * little)
  const collect = async () => (await sweepsOf(address)).filter(({outcome}) => outcome === 'done').length
  for (let n = 1; n <= 3; n++) {
    await world.db.rows(
      `select app.begin_sweeps(null, 'SOL', 'USDC', array[$1], array[$2::numeric], array[20000::numeric])`,
      [address, String(little)],
    )
    await until(async () => (await collect()) === n, {timeoutMs: 30_000, what: `${n} sweeps`})
  }
  expect([holds(address), await differences(shop)]).toEqual([0n, []])
})

test('next to nothing on other accounts of an address, which anybody can make, delays no sweep that is worth one', async () => {
  const shop = await world.makeShop(1, newAddress())
  const [address] = shop.addresses as [string]
  for (let n = 0; n < 3; n++) {
    const {key, instructions} = otherAccount(address, 1n)
    await world.done(world.submit(instructions, [key]))
  }
  await world.pay([address], [100n * unit], 'USDC')
  await world.untilBalance(shop, 100n * unit + 3n)
  await world.becomes(await world.request(shop, 'USDC', true), 'completed')
  expect((await sweepsOf(address))[0]).toMatchObject({amount: String(100n * unit), outcome: 'done'})
  expect(holds(shop.wallet)).toBe(netOf(100n * unit + 3n))
})

test('tokens on another account of the treasury, which spends from the associated one, are none of its money', async () => {
  const shop = await openShop([10n * unit])
  const ledger = () =>
    world.db.rows<{amount: string}>(
      `select amount::text as amount from app.ledger_holdings('SOL', array[$1]) where token = 'USDC'`,
      [world.treasury],
    )
  const before = await ledger()
  const {key, instructions} = otherAccount(world.treasury, 50n * unit)
  await world.done(world.submit(instructions, [key]))
  await world.becomes(await world.request(shop, 'USDC', true), 'completed')
  const [{amount}] = (await ledger()) as [{amount: string}]
  expect(BigInt(amount) - BigInt(before[0]?.amount ?? 0)).toBe(10n * unit - netOf(10n * unit))
  expect(await differences(shop)).toEqual([])
})

test('an account that is made, filled, emptied and closed in one transaction brings nothing', async () => {
  const shop = await world.makeShop(1, newAddress())
  const [address] = shop.addresses as [string]
  const owner = newKey()
  const passed = otherAccount(addressOfKey(owner), 7n * unit)
  const back = {from: passed.at, to: accountOf(usdc, faucet), owner: addressOfKey(owner), amount: 7n * unit}
  const close = closeTokenAccount(passed.at, address, addressOfKey(owner))
  await world.done(world.submit([...passed.instructions, transferTokens(usdc, back), close], [passed.key, owner]))
  await world.untilBalance(shop, 10n * accountRent) // the rent, in SOL
  expect(await world.db.rows('select token from app.deposit where address = $1', [address])).toEqual([{token: 'SOL'}])
})

test('a node that leaves out what tokens did is not believed: the block is read again', async () => {
  const shop = await world.makeShop(1, newAddress())
  let lies = 0
  world.lie('getBlock', async pass => {
    const block = (await pass()) as {transactions?: {meta: object}[]}
    if (!block.transactions?.length) return block
    lies++
    const without = {preTokenBalances: null, postTokenBalances: null}
    return {...block, transactions: block.transactions.map(each => ({...each, meta: {...each.meta, ...without}}))}
  })
  const txid = world.submit(tokenPayment(usdc, {from: faucet, to: shop.addresses[0]!, amount: unit}), [])
  await until(async () => lies > 2, {timeoutMs: 20_000, what: 'the node to lie'})
  expect(await world.db.rows('select from chain.transfer where txid = $1', [txid])).toEqual([])
  world.node.behave = undefined
  await world.untilBalance(shop, unit)
})

test('a node that makes up a deposit is believed, and the audit finds it', async () => {
  const shop = await openShop([10n * unit])
  const [address] = shop.addresses as [string]
  let isDone = false
  world.lie('getBlock', async pass => {
    const block = (await pass()) as {
      transactions?: {transaction: {accountKeys: object[]}; meta: {postTokenBalances: object[]}}[]
    }
    const [first] = block.transactions ?? []
    if (!first?.transaction.accountKeys) return block
    isDone = true
    const uiTokenAmount = {amount: String(7n * unit), decimals: 6, uiAmountString: '7'}
    first.meta.postTokenBalances.push({
      accountIndex: 0,
      mint: usdc.mint,
      owner: address,
      programId: usdc.program,
      uiTokenAmount,
    })
    return block
  })
  world.giveTo(newAddress(), sol)
  await world.untilBalance(shop, 17n * unit)
  world.node.behave = undefined
  expect(isDone).toBe(true)
  expect(await differences(shop)).toMatchObject([{address, token: 'USDC', ledger: 17n * unit, chain: 10n * unit}])
})

// --- who can be paid ---

/** A payout that waits for a reason that stays one, with what it says, and that fails for it. */
async function refused(wallet: string, words: RegExp): Promise<void> {
  const shop = await openShop([20n * unit], wallet)
  const id = await world.request(shop, 'USDC')
  const {waiting_detail} = await world.becomes(id, 'destination_not_payable')
  expect(waiting_detail).toMatch(words)
  const {error_code} = await world.agedUntilFailed(id, 'destination_not_payable')
  expect([error_code, await world.attempts(id)]).toEqual(['destination_not_payable', []])
  await world.untilBalance(shop, 20n * unit)
}

test('neither a token account, a mint nor a program is paid, nor an account that is frozen, or became somebody else’s', async () => {
  const [frozen, owner] = [newAddress(), newKey()]
  const gone = addressOfKey(owner)
  for (const to of [frozen, gone])
    await world.done(world.submit(tokenPayment(usdc, {from: faucet, to, amount: 1n}), []))
  await world.freeze('USDC', frozen)
  await world.done(
    world.submit([setAuthority(accountOf(usdc, gone), 'owner of the account', {from: gone, to: faucet})], [owner]),
  )
  await Promise.all([
    refused(accountOf(usdc, frozen), new RegExp(`a token account: the address of its owner, ${frozen}, can be paid`)),
    refused(tokenCalled('USDT').mint, /is the contract of USDT on SOL/),
    refused(frozen, /token account is frozen by the issuer/),
    refused(gone, /token account belongs to somebody else now/),
  ])
}, 150_000)

test('an address without a key is paid: vaults of several people have such addresses', async () => {
  const vault = accountOf(tokenCalled('PYUSD'), newAddress())
  const shop = await openShop([8n * unit], vault)
  await world.becomes(await world.request(shop, 'USDC'), 'completed')
  expect(holds(vault)).toBe(netOf(8n * unit))
})

test('while an account costs more than is allowed no recipient gets one; the payout says so, and goes on by itself', async () => {
  const shop = await openShop([20n * unit])
  world.lie('getMinimumBalanceForRentExemption', () => 2_500_001)
  const id = await world.request(shop, 'USDC')
  expect((await world.becomes(id, 'fee_above_cap')).waiting_detail).toBe(
    'an account for a token costs 2500001 lamports; SOL_MAX_ACCOUNT_RENT allows 2500000',
  )
  world.node.behave = undefined
  await world.becomes(id, 'completed')
})

test('a payment fails if its recipient gave its account away meanwhile: nobody gets it, and the balance is back', async () => {
  const owner = newKey()
  const wallet = addressOfKey(owner)
  const thief = newAddress()
  const shop = await openShop([20n * unit], wallet)
  await world.done(world.submit(tokenPayment(usdc, {from: faucet, to: wallet, amount: 1n}), []))
  await fundTreasury()
  world.isHeld = true
  const id = await world.request(shop, 'USDC')
  const [attempt] = await world.signed(id, 1)
  await world.untilWaiting(attempt!.txid)
  const give = setAuthority(accountOf(usdc, wallet), 'owner of the account', {from: wallet, to: thief})
  const given = world.submit([give], [owner])
  world.solana.mine(1, {only: [given]})
  world.isHeld = false
  const {error_code} = await world.becomes(id, 'failed')
  expect([error_code, holds(thief), holds(wallet)]).toEqual(['transaction_reverted', 1n, 0n])
  await world.untilBalance(shop, 20n * unit)
  expect(await differences(shop)).toEqual([])
})

// --- what an issuer can do ---

test('an address whose account is frozen is blocked: its payout fails, nothing is signed, and it is paid once it is thawed', async () => {
  const shop = await openShop([40n * unit])
  const [frozen] = shop.addresses as [string]
  await world.freeze('USDC', frozen)
  await world.untilPast(world.solana.head.height)
  const id = await world.request(shop, 'USDC', true)
  const blocked = () =>
    world.db.rows<{reason: string}>('select * from app.blocked_address where address = $1', [frozen])
  await until(async () => (await blocked()).length, {timeoutMs: 40_000, what: 'the address to be blocked'})
  expect((await world.becomes(id, 'failed')).error_code).toBe('deposits_blocked')
  expect((await sweepsOf(frozen)).filter(({outcome}) => outcome === 'done')).toEqual([])
  await world.freeze('USDC', frozen, false)
  await world.db.rows('update app.blocked_address set retry_at = clock_timestamp()')
  await until(async () => !(await blocked()).length, {timeoutMs: 60_000, what: 'the address to be let go'})
  await world.becomes(await world.request(shop, 'USDC', true), 'completed')
}, 150_000)

test("while the treasury's account is frozen nothing is swept to it; the payout says so, and goes on by itself", async () => {
  const shop = await openShop([40n * unit])
  await world.freeze('USDC', world.treasury)
  const id = await world.request(shop, 'USDC', true)
  expect((await world.becomes(id, 'token_refused')).waiting_detail).toMatch(/the treasury's token account is frozen/)
  expect(await sweepsOf(shop.addresses[0]!)).toEqual([])
  await world.freeze('USDC', world.treasury, false)
  await world.becomes(id, 'completed')
  expect(holds(shop.wallet)).toBe(netOf(40n * unit))
})

test('a payment that fails in a block, because its recipient was frozen meanwhile, gives the balance back', async () => {
  const shop = await openShop([20n * unit])
  await world.done(world.submit(tokenPayment(usdc, {from: faucet, to: shop.wallet, amount: 1n}), []))
  await fundTreasury()
  world.isHeld = true
  const id = await world.request(shop, 'USDC')
  const [attempt] = await world.signed(id, 1)
  await world.untilWaiting(attempt!.txid)
  const others = world.pool
  const frozen = world.freeze('USDC', shop.wallet)
  await until(async () => world.pool.length > others.length, {timeoutMs: 5000, what: 'the freeze to wait'})
  world.solana.mine(1, {only: world.pool.filter(txid => !others.includes(txid))})
  await frozen
  world.isHeld = false
  const {error_code} = await world.becomes(id, 'failed')
  expect([error_code, holds(shop.wallet)]).toEqual(['transaction_reverted', 1n])
  await world.untilBalance(shop, 20n * unit)
})

// --- time, and death ---

test('a payment that no block takes expires, which the balances of its token account prove, and is signed again once', async () => {
  const shop = await openShop([30n * unit])
  await fundTreasury()
  world.isHeld = true
  const id = await world.request(shop, 'USDC')
  const [first] = await world.signed(id, 1)
  await world.untilWaiting(first!.txid)
  world.mineEmpty(170)
  const [dead, second] = await world.signed(id, 2)
  expect(dead).toEqual({txid: first!.txid, fate: 'dead', lapsed: true})
  world.isHeld = false
  const {txid} = await world.becomes(id, 'completed')
  expect([txid, holds(shop.wallet)]).toEqual([second!.txid, netOf(30n * unit)])
  const [lapse] = await world.db.rows<{evidence: {account: {address: string; balance: string}}}>(
    'select evidence from chain.lapse where txid = $1',
    [first!.txid],
  )
  expect(lapse!.evidence.account.address).toBe(accountOf(usdc, world.treasury))
  const raws = await world.db.rows<{raw: string}>('select raw from app.outgoing_attempt where txid = $1', [txid])
  expect(parsePayment(raws[0]!.raw).token).toMatchObject({mint: usdc.mint, madeFor: shop.wallet})
})

test('a worker that dies between each step of a sweep and a payment, or custody, changes nothing', async () => {
  for (const crashAt of ['sweep: after begin', 'send: after sign']) {
    const shop = await openShop([30n * unit])
    await world.kill(worker)
    const doomed = await world.startWorker({crashAt})
    const id = await world.request(shop, 'USDC', true)
    await until(async () => doomed.signalCode, {timeoutMs: 40_000, what: `the worker to die at ${crashAt}`})
    await world.killCustody()
    await world.startCustody()
    worker = await world.startWorker()
    await world.becomes(id, 'completed')
    expect(holds(shop.wallet), crashAt).toBe(netOf(30n * unit))
    expect(
      (await sweepsOf(shop.addresses[0]!)).map(({outcome}) => outcome),
      crashAt,
    ).toEqual(['done'])
    expect(await differences(shop), crashAt).toEqual([])
  }
}, 150_000)

test('a reorganisation that takes back a deposit, or a payment, with the account that it made, loses and pays nothing twice', async () => {
  const shop = await openShop([25n * unit])
  const id = await world.request(shop, 'USDC')
  const [attempt] = await world.signed(id, 1)
  await until(async () => holds(shop.wallet), {timeoutMs: 20_000, what: 'the payment in a block'})
  world.reorg(world.deepest, false)
  const {txid} = await world.becomes(id, 'completed')
  expect([txid === attempt!.txid || (await world.attempts(id)).length > 1, holds(shop.wallet)]).toEqual([
    true,
    netOf(25n * unit),
  ])
  expect(await differences(shop)).toEqual([])
})

// --- tokens that an operator adds ---

const add = (...more: string[]) => ['token', 'add', '--chain', 'SOL', '--min', '1', '--yes', ...more]
const pyusd = tokenCalled('PYUSD')

test('mints are judged by their extensions: what is not known to be fine is refused by name, or accepted by name', async () => {
  expect(await commandLine.failure(...add('--contract', newAddress(), '--code', 'X'))).toMatch(/there is no mint at/)
  expect(await commandLine.misuse(...add('--contract', '0x12', '--code', 'X'))).toMatch(/is no contract address on SOL/)
  const fee = await commandLine.failure(
    ...add('--contract', tokenCalled('FEEUSD').mint, '--code', 'FEEUSD', '--accept', 'TransferFeeConfig'),
  )
  expect(fee).toMatch(/its extension TransferFeeConfig: it takes a fee on transfers/)
  expect(await commandLine.failure(...add('--contract', pyusd.mint, '--code', 'PYUSD'))).toMatch(
    /its extension PermanentDelegate: somebody can take the token from every address; if you trust its issuer with that: --accept PermanentDelegate/,
  )
  expect(await commandLine.failure(...add('--contract', usdc.mint, '--code', 'USDC'))).toMatch(/the code USDC is taken/)
})

test('a token of Token-2022 is added while the service runs, credited from then on, and paid out exactly', async () => {
  const shop = await world.makeShop(1, newAddress())
  const [address] = shop.addresses as [string]
  await world.pay([address], [3n * unit], 'PYUSD')
  expect(
    await commandLine.json(...add('--contract', pyusd.mint, '--code', 'PYUSD', '--accept', 'PermanentDelegate')),
  ).toMatchObject({
    token: 'PYUSD',
    name: 'SOL-PYUSD',
    sweep: {by: 'treasury', program: 'token-2022', accepts: ['PermanentDelegate']},
  })
  await world.pay([address], [500n * unit], 'PYUSD')
  await world.untilBalance(shop, 500n * unit)
  await world.retriedUntil(await world.request(shop, 'PYUSD', true), 'completed') // the worker reads of new tokens each 5 s
  expect(world.holdsToken('PYUSD', shop.wallet)).toBe(netOf(500n * unit))
  const {tokens} = await commandLine.json<{tokens: {token: string; sweep_by: string}[]}>(
    'token',
    'list',
    '--chain',
    'SOL',
  )
  expect(tokens.map(({token, sweep_by}) => [token, sweep_by]).sort()).toEqual([
    ['PYUSD', 'treasury'],
    ['USDC', 'treasury'],
    ['USDT', 'treasury'],
  ])
})

test('a mint that is not what it was is noticed, and an operator decides about it', async () => {
  const change = setAuthority(pyusd.mint, 'maker of the mint', {
    from: addressOfKey(issuerKey),
    to: faucet,
    program: pyusd.program,
  })
  await world.done(world.submit([change], [issuerKey]))
  await world.kill(worker)
  worker = await world.startWorker() // it looks at once, then every hour
  const open = `select id, subject from app.incident where kind = 'token_changed' and resolved_at is null`
  const found = await until(async () => (await world.db.rows<{id: string; subject: string}>(open))[0], {
    timeoutMs: 30_000,
    what: 'the incident',
  })
  expect(found.subject).toBe('SOL:PYUSD')
  await commandLine.json('incident', 'resolve', found.id, '--as', 'kept')
})
