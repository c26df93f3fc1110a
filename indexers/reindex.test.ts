// Reading final blocks again, compared with a model. Whatever rows were damaged, they match the chain afterwards, and
// nothing else changes. Whatever false response a source returns, nothing is written.
import fc from 'fast-check'
import pg from 'pg'
import {afterAll, beforeAll, describe, expect, test} from 'vitest'
import {RetryableError} from '../base/errors.ts'
import {ChainWriter, hashOf, type TestBlock} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {makeMerchant, makeUser, type TestUser} from '../test/support/people.ts'
import type {ReadBlock} from './block.ts'
import type {HistorySource} from './family.ts'
import {writeBlocks} from './match.ts'
import type {Reindexed} from './reindex/runs.ts'
import {type ReindexOptions, reindex} from './reindex.ts'
import {ChainDatabase} from './subsquid/store.ts'

const chain = 'ETH'
const heights = 30

let db: TestDatabase
let writer: ChainWriter
let users: TestUser[]
let sender: string
let client: pg.Client

beforeAll(async () => {
  db = await testDatabase()
  const merchant = await makeMerchant(db)
  users = [await makeUser(db, merchant), await makeUser(db, merchant), await makeUser(db, merchant, ['POLYGON'])]
  sender = users[0]!.address
  writer = await ChainWriter.open(db, chain)
  client = new pg.Client({connectionString: db.ownerUrl})
  await client.connect()
  for (let height = 1; height <= heights; height++) {
    const payments = users.slice(0, height % 4).map(({address}, i) => {
      return {txid: `0x${height}`, outputIndex: i, amount: BigInt(1 + height), recipient: address}
    })
    const sent = height % 5 ? [] : [{txid: `0xsent${height}`, account: sender, nonce: height / 5, fee: 3n}]
    await writer.write({add: [{transfers: payments, confirmedTxs: sent}]})
  }
  await writer.finalise(heights - 4)
  for (const table of ['transfer', 'confirmed_tx'])
    await db.rows(`update chain.${table} set block_time = to_timestamp(block_height)`)
  await db.rows(`update app.incident set resolved_at = now(), resolution = 'kept'`) // nobody here signed these transactions
})
afterAll(async () => {
  await client.end()
  await writer.close()
  await db.drop()
})

const final = heights - 4

/** All rows that are derived from the chain, and all state of an indexer. */
async function dump(): Promise<Record<string, unknown[]>> {
  const tables = [
    'chain.transfer',
    'chain.confirmed_tx',
    'chain.block',
    'chain.cursor',
    'app.deposit',
    'app.event',
    'app.ledger_entry',
  ]
  const others = [
    'app.balance_delta',
    'app.incident',
    'app.outgoing_payment',
    'squid_eth.status',
    'squid_eth.hot_change_log',
  ]
  const all: Record<string, unknown[]> = {}
  for (const table of [...tables, ...others])
    all[table] = await db.rows(`select to_jsonb(t) as row from ${table} t order by to_jsonb(t)::text`)
  return all
}

/** A node that has these blocks. */
class Source implements HistorySource {
  reads = 0
  tokens = new Map<string, string>()
  blocksOf = () => writer.blocks
  async network() {
    return 'test'
  }
  async hashAt(height: number): Promise<string | undefined> {
    return this.blocksOf()[height]?.hash
  }
  async lacks(height: number): Promise<string | undefined> {
    return this.blocksOf()[height] ? undefined : 'it has no such block'
  }
  async *links(from: number, to: number) {
    for (let height = from; height <= to; height += 7) yield this.blocksOf().slice(height, Math.min(height + 7, to + 1))
  }
  async *blocks(from: number, to: number): AsyncIterable<ReadBlock[]> {
    for (let height = from; height <= to; height += 5) {
      this.reads += 1
      yield this.blocksOf()
        .slice(height, Math.min(height + 5, to + 1))
        .map(block => this.read(block))
    }
  }
  async again(height: number): Promise<ReadBlock> {
    return this.read(this.blocksOf()[height]!)
  }
  async close() {}

  read({height, hash, parentHash, transfers, confirmedTxs}: TestBlock): ReadBlock {
    return {
      height,
      hash,
      parentHash,
      time: new Date(height * 1000),
      candidates: transfers.map(({txid, outputIndex = 0, token = 'USDC', amount, recipient, sender = '0xSender'}) => {
        return {
          txid,
          outputIndex,
          kind: 'native' as const,
          token,
          amount,
          sender,
          recipientKey: recipient.toLowerCase(),
        }
      }),
      sent: confirmedTxs.map(({txid, account, nonce, fee = 0n}) => {
        return {txid, senderKey: account!.toLowerCase(), nonce: nonce!, executed: true, fee}
      }),
      spends: [],
    }
  }
}

