// What a direct request makes of a node that fails.
import {afterEach, beforeEach, expect, test} from 'vitest'
import {meaningOf} from '../../chains/evm/node-errors.ts'
import {faults, RpcProxy} from '../../test/support/rpc-proxy.ts'
import {Node} from './node.ts'
import {Refusal} from './refusals.ts'

const tooMany = 'Your app has exceeded its compute units per second capacity'
let proxy: RpcProxy
let node: Node
beforeEach(async () => {
  const block = {number: '0x5', hash: '0x1', parentHash: '0x0', timestamp: '0x1', transactions: []}
  proxy = await RpcProxy.start({call: async method => (method === 'eth_getBlockReceipts' ? [] : block)})
  node = new Node(proxy.httpUrl, 'ETH')
})
afterEach(async () => {
  node.close()
  await proxy.close()
})

test.each([
  ['status 500', () => faults.status(500)],
  ['status 401', () => faults.status(401)],
  ['invalid JSON', () => faults.truncate()],
  ['a limit of rates', () => faults.error(tooMany, 429)],
])('%s does not mean that the node lacks the block', async (_name, behave) => {
  expect(await node.lacks(5, 'off')).toBeUndefined()
  proxy.behave = behave
  await expect(node.lacks(5, 'off')).rejects.toThrow()
})

test.each([
  ['too many requests', tooMany, false],
  ['an unknown refusal', 'permission denied', true],
])('%s: is it what the chain waits for, in the words of the node?', async (_name, words, isRefusal) => {
  proxy.behave = () => faults.error(words)
  const error = await node.block('latest').catch(each => each)
  expect([error instanceof Refusal, error.message.includes(words)]).toEqual([isRefusal, true])
})

test.each([
  ['Infura', 'project ID does not have access to archive state', 'state_pruned'],
  ['a gateway, status 404', 'Resource not found', undefined],
  ['a provider that wants money', 'Insufficient balance for this API key, please top up', undefined],
])('%s: %s', (_by, message, meaning) => {
  const status = message.startsWith('Resource') ? {response: {status: 404, body: {error: {message}}}} : {}
  expect(meaningOf({message, ...status})).toBe(meaning)
})
