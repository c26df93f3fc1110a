// Which failures of a node are taken for the node's.
import {AssertionError} from 'node:assert'
import {pino} from 'pino'
import {expect, test} from 'vitest'
import {z} from 'zod'
import type {ChainCursor} from '../cursor.ts'
import {Waits, type Why} from '../waits.ts'
import {Reading} from './reading.ts'

function reading() {
  let why: Why | undefined
  const waits = new Waits(async told => {
    why = told
  })
  const cursor = {chain: 'ETH', waits} as ChainCursor
  return {of: new Reading(cursor, pino({level: 'silent'})), why: () => why}
}

const errors: [string, Error][] = [
  ['JSON.parse of an error body (node-fetch, res.json())', new SyntaxError('Unexpected token e in JSON')],
  ['a null response (rpc-client)', new TypeError("Cannot read properties of null (reading 'id')")],
  ['a header of a wrong shape (readHeader)', z.string().safeParse(1).error!],
  ['receipts that are not those of the block (evm-processor mapBlock)', new AssertionError({message: 'falsy'})],
  ['a call of an unknown type (evm-processor mapDebugFrame)', new Error('Unexpected case: EOFCREATE')],
]
test.each(errors)('%s does not end the process', async (_name, error) => {
  await reading().of.fails(error)
})

test('a failure to write stays one', async () => {
  const {of} = reading()
  const error = Object.assign(new Error('x'), {__sqd_data_consistency_error: true})
  await expect(of.written(Promise.reject(error))).rejects.toBe(error)
  await expect(of.fails(error)).rejects.toBe(error)
})
