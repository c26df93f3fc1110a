// Deriving deposits, against a model: whatever an indexer writes in one transaction (blocks dropped, replaced,
// re-included, read again, finality moved), deposits, events, balances and incidents are exactly what the chain
// implies, after every commit.

import {createHash} from 'node:crypto'
import fc from 'fast-check'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {makeMerchant, makeUser, type TestUser} from '../test/support/people.ts'
import {until} from '../test/support/until.ts'
import {isForkBelowFinal} from './client/failure.ts'

let db: TestDatabase
let user: TestUser
let writer: ChainWriter

beforeAll(async () => {
  db = await testDatabase()
  user = await makeUser(db, await makeMerchant(db), ['ETH'])
  writer = await ChainWriter.open(db, 'ETH')
})
afterAll(async () => {
  await writer.close()
  await db.drop()
})

interface Row {
  txid: string
  address: string
  status: string
  amount: string
  height: number
  hash: string
  events: string[]
}

/** What the database must hold, derived from the blocks alone. */
class Model {
  readonly deposits = new Map<string, Row>()
  /**
   * Transfers that a rewind removed and that were not read again yet, by transaction: their block, and the height at
   * which they are given up.
   */
  readonly #awaited = new Map<string, {height: number; until: number}>()

  /** The blocks above a height are to be read again. */
  rewind(to: number, head: number): void {
    for (const {txid, status, height} of this.deposits.values()) {
      const isGone = status === 'pending' && height > to && !this.#awaited.has(txid)
      if (isGone) this.#awaited.set(txid, {height, until: head})
    }
  }

  /** Nothing is awaited any longer. */
  giveUp(): void {
    this.#awaited.clear()
  }

