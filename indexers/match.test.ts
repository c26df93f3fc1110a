// Writing blocks through the real store: linked blocks are written, only our transfers are stored, the newest addresses
// count, and a transaction of ours succeeded only if it moved what it was signed for.

import {afterAll, afterEach, beforeAll, beforeEach, describe, expect, test} from 'vitest'
import {hashOf} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {makeMerchant, makeUser} from '../test/support/people.ts'
import type {Candidate, ReadBlock, SentTransaction} from './block.ts'
import {writeBlocks} from './match.ts'
import {ChainDatabase} from './subsquid/store.ts'

let db: TestDatabase
let merchantId: string
let database: ChainDatabase

beforeAll(async () => {
  db = await testDatabase()
  merchantId = await makeMerchant(db)
  await db.rows(`select chain.anchor('ETH', 'test', 100, $1, now())`, [hashOf('100')])
})
afterAll(() => db.drop())
beforeEach(() => {
  database = new ChainDatabase(db.url('sluice_indexer'), 'ETH')
})
afterEach(() => database.disconnect())

const blockAt = (height: number, candidates: Candidate[] = [], parent = `${height - 1}`): ReadBlock => {
  return {
    height,
    hash: hashOf(`${height}`),
    parentHash: hashOf(parent),
    time: new Date(0),
    candidates,
    sent: [],
    spends: [],
  }
}

const paying = (address: string, txid = 'tx'): Candidate => {
  return {
    txid,
    outputIndex: 0,
    kind: 'native',
    token: 'ETH',
    amount: 1n,
    sender: '0xPayer',
    recipientKey: address.toLowerCase(),
  }
}

/** One transaction of the store, above its newest block. */
async function write(blocks: ReadBlock[], display = (address: string) => `shown ${address}`): Promise<void> {
  const state = await database.connect()
  const baseHead = state.top.at(-1) ?? state
  await database.transactHot2({finalizedHead: state, baseHead, newBlocks: blocks}, (store, from, to) =>
    writeBlocks(store, blocks.slice(from, to), {chain: 'ETH', display}),
  )
  await database.disconnect()
}

const heights = async () =>
  (await db.rows<{height: number}>('select height from chain.block order by height')).map(b => b.height)

test.each([
  ['that does not link to the stored one below it', [blockAt(101, [], 'other')]],
  ['that does not link to the one before it', [blockAt(101), blockAt(102, [], 'other')]],
  ['that leaves out a height', [{...blockAt(102), parentHash: hashOf('100')}]],
  ['that leaves out a height in between', [blockAt(101), {...blockAt(103), parentHash: hashOf('101')}]],
])('a block %s is refused, and nothing of its transaction is written', async (_, blocks) => {
  await expect(write(blocks)).rejects.toThrow('does not link to the block below it')
  expect(await heights()).toEqual([100])
  expect(await db.rows('select * from squid_eth.hot_block')).toEqual([])
})

test('transfers to our addresses are stored in display form; others are not stored', async () => {
  const user = await makeUser(db, merchantId)
  await write([blockAt(101, [paying(user.address), paying(`0x${'9'.repeat(40)}`, 'elsewhere')]), blockAt(102)])
  expect(
    await db.rows('select id, block_height, block_hash, token, amount::text, sender, recipient from chain.transfer'),
  ).toEqual([
    {
      id: 'ETH:tx:0',
      block_height: 101,
      block_hash: hashOf('101'),
      token: 'ETH',
      amount: '1',
      sender: 'shown 0xPayer',
      recipient: user.address,
    },
  ])
  expect(await heights()).toEqual([100, 101, 102])
})

