// A small Electrum server, protocol 1.4, over a local Bitcoin chain: TCP, a JSON value per line, requests and batches
// of them. It reads the chain's index and, while nothing changes, its journal. A transaction in a history exists, or
// another request shows that it has left the history, whatever is killed. It notifies as soon as the chain has changed.
// For development and tests: it has no limits.
import {createServer, type Server, type Socket} from 'node:net'
import {crypto} from 'bitcoinjs-lib'
import {z} from 'zod'
import type {Logger} from '../../base/log.ts'
import {EngineGone, RpcError} from '../engine.ts'
import {listenLocally} from '../listen.ts'
import {type Failure, failureOf, response} from '../rpc-server.ts'
import type {BitcoinChain, Change} from './chain.ts'
import type {Entry} from './ledger.ts'

const protocol = '1.4'
const maxHeaders = 2016
const maxLineBytes = 10_000_000

const Height = z.int().min(0)
const Hash = z.string().regex(/^[0-9a-f]{64}$/i)
/** One client, and its subscriptions. */
interface Connection {
  /** The last status sent to it, by scripthash. */
  readonly subscriptions: Map<string, string | null>
  headers: boolean
  send(message: unknown): void
}

type Method = (params: unknown[], connection: Connection) => unknown

export class ElectrumServer {
  readonly #chain: BitcoinChain
  readonly #log: Logger
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  readonly #connections = new Set<Connection>()

  constructor(chain: BitcoinChain, {log}: {log: Logger}) {
    this.#chain = chain
    this.#log = log
    this.#server = createServer(socket => this.#onConnection(socket))
    chain.on('change', change => this.#notify(change))
  }

  /** Listens on this port, or on a free one if it is in use or undefined. Resolves to the port. */
  async listen(port: number | undefined): Promise<number> {
    return await listenLocally(this.#server, port)
  }

  close(): void {
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
  }

  // --- connections ---

  #onConnection(socket: Socket): void {
    const connection: Connection = {
      subscriptions: new Map(),
      headers: false,
      send: message => {
        if (socket.writable) socket.write(`${JSON.stringify(message)}\n`)
      },
    }
    socket.setNoDelay(true).setEncoding('utf8')
    this.#sockets.add(socket)
    this.#connections.add(connection)
    let begun = '' // an unfinished line
    let responding = Promise.resolve()
    socket.on('data', (text: string) => {
      const lines = (begun + text).split('\n')
      begun = lines.pop()!
      if (begun.length > maxLineBytes) socket.destroy()
      for (const line of lines)
        responding = responding.then(async () => connection.send(await this.#response(line, connection)))
    })
    socket.on('error', () => {}) // its close follows
    socket.on('close', () => {
      this.#sockets.delete(socket)
      this.#connections.delete(connection)
    })
  }

  async #response(line: string, connection: Connection): Promise<unknown> {
    return await response(line, {
      serve: (method, params) => {
        const serve = this.#methods[method]
        if (!serve) throw new RpcError({code: -32601, message: `unknown method "${method}"`})
        return serve(params, connection)
      },
      failed: (error, method) => this.#failure(error, method),
    })
  }

  #failure(error: unknown, method: string): Failure {
    if (error instanceof EngineGone) return {code: 2, message: 'daemon error: the daemon is not available'}
    return failureOf(error, {method, log: this.#log, invalid: -32602})
  }

  #notify({touched, head}: Change): void {
    const newHead = head && this.#head()
    for (const connection of this.#connections) {
      if (newHead && connection.headers)
        connection.send({jsonrpc: '2.0', method: 'blockchain.headers.subscribe', params: [newHead]})
      for (const scripthash of touched) {
        if (!connection.subscriptions.has(scripthash)) continue
        const status = this.#chain.ledger.status(scripthash)
        if (status === connection.subscriptions.get(scripthash)) continue
        connection.subscriptions.set(scripthash, status)
        connection.send({jsonrpc: '2.0', method: 'blockchain.scripthash.subscribe', params: [scripthash, status]})
      }
    }
  }

  // --- methods ---

  readonly #methods: Record<string, Method> = {
    'server.version': () => ['sluice devnet', protocol],
    'server.banner': () => 'A local chain of Sluice',
    'server.donation_address': () => '',
    'server.ping': () => null,
    'server.peers.subscribe': () => [],
    'server.features': () => ({
      genesis_hash: this.#chain.ledger.block(0)!.hash,
      hosts: {},
      protocol_min: protocol,
      protocol_max: protocol,
      pruning: null,
      server_version: 'sluice devnet',
      hash_function: 'sha256',
    }),
    'blockchain.headers.subscribe': (_, connection) => {
      connection.headers = true
      return this.#head()
    },
    'blockchain.block.header': ([height]) => this.#block(height).header,
    'blockchain.block.headers': ([from, count]) => {
      const headers = this.#chain.ledger.headers(Height.parse(from), Math.min(Height.parse(count), maxHeaders))
      return {hex: headers.join(''), count: headers.length, max: maxHeaders}
    },
    'blockchain.estimatefee': async ([blocks]) => await this.#estimate(z.int().min(1).parse(blocks)),
    'blockchain.relayfee': async () => {
      const {relayfee} = z.object({relayfee: z.number()}).parse(await this.#chain.query('getnetworkinfo', []))
      return relayfee
    },
    'mempool.get_fee_histogram': () => [],
    'blockchain.scripthash.subscribe': ([param], {subscriptions}) => {
      const scripthash = lower(param)
      const status = this.#chain.ledger.status(scripthash)
      subscriptions.set(scripthash, status)
      return status
    },
    'blockchain.scripthash.unsubscribe': ([param], {subscriptions}) => subscriptions.delete(lower(param)),
    'blockchain.scripthash.get_history': ([param]) => this.#chain.ledger.history(lower(param)).map(historyEntry),
    'blockchain.scripthash.get_mempool': ([param]) =>
      this.#chain.ledger.unconfirmedHistory(lower(param)).map(historyEntry),
    'blockchain.scripthash.listunspent': ([param]) =>
      this.#chain.ledger.unspent(lower(param)).map(({outpoint, height, value}) => {
        const [txid, vout] = outpoint.split(':')
        return {tx_hash: txid, tx_pos: Number(vout), height, value: Number(value)}
      }),
    'blockchain.scripthash.get_balance': ([param]) => {
      const {confirmed, unconfirmed} = this.#chain.ledger.balance(lower(param))
      return {confirmed: Number(confirmed), unconfirmed: Number(unconfirmed)}
    },
    'blockchain.transaction.get': async ([param, verbose]) => {
      const txid = lower(param)
      if (verbose) return await this.#chain.query('getrawtransaction', [txid, true])
      // While the chain changes, the journal is ahead of the index, which histories come from.
      const raw = await this.#chain.settled(() => this.#chain.journal.rawTransaction(txid))
      if (raw === undefined) throw new RpcError({code: 2, message: `daemon error: no such transaction ${txid}`})
      return raw
    },
    'blockchain.transaction.broadcast': async ([raw]) => {
      try {
        return await this.#chain.submit(z.string().parse(raw))
      } catch (error) {
        if (!(error instanceof RpcError)) throw error
        const message = `the transaction was rejected by network rules.\n\n${error.message}\n[${raw}]`
        throw new RpcError({code: 1, message})
      }
    },
    'blockchain.transaction.get_merkle': ([param, height]) => {
      const txid = lower(param)
      const {txids} = this.#block(height)
      const pos = txids.indexOf(txid)
      if (pos < 0) throw new RpcError({code: 1, message: `tx ${txid} not in block at height ${height}`})
      return {block_height: height, pos, merkle: merkleBranch(txids, pos)}
    },
    'blockchain.transaction.id_from_pos': ([height, position, merkle]) => {
      const pos = Height.parse(position)
      const {txids} = this.#block(height)
      const txid = txids[pos]
      if (!txid) throw new RpcError({code: 1, message: `no tx at position ${pos} in block at height ${height}`})
      return merkle ? {tx_hash: txid, merkle: merkleBranch(txids, pos)} : txid
    },
  }