  /** The chain is these blocks now, and everything up to this height is final. */
  moveTo(blocks: ChainWriter['blocks'], finalHeight: number): void {
    const live = new Map<string, Omit<Row, 'status' | 'events'>>()
    for (const {height, hash, transfers} of blocks) {
      for (const {txid, amount, recipient} of transfers) {
        live.set(`${txid} ${recipient}`, {txid, address: recipient, amount: amount.toString(), height, hash})
        this.#awaited.delete(txid)
      }
    }
    for (const [txid, {height, until}] of this.#awaited)
      if (until <= blocks.at(-1)!.height || height <= finalHeight) this.#awaited.delete(txid)
    for (const key of new Set([...live.keys(), ...this.deposits.keys()])) {
      const here = live.get(key)
      const row = this.deposits.get(key) ?? {...here!, status: 'reorged', events: []}
      if (row.status === 'final' || this.#awaited.has(row.txid)) continue
      if (here && row.status === 'reorged') row.events.push('deposit.pending')
      else if (here && here.amount !== row.amount) row.events.push('deposit.reorged', 'deposit.pending')
      else if (!here && row.status === 'pending') row.events.push('deposit.reorged')
      Object.assign(row, here, {status: here ? 'pending' : 'reorged'})
      if (here && here.height <= finalHeight) {
        row.status = 'final'
        row.events.push('deposit.confirmed')
      }
      this.deposits.set(key, row)
    }
  }

  rows(): Row[] {
    return [...this.deposits.values()].sort((a, b) => (`${a.txid} ${a.address}` < `${b.txid} ${b.address}` ? -1 : 1))
  }
}

/** A rewind that an operator asked for. */
async function rewind(height: number): Promise<void> {
  await db.rows(`select app.request_rewind('ETH', $1)`, [height])
  await writer.rewind(height)
}

const stored = () =>
  db.rows<Row>(`select txid, address, status, amount::text, block_height as height, block_hash as hash,
    array(select type from app.event e where e.subject_id = d.id order by position) as events
    from app.deposit d order by txid collate "C", address collate "C"`)

test('after every commit deposits, events and balances are what the chain implies, through any reorganisation', async () => {
  const other = await makeUser(db, user.merchantId, ['ETH'])
  const step = fc.record({
    drop: fc.nat(4),
    add: fc.array(
      fc.array(fc.record({tx: fc.nat(30), amount: fc.integer({min: 1, max: 3}), mine: fc.boolean()}), {maxLength: 3}),
      {
        maxLength: 4,
      },
    ),
    again: fc.nat(3),
    final: fc.nat(3),
    // Sometimes the chain is read again from some blocks below. The same blocks come again, or others.
    rewind: fc.oneof({weight: 3, arbitrary: fc.constant(0)}, {weight: 1, arbitrary: fc.nat(6)}),
    same: fc.boolean(),
    overdue: fc.oneof({weight: 9, arbitrary: fc.constant(false)}, {weight: 1, arbitrary: fc.constant(true)}),
  })
  const model = new Model()
  let finalHeight = 0
  let generation = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, {minLength: 1, maxLength: 12}), async steps => {
      generation += 1
      for (const {drop, add, again, final, rewind: depth, same, overdue} of steps) {
        if (depth > 0) {
          const {height: head} = writer.head
          const to = Math.max(finalHeight, head - depth)
          const before = writer.blocks.slice(to + 1)
          await writer.rewind(to)
          model.rewind(to, head)
          for (const {transfers} of same ? before : []) {
            await writer.write({add: [transfers]})
            model.moveTo(writer.blocks, finalHeight)
          }
          expect(await stored()).toEqual(model.rows())
        }
        if (overdue) {
          await db.rows(`update chain.awaited set since = since - chain.longest_wait()`)
          await db.rows('select chain.release_overdue()')
          model.giveUp()
          model.moveTo(writer.blocks, finalHeight)
        }
        const used = new Set<string>()
        const transfersOf = (txs: (typeof add)[number]) =>
          txs.flatMap(({tx, amount, mine}) => {
            const txid = `${generation}-${tx}`
            const taken =
              used.has(txid) ||
              writer.blocks.some(b => b.height <= writer.head.height - drops && b.transfers.some(t => t.txid === txid))
            used.add(txid)
            return taken ? [] : [{txid, amount: BigInt(amount), recipient: (mine ? user : other).address}]
          })
        const drops = Math.min(drop, writer.head.height - finalHeight)
        await writer.write({drop: drops, add: add.map(transfersOf)})
        model.moveTo(writer.blocks, finalHeight)
        await writer.readAgain(Math.min(again, writer.head.height - finalHeight))
        const height = Math.min(finalHeight + final, writer.head.height)
        expect(await writer.finalise(height)).toBe(true)
        finalHeight = height
        model.moveTo(writer.blocks, finalHeight)
        expect(await stored()).toEqual(model.rows())
      }
      expect(await db.rows('select * from app.balance_audit')).toEqual([])
      expect(
        await db.rows('select id from audit.deposits_are_on_the_chain union all select id from audit.finality'),
      ).toEqual([])
      await db.rows('select app.fold_balances()')
      expect(await db.rows('select * from app.balance_audit')).toEqual([])
      expect(await db.rows('select * from app.incident')).toEqual([])
      expect(await db.rows('select from chain.touched union all select from chain.touched_chain')).toEqual([])
    }),
    {numRuns: 25, endOnFailure: true},
  )
}, 120_000)

const historyOf = async (txid: string) => {
  const [row] = await db.rows<{status: string; height: number; events: string[]}>(
    `select status, block_height as height, array(select substr(type, 9) from app.event e where e.subject_id = d.id order by position) as events
     from app.deposit d where txid = $1`,
    [txid],
  )
  return row
}
const awaited = () => db.rows('select split_part(id, $1, 2) as txid from chain.awaited order by id', [':'])
const lastReorganisation = async () => {
  const [row] = await db.rows('select depth, deposits_reorged from chain.reorganisation order by id desc limit 1')
  return row
}

