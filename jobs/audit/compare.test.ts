// Every address that was handed out is compared with its chain, on a real node. Some of its blocks were never read
// here, so their payments are missing in a real database.
import type pg from 'pg'
import {encodeFunctionData, getAddress, numberToHex} from 'viem'
import {afterAll, afterEach, beforeAll, describe, expect, test} from 'vitest'
import {RetryableError} from '../../base/errors.ts'
import type {ChainSettings} from '../../chains/families.ts'
import {readSettings} from '../../chains/settings.ts'
import {lockConnection} from '../../db/client/pool.ts'
import {startBitcoin, type TestBitcoin} from '../../test/support/bitcoin/node.ts'
import {someAddress} from '../../test/support/bitcoin/world.ts'
import {ChainWriter} from '../../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../../test/support/database.ts'
import {Anvil, abis} from '../../test/support/evm/anvil.ts'
import {makeMerchant, makeUser, watchAddress} from '../../test/support/people.ts'
import {compareAll, compareDue} from './compare.ts'
import {addressesMax, heldCode, readHeld} from './evm/held-code.ts'

let db: TestDatabase
let jobs: pg.Client

beforeAll(async () => {
  db = await testDatabase()
  jobs = lockConnection(db.url('sluice_jobs'), 'test')
  await jobs.connect()
})
afterAll(async () => {
  await jobs.end()
  await db.drop()
})

interface Found {
  address: string
  token: string
  outpoint?: string
  ledger: string
  chain: string
  missing?: string
  gone?: string
  run?: string
}

/** The open incidents of a chain's check, with their findings. */
const incidents = (chain: string) =>
  db.rows<{details: {found: Found[]; count: number; address?: string; missing?: string; run?: string}}>(
    `select details from app.incident where kind = 'audit' and subject = 'audit:on_chain_' || lower($1) and resolved_at is null`,
    [chain],
  )
const foundOn = async (chain: string) => (await incidents(chain)).flatMap(({details}) => details.found)

/** Like a worker that compares again and again, without its pauses. */
async function passOf(settings: ChainSettings): Promise<number> {
  const chain = settings.chain.code
  await db.rows(
    `update app.comparison set began_at = now() - interval '25 hours' where chain = $1 and position is null`,
    [chain],
  )
  for (let increments = 1; ; increments++) {
    await db.rows('update app.comparison set next_at = now() where chain = $1', [chain])
    expect(await compareDue(jobs, settings)).toBeUndefined()
    const [{position}] = (await db.rows('select position from app.comparison where chain = $1', [chain])) as [
      {position: string | null},
    ]
    if (position === null) return increments
  }
}