const readAgain = (source: HistorySource, more: Partial<ReindexOptions> = {}): Promise<Reindexed> =>
  reindex({db: client, chain, source, display: address => address, from: 1, retryMs: 1, ...more})

/** Writes without the triggers, so nothing is derived from it. */
async function behindTheBack(sql: string, values: unknown[] = []): Promise<void> {
  const other = new pg.Client({connectionString: db.ownerUrl, options: '-c session_replication_role=replica'})
  await other.connect()
  try {
    await other.query(sql, values)
  } finally {
    await other.end()
  }
}

const events = async (txid: string) =>
  (
    await db.rows<{type: string}>(
      `select type from app.event e join app.deposit d on d.id = e.subject_id where d.txid = $1 order by e.position`,
      [txid],
    )
  ).map(({type}) => type)

const openIncidents = () =>
  db.rows<{kind: string; subject: string}>(
    'select kind, subject from app.incident where resolved_at is null order by id',
  )

const nothing = {added: 0, removed: 0, changed: 0, incidents: 0}

test('a correct chain is read again without writing anything, unnoticed by the live indexer', async () => {
  const before = await dump()
  expect(await readAgain(new Source())).toEqual({from: 1, to: final, ...nothing})
  expect(await dump()).toEqual(before)
})

test('what an unknown transaction moved is noted when its block is read again', async () => {
  const unknown = `select txid from app.unknown_transaction where moved is null order by txid`
  await db.rows('update app.unknown_transaction set moved = null')
  expect(await db.rows(unknown)).toHaveLength(heights / 5)
  await readAgain(new Source())
  expect(await db.rows(unknown)).toEqual([{txid: `0xsent${heights}`}]) // it is not final
})

test('damaged final rows of every kind are repaired to match the chain, and nothing else changes', async () => {
  const healthy = await dump()
  const height = fc.integer({min: 1, max: final})
  const damage = fc.oneof(
    height.map(h => [`delete from chain.transfer where chain = 'ETH' and block_height = $1`, [h]] as const),
    height.map(h => [`delete from chain.confirmed_tx where chain = 'ETH' and block_height = $1`, [h]] as const),
    height.map(h => [`update chain.transfer set amount = amount + 1 where block_height = $1`, [h]] as const),
    height.map(
      h => [`update chain.transfer set recipient = 'nobody', token = 'ETH' where block_height = $1`, [h]] as const,
    ),
    fc
      .tuple(height, height)
      .map(
        ([h, other]) =>
          [
            `update chain.transfer set block_height = $2, block_hash = 'other' where block_height = $1`,
            [h, other],
          ] as const,
      ),
    height.map(
      h => [`update chain.confirmed_tx set success = false, fee = 9, nonce = 99 where block_height = $1`, [h]] as const,
    ),
    fc
      .tuple(height, fc.nat(2))
      .map(
        ([h, i]) =>
          [
            `insert into chain.transfer select 'ETH:made-up:' || $1::int, 'ETH', 'made-up', $1::int, $1::int, 'x', now(), 'USDC', 5, 's', $2 on conflict do nothing`,
            [h, users[i]?.address],
          ] as const,
      ),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(damage, {minLength: 1, maxLength: 6}), async damages => {
      for (const [sql, values] of damages) await behindTheBack(sql, [...values])
      const {incidents} = await readAgain(new Source())
      expect(incidents).toBe(0)
      // A row that was stored too low is deleted there before it is found above.
      await db.rows(`delete from app.incident where resolution = 'healed'`)
      expect(await dump()).toEqual(healthy)
    }),
    {numRuns: 10, endOnFailure: true},
  )
}, 60_000)

test('damage outside the requested range stays', async () => {
  await behindTheBack(`delete from chain.transfer where chain = 'ETH' and block_height in (6, 10)`)
  expect(await readAgain(new Source(), {from: 7, to: 20})).toEqual({from: 7, to: 20, ...nothing, added: 2})
  expect(await readAgain(new Source(), {to: 6})).toEqual({from: 1, to: 6, ...nothing, added: 2})
})

