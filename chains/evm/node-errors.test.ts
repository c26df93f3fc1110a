// The words of nodes, as recorded or as their sources have them.
import {expect, test} from 'vitest'
import {z} from 'zod'
import {recorded} from '../../test/support/recorded.ts'
import {type Meaning, meaningOf, wordsOf} from './node-errors.ts'

const said: [Meaning | undefined, {code?: number; message: string}][] = [
  ['already_known', {code: -32_000, message: 'already known'}],
  ['already_known', {code: -32_000, message: 'AlreadyKnown'}],
  ['already_known', {code: -32_003, message: 'transaction already imported'}],
  ['already_known', {code: -32_000, message: 'Known transaction'}],
  ['batch_too_large', {code: -32_600, message: 'batch too large'}],
  [
    'batch_too_large',
    {
      code: -32_600,
      message: 'batch limit 100 exceeded (can increase by --rpc.batch.limit). Requested batch of size: 101',
    },
  ],
  ['batch_too_large', {code: -32_010, message: 'The batch request was too large'}],
  ['batch_too_large', {message: 'Batch of more than 3 requests are not allowed on free tier'}],
  ['response_too_large', {code: -32_003, message: 'response too large'}],
  ['response_too_large', {code: -32_008, message: 'Response is too big'}],
  ['response_too_large', {message: 'Response size is larger than 150MB limit.'}],
  ['state_pruned', {code: -32_000, message: 'historical state is not available'}],
  [
    'state_pruned',
    {
      code: -32_000,
      message: 'historical state 14e171fd37778f9cab6040c8d4210baf8c8f9108b31c8536586dbf933c8a2511 is not available',
    },
  ],
  ['state_pruned', {code: -32_000, message: 'required historical state unavailable (reexec=128)'}],
  ['state_pruned', {code: -32_000, message: 'missing trie node ef7df5d8 (path ) state 0xab is not available'}],
  ['state_pruned', {code: -32_603, message: 'State at block #11052984 is pruned'}],
  ['state_pruned', {code: -32_000, message: 'old data not available due to pruning: requested block 1'}],
  ['state_pruned', {message: 'This request is not supported because your node is running with state pruning'}],
  ['blocks_pruned', {code: 4444, message: 'pruned history unavailable'}],
  ['blocks_pruned', {code: 4444, message: 'Pruned history unavailable: 0x1'}],
  ['method_missing', {code: -32_601, message: 'the method trace_block does not exist/is not available'}],
  ['method_missing', {code: -32_601, message: 'Method not found'}],
  ['method_missing', {code: -32_601, message: 'no words that anybody knows'}],
  ['method_missing', {code: -32_600, message: 'Unsupported method: debug_traceBlockByHash. See available methods'}],
  ['call_fails', {code: 3, message: 'execution reverted: bad'}],
  ['call_fails', {code: -32_000, message: 'gas required exceeds allowance (6000000)'}],
  [
    'call_fails',
    {
      code: -32_000,
      message:
        'failed with 6000000 gas: insufficient funds for gas * price + value: address 0x00000000000000000000000000000000000000ff have 0 want 1000000000000000000',
    },
  ],
  [undefined, {code: -32_000, message: 'nonce too low: next nonce 49, tx nonce 0'}],
  [undefined, {code: -32_000, message: 'replacement transaction underpriced'}],
  [undefined, {code: -32_003, message: 'nonce too high'}],
  [undefined, {code: -32_000, message: 'genesis is not traceable'}],
  [undefined, {code: -32_603, message: 'internal error'}],
]

test.each(said)('%s: %o', (meaning, error) => {
  expect(meaningOf(error)).toBe(meaning)
})

test('an error of HTTP is read from its body, or by its status', () => {
  const of = (status: number, body: unknown) => Object.assign(new Error(`Got ${status}`), {response: {status, body}})
  expect(meaningOf(of(413, 'too large'))).toBe('batch_too_large')
  expect(meaningOf(of(400, {error: {code: -32_600, message: 'batch too large'}}))).toBe('batch_too_large')
  expect(wordsOf(of(400, {error: {message: 'batch too large'}}))).toBe('batch too large')
  expect(meaningOf(of(500, 'no'))).toBeUndefined()
  expect(meaningOf('not an error')).toBeUndefined()
})

const RpcError = z.object({code: z.int(), message: z.string(), data: z.string().optional()})
const Response = z.looseObject({error: RpcError.optional()})

/** Of each situation in which geth 1.17.10 was asked. */
const situations: Record<string, Meaning | 'no error' | undefined> = {
  'accepted below the base fee': 'already_known',
  'sent twice': 'already_known',
  'replacement, +0 %': undefined,
  'replacement, higher cap, same tip': undefined,
  'nonce too low': undefined,
  'nonce with a gap': 'already_known',
  'nonce far away': 'already_known',
  'no funds': 'call_fails',
  'gas below intrinsic': undefined,
  'gas above the block': undefined,
  'gas above EIP-7825': undefined,
  'tip 0': undefined,
  'wrong chain id': undefined,
  'estimate: no funds': 'call_fails',
  'estimate: revert': 'call_fails',
  'estimate: token without code': 'no error',
  'no such method': 'method_missing',
  'pruned trace': 'state_pruned',
  'pruned balance': 'state_pruned',
  'trace of an unknown block': undefined,
  'trace of genesis': undefined,
  'finalized absent': undefined,
  'safe absent': undefined,
  'pool after setHead': 'no error',
}

test('everything that geth said was understood as what it meant', () => {
  const said = recorded('ethereum/errors', z.record(z.string(), z.looseObject({response: Response})))
  const meant = Object.entries(said).map(([situation, {response}]) => {
    return [situation, response.error ? meaningOf(response.error) : 'no error']
  })
  expect(Object.fromEntries(meant)).toEqual(situations)
})

test('geth refuses a batch with one error for all of it, and the responses that are too many with one each', () => {
  const [refused, ...others] = recorded('ethereum/batch-too-large', z.array(Response))
  expect([meaningOf(refused!.error), others]).toEqual(['batch_too_large', []])
  const responses = recorded('ethereum/batch-response-too-large', z.array(Response))
  const meanings = responses.map(({error}) => error && meaningOf(error))
  const given = meanings.indexOf('response_too_large')
  expect(given).toBeGreaterThan(0)
  expect(new Set(meanings.slice(0, given))).toEqual(new Set([undefined]))
  expect(new Set(meanings.slice(given))).toEqual(new Set(['response_too_large']))
})
