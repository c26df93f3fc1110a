// What a simulation's end says of a sweep: only what its own address causes makes it fail.
import {expect, test} from 'vitest'
import {z} from 'zod'
import {recorded} from '../../../test/support/recorded.ts'
import {failureOf} from './offers.ts'

const Recorded = z
  .object({response: z.object({result: z.object({value: z.object({err: z.unknown(), logs: z.array(z.string())})})})})
  .transform(({response}) => response.result.value)

const own = {source: 'address', feePayer: 'address'}
const paid = {source: 'address', feePayer: 'treasury'}
const rentOf = (account_index: number) => ({InsufficientFundsForRent: {account_index}})
const refused = {InstructionError: [2, {Custom: 1}]}
const logs = [
  'Program 11111111111111111111111111111111 invoke [1]',
  'Transfer: insufficient lamports 1, need 2',
  'Program 11111111111111111111111111111111 failed: custom program error: 0x1',
]

test.each<[unknown, {source: string; feePayer: string}, string[], boolean, string]>([
  [rentOf(0), own, [], true, 'the node says: {"InsufficientFundsForRent":{"account_index":0}}'],
  [rentOf(0), paid, [], false, 'the node says: {"InsufficientFundsForRent":{"account_index":0}}'],
  [rentOf(1), paid, [], true, 'the node says: {"InsufficientFundsForRent":{"account_index":1}}'],
  [
    refused,
    paid,
    logs,
    true,
    'the node says: {"InstructionError":[2,{"Custom":1}]} (Transfer: insufficient lamports 1, need 2)',
  ],
  ['AccountNotFound', paid, [], false, 'the node says: AccountNotFound'],
  ['BlockhashNotFound', paid, [], false, 'the node says: BlockhashNotFound'],
])('%j of a sweep %j: %j', (error, sweep, said, isOfAddress, words) => {
  expect(failureOf({error, logs: said}, sweep)).toEqual({words, isOfAddress})
})

test('a sweep that would succeed has none, and what agave said of a payer below the rent is about the payer', () => {
  expect(failureOf({error: null, logs}, paid)).toBeUndefined()
  const {err: error, logs: said} = recorded('solana/simulate-fee-payer-below-rent', Recorded)
  expect([own, paid].map(sweep => failureOf({error, logs: said}, sweep)?.isOfAddress)).toEqual([true, false])
})