  #head(): {height: number; hex: string} {
    const {height} = this.#chain.ledger
    return {height, hex: this.#chain.ledger.block(height)!.header}
  }

  #block(height: unknown) {
    const block = this.#chain.ledger.block(Height.parse(height))
    if (!block) throw new RpcError({code: 1, message: `height ${height} out of range`})
    return block
  }

  /** In BTC per kvB; -1 if the node has no estimate, as always on a chain without competition for blocks. */
  async #estimate(blocks: number): Promise<number> {
    const response = await this.#chain.query('estimatesmartfee', [blocks]).catch(error => {
      if (error instanceof RpcError) return {}
      throw error
    })
    const {feerate, fee} = z.object({feerate: z.number().optional(), fee: z.number().optional()}).parse(response)
    return feerate ?? fee ?? -1
  }
}

function lower(param: unknown): string {
  return Hash.parse(param).toLowerCase()
}

function historyEntry({txid, height, fee}: Entry): object {
  return fee === undefined ? {tx_hash: txid, height} : {tx_hash: txid, height, fee: Number(fee)}
}

function merkleBranch(txids: string[], position: number): string[] {
  let level: Uint8Array[] = txids.map(txid => Buffer.from(txid, 'hex').reverse())
  const branch: string[] = []
  for (let at = position; level.length > 1; at >>= 1) {
    if (level.length % 2) level.push(level.at(-1)!)
    branch.push(
      Buffer.from(level[at ^ 1]!)
        .reverse()
        .toString('hex'),
    )
    level = level.flatMap((hash, i) => (i % 2 ? [] : [crypto.hash256(Buffer.concat([hash, level[i + 1]!]))]))
  }
  return branch
}
