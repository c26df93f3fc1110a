// Batches against a node with limits, over HTTP and websocket.
import {afterEach, beforeEach, describe, expect, test} from 'vitest'
import {faults, RpcProxy} from '../../test/support/rpc-proxy.ts'
import {BatchingClient} from './rpc.ts'

const timeoutMs = 5000
let proxy: RpcProxy
let client: BatchingClient
/** How many calls the node was asked. */
let asked: number

beforeEach(async () => {
  proxy = await RpcProxy.start({call: async (_method, [n]) => n})
  asked = 0
})
afterEach(async () => {
  client.close()
  await proxy.close()
})

const open = (kind: 'httpUrl' | 'wsUrl', retryAttempts = 0) => {
  client = new BatchingClient({
    url: proxy[kind],
    requestTimeout: timeoutMs,
    retryAttempts,
    retrySchedule: [1],
    log: null,
  })
}
const calls = (count: number) => Array.from({length: count}, (_, n) => ({method: 'echo', params: [n]}))
const numbers = (count: number) => Array.from({length: count}, (_, n) => n)

describe.each(['httpUrl', 'wsUrl'] as const)('over %s', kind => {
  test('a batch with more calls than the node takes is asked in halves, and the limit is remembered', async () => {
    proxy.limits = {calls: 20}
    open(kind)
    expect(await client.batchCall(calls(76))).toEqual(numbers(76))
    const {refusedBatches} = proxy
    expect(refusedBatches).toBeGreaterThan(0)
    proxy.behave = (_call, pass) => {
      asked++
      return pass()
    }
    expect(await client.batchCall(calls(76))).toEqual(numbers(76))
    expect([asked, proxy.refusedBatches]).toEqual([76, refusedBatches]) // none was asked twice, and none in vain
  })

  test('a batch whose responses are too large together is asked in halves, down to single calls', async () => {
    proxy.limits = {responseBytes: 100}
    open(kind)
    expect(await client.batchCall(calls(30))).toEqual(numbers(30))
    proxy.limits = {responseBytes: 1}
    expect(await client.batchCall(calls(5))).toEqual(numbers(5))
  })

  test('a caller that takes errors as responses gets those of calls, not those of the batch', async () => {
    proxy.limits = {calls: 4, responseBytes: 100}
    proxy.behave = ({params: [n]}) => (n === 3 ? faults.error('execution reverted', 3) : n)
    open(kind)
    const options = {validateError: ({code}: {code: number}) => code}
    expect(await client.batchCall(calls(6), options)).toEqual([0, 1, 2, 3, 4, 5])
  })

  test('an error of one call is that call’s, and is not asked for again', async () => {
    proxy.behave = ({params: [n]}) => {
      asked++
      return n === 2 ? faults.error('historical state is not available') : n
    }
    open(kind)
    await expect(client.batchCall(calls(4))).rejects.toThrow('historical state is not available')
    expect(asked).toBe(4)
  })

  test('a batch that the node never finishes is asked in halves; a single call is asked again', async () => {
    let slow = 2
    proxy.behave = ({params: [n]}) => (n === 3 && slow > 0 ? faults.drop() : n)
    open(kind, 20)
    const all = client.batchCall(calls(4))
    await proxy.asked(12)
    slow = 0
    expect(await all).toEqual(numbers(4))
  })
})