test('deposits removed by a rewind are notified only when the chain is as high as before; those read again by then are not', async () => {
  const [stays, moves, goes] = ['stays', 'moves', 'goes'].map(txid => ({txid, amount: 3n, recipient: user.address}))
  await writer.write({add: [[], [stays!, goes!], [moves!], []]})
  const {height} = writer.head
  await writer.rewind(height - 3)
  expect(await awaited()).toEqual([{txid: 'goes'}, {txid: 'moves'}, {txid: 'stays'}])
  for (const txid of ['stays', 'moves', 'goes']) expect(await historyOf(txid)).toMatchObject({events: ['pending']})
  await writer.write({add: [[stays!, moves!]]})
  await writer.write({add: [[]]})
  expect(await historyOf('goes')).toMatchObject({status: 'pending', events: ['pending']})
  await writer.write({add: [[]]}) // as high as before
  expect(await historyOf('goes')).toMatchObject({status: 'reorged', events: ['pending', 'reorged']})
  expect(await historyOf('stays')).toEqual({status: 'pending', height: height - 2, events: ['pending']})
  expect(await historyOf('moves')).toEqual({status: 'pending', height: height - 2, events: ['pending']})
  expect(await awaited()).toEqual([])
  expect(await lastReorganisation()).toEqual({depth: 3, deposits_reorged: 1})
})

test('deposits removed by a rewind are notified after a while even if the chain stands still, and never become final without a block', async () => {
  await writer.write({add: [[], [{txid: 'waits', amount: 3n, recipient: user.address}], []]})
  await writer.rewind(writer.head.height - 2)
  await db.rows('select chain.release_overdue()')
  expect(await historyOf('waits')).toMatchObject({status: 'pending'})
  await db.rows('update chain.awaited set since = since - chain.longest_wait()')
  await db.rows('select chain.release_overdue()')
  expect(await historyOf('waits')).toMatchObject({status: 'reorged', events: ['pending', 'reorged']})

  await writer.write({add: [[], [{txid: 'passed', amount: 3n, recipient: user.address}], [], []]})
  await writer.rewind(writer.head.height - 3)
  await writer.write({add: [[]]})
  expect(await historyOf('passed')).toMatchObject({status: 'pending'})
  await writer.finalise(writer.head.height)
  expect(await historyOf('passed')).toMatchObject({status: 'reorged', events: ['pending', 'reorged']})
  expect(await awaited()).toEqual([])
})

test('a final deposit that only moved opens one incident, changes no balance, and is decided once', async () => {
  const [moves, flips, goes] = ['deep-moves', 'deep-flips', 'deep-goes'].map(txid => {
    return {txid, amount: 2n, recipient: user.address}
  })
  await writer.write({add: [[], [moves!, flips!], [goes!]]})
  const {height} = writer.head
  await writer.finalise(height)
  const open = () =>
    db.rows<{id: string; kind: string; txid: string}>(
      `select i.id, kind, txid from app.incident i join app.deposit d on d.id::text = subject
       where resolved_at is null order by txid, kind`,
    )
  const resolve = (id: string, as: string | null) => db.rows('select app.resolve_incident($1, $2)', [id, as])
  await rewind(height - 2)
  const [lost] = await open()
  expect(lost).toMatchObject({kind: 'final_deposit_vanished', txid: 'deep-flips'})
  await expect(resolve(lost!.id, 'reorged')).rejects.toThrow('is being read again')

  await writer.write({add: [[moves!], [flips!]]})
  const [flipped, gone, moved] = await open()
  expect(await open()).toMatchObject([
    {kind: 'final_deposit_moved', txid: 'deep-flips'},
    {kind: 'final_deposit_vanished', txid: 'deep-goes'},
    {kind: 'final_deposit_moved', txid: 'deep-moves'},
  ])
  for (const {id} of [flipped!, moved!])
    await expect(resolve(id, 'reorged')).rejects.toThrow('is on the chain, in block')
  for (const decision of ['lost', 'Kept', null])
    await expect(resolve(gone!.id, decision)).rejects.toMatchObject({code: 'SL422'})
  await resolve(gone!.id, 'reorged')
  await resolve(moved!.id, 'kept')
  expect(await historyOf('deep-moves')).toEqual({status: 'final', height: height - 1, events: ['pending', 'confirmed']})
  await writer.readAgain(2)
  expect(await open()).toMatchObject([{kind: 'final_deposit_moved', txid: 'deep-flips'}])

  const hash = async () =>
    (await db.rows<{hash: string}>(`select block_hash as hash from app.deposit where txid = 'deep-flips'`))[0]!.hash
  await writer.query(`update chain.transfer set block_height = $1, block_hash = $2 where txid = 'deep-flips'`, [
    height - 1,
    await hash(),
  ])
  expect(await open()).toEqual([])
  expect(await db.rows('select * from app.balance_audit')).toEqual([])
})