describe('on an EVM chain', () => {
  let anvil: Anvil
  let eth: ChainWriter
  let merchant: string
  let settings: ChainSettings

  beforeAll(async () => {
    anvil = await Anvil.start()
    eth = await ChainWriter.open(db, 'ETH')
    merchant = await makeMerchant(db)
    settings = settingsOf({})
    await growTo((await anvil.block()).height)
  })
  afterEach(async () => {
    await db.rows('delete from app.comparison; delete from app.chain_difference; delete from app.incident')
  })
  afterAll(async () => {
    await eth.close()
    await anvil.stop()
  })

  const settingsOf = (more: Record<string, string>) =>
    readSettings({ETH_RPC_URL: anvil.wsUrl, ETH_USDC_CONTRACT: anvil.usdc, ...more}).chains.get('ETH')!
  const setBalance = (address: string, amount: bigint) => anvil.call('anvil_setBalance', [address, numberToHex(amount)])

  async function sendUsdc(to: string, amount: bigint): Promise<void> {
    await anvil.send({
      to: anvil.usdc,
      data: encodeFunctionData({abi: abis.usdc, functionName: 'transfer', args: [to, amount]}),
    })
  }

  /** Final blocks without any payment to us, up to this height. */
  async function growTo(height: number): Promise<void> {
    await eth.write({add: Array.from({length: height - eth.head.height}, () => [])})
    await eth.finalise(height)
  }

  const missBlock = async () => growTo((await anvil.mine()).height)

  test('a payment to an unused address is found; the incident says what is missing and how to read it', async () => {
    const [coins, tokens] = [await makeUser(db, merchant), await makeUser(db, merchant)]
    await passOf(settings)
    expect(await incidents('ETH')).toEqual([])
    const rightAt = eth.head.height
    await setBalance(coins.address, 5n)
    await sendUsdc(tokens.address, 7n)
    await missBlock()
    await missBlock()

    await passOf(settings)
    const run = `sluice reindex --chain ETH --from ${rightAt + 1}`
    const [incident] = await incidents('ETH')
    const expected = [
      expect.objectContaining({address: coins.address, token: 'ETH', ledger: '0', chain: '5', missing: '5', run}),
      expect.objectContaining({address: tokens.address, token: 'USDC', ledger: '0', chain: '7', missing: '7', run}),
    ].sort((a, b) => (a.sample.address < b.sample.address ? -1 : 1))
    expect(incident!.details).toMatchObject({count: 2, found: expected, run})
    expect([coins.address, tokens.address]).toContain(incident!.details.address)
    expect(['5 ETH', '7 USDC']).toContain(incident!.details.missing)

    // The command reads the blocks again. The missing payment becomes a deposit, and the next pass finds nothing.
    await eth.write({
      add: [
        [
          {txid: '0x1', token: 'ETH', amount: 5n, recipient: coins.address},
          {txid: '0x2', token: 'USDC', amount: 7n, recipient: tokens.address},
        ],
      ],
    })
    await anvil.mine()
    await eth.finalise(eth.head.height)
    await passOf(settings)
    expect(await incidents('ETH')).toEqual([])
    expect(await db.rows('select resolution from app.incident')).toEqual([{resolution: 'healed'}])
  })

  test('more addresses than one call, or one pass, can hold are checked in turn, and none is left out', async () => {
    const many = Array.from({length: 4 * addressesMax}, (_, n) =>
      getAddress(numberToHex(2n ** 159n + BigInt(n), {size: 20})),
    )
    await db.rows(
      `insert into app.address (chain, match_key, address, user_id, merchant_id, is_provisioned)
       select 'ETH', lower(a), a, (select id from app.user limit 1), $1, true from unnest($2::text[]) a`,
      [merchant, many],
    )
    try {
      const paid = [many[0]!, many[addressesMax - 1]!, many[addressesMax]!, many.at(-1)!]
      for (const address of paid) await setBalance(address, 9n)
      await missBlock()
      expect(await passOf(settings)).toBe(2)
      expect((await foundOn('ETH')).map(({address}) => address).sort()).toEqual([...paid].sort())
      const [{compared, addresses}] = (await db.rows(
        `select compared::int, (select count(*)::int from app.address where chain = 'ETH') as addresses from app.comparison`,
      )) as [{compared: number; addresses: number}]
      expect(compared).toBe(addresses)
      for (const address of paid) await setBalance(address, 0n)
      await missBlock()
    } finally {
      await db.rows('delete from app.address where address = any($1)', [many])
    }
  })

  test('one call holds 760 balances; a node that refuses some of them is an error and no match', async () => {
    const {height} = await anvil.block()
    const addresses = Array.from({length: 768}, (_, n) => numberToHex(2n ** 158n + BigInt(n), {size: 20}))
    const ask = async (count: number, contract?: string) =>
      readHeld(
        await anvil.call('eth_call', [{data: heldCode(contract, addresses.slice(0, count))}, numberToHex(height)]),
        {height, count},
      )
    for (const contract of [undefined, anvil.usdc]) {
      expect(await ask(addressesMax, contract)).toEqual(Array(addressesMax).fill(0n))
      await expect(ask(768, contract)).rejects.toThrow(/size/i)
    }
    expect(() => readHeld('0x', {height, count: 1})).toThrow(RetryableError)
    expect(() => readHeld(`0x${'0'.repeat(128)}`, {height, count: 1})).toThrow(
      /asked for balances at block \d+, and answered for block 0/,
    )
  })

  test('a token whose contract does not respond is reported as not read, and the coins beside it are compared', async () => {
    const {address} = await makeUser(db, merchant)
    await setBalance(address, 3n)
    await missBlock()
    const other = settingsOf({ETH_USDC_CONTRACT: '0x00000000000000000000000000000000000000aa'})
    await passOf(other)
    expect((await foundOn('ETH')).map(({address, token}) => [address, token])).toEqual([[address, 'ETH']])
    expect(await db.rows('select unread, since from app.comparison')).toEqual([
      {
        unread: expect.stringMatching(/^USDC: its contract did not return the balance of \d+ of \d+ addresses$/),
        since: null,
      },
    ])
    await setBalance(address, 0n)
    await missBlock()
  })

  test('a token without a contract on this network is never compared, and is reported because the ledger has some', async () => {
    const {address} = await makeUser(db, merchant)
    await setBalance(address, 3n)
    await missBlock()
    const other = readSettings({ETH_RPC_URL: anvil.wsUrl, ETH_CHAIN_ID: '1337'}).chains.get('ETH')!
    await passOf(other)
    expect((await foundOn('ETH')).map(({address, token}) => [address, token])).toEqual([[address, 'ETH']])
    expect(await db.rows('select unread from app.comparison')).toEqual([
      {unread: 'USDC: it has no contract on this network'},
    ])
    await setBalance(address, 0n)
    await missBlock()
  })

  test('an earlier finding stays when a token no longer responds', async () => {
    const {address} = await makeUser(db, merchant)
    await sendUsdc(address, 4n)
    await missBlock()
    await passOf(settings)
    const found = await foundOn('ETH')
    expect(found).toMatchObject([{address, token: 'USDC', missing: '4'}])
    await passOf(settingsOf({ETH_USDC_CONTRACT: '0x00000000000000000000000000000000000000aa'}))
    expect(await foundOn('ETH')).toEqual(found)
    await db.rows('delete from app.address where address = $1', [address])
  })

  test('a payment above the final block is no difference, and blocks that are read again prove nothing', async () => {
    const {address} = await makeUser(db, merchant)
    await anvil.send({to: address, value: 8n})
    const {height} = await anvil.mine()
    await passOf(settings)
    expect(await incidents('ETH')).toEqual([])
    await eth.write({add: [[{txid: '0x8', token: 'ETH', amount: 8n, recipient: address}]]})
    await eth.finalise(height)
    await passOf(settings)
    expect(await incidents('ETH')).toEqual([])

    // The state after sluice chain rewind: the ledger has deposits above the final block.
    await db.rows(
      `insert into app.incident (chain, kind, subject, details) select 'ETH', 'final_deposit_vanished', id, '{}' from app.deposit where txid = '0x8'`,
    )
    await db.rows(`update chain.cursor set final_height = final_height - 1 where chain = 'ETH'`)
    await db.rows(`update app.comparison set next_at = now(), began_at = now() - interval '25 hours'`)
    expect(await compareDue(jobs, settings)).toBe('blocks that were final are read again')
    await db.rows(`update chain.cursor set final_height = final_height + 1 where chain = 'ETH'`)
    expect(await db.rows('select error, position from app.comparison')).toEqual([
      {error: 'blocks that were final are read again', position: ''},
    ])
  })

  test('an address that was never compared is read from the hour before it was handed out', async () => {
    const before = (await anvil.block()).height
    await anvil.call('evm_increaseTime', [5 * 3600])
    await anvil.mine()
    const {address} = await makeUser(db, merchant)
    await db.rows(`update app.address set created_at = now() + interval '5 hours 30 minutes' where address = $1`, [
      address,
    ])
    await setBalance(address, 6n)
    await missBlock()
    await passOf(settings)
    expect(await foundOn('ETH')).toMatchObject([{missing: '6', run: `sluice reindex --chain ETH --from ${before}`}])
    await db.rows('delete from app.address where address = $1', [address])
  })

  test('one pass runs a day, with pauses three times its work; an incomplete pass is made up for, by any worker that may', async () => {
    await passOf(settings)
    const [{since, age}] = (await db.rows(
      `select since, extract(epoch from app.comparison_age('ETH'))::float8 as age from app.comparison`,
    )) as [{since: Date; age: number}]
    expect(age).toBeLessThan(60)
    await db.rows('update app.comparison set next_at = now()')
    expect(
      await db.rows(`select app.is_comparison_due(array['ETH']) as due, app.due_comparison('ETH') as after`),
    ).toEqual([{due: false, after: null}])
    await db.rows(
      `update app.comparison set began_at = now() - interval '25 hours', since = now() - interval '25 hours'`,
    )
    const due = await db.rows(`select app.is_comparison_due(array['ETH']) as due, app.due_comparison('ETH') as after`)
    expect(due).toEqual([{due: true, after: ''}])
    // Twice from the same place, as two workers would: the position moves once. Every address comes after it.
    const record = (took: string) =>
      db.rows(`select app.record_comparison('ETH', 'x', '', '0x', array['0xA', '0xB'], '[]', null, 7, $1)`, [took])
    await record('20 seconds')
    await record('40 seconds')
    const [at] = await db.rows(
      `select position, compared::int, extract(epoch from next_at - now())::float8 as wait, since < $1 as is_old from app.comparison`,
      [since],
    )
    expect(at).toEqual({position: '0x', compared: 2, wait: expect.closeTo(60, 0), is_old: true})
    const metric = await db.rows(
      `select labels, value from app.metrics() where metric = 'sluice_audit_addresses_age_seconds'`,
    )
    expect(metric).toEqual([{labels: {chain: 'ETH'}, value: expect.closeTo(25 * 3600, -2)}])
    await compareAll(jobs, settings, () => {})
    expect(await db.rows('select position, since >= $1 as is_new from app.comparison', [since])).toEqual([
      {position: null, is_new: true},
    ])
  })

  test('a node that does not respond is reported, and is neither right nor wrong', async () => {
    const gone = settingsOf({ETH_RPC_URL: 'http://127.0.0.1:9'})
    expect(await compareDue(jobs, gone)).toMatch(/^the node cannot be asked: /)
    expect(await db.rows('select error, position, since from app.comparison')).toEqual([
      {error: expect.stringMatching(/^the node cannot be asked: /), position: '', since: null},
    ])
    expect(await db.rows('select from app.incident')).toEqual([])
  })
})