test('missed transfers become deposits with both events, once; extra ones open incidents, which close when the chain has them', async () => {
  const {address} = users[0]!
  const missed = {txid: '0xmissed', token: 'USDC', amount: 77n, recipient: address}
  const source = new Source()
  const withMissed = writer.blocks.map(block =>
    block.height === 9 ? {...block, transfers: [...block.transfers, missed]} : block,
  )
  source.blocksOf = () => withMissed
  expect(await readAgain(source)).toMatchObject({...nothing, added: 1})
  expect(await events('0xmissed')).toEqual(['deposit.pending', 'deposit.confirmed'])
  const first = await dump()
  expect(await readAgain(source)).toMatchObject(nothing)
  expect(await dump()).toEqual(first)

  expect(await readAgain(new Source())).toMatchObject({...nothing, removed: 1, incidents: 1})
  const [{id} = {id: ''}] = await db.rows<{id: string}>(
    `select id from app.deposit where txid = '0xmissed' and status = 'final'`,
  )
  expect(await openIncidents()).toEqual([{kind: 'final_deposit_vanished', subject: id}])
  expect(await events('0xmissed')).toHaveLength(2)
  expect(await readAgain(source)).toMatchObject({...nothing, added: 1})
  expect(await openIncidents()).toEqual([])
  expect(await events('0xmissed')).toHaveLength(2)
  expect(await db.rows('select * from app.balance_audit')).toEqual([])

  const moved = {...missed, amount: 78n}
  source.blocksOf = () =>
    writer.blocks.map(block => (block.height === 11 ? {...block, transfers: [...block.transfers, moved]} : block))
  await readAgain(source)
  expect(await openIncidents()).toEqual([
    {kind: 'final_deposit_changed', subject: id}, // it is there again: it did not vanish
  ])
  source.blocksOf = () => withMissed
  await readAgain(source)
  await db.rows(`update app.incident set resolved_at = now(), resolution = 'kept' where resolved_at is null`)
  expect(await readAgain(source)).toMatchObject(nothing)
  await behindTheBack(`delete from chain.transfer where txid = '0xmissed'`)
  writer.blocks[9]!.transfers.push(missed)
  expect(await readAgain(new Source())).toMatchObject({...nothing, added: 1})
})

test('a stored transfer that never became a deposit becomes one', async () => {
  const lost = {txid: '0xlost', token: 'USDC', amount: 7n, recipient: users[1]!.address}
  writer.blocks[3]!.transfers.push(lost)
  await behindTheBack(
    `insert into chain.transfer values ('ETH:0xlost:0', 'ETH', '0xlost', 0, 3, $1, to_timestamp(3), 'USDC', 7, '0xSender', $2)`,
    [writer.blocks[3]!.hash, lost.recipient],
  )
  expect(await readAgain(new Source())).toMatchObject(nothing)
  expect(await events('0xlost')).toEqual(['deposit.pending', 'deposit.confirmed'])
})

test('a token that was unknown when it was stored stays unknown, and one that is unknown now is refused', async () => {
  const contract = `0x${'c'.repeat(40)}`
  const {address} = users[0]!
  const source = new Source()
  const withToken = (token: string) => () =>
    writer.blocks.map(block =>
      block.height === 5
        ? {...block, transfers: [...block.transfers, {txid: '0xtoken', token, amount: 3n, recipient: address}]}
        : block,
    )
  source.blocksOf = withToken(contract)
  await readAgain(source)
  const before = await dump()
  source.blocksOf = withToken('USDC')
  source.tokens.set(contract, 'USDC')
  expect(await readAgain(source)).toMatchObject(nothing)
  expect(await dump()).toEqual(before)
  source.blocksOf = () =>
    writer.blocks.map(block => ({
      ...block,
      transfers: block.transfers.map(transfer => ({...transfer, token: contract})),
    }))
  source.tokens.clear()
  await expect(readAgain(source)).rejects.toThrow('is stored as USDC, but the settings here do not name that token')
  expect(await dump()).toEqual(before)
  await readAgain(new Source())
  await db.rows(`update app.incident set resolved_at = now(), resolution = 'kept' where resolved_at is null`)
})

