// Subscribing to an Electrum server: scripthashes/s of the client, at first and again after the server was away, over a
// bare socket that writes the same calls, as many at a time, to the same local server and counts the response lines.
// The scripts are unused, except one that is paid while the server is away: subscribing again is over when that is
// noticed, which is requested last.
import {createHash, randomBytes} from 'node:crypto'
import {once} from 'node:events'
import {mkdtempSync, rmSync} from 'node:fs'
import {type AddressInfo, connect, createServer, type Socket} from 'node:net'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {pino} from 'pino'
import {Electrum, maxInFlight} from '../chains/bitcoin/electrum.ts'
import {scripthashOf, scriptOfAddress} from '../chains/bitcoin/script.ts'
import type {BitcoinClient} from '../devnet/bitcoin/client.ts'
import {regtest} from '../devnet/bitcoin/regtest.ts'
import {families} from '../devnet/families.ts'
import {type Started, startDevnet} from '../devnet/start.ts'
import type {Report} from './result.ts'

const address = 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080'

export async function benchElectrum(report: Report, counts = [10_000, 100_000]): Promise<void> {
  const dir = mkdtempSync(path.join(tmpdir(), 'sluice-bench-'))
  const chain = await startDevnet(await families.bitcoin(), {chain: 'BTC', dir})
  try {
    for (const count of counts) await subscribe(report, chain, count)
  } finally {
    await chain.stop()
    rmSync(dir, {recursive: true})
  }
}

async function subscribe(report: Report, chain: Started<BitcoinClient>, count: number): Promise<void> {
  const network = regtest('BTC')
  const paid = scripthashOf(scriptOfAddress(address, network))
  const unused = Array.from({length: count - 1}, () => createHash('sha256').update(randomBytes(32)).digest('hex'))
  const scripthashes = [...unused, paid]
  const line = await Line.lay(chain.devnet.url)
  const floors = [await bareSocket(line.port, scripthashes), await bareSocket(line.port, scripthashes)]
  const electrum = new Electrum({
    urls: [`tcp://127.0.0.1:${line.port}`],
    genesis: network.genesis,
    log: pino({enabled: false}),
  })
  try {
    await electrum.changed() // connected
    let began = performance.now()
    await electrum.subscribeScripthashes(scripthashes)
    const first = rate(count, began)
    electrum.takeChanged()
    await line.cut()
    await chain.client.pay([{to: address, amount: 10_000n}])
    await line.mend()
    await electrum.changed() // connected again
    began = performance.now()
    while (!electrum.takeChanged().includes(paid)) await electrum.changed()
    const again = rate(count, began)
    floors.push(await bareSocket(line.port, scripthashes))
    const common = {floor: Math.max(...floors), unit: 'scripthashes/s'}
    const what = `Electrum, ${count.toLocaleString('en')} scripthashes`
    report({what: `${what}: subscribing`, value: first, ...common})
    report({what: `${what}: subscribing again after the server was away, to the difference`, value: again, ...common})
  } finally {
    electrum.close()
    await line.cut()
  }
}

/** The floor. */
async function bareSocket(port: number, scripthashes: string[]): Promise<number> {
  const socket = connect(port, '127.0.0.1').setNoDelay(true)
  await once(socket, 'connect')
  const began = performance.now()
  let sent = 0
  let responded = 0
  const send = (count: number) => {
    const calls = scripthashes.slice(sent, sent + count).map(scripthash => {
      return `{"jsonrpc":"2.0","id":${++sent},"method":"blockchain.scripthash.subscribe","params":["${scripthash}"]}\n`
    })
    if (calls.length > 0) socket.write(calls.join(''))
  }
  send(maxInFlight)
  await new Promise<void>(resolve => {
    socket.on('data', chunk => {
      let lines = 0
      for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) lines++
      responded += lines
      send(lines)
      if (responded === scripthashes.length) resolve()
    })
  })
  socket.destroy()
  return rate(scripthashes.length, began)
}

function rate(count: number, began: number): number {
  return (count / (performance.now() - began)) * 1000
}

/** A connection to the server that can be cut. */
class Line {
  readonly #server = createServer(client => this.#connect(client))
  readonly #sockets = new Set<Socket>()
  readonly #target: URL
  port = 0

  private constructor(url: string) {
    this.#target = new URL(url)
  }

  static async lay(url: string): Promise<Line> {
    const line = new Line(url)
    await line.mend()
    return line
  }

  async mend(): Promise<void> {
    this.#server.listen(this.port, '127.0.0.1')
    await once(this.#server, 'listening')
    this.port = (this.#server.address() as AddressInfo).port
  }

  async cut(): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  #connect(client: Socket): void {
    const server = connect(Number(this.#target.port), this.#target.hostname)
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(socket.setNoDelay(true))
      socket.pipe(other)
      socket.on('error', () => {}) // its close follows
      socket.on('close', () => {
        this.#sockets.delete(socket)
        other.destroy()
      })
    }
  }
}
