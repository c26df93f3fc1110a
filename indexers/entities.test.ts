// Compares schema.graphql with the tables of db/tables: the store writes entities of the schema into these tables.
import {afterAll, beforeAll, expect, test} from 'vitest'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {entities, entitySchemas} from './entities.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.drop())

interface Column {
  name: string
  type: string
  nullable: boolean
  primary: boolean
}

test.each(entities.map(({options}) => options))(
  'the columns of chain.$tableName are the fields of type $name, and no others but generated ones',
  async ({tableName, columns}) => {
    const stored = await db.rows<Column>(
      `select attname as name, typname as type, not attnotnull as nullable,
       exists (select from pg_index where indrelid = attrelid and indisprimary and attnum = any(indkey)) as primary
     from pg_attribute join pg_type on pg_type.oid = atttypid
     where attrelid = ('chain.' || $1)::regclass and attnum > 0 and not attisdropped and attgenerated = '' order by attname`,
      [tableName],
    )
    const declared = Object.values(columns).map(column => {
      const {name, type, nullable, primary} = column!
      return {name, type, nullable: nullable ?? false, primary: primary ?? false}
    })
    expect(declared.sort((a, b) => (a.name! < b.name! ? -1 : 1))).toEqual(stored)
  },
)

test('numeric columns hold every possible amount, and return it exactly, as a bigint', () => {
  const {amount} = entities.find(({options}) => options.name === 'Transfer')!.options.columns
  const {to, from} = amount!.transformer as {to(value?: bigint): unknown; from(value?: string): unknown}
  for (const value of [0n, 1n, 2n ** 53n + 1n, 2n ** 256n - 1n]) expect(from(to(value) as string)).toBe(value)
  expect(from(undefined)).toBeUndefined()
})

test('a type without a class, and a field of an unknown type, are errors that name them', () => {
  expect(() => entitySchemas('type Mystery @entity { id: ID! }')).toThrow('type Mystery has no class')
  expect(() => entitySchemas('type Block @entity { id: ID! depth: Float! }')).toThrow('no column type for field depth')
  expect(() => entitySchemas('type Block @entity { id: ID! parents: [String!]! }')).toThrow('field parents')
})