test('when an operator takes a vanished final deposit back, it is reorged, with one event and a lower balance', async () => {
  await writer.write({add: [[{txid: 'lost', amount: 5n, recipient: user.address}], []]})
  const {height} = writer.head
  await writer.finalise(height)
  const before = await db.rows('select amount::text, deposit_count from app.balance_now')
  await rewind(height - 2)
  await writer.write({add: [[], []]})
  const [incident] = await db.rows<{id: string; kind: string; subject: string}>(
    'select id, kind, subject from app.incident where resolved_at is null',
  )
  expect(incident).toMatchObject({kind: 'final_deposit_vanished'})
  expect(await db.rows(`select status from app.deposit where txid = 'lost'`)).toEqual([{status: 'final'}])
  expect(await db.rows('select amount::text, deposit_count from app.balance_now')).toEqual(before)

  await db.rows(`select app.resolve_incident($1, 'reorged')`, [incident!.id])
  expect(await db.rows(`select status from app.deposit where txid = 'lost'`)).toEqual([{status: 'reorged'}])
  expect(
    await db.rows('select type from app.event where subject_id = $1 order by position', [incident!.subject]),
  ).toEqual([{type: 'deposit.pending'}, {type: 'deposit.confirmed'}, {type: 'deposit.reorged'}])
  expect(await db.rows('select * from app.balance_audit')).toEqual([])
  await expect(db.rows(`select app.resolve_incident($1, 'reorged')`, [incident!.id])).rejects.toThrow(
    'resolved already',
  )
})

test('a vanished final deposit that is read again in the same block closes its incident, without an event', async () => {
  await writer.write({add: [[{txid: 'back', amount: 7n, recipient: user.address}]]})
  const {height, hash} = writer.head
  await writer.finalise(height)
  await writer.query(`delete from chain.transfer where txid = 'back'`)
  expect(await db.rows(`select kind from app.incident where resolved_at is null`)).toEqual([
    {kind: 'final_deposit_vanished'},
  ])
  await writer.query(
    `insert into chain.transfer (id, chain, txid, output_index, block_height, block_hash, block_time, token, amount, sender, recipient)
     values ('ETH:back:0', 'ETH', 'back', 0, $1, $2, now(), 'USDC', 7, '0xSender', $3)`,
    [height, hash, user.address],
  )
  expect(await db.rows(`select kind from app.incident where resolved_at is null`)).toEqual([])
  expect(
    await db.rows(`select e.type from app.event e join app.deposit d on d.id = e.subject_id where d.txid = 'back'`),
  ).toHaveLength(2)
})

