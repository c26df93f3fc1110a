// What the worker makes of a node's responses.
import {afterEach, beforeEach, expect, test} from 'vitest'
import {faults, RpcProxy} from '../../../test/support/rpc-proxy.ts'
import {EvmNode} from './node.ts'

const txid = `0x${'1'.repeat(64)}`
let proxy: RpcProxy
let node: EvmNode
beforeEach(async () => {
  proxy = await RpcProxy.start({call: async () => txid})
  node = new EvmNode(proxy.httpUrl, async () => {})
})
afterEach(async () => {
  node.close()
  await proxy.close()
})

test('a transaction that the node has already was sent; any other refusal is its own', async () => {
  const words: Record<string, string> = {'0x02': 'already known', '0x03': 'nonce too low'}
  proxy.behave = ({params: [raw]}, pass) => (words[String(raw)] ? faults.error(words[String(raw)]!) : pass())
  expect(await node.broadcast(['0x01', '0x02', '0x03'])).toEqual([undefined, undefined, 'nonce too low'])
  words['0x03'] = 'execution reverted: a\0b' // Postgres stores no NUL
  expect(await node.broadcast(['0x03'])).toEqual(['execution reverted: ab'])
})
