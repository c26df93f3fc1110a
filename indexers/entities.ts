// The store's entities, built from schema.graphql when an indexer starts: nothing is generated, so nothing goes stale.
// Promises: a type without a class here, or a field type without a column type, is an error at start.
import {readFileSync} from 'node:fs'
import {Kind, parse, type TypeNode} from 'graphql/language/index.js' // the rest of graphql takes twice as long to load
import {EntitySchema, type EntitySchemaColumnOptions} from 'typeorm'
import type {TransferKind} from './block.ts'

class Row<T> {
  constructor(values?: T) {
    Object.assign(this, values) // typeorm constructs without arguments
  }
}

type Values<T> = {[K in keyof T]: T[K]}

export class Transfer extends Row<Values<Transfer>> {
  declare id: string
  declare chain: string
  declare txid: string
  declare outputIndex: number
  declare blockHeight: number
  declare blockHash: string
  declare blockTime: Date
  declare token: string
  declare amount: bigint
  declare sender: string
  declare recipient: string
  declare transferKind: TransferKind
}

export class ConfirmedTx extends Row<Values<ConfirmedTx>> {
  declare id: string
  declare chain: string
  declare txid: string
  declare blockHeight: number
  declare blockHash: string
  declare blockTime: Date
  declare account: string
  declare nonce?: number
  declare outpoint?: string
  declare success: boolean
  declare fee: bigint
}

export class Block extends Row<Values<Block>> {
  declare id: string
  declare chain: string
  declare height: number
  declare hash: string
  declare parentHash: string
  declare time: Date
}

const classes: Record<string, new () => object> = {Transfer, ConfirmedTx, Block}

const columnTypes: Record<string, Partial<EntitySchemaColumnOptions>> = {
  ID: {type: 'text', primary: true},
  String: {type: 'text'},
  Int: {type: 'int4'},
  Boolean: {type: 'bool'},
  DateTime: {type: 'timestamptz'},
  BigInt: {
    type: 'numeric',
    transformer: {
      to: (value?: bigint) => value?.toString(),
      from: (value?: string) => (value === undefined || value === null ? value : BigInt(value)),
    },
  },
}

export const entities: EntitySchema[] = entitySchemas(
  readFileSync(new URL('../schema.graphql', import.meta.url), 'utf8'),
)

export function entitySchemas(sdl: string): EntitySchema[] {
  return parse(sdl).definitions.flatMap(definition => {
    if (definition.kind !== Kind.OBJECT_TYPE_DEFINITION) return []
    const target = classes[definition.name.value]
    if (!target) throw new Error(`schema.graphql: type ${definition.name.value} has no class in indexers/entities.ts`)
    const columns = (definition.fields ?? []).map(field => [field.name.value, column(field.name.value, field.type)])
    return new EntitySchema({
      name: target.name,
      target,
      tableName: snakeCase(target.name), // no schema: the store's rollback writes bare names (see subsquid/store.ts)
      columns: Object.fromEntries(columns),
    })
  })
}

function column(name: string, type: TypeNode): EntitySchemaColumnOptions {
  const inner = type.kind === Kind.NON_NULL_TYPE ? type.type : type
  const known = inner.kind === Kind.NAMED_TYPE ? columnTypes[inner.name.value] : undefined
  if (!known) throw new Error(`schema.graphql: no column type for field ${name}`)
  return {...known, name: snakeCase(name), nullable: type.kind !== Kind.NON_NULL_TYPE} as EntitySchemaColumnOptions
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter, at) => (at ? '_' : '') + letter.toLowerCase())
}