test('what an address of ours sends is not stored where it pays a user, only where it pays the treasury', async () => {
  const [one, other] = [await makeUser(db, merchantId), await makeUser(db, merchantId)]
  const treasury = `0x${'7e'.repeat(20)}`
  await db.rows(
    `insert into custody.address (address, family, derivation_index, purpose) values ($1, 'evm', 0, 'treasury')`,
    [treasury],
  )
  await db.rows(`select custody.watch_treasury('evm')`)
  const sentBy = (sender: string, to: string, txid: string) => ({...paying(to, txid), sender})
  const candidates = [
    sentBy(treasury, one.address, 'gas'),
    sentBy(other.address.toLowerCase(), one.address, 'among users'),
    sentBy(one.address, treasury, 'sweep'),
    sentBy('0xStranger', one.address, 'deposit'),
    {...sentBy('0xStranger', treasury, 'where it spends nothing'), isOutOfReach: () => true},
    {...sentBy('0xStranger', treasury, 'top-up'), isOutOfReach: () => false},
  ]
  await write([blockAt(103, candidates)], address => address)
  const stored = await db.rows('select txid from chain.transfer where block_height = 103 order by txid')
  expect(stored).toEqual([{txid: 'deposit'}, {txid: 'sweep'}, {txid: 'top-up'}])
  const deposits = await db.rows('select txid from app.deposit where block_height = 103 and merchant_id is not null')
  expect(deposits).toEqual([{txid: 'deposit'}])
})

test('an address that was handed out after a block was read, and before it was written, is matched', async () => {
  const state = await database.connect()
  const newBlocks = [blockAt(104)]
  await database.transactHot2({finalizedHead: state, baseHead: state.top.at(-1)!, newBlocks}, async store => {
    const user = await makeUser(db, merchantId) // committed by another connection while this transaction is open
    const block = blockAt(104, [paying(user.address, 'late')])
    await writeBlocks(store, [block], {chain: 'ETH', display: address => address})
  })
  expect(await db.rows(`select status from app.deposit where txid = 'late'`)).toEqual([{status: 'pending'}])
})

test('an address of another chain is not matched', async () => {
  const user = await makeUser(db, merchantId)
  await db.rows(`delete from app.address where chain = 'ETH' and address = $1`, [user.address])
  await write([blockAt(105, [paying(user.address, 'elsewhere')])])
  expect(await db.rows(`select from chain.transfer where txid = 'elsewhere'`)).toEqual([])
})