test('a payment to another recipient at the position of a final deposit is held back until an operator decides', async () => {
  const other = await makeUser(db, user.merchantId, ['ETH'])
  await writer.write({add: [[{txid: 'moved', amount: 3n, recipient: user.address}]]})
  await writer.finalise(writer.head.height)
  await rewind(writer.head.height - 1)
  await writer.write({add: [[{txid: 'moved', amount: 3n, recipient: other.address}]]})
  const byAddress = () => db.rows(`select address, status from app.deposit where txid = 'moved' order by seq`)
  expect(await byAddress()).toEqual([{address: user.address, status: 'final'}])
  const [incident] = await db.rows<{id: string}>(
    `select id from app.incident where resolved_at is null and kind = 'final_deposit_vanished'`,
  )
  await db.rows(`select app.resolve_incident($1, 'reorged')`, [incident!.id])
  expect((await byAddress())[0]).toEqual({address: user.address, status: 'reorged'})
  await writer.finalise(writer.head.height)
  expect((await byAddress())[1]).toEqual({address: other.address, status: 'final'})
  expect(await db.rows('select * from app.incident where resolved_at is null')).toEqual([])
  expect(await db.rows('select * from app.balance_audit')).toEqual([])
})

test('a transfer on a chain or in a token that is not enabled is unattributed: no event, no balance', async () => {
  const elsewhere = await makeUser(db, user.merchantId, ['POLYGON'])
  const events = async () => (await db.rows<{n: string}>('select count(*) as n from app.event'))[0]!.n
  const before = await events()
  await writer.write({
    add: [
      [
        {txid: 'wrong-chain', amount: 1n, recipient: elsewhere.address},
        {txid: 'fake-token', token: '0xfake', amount: 1n, recipient: user.address},
      ],
    ],
  })
  await writer.finalise(writer.head.height)
  expect(await db.rows('select txid, status, credited from app.deposit where not credited order by txid')).toEqual([
    {txid: 'fake-token', status: 'final', credited: false},
    {txid: 'wrong-chain', status: 'final', credited: false},
  ])
  expect(await events()).toBe(before)
  expect(await db.rows('select * from app.balance_audit')).toEqual([])
})

// A merchant credits each id once: what a restored copy reads again must not have another id.
test('the id of a deposit follows from what it is, in any copy of the database', async () => {
  await writer.write({add: [[{txid: 'named', amount: 1n, recipient: user.address}]]})
  const what = `ETH named 0 ${user.address} USDC`
  const hashed = createHash('sha256').update(what).digest().subarray(0, 16)
  hashed[6] = (hashed[6]! & 15) | 128
  hashed[8] = (hashed[8]! & 63) | 128
  const rows = await db.rows(`select replace(id::text, '-', '') as id from app.deposit where txid = 'named'`)
  expect(rows).toEqual([{id: hashed.toString('hex')}])
})

test('no statement can change a final deposit, or delete any deposit', async () => {
  await expect(db.rows(`update app.deposit set status = 'reorged' where status = 'final'`)).rejects.toThrow(
    'not allowed',
  )
  await expect(db.rows(`update app.deposit set amount = amount + 1 where status = 'final'`)).rejects.toThrow(
    'not allowed',
  )
  await expect(db.rows(`update app.deposit set address = 'x' where status = 'final'`)).rejects.toThrow('not allowed')
  await expect(db.rows('delete from app.deposit')).rejects.toThrow('not allowed')
})

test('finality never falls, never accepts a block that is not on our chain, and stands still while the chain is halted', async () => {
  const finalHeight = () => db.rows(`select final_height from chain.cursor where chain = 'ETH'`)
  await writer.write({add: [[], []]})
  const before = await finalHeight()
  expect(await writer.finalise(writer.head.height, '0xother')).toBe(false)
  expect(await writer.finalise(1)).toBe(true)
  expect(await finalHeight()).toEqual(before)
  await db.rows(`update chain.cursor set halted_at = now() where chain = 'ETH'`)
  expect(await writer.finalise(writer.head.height)).toBe(false)
  await db.rows(`update chain.cursor set halted_at = null where chain = 'ETH'`)
  expect(await finalHeight()).toEqual(before)
  await expect(writer.query(`select chain.rewind('ETH', 1, $1)`, [writer.blocks[1]!.hash])).rejects.toThrow(
    'no operator asked',
  )
})

