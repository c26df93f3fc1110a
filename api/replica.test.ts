// Tests without a working replica; test/faults/replica.test.ts has one.
import {setFlagsFromString} from 'node:v8'
import {runInNewContext} from 'node:vm'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {logger} from '../base/log.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {Database, statement} from './database.ts'
import {Databases} from './replica.ts'

let db: TestDatabase
let databases: Databases

beforeAll(async () => {
  db = await testDatabase()
  const primary = new Database(db.url('sluice_api'), {max: 8})
  const replica = new Database('postgres://sluice_api@127.0.0.1:9/nobody', {max: 1})
  databases = new Databases(primary, replica, logger('test'))
})
afterAll(async () => {
  await databases.close()
  await db.drop()
})

const one = statement('one', 'select 1')

async function change(times: number): Promise<void> {
  for (let done = 0; done < times; done += 100)
    await Promise.all(Array.from({length: 100}, () => databases.of('merchant').change(one, [])))
}

test('while the replica is down, changes leave nothing in memory, however long it lasts', async () => {
  setFlagsFromString('--expose_gc')
  const collect = runInNewContext('gc') as () => void
  const used = () => {
    collect()
    return process.memoryUsage().heapUsed
  }
  await change(3000)
  const before = used()
  await change(6000)
  expect((used() - before) / 6000).toBeLessThan(60) // bytes; a closure for each was 180
}, 60_000)