describe('a transaction of an address of ours', () => {
  let ours: string
  beforeAll(async () => {
    ours = (await makeUser(db, merchantId)).address
  })
  const theirs = '0xTheirs'
  const display = (key: string) => [ours, theirs].find(address => address.toLowerCase() === key) ?? key

  const sent = (txid: string, more: Partial<SentTransaction> = {}): SentTransaction => {
    return {txid, senderKey: ours.toLowerCase(), nonce: 7, executed: true, fee: 21n, ...more}
  }

  const moving = (txid: string, more: Partial<Candidate> = {}): Candidate => {
    const transfer = {
      txid,
      outputIndex: 1,
      kind: 'token' as const,
      token: 'USDC',
      amount: 5n,
      sender: ours.toLowerCase(),
    }
    return {...transfer, recipientKey: theirs.toLowerCase(), ...more}
  }

  /** A journal entry of custody; by default 5 USDC from us to them. */
  async function signed(txid: string, {token = 'USDC', amount = '5', destination = theirs} = {}): Promise<void> {
    await db.rows(
      `insert into custody.journal (stream, seq, kind, token, amount, destination, source, txid, signed_at, hash)
       select 'ETH', count(*) + 1, 'pay', $2, $3, $4, $5, $1, now(), '' from custody.journal`,
      [txid, token, amount, destination, ours],
    )
  }

  async function include(transaction: SentTransaction, ...candidates: Candidate[]): Promise<void> {
    const [{height}] = (await db.rows<{height: number}>('select max(height) as height from chain.block')) as [
      {height: number},
    ]
    const block = {...blockAt(height + 1, candidates), sent: [transaction, sent('0xother', {senderKey: '0xsomebody'})]}
    await write([block], display)
  }

  const success = async (txid: string) =>
    (await db.rows<{success: boolean}>('select success from chain.confirmed_tx where txid = $1', [txid]))[0]?.success

  test('is stored with its account, its nonce and its fee; those of others are not', async () => {
    await include(sent('0xkept'))
    const [row, ...others] = await db.rows(
      'select id, chain, txid, block_height, account, nonce, fee from chain.confirmed_tx',
    )
    const {height} = (await db.rows('select max(height) as height from chain.block'))[0] as {height: number}
    expect(row).toEqual({
      id: 'ETH:0xkept',
      chain: 'ETH',
      txid: '0xkept',
      block_height: height,
      account: ours,
      nonce: 7,
      fee: '21',
    })
    expect(others).toEqual([])
  })

  test('that was not signed by us succeeded if it was not reverted', async () => {
    await include(sent('0xunknown'))
    await include(sent('0xreverted', {executed: false}))
    expect([await success('0xunknown'), await success('0xreverted')]).toEqual([true, false])
  })

  test('that nobody here knows is noted with all that it moved, and with nothing else of its block', async () => {
    const of = [
      moving('0xmoves'),
      moving('0xmoves', {outputIndex: 0, token: 'ETH', amount: 2n, recipientKey: '0xthird'}),
    ]
    await include(sent('0xmoves'), ...of, moving('0xother'))
    await include(sent('0xmovesnothing'))
    const moved = 'select txid, moved from app.unknown_transaction where txid = any($1) order by txid'
    expect(await db.rows(moved, [['0xmoves', '0xmovesnothing', '0xother']])).toEqual([
      {
        txid: '0xmoves',
        moved: [
          {sender: ours, recipient: theirs, token: 'USDC', amount: '5'},
          {sender: ours, recipient: '0xthird', token: 'ETH', amount: '2'},
        ],
      },
      {txid: '0xmovesnothing', moved: []},
    ])
  })

  test('that moves nothing succeeded if it was not reverted', async () => {
    await signed('0xcancel', {token: 'ETH', amount: '0', destination: ours})
    await include(sent('0xcancel'))
    expect(await success('0xcancel')).toBe(true)
  })

  test('that pays ether succeeded if it was not reverted', async () => {
    for (const executed of [true, false]) {
      const txid = `0xether-${executed}`
      await signed(txid, {token: 'ETH'})
      await include(sent(txid, {executed}), ...(executed ? [moving(txid, {outputIndex: 0, token: 'ETH'})] : []))
      expect(await success(txid)).toBe(executed)
    }
  })

  test("that moves a token succeeded if the token's log says exactly that, whatever else is in it", async () => {
    await signed('0xtoken')
    const noise = [
      moving('0xtoken', {amount: 4n}),
      moving('0xtoken', {outputIndex: 3, recipientKey: ours.toLowerCase()}),
    ]
    await include(sent('0xtoken'), ...noise, moving('0xtoken', {outputIndex: 2}))
    expect(await success('0xtoken')).toBe(true)
  })

  test.each<[string, Partial<Candidate> | undefined]>([
    ['says nothing', undefined],
    ['moved less than half', {amount: 2n}],
    ['moved more', {amount: 6n}],
    ['moved it to somebody else', {recipientKey: '0xsomebody'}],
    ['moved it from somebody else', {sender: '0xsomebody'}],
    ['is another contract', {token: '0xfake'}],
    ['said so in another transaction', {txid: '0xother'}],
  ])('that moves a token did not succeed, though it was not reverted, if the token %s', async (how, transfer) => {
    const txid = `0x${how}`
    await signed(txid)
    await include(sent(txid), ...(transfer ? [moving(txid, transfer)] : []))
    expect(await success(txid)).toBe(false)
  })

  test('that moves a token succeeded, and an incident is open, if the token kept a part: all of it has left its source', async () => {
    await signed('0xshort')
    await include(sent('0xshort'), moving('0xshort', {amount: 4n}))
    expect(await success('0xshort')).toBe(true)
    expect(await db.rows(`select subject, details from app.incident where kind = 'token_takes_fee'`)).toMatchObject([
      {subject: 'ETH:USDC', details: {txid: '0xshort', sent: '5', arrived: '4'}},
    ])
  })
})

test('a transaction that spends outputs of ours has a fee if all that it spends is ours', async () => {
  const user = await makeUser(db, merchantId)
  const [{height}] = (await db.rows('select max(height) as height from chain.block')) as [{height: number}]
  const coin = (outputIndex: number) => ({...paying(user.address, 'coin'), outputIndex, amount: 10n})
  const spends = [
    {txid: 'own', outpoints: ['coin:0'], outputSum: 7n},
    {txid: 'shared', outpoints: ['coin:1', 'foreign:0'], outputSum: 7n},
  ]
  await write([blockAt(height + 1, [coin(0), coin(1)]), {...blockAt(height + 2), spends}])
  const rows = await db.rows(`select txid, fee::text from chain.confirmed_tx where outpoint is not null order by txid`)
  expect(rows).toEqual([
    {txid: 'own', fee: '3'},
    {txid: 'shared', fee: '0'},
  ])
})