test('a transaction that would take the final block off the chain is refused, and nothing of it is written', async () => {
  await writer.write({add: [[{txid: 'safe', amount: 1n, recipient: user.address}], []]})
  await writer.finalise(writer.head.height - 1)
  const everything = () =>
    db.rows(`select (select json_agg(b) from chain.block b) as blocks, (select json_agg(t) from chain.transfer t) as transfers,
      (select json_agg(d) from app.deposit d) as deposits, (select json_agg(e) from app.event e) as events,
      (select json_agg(c) from chain.cursor c) as cursors`)
  const before = await everything()
  await expect(writer.write({drop: 2, add: [[], [], []]})).rejects.toSatisfy(isForkBelowFinal)
  expect(await everything()).toEqual(before)
})

test('the role of an indexer can write chain data and nothing else', async () => {
  for (const sql of [
    'insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count) values (gen_random_uuid(), $1, $1, 1, 1)',
    `update app.deposit set status = 'final' where chain = $1`,
    'select * from app.api_key where $1::text is not null',
    `update chain.cursor set final_height = 9 where chain = $1`,
    'create table chain.mine as select $1::text as x',
    `select app.resume_chain($1)`,
  ]) {
    await expect(writer.query(sql, ['ETH']), sql).rejects.toThrow('permission denied')
  }
})

test('the cursor stores the last reorganisation and its depth; reading the same blocks again is none', async () => {
  const last = () =>
    db.rows(`select last_reorg_at as at, last_reorg_depth as depth from chain.cursor where chain = 'ETH'`)
  await writer.write({add: [[], [], [], []]})
  const [before] = await last()
  await writer.readAgain(3)
  expect(await last()).toEqual([before])
  await writer.write({drop: 3, add: [[], [], [], []]})
  const [after] = await last()
  expect(after).toMatchObject({depth: 3})
  expect(after!.at).not.toEqual(before!.at)
  expect(await db.rows('select from chain.dropped_block')).toEqual([])
})

test('an unknown token that becomes a supported one when its transaction runs again is credited as that, and not the reverse', async () => {
  const [fake, real] = [
    {txid: 'first-fake', token: '0xfa15e', amount: 2n, recipient: user.address},
    {txid: 'first-real', token: 'USDC', amount: 2n, recipient: user.address},
  ]
  await writer.write({add: [[fake, real]]})
  await writer.write({
    drop: 1,
    add: [
      [
        {...fake, token: 'USDC'},
        {...real, token: '0xfa15e'},
      ],
    ],
  })
  await writer.finalise(writer.head.height)
  const rows = await db.rows(
    `select txid, token, status, credited, version, array(select type from app.event e where e.subject_id = d.id order by position) as events
     from app.deposit d where txid like 'first-%' order by txid, token collate "C"`,
  )
  expect(rows).toEqual([
    {txid: 'first-fake', token: '0xfa15e', status: 'reorged', credited: false, version: 2, events: []},
    {
      txid: 'first-fake',
      token: 'USDC',
      status: 'final',
      credited: true,
      version: 2,
      events: ['deposit.pending', 'deposit.confirmed'],
    },
    {txid: 'first-real', token: '0xfa15e', status: 'final', credited: false, version: 2, events: []},
    {
      txid: 'first-real',
      token: 'USDC',
      status: 'reorged',
      credited: true,
      version: 2,
      events: ['deposit.pending', 'deposit.reorged'],
    },
  ])
  expect(await db.rows('select * from app.balance_audit')).toEqual([])
})

