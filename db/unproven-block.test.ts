// Blocks whose transactions have not the root in their header: each is noted once, one incident for the chain counts
// them, and no lapse rests on one.
import {afterAll, beforeAll, expect, test} from 'vitest'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db?.drop())

const note = (height: number, hash: string) =>
  db.rows(`select chain.note_unproven_block('TRON', $1, $2)`, [height, hash])
const incidents = () =>
  db.rows(`select chain, subject, details, resolution from app.incident where kind = 'unproven_block' order by id`)

test('each block is counted once, in one incident that stops no payouts', async () => {
  const [a, b, c] = ['a', 'b', 'c'].map((hash, i) => ({height: 7 + i, hash}))
  await note(7, 'a')
  await note(7, 'a')
  await note(8, 'b')
  await note(7, 'a')
  const open = {chain: null, subject: 'TRON', details: {count: 2, first: a, newest: b}, resolution: null}
  expect(await incidents()).toEqual([open])
  await db.rows(`select app.resolve_incident(id, 'kept') from app.incident`)
  await note(8, 'b')
  expect(await incidents()).toEqual([{...open, resolution: 'kept'}])
  await note(9, 'c')
  const next = {...open, details: {count: 1, first: c, newest: c}}
  expect(await incidents()).toEqual([{...open, resolution: 'kept'}, next])
})
