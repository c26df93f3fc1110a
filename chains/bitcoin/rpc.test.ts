import {once} from 'node:events'
import {createServer, type IncomingMessage, type ServerResponse} from 'node:http'
import type {AddressInfo} from 'node:net'
import {inspect} from 'node:util'
import {afterAll, afterEach, beforeAll, describe, expect, test} from 'vitest'
import {z} from 'zod'
import {PermanentError, RetryableError} from '../../base/errors.ts'
import {bitcoinNodes, regtestGenesis, startBitcoin, type TestBitcoin} from '../../test/support/bitcoin/node.ts'
import {Bitcoind, RpcError} from './rpc.ts'

const open: {close(): unknown}[] = []
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close()
})

function connect(url: string, options?: {timeoutMs: number}): Bitcoind {
  const node = new Bitcoind(url, options)
  open.push(node)
  return node
}

type Serve = (body: string, response: ServerResponse, request: IncomingMessage) => void

/** An HTTP server that responds as the test says, and records its requests. */
async function startServer(serve: Serve) {
  const asked: string[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    asked.push(`${request.method} ${request.url}`)
    serve(body, response, request)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  open.push({
    close: () => {
      server.close()
      server.closeAllConnections()
    },
  })
  return {host: `127.0.0.1:${(server.address() as AddressInfo).port}`, asked}
}

const responses = (result: unknown): Serve => {
  return (_, response) => void response.end(JSON.stringify({id: 0, result, error: null}))
}
const says = (status: number, text: string): Serve => {
  return (_, response) => void response.writeHead(status).end(text)
}

describe.for(bitcoinNodes)('%s', kind => {
  let chain: TestBitcoin
  let node: Bitcoind
  beforeAll(async () => {
    chain = await startBitcoin({node: kind})
    node = new Bitcoind(chain.rpcUrl)
  })
  afterAll(async () => {
    await node?.close()
    await chain?.stop()
  })

  test('resolves with a response, and rejects with the code of the node', async () => {
    expect(await node.call('getblockhash', [0], z.string())).toBe(regtestGenesis)
    const refusal = await node.call('getblockhash', [1_000_000], z.string()).catch(error => error)
    expect(refusal).toBeInstanceOf(RpcError)
    expect(refusal).toMatchObject({code: -8, message: expect.stringContaining('refused getblockhash')})
  })

  test('resolves many requests at once, with the refusals in their places', async () => {
    const heights = Array.from({length: 250}, (_, i) => (i === 130 ? 1_000_000 : i))
    const calls = heights.map(height => ({method: 'getblockhash', params: [height]}))
    const hashes = await node.batch(calls, z.string())
    expect(hashes[0]).toBe(regtestGenesis)
    expect(hashes[249]).toBe((await chain.client.block(249)).hash)
    expect(hashes[130]).toBeInstanceOf(RpcError)
    expect(new Set(hashes).size).toBe(250)
    expect(await node.batch([], z.string())).toEqual([])
  })

  test('returns the bytes of a block', async () => {
    const {hash} = await chain.client.head()
    const bytes = await node.rawBlock(hash)
    expect(Buffer.from(bytes).toString('hex')).toBe(await node.call('getblock', [hash, false], z.string()))
  })

  test('reports a block that the node does not have', async () => {
    await expect(node.rawBlock('11'.repeat(32))).rejects.toBeInstanceOf(RpcError)
  })
})

describe('blocks', () => {
  const hash = 'ab'.repeat(32)
  const viaRpc = (body: string) => JSON.stringify({id: 0, result: '0102', error: null, asked: body})

  test('are read by REST if the node serves it', async () => {
    const {host, asked} = await startServer((_, response) => response.end(Buffer.of(3, 4)))
    expect([...(await connect(`http://${host}`).rawBlock(hash))]).toEqual([3, 4])
    expect(asked).toEqual([`GET /rest/block/${hash}.bin`])
  })

  test('are read by RPC if the node has no REST, which is detected once', async () => {
    const {host, asked} = await startServer((body, response, {method}) => {
      if (method === 'GET') response.writeHead(404).end()
      else response.end(viaRpc(body))
    })
    const node = connect(`http://${host}`)
    expect([...(await node.rawBlock(hash)), ...(await node.rawBlock(hash))]).toEqual([1, 2, 1, 2])
    expect(asked).toEqual([`GET /rest/block/${hash}.bin`, 'POST /', 'POST /'])
  })

  test('that the node lacks do not turn REST off', async () => {
    const {host, asked} = await startServer((_, response, {method}) => {
      if (method === 'GET') response.writeHead(404).end(`${hash} not found\r\n`)
      else response.writeHead(500).end(JSON.stringify({id: 0, error: {code: -5, message: 'Block not found'}}))
    })
    const node = connect(`http://${host}`)
    for (let i = 0; i < 2; i++) await expect(node.rawBlock(hash)).rejects.toMatchObject({code: -5})
    expect(asked.filter(line => line.startsWith('GET'))).toHaveLength(2)
  })
})

describe('a password', () => {
  const secret = 'correct horse'
  const url = (host: string) => `http://user:${encodeURIComponent(secret)}@${host}`

  test('is sent to the node', async () => {
    const {host} = await startServer((_, response, {headers}) => {
      const given = Buffer.from(headers.authorization!.replace('Basic ', ''), 'base64').toString()
      response.end(JSON.stringify({id: 0, result: given, error: null}))
    })
    expect(await connect(url(host)).call('help', [], z.string())).toBe(`user:${secret}`)
  })

  test('is in no error when the node cannot be reached', async () => {
    const refusing = await startServer(says(401, ''))
    const confused = await startServer(says(200, 'what?'))
    const hosts = [refusing.host, confused.host, '127.0.0.1:1', 'no-such-host.invalid:80']
    for (const host of hosts) {
      const node = connect(url(host))
      const error = await node.call('help', [], z.string()).catch(error => error)
      expect(error).toBeInstanceOf(RetryableError)
      for (const said of [inspect(error, {depth: 9}), inspect(node, {depth: 9, showHidden: true})]) {
        expect(said).not.toMatch(/correct|Y29ycmVjd|user:/)
      }
    }
    const wrong = `bitcoin://user:${secret}@127.0.0.1`
    expect(() => connect(wrong)).toThrow(PermanentError)
    expect(() => connect(wrong)).not.toThrow(/correct/)
  })
})

describe('a connection', () => {
  /** Responds to the first request, then closes this many connections, like a node that finds them idle. */
  async function startFickle(times: number) {
    let isFirst = true
    let left = times
    return await startServer((body, response, request) => {
      if (!isFirst && left-- > 0) return void request.socket.resetAndDestroy()
      isFirst = false
      responses('x')(body, response, request)
    })
  }

  test('that the node closed while it was idle is replaced, and the request is sent again', async () => {
    const {host, asked} = await startFickle(1)
    const node = connect(`http://${host}`)
    expect(await node.call('help', [], z.string())).toBe('x')
    expect(await node.call('help', [], z.string())).toBe('x')
    expect(asked).toHaveLength(3)
  })

  test('that breaks twice is an error', async () => {
    const {host, asked} = await startFickle(2)
    const node = connect(`http://${host}`)
    expect(await node.call('help', [], z.string())).toBe('x')
    const error = await node.call('help', [], z.string()).catch(error => error)
    expect(error).toBeInstanceOf(RetryableError)
    expect(asked).toHaveLength(3)
    expect(await node.call('help', [], z.string())).toBe('x')
  })

  const slow: Record<string, Serve> = {
    hangs: () => {},
    'drips and never ends': (_, response) => {
      const timer = setInterval(() => response.write(' '), 20)
      response.on('close', () => clearInterval(timer))
    },
  }
  test.for(Object.entries(slow))('that %s ends in time', async ([, serve]) => {
    const {host} = await startServer(serve)
    const started = performance.now()
    const question = connect(`http://${host}`, {timeoutMs: 200}).call('help', [], z.string())
    await expect(question).rejects.toThrow('no response within 200 ms')
    await expect(question).rejects.toBeInstanceOf(RetryableError)
    expect(performance.now() - started).toBeLessThan(2000)
  })
})

describe('an invalid response', () => {
  const nothings: Record<string, [Serve, message: string]> = {
    'a page': [says(200, '<html>'), 'answered help with 200: <html>'],
    'a full work queue': [says(503, 'Work queue depth exceeded'), 'Work queue depth exceeded'],
    'a number': [says(200, '1'), 'sent an invalid response'],
    'another shape': [responses(1), 'unexpected response'],
    'a node that is starting': [
      says(500, JSON.stringify({id: 0, result: null, error: {code: -28, message: 'Loading block index…'}})),
      'bitcoind is starting: Loading block index',
    ],
  }
  test.for(Object.entries(nothings))('is requested again later: %s', async ([, [serve, message]]) => {
    const {host} = await startServer(serve)
    const error = await connect(`http://${host}`)
      .call('help', [], z.string())
      .catch(error => error)
    expect(error).toBeInstanceOf(RetryableError)
    expect(error).not.toBeInstanceOf(RpcError)
    expect(error.message).toContain(message)
  })

  test('in a batch rejects the whole batch', async () => {
    const {host} = await startServer(says(200, JSON.stringify([{id: 0, result: 'x'}])))
    const calls = ['x', 'y'].map(topic => ({method: 'help', params: [topic]}))
    await expect(connect(`http://${host}`).batch(calls, z.string())).rejects.toThrow('sent no response to')
  })

  test('is not used for another call of the batch', async () => {
    const shuffled = [
      {id: 1, result: 'y'},
      {id: 0, result: 'x'},
    ]
    const {host} = await startServer(says(200, JSON.stringify(shuffled)))
    const calls = ['x', 'y'].map(topic => ({method: 'help', params: [topic]}))
    expect(await connect(`http://${host}`).batch(calls, z.string())).toEqual(['x', 'y'])
  })
})
