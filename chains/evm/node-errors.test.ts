// The words of nodes, as recorded or as their sources have them.
import {expect, test} from 'vitest'
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
