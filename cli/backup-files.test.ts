// A drill adds newer whitelist entries to an older copy, so that the audit of the copy does not report what is right in
// the service.
import {randomUUID} from 'node:crypto'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {makeMerchant} from '../test/support/people.ts'
import {takeWhitelist} from './backup-files.ts'

let service: TestDatabase
let copy: TestDatabase

beforeAll(async () => {
  service = await testDatabase()
  copy = await testDatabase()
})
afterAll(async () => {
  await service.drop()
  await copy.drop()
})

test('a payment to an address whitelisted after the backup is no finding of its audit; a payment to any other address is', async () => {
  const merchant = await makeMerchant(service)
  const [row] = await service.rows('select * from app.merchant where id = $1', [merchant])
  await copy.rows('insert into app.merchant select * from jsonb_populate_record(null::app.merchant, $1)', [
    JSON.stringify(row),
  ])
  for (const [database, address] of [
    [service, '0xBefore'],
    [copy, '0xBefore'],
    [service, '0xSince'],
  ] as const)
    await database.rows(
      `insert into custody.whitelist (merchant_id, chain, address, added_at, active_at) values ($1, 'ETH', $2, '2026-11-01', '2026-11-01')`,
      [merchant, address],
    )
  await service.rows(`insert into custody.whitelist (chain, address) values ('ETH', '0xOperator')`)
  await service.rows(
    `insert into custody.whitelist (merchant_id, chain, address) values ($1, 'ETH', '0xOfANewMerchant')`,
    [await makeMerchant(service)],
  )
  const sign = (seq: number, destination: string) =>
    copy.rows(
      `insert into custody.journal (stream, seq, kind, subject_id, merchant_id, token, amount, destination, signed_at, hash)
       values ('ETH', $1, 'pay', $2, $3, 'ETH', 1, $4, '2026-11-20', 'x')`,
      [seq, randomUUID(), merchant, destination],
    )
  await sign(1, '0xBefore')
  await sign(2, '0xSince')
  await sign(3, '0xNobody')
  const found = async () =>
    (await copy.rows<{destination: string}>('select destination from audit.whitelist order by seq')).map(
      each => each.destination,
    )
  expect(await found()).toEqual(['0xSince', '0xNobody'])
  expect(await takeWhitelist(service.ownerUrl, copy.ownerUrl)).toBe(2)
  expect(await found()).toEqual(['0xNobody'])
  expect(await takeWhitelist(service.ownerUrl, copy.ownerUrl)).toBe(0)
})