test("a payment that returns to an earlier recipient, beside another's final deposit, waits for an operator uncredited", async () => {
  const other = await makeUser(db, user.merchantId, ['ETH'])
  const to = (recipient: string) => [[{txid: 'back-and-forth', amount: 100n, recipient}]]
  await writer.write({add: to(other.address)})
  await writer.write({drop: 1, add: to(user.address)})
  await writer.finalise(writer.head.height)
  await rewind(writer.head.height - 1)
  await writer.write({add: to(other.address)})
  await writer.finalise(writer.head.height)
  const statuses = () => db.rows(`select address, status from app.deposit where txid = 'back-and-forth' order by seq`)
  expect(await statuses()).toEqual([
    {address: other.address, status: 'reorged'},
    {address: user.address, status: 'final'},
  ])
  const open = await db.rows<{id: string; kind: string}>(
    'select id, kind from app.incident where resolved_at is null order by kind',
  )
  expect(open.map(({kind}) => kind)).toEqual(['final_deposit_vanished', 'payment_replaced'])
  await db.rows(`select app.resolve_incident($1, 'reorged')`, [open[0]!.id])
  expect(await statuses()).toEqual([
    {address: other.address, status: 'final'},
    {address: user.address, status: 'reorged'},
  ])
  expect(await db.rows('select * from app.incident where resolved_at is null')).toEqual([])
  expect(await db.rows('select * from app.balance_audit')).toEqual([])
})

test('an operator and the indexer take locks in the same order', async () => {
  await writer.write({add: [[{txid: 'locked', amount: 1n, recipient: user.address}]]})
  await writer.finalise(writer.head.height)
  await rewind(writer.head.height - 1)
  await writer.write({add: [[]]})
  const [incident] = await db.rows<{id: string}>('select id from app.incident where resolved_at is null')
  const holder = await db.pool.connect()
  try {
    await holder.query('begin')
    await holder.query(`select from chain.cursor where chain = 'ETH' for update`)
    const resolving = db.rows(`select app.resolve_incident($1, 'reorged')`, [incident!.id])
    await until(async () => (await db.rows(`select from pg_locks where not granted`)).length > 0, {
      timeoutMs: 5000,
      what: 'the operator to wait',
    })
    await holder.query(`update app.incident set kind = kind where id = $1`, [incident!.id]) // what chain.derive does next
    await holder.query('commit')
    await resolving
  } finally {
    holder.release()
  }
})

test('a deposit that was lost after a payout collected it is not counted again when it returns', async () => {
  const paid = {txid: 'paid-out', amount: 9n, recipient: user.address}
  await writer.write({add: [[paid]]})
  await writer.finalise(writer.head.height)
  const [deposit] = await db.rows<{id: string; merchant_id: string}>(
    `update app.deposit set settlement_id = gen_random_uuid() where txid = 'paid-out' returning id, merchant_id`,
  )
  await db.rows(
    `insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count) values ($1, 'ETH', 'USDC', -9, -1)`,
    [deposit!.merchant_id],
  )
  await rewind(writer.head.height - 1)
  await writer.write({add: [[]]})
  await db.rows(
    `select app.resolve_incident(id, 'reorged') from app.incident where subject = $1 and resolved_at is null`,
    [deposit!.id],
  )
  await writer.write({add: [[paid]]})
  await writer.finalise(writer.head.height)
  expect(await db.rows('select status from app.deposit where id = $1', [deposit!.id])).toEqual([{status: 'final'}])
  expect(await db.rows('select * from app.balance_audit')).toEqual([])
})

test('what an address of ours sends is no deposit, whoever wrote it, and though nothing else knows of it', async () => {
  const other = await makeUser(db, await makeMerchant(db), ['ETH'])
  const sent = {txid: 'from-us', amount: 5n, recipient: user.address, sender: other.address}
  await writer.write({add: [[sent, {...sent, txid: 'from-a-stranger', sender: '0xStranger'}]]})
  const rows = await db.rows(`select txid from app.deposit where txid like 'from-%'`)
  expect(rows).toEqual([{txid: 'from-a-stranger'}])
})

test('how statements are planned while a chain is derived changes nothing for what else runs at COMMIT', async () => {
  const client = await db.pool.connect()
  try {
    await client.query('begin')
    await client.query(`insert into chain.touched_chain values (pg_current_xact_id(), 'ETH')`)
    await client.query('set constraints all immediate')
    const {rows} = await client.query('show plan_cache_mode')
    expect(rows).toEqual([{plan_cache_mode: 'auto'}])
  } finally {
    await client.query('rollback')
    client.release()
  }
})
