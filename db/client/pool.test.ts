// The connection that several parts of a process use at once.
import {afterAll, beforeAll, expect, test} from 'vitest'
import {type TestDatabase, testDatabase} from '../../test/support/database.ts'
import {lockConnection} from './pool.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.drop())

test('queries of several parts at once wait for each other, in their order, and Node warns of nothing; a failed one stops no other', async () => {
  const warnings: string[] = []
  const note = ({message}: Error) => warnings.push(message)
  process.on('warning', note)
  const client = lockConnection(db.ownerUrl, 'test')
  await client.connect()
  const results = await Promise.allSettled(
    ['select 1 as n', 'select nothing', 'select 2 as n', 'select $1::int as n'].map(text =>
      client.query<{n: number}>(text, text.includes('$1') ? [3] : []),
    ),
  )
  await client.end()
  await new Promise(setImmediate) // a warning comes at the next tick
  process.off('warning', note)
  const answers = results.map(result => (result.status === 'fulfilled' ? result.value.rows[0]!.n : 'failed'))
  expect(answers).toEqual([1, 'failed', 2, 3])
  expect(warnings).toEqual([])
})