describe('a source that', () => {
  const lies: [name: string, says: string, change: (source: Source) => void][] = [
    [
      'is of another network',
      'the node is on other, and ETH follows test',
      s => Object.assign(s, {network: async () => 'other'}),
    ],
    [
      'has another final block',
      'than the one that is final here',
      s => Object.assign(s, {hashAt: async () => hashOf('x')}),
    ],
    ['is behind', 'the node is behind: it has no block 26', s => Object.assign(s, {hashAt: async () => undefined})],
    [
      'is on another fork further down',
      'do not lead to block 26',
      s => {
        const fork = writer.blocks.map(({height}) => ({
          ...writer.blocks[height]!,
          hash: hashOf(`f${height}`),
          parentHash: hashOf(`f${height - 1}`),
        }))
        Object.assign(s, {
          links: async function* () {
            yield fork.slice(1, final + 1)
          },
        })
      },
    ],
    [
      'gives headers that do not link',
      'does not link to the block below it',
      s =>
        Object.assign(s, {
          links: async function* () {
            yield writer.blocks.filter(({height}) => height !== 4 && height <= final)
          },
        }),
    ],
    [
      'gives other blocks than its headers said',
      'another block',
      s =>
        Object.assign(s, {
          read: (block: TestBlock) => ({...new Source().read(block), hash: hashOf(`other ${block.height}`)}),
        }),
    ],
    [
      'leaves out blocks',
      'another block',
      s =>
        Object.assign(s, {
          blocks: async function* () {
            yield writer.blocks.filter(({height}) => height % 3).map(b => new Source().read(b))
          },
        }),
    ],
    ['returns no blocks', 'returned no block 1', s => Object.assign(s, {blocks: async function* () {}})],
    [
      'tells now this and now that of a block',
      'two different contents',
      s =>
        Object.assign(s, {
          again: async (height: number) => ({...new Source().read(writer.blocks[height]!), candidates: []}),
          read: (block: TestBlock) => new Source().read({...block, transfers: block.transfers.slice(1)}),
        }),
    ],
    [
      'fails',
      'cannot be read: 503',
      s =>
        Object.assign(s, {
          blocks: () => {
            throw new RetryableError('503')
          },
        }),
    ],
  ]
  test.each(lies)('%s changes nothing', async (_, says, change) => {
    const before = await dump()
    const source = new Source()
    change(source)
    await expect(readAgain(source)).rejects.toThrow(says)
    expect(await dump()).toEqual(before)
  })

  test('fails now and then only takes longer', async () => {
    await behindTheBack(`delete from chain.transfer where block_height = 25`)
    const source = new Source()
    let calls = 0
    const {blocks} = source
    source.blocks = async function* (from, to) {
      for await (const batch of blocks.call(source, from, to)) {
        if (++calls % 2 === 0) throw new RetryableError('503')
        yield batch
      }
    }
    expect(await readAgain(source)).toMatchObject({...nothing, added: 1})
  })

  test('has forgotten old blocks is refused with its lowest block; a source that fails causes another error', async () => {
    const source = new Source()
    source.lacks = async height => (height < 12 ? 'pruned' : undefined)
    await expect(readAgain(source, {from: 3})).rejects.toThrow(
      'no longer has block 3 (pruned); its lowest block is 12: use --from 12',
    )
    expect(await readAgain(source, {from: 12})).toMatchObject({from: 12, ...nothing})
    source.lacks = async () => 'internal error'
    await expect(readAgain(source)).rejects.toThrow('cannot return block 26, which is final here (internal error)')
    source.lacks = async () => {
      throw new RetryableError('timeout')
    }
    await expect(readAgain(source)).rejects.toThrow('timeout')
  })
})