describe('on Bitcoin', () => {
  let bitcoin: TestBitcoin
  let btc: ChainWriter
  let address: string

  beforeAll(async () => {
    bitcoin = await startBitcoin()
    btc = await ChainWriter.open(db, 'BTC')
    address = someAddress()
    await watchAddress(db, await makeMerchant(db, ['BTC']), {
      address,
      family: 'bitcoin',
      watched: ['BTC'],
      chains: ['BTC'],
    })
    await growToHead()
  })
  afterEach(async () => {
    await db.rows('delete from app.comparison; delete from app.chain_difference; delete from app.incident')
  })
  afterAll(async () => {
    await btc.close()
    await bitcoin.stop()
  })

  const sources = () => (bitcoin.node === 'bitcoind' ? ['electrum', 'node'] : ['electrum'])
  const settingsOf = (source: string) =>
    readSettings({
      BTC_NETWORK: 'regtest',
      BTC_SOURCE: source,
      BTC_ELECTRUM_URLS: bitcoin.electrumUrl,
      BTC_RPC_URL: bitcoin.rpcUrl,
    }).chains.get('BTC')!

  async function growToHead(): Promise<void> {
    const {height} = await bitcoin.client.head()
    await btc.write({add: Array.from({length: height - btc.head.height}, () => [])})
    await btc.finalise(height)
  }

  test('an output of 0 sat, which any miner can create, is no difference', async () => {
    const {txid} = await bitcoin.client.pay([{to: someAddress(), amount: 20_000n}])
    const {raw} = await bitcoin.client.conflict(txid, [{to: address, amount: 0n}])
    await bitcoin.client.mine(1, {include: [raw]})
    await growToHead()
    for (const source of sources()) {
      await passOf(settingsOf(source))
      expect(await foundOn('BTC'), source).toEqual([])
    }
  })

  test('a payment to an unused address is found, with its block', async () => {
    const {txid} = await bitcoin.client.pay([{to: address, amount: 30_000n}])
    const {height} = await bitcoin.client.mine(1)
    for (const source of sources()) {
      await passOf(settingsOf(source))
      expect(await foundOn('BTC'), `${source}, while it is not final`).toEqual([])
    }
    await bitcoin.client.mine(3)
    await growToHead()
    for (const source of sources()) {
      await passOf(settingsOf(source))
      expect(await foundOn('BTC'), source).toEqual([
        {
          address,
          token: 'BTC',
          outpoint: `${txid}:0`,
          ledger: '0',
          chain: '30000',
          missing: '30000',
          run: `sluice reindex --chain BTC --from ${height}`,
          handed_out: expect.any(String),
        },
      ])
      await db.rows('delete from app.comparison; delete from app.chain_difference; delete from app.incident')
    }
  })
})
