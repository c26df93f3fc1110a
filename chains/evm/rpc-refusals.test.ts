// How gateways and other nodes than geth refuse batches and requests, over HTTP and websocket, byte for byte.
import {createServer, type Server} from 'node:http'
import type {AddressInfo} from 'node:net'
import {setTimeout as sleep} from 'node:timers/promises'
import {afterEach, expect, test} from 'vitest'
import {WebSocketServer} from 'ws'
import {meaningOf, wordsOf} from './node-errors.ts'
import {BatchingClient} from './rpc.ts'

interface Call {
  id: number
  params: unknown[]
}
const closers: (() => void)[] = []
afterEach(() => {
  for (const close of closers.splice(0)) close()
})

type Answer = {status?: number; type?: string; body: string}

async function http(answer: (calls: Call | Call[]) => Answer): Promise<string> {
  const server: Server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const {status = 200, type = 'application/json', body} = answer(JSON.parse(Buffer.concat(chunks).toString()))
    response.writeHead(status, {'content-type': type}).end(body)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  closers.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function open(url: string, retryAttempts = 0): BatchingClient {
  const client = new BatchingClient({
    url,
    requestTimeout: 3000,
    retryAttempts,
    retrySchedule: [1],
    capacity: 10,
    log: null,
  })
  closers.push(() => client.close())
  return client
}
const calls = (count: number, from = 0) => Array.from({length: count}, (_, n) => ({method: 'echo', params: [from + n]}))
const failed = (asked: Promise<unknown>) =>
  asked.then(
    () => undefined,
    (error: Error) => error,
  )
const results = (all: Call[]) => JSON.stringify(all.map(({id, params: [n]}) => ({jsonrpc: '2.0', id, result: n})))

test('a batch that is refused with status 400 and a JSON-RPC error is asked in halves', async () => {
  const url = await http(all =>
    Array.isArray(all) && all.length > 2
      ? {status: 400, body: '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batch too large"}}'}
      : {body: Array.isArray(all) ? results(all) : JSON.stringify({jsonrpc: '2.0', id: all.id, result: all.params[0]})},
  )
  expect(await open(url).batchCall(calls(4))).toEqual([0, 1, 2, 3])
})

test('the words of a refusal with status 400 are the same for a batch as for a single call', async () => {
  const url = await http(() => ({
    status: 400,
    body: '{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"historical state is not available"}}',
  }))
  const client = open(url)
  const single = await failed(client.call('echo', [1]))
  const batch = await failed(client.batchCall(calls(2)))
  expect([wordsOf(single), meaningOf(single)]).toEqual(['historical state is not available', 'state_pruned'])
  expect([wordsOf(batch), meaningOf(batch)]).toEqual(['historical state is not available', 'state_pruned'])
})

test.each([429, 500, 503])('status %i whose body is no JSON, though it says so, is an error of HTTP', async status => {
  const url = await http(() => ({status, body: 'error code: 1015'}))
  const error = await failed(open(url).call('echo', [1]))
  expect(error?.name).toBe('HttpError')
})

test('an error without a message is an error of the node also for a caller that takes errors', async () => {
  const url = await http(all => ({
    body: JSON.stringify((all as Call[]).map(({id}) => ({jsonrpc: '2.0', id, error: {code: -32000, message: null}}))),
  }))
  const asked = open(url).batchCall(calls(2), {validateError: ({code}) => code as never})
  expect(await asked).toEqual([-32000, -32000])
})

/** Refuses batches of more than `most` calls with one error without an id, as jsonrpsee does; answers take a while. */
async function strictSocket(most: number, id: null | undefined): Promise<string> {
  const server = new WebSocketServer({port: 0, host: '127.0.0.1'})
  server.on('connection', socket => {
    socket.on('error', () => {})
    socket.on('message', async data => {
      const asked = JSON.parse(String(data)) as Call | Call[]
      await sleep(5 + Math.random() * 20)
      if (!Array.isArray(asked)) socket.send(JSON.stringify({jsonrpc: '2.0', id: asked.id, result: asked.params[0]}))
      else if (asked.length > most)
        socket.send(
          JSON.stringify({jsonrpc: '2.0', id, error: {code: -32005, message: 'The batch request was too large'}}),
        )
      else socket.send(results(asked))
    })
  })
  await new Promise(resolve => server.once('listening', resolve))
  closers.push(() => {
    for (const socket of server.clients) socket.terminate()
    server.close()
  })
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}`
}

test('several batches at once that the node refuses without an id are all answered', async () => {
  const client = open(await strictSocket(30, null), 5)
  const sizes = [0, 1, 2, 3, 4, 5, 6, 7]
  const all = await Promise.all(sizes.map(i => failed(client.batchCall(calls(50, i * 100)))))
  expect(all).toEqual(sizes.map(() => undefined))
})

test('a refusal without an id at all is not waited out', async () => {
  const client = open(await strictSocket(30, undefined), 5)
  const from = performance.now()
  await client.batchCall(calls(50))
  expect(performance.now() - from).toBeLessThan(3000)
}, 40_000)