describe('a run', () => {
  const noFrom = {from: undefined} as Partial<ReindexOptions>

  test('that is stopped resumes at its position, and no other process can start one meanwhile', async () => {
    await behindTheBack(`delete from chain.transfer where block_height in (2, 25)`)
    const stop = new AbortController()
    let other: Promise<unknown> | undefined
    const onProgress = (step: string, done: number) => {
      if (step !== 'reading' || done < 10) return
      const second = new pg.Client({connectionString: db.ownerUrl})
      other ??= second.connect().then(() => readAgain(new Source(), {db: second}).finally(() => second.end()))
      other.catch(() => {})
      stop.abort()
    }
    const source = new Source()
    const {blocks} = source
    source.blocks = async function* (from, to) {
      for await (const batch of blocks.call(source, from, to)) {
        await other?.catch(() => {})
        yield batch
      }
    }
    await expect(readAgain(source, {signal: stop.signal, onProgress})).rejects.toThrow('stopped')
    await expect(other).rejects.toThrow('ETH is being read again by another process')
    const resumed = new Source()
    expect(await readAgain(resumed, noFrom)).toEqual({from: 1, to: final, ...nothing, added: 3})
    expect(resumed.reads).toBe(4) // of 6
    await expect(readAgain(new Source(), noFrom)).rejects.toThrow('the last run of ETH, from 1 to 26, is done')
  })

  test('that resumes continues from exactly the block at which it ended, or not at all', async () => {
    const stop = new AbortController()
    await expect(
      readAgain(new Source(), {
        signal: stop.signal,
        onProgress: (step, done) => step === 'reading' && done > 10 && stop.abort(),
      }),
    ).rejects.toThrow()
    await db.rows(`update app.reindex set next_height = 11, last_hash = $1 where finished_at is null`, [
      hashOf('other'),
    ])
    await expect(readAgain(new Source(), noFrom)).rejects.toThrow('does not link to the block below it')
    await db.rows('update app.reindex set finished_at = now() where finished_at is null')
  })

  test.each([
    ['halted', `update chain.cursor set halted_at = now() where chain = 'ETH'`, 'is halted'],
    ['to be rewound', `update chain.cursor set rewind_to = 3 where chain = 'ETH'`, 'is about to be rewound'],
    [
      'rewound',
      `update chain.block set hash = hash || 'x' where chain = 'ETH' and height = 26`,
      'was rewound during the run',
    ],
  ])('ends when the chain is %s meanwhile', async (_, sql, says) => {
    await behindTheBack(`delete from chain.transfer where block_height = 25`)
    const before = await dump()
    const source = new Source()
    const {blocks} = source
    source.blocks = async function* (from, to) {
      for await (const batch of blocks.call(source, from, to)) {
        if (batch[0]!.height > 15) await behindTheBack(sql)
        yield batch
      }
    }
    await expect(readAgain(source)).rejects.toThrow(says)
    if (says === 'is halted') await expect(readAgain(new Source())).rejects.toThrow(says)
    await behindTheBack(`update chain.cursor set halted_at = null, rewind_to = null where chain = 'ETH'`)
    await behindTheBack(`update chain.block set hash = $1 where chain = 'ETH' and height = 26`, [
      writer.blocks[26]!.hash,
    ])
    expect(await dump()).toEqual(before)
    expect(await readAgain(new Source(), noFrom)).toMatchObject({...nothing, added: 1})
  })

  test.each([
    [{from: 0}, 'block 0 pays no address'],
    [{from: 9, to: 8}, 'there are no blocks from 9 to 8: --from is above --to'],
    [{from: 27}, 'block 27 of ETH is above the final one (26), and only final blocks are read again'],
    [{from: 5, to: 27}, 'block 27 of ETH is above the final one (26), and only final blocks are read again; to read'],
    [{chain: 'POLYGON'}, 'POLYGON is not followed'],
  ])('of %o is refused', async (more, says) => {
    await expect(readAgain(new Source(), more)).rejects.toThrow(says)
  })
})

test('a row added at a height that the live indexer can undo is written again after a restart, without an event', async () => {
  const code = 'POLYGON'
  await db.rows(`select chain.anchor($1, 'test', 0, $2, now())`, [code, hashOf('0')])
  const paid = (height: number) => {
    const transfers = [{txid: `0xhot${height}`, token: 'POL', amount: 5n, recipient: users[2]!.address}]
    return {height, hash: hashOf(`${height}`), parentHash: hashOf(`${height - 1}`), transfers, confirmedTxs: []}
  }
  const blocks = [{...paid(0), transfers: []}, paid(1), paid(2), paid(3)]
  const source = new Source()
  source.blocksOf = () => blocks
  const readable = blocks.slice(1).map(block => source.read(block))
  const database = new ChainDatabase(db.url('sluice_indexer'), code)
  /** Undoes what it can, and writes everything. */
  const write = async (contents: ReadBlock[]) => {
    const {height, hash} = await database.connect()
    const below = {height, hash}
    await database.transactHot2({finalizedHead: below, baseHead: below, newBlocks: contents}, (store, from, to) =>
      writeBlocks(store, contents.slice(from, to), {chain: code, display: address => address}),
    )
    await database.disconnect()
  }
  await write(readable.map(block => (block.height === 2 ? {...block, candidates: []} : block)))
  await db.rows('select chain.finalise($1, 3, $2)', [code, hashOf('3')])
  expect(await readAgain(source, {chain: code})).toMatchObject({...nothing, added: 1})
  const eventRows = () => db.rows('select id, type from app.event order by position')
  const before = await eventRows()
  expect(await events('0xhot2')).toEqual(['deposit.pending', 'deposit.confirmed'])
  await write(readable)
  expect(await eventRows()).toEqual(before)
  expect(await readAgain(source, {chain: code})).toMatchObject(nothing)
})
