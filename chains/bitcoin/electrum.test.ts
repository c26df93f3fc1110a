import {createHash} from 'node:crypto'
import {mkdtemp, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {pino} from 'pino'
import {afterAll, afterEach, beforeAll, describe, expect, test, vi} from 'vitest'
import {z} from 'zod'
import {RetryableError} from '../../base/errors.ts'
import {selfSigned} from '../../test/support/bitcoin/certificate.ts'
import {faults, LyingElectrum} from '../../test/support/bitcoin/lying-electrum.ts'
import {regtestGenesis, startBitcoin, type TestBitcoin} from '../../test/support/bitcoin/node.ts'
import type {Behaviour} from '../../test/support/rpc-proxy.ts'
import {until} from '../../test/support/until.ts'
import {Electrum, ElectrumError, maxInFlight} from './electrum.ts'
import {scripthashOf, scriptOfAddress} from './script.ts'

const header = `${'01'.repeat(79)}00`
const sha256 = (data: Uint8Array | string) => createHash('sha256').update(data).digest()
const genesis = sha256(sha256(Buffer.from(header, 'hex')))
  .reverse()
  .toString('hex')
const hash = (text: string) => sha256(text).toString('hex')
const a = hash('a')
const b = hash('b')

const open: {close(): unknown}[] = []
afterEach(async () => {
  vi.useRealTimers()
  vi.unstubAllEnvs()
  for (const one of open.splice(0).reverse()) await one.close()
})

/** A small server of the network above; scripthashes have the statuses that the test sets. */
async function startServer(tls?: {key: string; cert: string}) {
  const statuses = new Map<string, string | null>()
  const responses: Behaviour = ({method, params}) => {
    if (method === 'server.version') return ['test 1.0', '1.4']
    if (method === 'server.ping') return null
    if (method === 'blockchain.block.header') return header
    if (method === 'blockchain.headers.subscribe') return {height: 0, hex: header}
    if (method === 'blockchain.scripthash.subscribe') return statuses.get(String(params[0])) ?? null
    if (method === 'echo') return params[0]
    return faults.error(`unknown method ${method}`, -32601)
  }
  const server = await LyingElectrum.start(responses, tls)
  open.push(server)
  const set = (scripthash: string, status: string | null) => {
    statuses.set(scripthash, status)
    server.notify('blockchain.scripthash.subscribe', scripthash, status)
  }
  return Object.assign(server, {statuses, set})
}

function connect(urls: string | string[], options: {ca?: string; timeoutMs?: number; genesis?: string} = {}) {
  const lines: {msg: string; reason?: string}[] = []
  const log = pino({}, {write: line => lines.push(JSON.parse(line))})
  const electrum = new Electrum({urls: [urls].flat(), genesis, log, ...options})
  open.push(electrum)
  const reasons = () => lines.flatMap(({reason}) => reason ?? [])
  return Object.assign(electrum, {lines, reasons})
}

const echo = (electrum: Electrum, text: string) => electrum.request('echo', [text], z.string())
const at = (electrum: Electrum, generation: number) =>
  until(async () => electrum.generation >= generation, {timeoutMs: 10_000, what: `connection ${generation}`})
const changes = (electrum: Electrum) => {
  return until(
    async () => {
      const changed = electrum.takeChanged()
      return changed.length > 0 && changed
    },
    {timeoutMs: 5000, what: 'a changed status'},
  )
}

describe('requests', () => {
  test('resolve with the response of the server', async () => {
    const electrum = connect((await startServer()).url)
    expect(await echo(electrum, 'x')).toBe('x')
    expect(electrum.generation).toBe(1)
  })

  test('reject with the code and the message of the server when it refuses', async () => {
    const electrum = connect((await startServer()).url)
    const error = await electrum.request('nonsense', [], z.null()).catch(error => error)
    expect(error).toBeInstanceOf(ElectrumError)
    expect(error).toBeInstanceOf(RetryableError)
    expect(error).toMatchObject({code: -32601, message: expect.stringContaining('unknown method nonsense')})
  })

  test('of a batch resolve in order, with the refusals in their places', async () => {
    const electrum = connect((await startServer()).url)
    const calls = ['x', undefined, 'y'].map(text => ({method: text ? 'echo' : 'nonsense', params: [text]}))
    expect(await electrum.batch(calls, z.string())).toEqual(['x', expect.any(ElectrumError), 'y'])
  })

  test('of large batches are in flight only a few at a time', async () => {
    const server = await startServer()
    const electrum = connect(server.url)
    await echo(electrum, 'connected')
    const held: (() => void)[] = []
    server.behave = async (_call, pass) => {
      await new Promise<void>(resolve => held.push(resolve))
      return await pass()
    }
    const calls = Array.from({length: 2000}, (_, i) => ({method: 'echo', params: [`${i}`]}))
    const batches = [calls.slice(0, 1000), calls.slice(1000)].map(half => electrum.batch(half, z.string()))
    await until(async () => held.length >= maxInFlight, {timeoutMs: 5000, what: 'a full window'})
    held.splice(0, 10).forEach(release => void release())
    await until(async () => held.length >= maxInFlight, {timeoutMs: 5000, what: 'the places to be filled again'})
    expect(server.count('echo')).toBe(1 + maxInFlight + 10)
    server.behave = undefined
    for (const release of held) release()
    expect((await Promise.all(batches)).flat()).toEqual(calls.map(({params}) => params[0]))
  })

  test('do not wait for the end of a batch of another caller', async () => {
    const electrum = connect((await startServer()).url)
    let isOver = false
    const calls = Array.from({length: 20_000}, (_, i) => ({method: 'echo', params: [`${i}`]}))
    const batch = electrum.batch(calls, z.string()).then(() => {
      isOver = true
    })
    expect(await echo(electrum, 'x')).toBe('x')
    expect(isOver).toBe(false)
    await batch
  })

  test('reject within their timeout while there is no connection', async () => {
    const server = await startServer()
    await server.close()
    const electrum = connect(server.url, {timeoutMs: 300})
    const started = performance.now()
    for (const question of [
      echo(electrum, 'x'),
      electrum.batch([{method: 'echo', params: ['x']}], z.string()),
      electrum.subscribeScripthashes([a]),
    ]) {
      await expect(question).rejects.toThrow(RetryableError)
      await expect(question).rejects.toThrow('within 300 ms')
    }
    expect(performance.now() - started).toBeLessThan(1500)
  })

  test('made before there is a connection resolve once there is one', async () => {
    const server = await startServer()
    await server.close()
    const electrum = connect(server.url)
    const response = echo(electrum, 'x')
    await until(async () => electrum.reasons().length > 0, {timeoutMs: 5000, what: 'a failure'})
    await server.listen()
    expect(await response).toBe('x')
  })

  test('that were sent reject at once when the connection ends', async () => {
    const server = await startServer()
    const electrum = connect(server.url)
    await echo(electrum, 'connected')
    server.behave = faults.hang
    const response = echo(electrum, 'x')
    response.catch(() => {})
    await until(async () => server.count('echo') === 2, {timeoutMs: 5000, what: 'the request'})
    server.disconnect()
    await expect(response).rejects.toThrow('the connection ended')
  })

  test('reject when the client is closed, and afterwards', async () => {
    const server = await startServer()
    const electrum = connect(server.url)
    await echo(electrum, 'connected')
    server.behave = faults.hang
    const sent = Promise.allSettled([echo(electrum, 'x'), electrum.changed()])
    electrum.close()
    const [response, changed] = await sent
    expect(response).toMatchObject({status: 'rejected', reason: expect.any(RetryableError)})
    expect(changed.status).toBe('fulfilled')
    await expect(echo(electrum, 'x')).rejects.toThrow(RetryableError)
    await electrum.changed()
    await until(async () => server.connections === 0, {timeoutMs: 5000, what: 'the end of the connection'})
  })
})

describe('a server that', () => {
  const shakes = ['server.version', 'server.ping', 'blockchain.block.header', 'blockchain.headers.subscribe']
  /** Completes the handshake, then misbehaves. */
  const later = (behave: Behaviour): Behaviour => {
    return (call, pass) => (shakes.includes(call.method) ? pass() : behave(call, pass))
  }
  const says = (line: string) => later(() => faults.send(line))
  const wrongs: Record<string, [Behaviour, reason: string]> = {
    'hangs from the start': [faults.hang, 'no response to server.version within'],
    hangs: [later(faults.hang), 'no response to echo within'],
    'ends the connection at once': [faults.drop, 'closed the connection'],
    'ends the connection': [later(faults.drop), 'closed the connection'],
    'sends half a line and ends the connection': [later(faults.truncate), 'closed the connection'],
    'sends broken JSON': [says('{"jsonrpc":"2.0","id":4,"result":'), 'sent a line that is not a message'],
    'sends something else': [says('[1]'), 'sent a line that is not a message'],
    'sends nothing in a line': [says(''), 'sent a line that is not a message'],
    'sends an error that is of no call': [
      says('{"jsonrpc":"2.0","id":null,"error":{"code":-101,"message":"excessive resource usage"}}'),
      'excessive resource usage',
    ],
    'sends a history of 8 MB': [later(() => 'x'.repeat(2 ** 23)), 'sent more than 8000000 characters'],
    'sends an unexpected response': [later(() => ({text: 'x'})), 'sent an unexpected response to echo'],
    'refuses the version': [() => faults.error('unsupported protocol version'), 'refused server.version'],
    'is on another network': [
      ({method}, pass) => (method === 'blockchain.block.header' ? '02'.repeat(80) : pass()),
      'is on another network',
    ],
    'sends an invalid status': [
      later((_, pass) => {
        const params = JSON.stringify([a, 1])
        faults.send(`{"jsonrpc":"2.0","method":"blockchain.scripthash.subscribe","params":${params}}`)
        return pass()
      }),
      'sent a notification of another shape',
    ],
  }

  test.for(Object.entries(wrongs))('%s is replaced by the next one', async ([, [behave, reason]]) => {
    const [bad, good] = [await startServer(), await startServer()]
    bad.behave = behave
    const electrum = connect([bad.url, good.url], {timeoutMs: reason.startsWith('no response') ? 400 : 5000})
    const response = await until(() => echo(electrum, 'x'), {
      timeoutMs: 10_000,
      what: 'a response from the good server',
    })
    expect(response).toBe('x')
    expect(electrum.reasons()).toEqual([expect.stringContaining(reason)])
    expect(good.count('echo')).toBeGreaterThan(0)
    expect(bad.connections).toBe(0)
  })

  test('sends an unrequested notification stays in use, and the notification is ignored', async () => {
    const server = await startServer()
    const electrum = connect(server.url)
    await electrum.subscribeScripthashes([a])
    server.notify('error', 'a name that emitters know')
    server.notify('server.peers.subscribe', [])
    server.notify('blockchain.scripthash.subscribe', b, hash('b has a history'))
    server.tell('{"jsonrpc":"2.0","id":4711,"result":"x"}')
    expect(await echo(electrum, 'x')).toBe('x')
    expect(electrum.reasons()).toEqual([])
    expect([...electrum.statuses()]).toEqual([[a, null]])
  })

  test('sends a large transaction in small pieces is read', async () => {
    const server = await startServer()
    const electrum = connect(server.url)
    const large = 'ab'.repeat(3_990_000)
    const started = performance.now()
    expect(await echo(electrum, large)).toBe(large)
    expect(performance.now() - started).toBeLessThan(3000)
  })

  test('lied is dropped, and is not asked next', async () => {
    const [first, second] = [await startServer(), await startServer()]
    const electrum = connect([first.url, second.url])
    await echo(electrum, 'x')
    expect(first.connections).toBe(1)
    electrum.drop('lied', 0)
    await echo(electrum, 'x')
    expect(electrum.generation).toBe(1)
    electrum.drop('lied', 1)
    await at(electrum, 2)
    expect([first.connections, second.connections]).toEqual([0, 1])
    expect(electrum.reasons()).toEqual(['lied'])
  })

  test('ends each connection is retried less and less often', async () => {
    const server = await startServer()
    server.behave = faults.drop
    const started = performance.now()
    connect(server.url)
    await server.asked(4, 'server.version')
    // 250, 500 and 1000 ms, each shortened to half at most.
    expect(performance.now() - started).toBeGreaterThan(870)
  })

  test('gets no requests is pinged', async () => {
    const server = await startServer()
    vi.useFakeTimers({toFake: ['setInterval', 'clearInterval']})
    const electrum = connect(server.url)
    await echo(electrum, 'connected')
    vi.advanceTimersByTime(60_000)
    await until(async () => server.count('server.ping') === 1, {timeoutMs: 5000, what: 'a ping'})
  })
})

describe('TLS', () => {
  const trusted = selfSigned('127.0.0.1')

  async function withFile<T>(content: string, run: (file: string) => Promise<T>): Promise<T> {
    const directory = await mkdtemp(path.join(tmpdir(), 'electrum-'))
    try {
      await writeFile(path.join(directory, 'ca.pem'), content)
      return await run(path.join(directory, 'ca.pem'))
    } finally {
      await rm(directory, {recursive: true})
    }
  }

  test('is used with a server whose certificate is in the file', async () => {
    const server = await startServer(trusted)
    await withFile(selfSigned('other').cert + trusted.cert, async ca => {
      expect(await echo(connect(server.url, {ca}), 'x')).toBe('x')
    })
  })

  test('refuses a server with an untrusted certificate, whatever the environment says', async () => {
    const server = await startServer(trusted)
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0')
    const electrum = connect(server.url, {timeoutMs: 300})
    await expect(echo(electrum, 'x')).rejects.toThrow('within 300 ms')
    expect(electrum.reasons()[0]).toMatch(/self.signed/)
    expect(server.count()).toBe(0)
  })

  test('refuses a server whose certificate is for another name', async () => {
    const other = selfSigned('localhost')
    const server = await startServer(other)
    await withFile(other.cert, async ca => {
      const electrum = connect(server.url, {ca, timeoutMs: 300})
      await expect(echo(electrum, 'x')).rejects.toThrow('within 300 ms')
      expect(electrum.reasons()[0]).toContain('altnames')
      expect(server.count()).toBe(0)
      expect(await echo(connect(`tls://localhost:${server.port}`, {ca}), 'x')).toBe('x')
    })
  })

  test.for([undefined, 'no certificate'])('does without a crash where the file is %s', async content => {
    const server = await startServer(trusted)
    const reasonWith = async (ca: string) => {
      const electrum = connect(server.url, {ca, timeoutMs: 200})
      await expect(echo(electrum, 'x')).rejects.toThrow(RetryableError)
      return electrum.reasons()[0]
    }
    if (content) expect(await withFile(content, reasonWith)).toEqual(expect.any(String))
    else expect(await reasonWith('/nowhere/ca.pem')).toContain('ENOENT')
    expect(server.count()).toBe(0)
  })
})

describe('subscriptions', () => {
  test('report each changed status once', async () => {
    const server = await startServer()
    server.statuses.set(b, hash('1'))
    const electrum = connect(server.url)
    await electrum.subscribeScripthashes([a, b])
    expect(electrum.takeChanged()).toEqual([b])
    expect(electrum.takeChanged()).toEqual([])
    server.set(a, hash('2'))
    expect(await changes(electrum)).toEqual([a])
    server.set(a, null)
    expect(await changes(electrum)).toEqual([a])
    expect([...electrum.statuses()]).toEqual([
      [a, null],
      [b, hash('1')],
    ])
  })

  test('report a status that changed and changed back, because a request in between may belong to the other status', async () => {
    const server = await startServer()
    const electrum = connect(server.url)
    await electrum.subscribeScripthashes([a, b])
    server.set(a, hash('1'))
    server.set(a, null)
    server.set(b, hash('2'))
    await until(async () => electrum.statuses().get(b) === hash('2'), {timeoutMs: 5000, what: 'the news'})
    expect(electrum.takeChanged()).toEqual([a, b])
  })

  test('are made again after a reconnect, and report only what changed meanwhile', async () => {
    const server = await startServer()
    const all = Array.from({length: 1000}, (_, i) => hash(`${i}`))
    for (const scripthash of all) server.statuses.set(scripthash, hash('1'))
    const electrum = connect(server.url)
    await electrum.subscribeScripthashes(all)
    expect(electrum.takeChanged()).toHaveLength(1000)
    await server.close()
    const others = [all[3]!, all[999]!]
    for (const scripthash of others) server.statuses.set(scripthash, hash('2'))
    await server.listen()
    await until(async () => electrum.statuses().get(others[1]!) === hash('2'), {timeoutMs: 5000, what: 'the news'})
    await until(async () => server.count('blockchain.scripthash.subscribe') === 2000, {timeoutMs: 5000, what: 'all'})
    expect(electrum.takeChanged()).toEqual(others)
    server.set(all[5]!, null)
    expect(await changes(electrum)).toEqual([all[5]])
  })

  test('that are polled report changes that no notification reported', async () => {
    const server = await startServer()
    const electrum = connect(server.url)
    await electrum.subscribeScripthashes([a, b])
    server.statuses.set(a, hash('1'))
    await electrum.subscribeScripthashes([a, b])
    expect(electrum.takeChanged()).toEqual([a])
  })

  test('store the newest status when a notification arrives together with the response', async () => {
    const server = await startServer()
    const electrum = connect(server.url)
    await electrum.subscribeScripthashes([a])
    server.behave = ({method}, pass) => {
      if (method !== 'blockchain.scripthash.subscribe') return pass()
      const params = JSON.stringify([a, hash('newer')])
      const response = JSON.stringify({jsonrpc: '2.0', id: 5, result: hash('older')})
      faults.send(`${response}\n{"jsonrpc":"2.0","method":"blockchain.scripthash.subscribe","params":${params}}`)
    }
    await electrum.subscribeScripthashes([a])
    expect(electrum.statuses().get(a)).toBe(hash('newer'))
  })

  test('that a server refuses after a reconnect make the client go to the next server', async () => {
    const [first, second] = [await startServer(), await startServer()]
    const electrum = connect([first.url, second.url])
    await electrum.subscribeScripthashes([a])
    second.behave = ({method}, pass) =>
      method === 'blockchain.scripthash.subscribe' ? faults.error('too many subscriptions') : pass()
    electrum.drop('a test')
    await at(electrum, 3)
    expect(first.connections).toBe(1)
    expect(electrum.reasons()[1]).toContain('too many subscriptions')
  })

  test('that are refused reject, and the others stay', async () => {
    const server = await startServer()
    server.behave = (call, pass) => (call.params[0] === b ? faults.error('no') : pass())
    const electrum = connect(server.url)
    await expect(electrum.subscribeScripthashes([a, b])).rejects.toThrow(ElectrumError)
    await until(async () => electrum.statuses().size > 0, {timeoutMs: 5000, what: 'the response to the other'})
    expect([...electrum.statuses().keys()]).toEqual([a])
  })

  test('beyond what most servers accept are logged once', async () => {
    const server = await startServer()
    const electrum = connect(server.url)
    const all = Array.from({length: 20_002}, (_, i) => hash(`${i}`))
    const warnings = () => electrum.lines.filter(({msg}) => msg.includes('BTC_SOURCE=node')).length
    await electrum.subscribeScripthashes(all.slice(0, 20_000))
    expect(warnings()).toBe(0)
    await electrum.subscribeScripthashes(all.slice(20_000))
    await electrum.subscribeScripthashes(all.slice(20_000))
    expect(warnings()).toBe(1)
  })
})

describe('a wake-up', () => {
  test('comes with a header, a changed status, a new connection, and an abort', async () => {
    const server = await startServer()
    const electrum = connect(server.url)
    await electrum.changed()
    expect(electrum.generation).toBe(1)
    await electrum.subscribeScripthashes([a])
    let next = electrum.changed()
    server.notify('blockchain.headers.subscribe', {height: 1, hex: header})
    await next
    next = electrum.changed()
    server.set(a, hash('1'))
    await next
    expect(electrum.takeChanged()).toEqual([a])
    next = electrum.changed()
    server.disconnect()
    await next
    expect(electrum.generation).toBe(2)
    const abort = new AbortController()
    next = electrum.changed(abort.signal)
    abort.abort()
    await next
  })
})

test.for(['127.0.0.1:50001', 'http://127.0.0.1:50001', 'tcp://127.0.0.1', ''])('%j is refused as a server', url => {
  expect(() => connect(url)).toThrow('tcp://host:port or tls://host:port')
})

describe('a real chain', () => {
  const History = z.array(z.object({tx_hash: z.string(), height: z.int()}))
  const regtest = {hrp: 'bcrt', pubKeyHash: 0x6f, scriptHash: 0xc4}
  const address = 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080'
  const scripthash = scripthashOf(scriptOfAddress(address, regtest))
  let chain: TestBitcoin
  beforeAll(async () => {
    chain = await startBitcoin()
  })
  afterAll(() => chain?.stop())

  const history = (electrum: Electrum) => {
    return electrum.request('blockchain.scripthash.get_history', [scripthash], History)
  }
  const pay = () => chain.client.pay([{to: address, amount: 10_000n}])

  test('shows a payment before it is mined and after', async () => {
    const electrum = connect(chain.electrumUrl, {genesis: regtestGenesis})
    await electrum.subscribeScripthashes([scripthash])
    const {txid, raw} = await pay()
    expect(await changes(electrum)).toEqual([scripthash])
    expect(await history(electrum)).toEqual([{tx_hash: txid, height: 0}])
    const {height} = await chain.client.mine()
    expect(await changes(electrum)).toEqual([scripthash])
    expect(await history(electrum)).toEqual([{tx_hash: txid, height}])
    const refusal = await electrum.request('blockchain.transaction.broadcast', [raw], z.string()).catch(error => error)
    expect(refusal).toBeInstanceOf(ElectrumError)
    expect(await electrum.request('blockchain.transaction.get', [txid], z.string())).toBe(raw)
  })

  test('reports what came while its server was away', async () => {
    const proxy = await LyingElectrum.start(chain.electrumUrl)
    open.push(proxy)
    const electrum = connect(proxy.url, {genesis: regtestGenesis})
    await electrum.subscribeScripthashes([scripthash])
    electrum.takeChanged()
    const before = await history(electrum)
    await proxy.close()
    const {txid} = await pay()
    await proxy.listen()
    expect(await changes(electrum)).toEqual([scripthash])
    expect(await history(electrum)).toEqual([...before, {tx_hash: txid, height: 0}])
  })

  test('is identified by its genesis block', async () => {
    const electrum = connect(chain.electrumUrl)
    await until(async () => electrum.reasons().length > 0, {timeoutMs: 5000, what: 'a reason'})
    expect(electrum.reasons()[0]).toContain(`block 0 has the hash ${regtestGenesis}`)
    expect(electrum.generation).toBe(0)
  })
})
