// The JSON-RPC face of a local chain, HTTP and WebSocket on one port of 127.0.0.1. Blocks, transactions, receipts, logs and
// traces come from the journal, for the whole life of the chain; state (calls, balances, gas) comes from anvil. What would
// change the engine behind the journal's back is not served.
import {createServer, type IncomingMessage, type Server, type ServerResponse} from 'node:http'
import {type Hex, isAddress, numberToHex, parseEther} from 'viem'
import {type WebSocket, WebSocketServer} from 'ws'
import {z} from 'zod'
import type {Logger} from '../../base/log.ts'
import {RpcError} from '../engine.ts'
import {listenLocally} from '../listen.ts'
import type {LocalChain} from './chain.ts'
import type {Info} from './client.ts'
import {accounts, FINALIZED_DEPTH, faucet, SAFE_DEPTH} from './constants.ts'
import type {Block, FullBlock, Head} from './journal.ts'

const BODY_LIMIT_BYTES = 8 * 1024 * 1024
const MAX_MINED = 10_000

/** Answered by anvil: state at the head or shortly below, and questions about the pool. */
const STATE_METHODS = new Set(
  `eth_accounts eth_call eth_createAccessList eth_estimateGas eth_feeHistory eth_gasPrice eth_getBalance eth_getCode
   eth_getProof eth_getStorageAt eth_getTransactionCount eth_maxPriorityFeePerGas net_listening net_version txpool_content
   txpool_status web3_clientVersion`.split(/\s+/),
)

const Quantity = z
  .string()
  .regex(/^0x[0-9a-f]{1,13}$/i)
  .transform(Number)
const Hash = z
  .string()
  .regex(/^0x[0-9a-f]{64}$/i)
  .transform(hash => hash.toLowerCase())
const Data = z.custom<Hex>(value => typeof value === 'string' && /^0x([0-9a-f]{2})*$/i.test(value), 'bytes as 0x…')
const Address = z.custom<Hex>(value => typeof value === 'string' && isAddress(value, {strict: false}), 'an address')
const Tag = z.union([z.enum(['earliest', 'latest', 'safe', 'finalized', 'pending']), Quantity])
const Filter = z.object({
  fromBlock: Tag.default('latest'),
  toBlock: Tag.default('latest'),
  blockHash: Hash.optional(),
  address: z.union([Address, z.array(Address)]).optional(),
  topics: z.array(z.union([Hash, z.array(Hash), z.null()])).default([]),
})
const Tracer = z.object({
  tracer: z.literal('callTracer', 'only callTracer is kept'),
  tracerConfig: z.object({onlyTopCall: z.literal(false).optional(), withLog: z.literal(false).optional()}).optional(),
})
const Transaction = z.object({
  from: Address.optional(),
  to: Address.nullish().transform(to => to ?? undefined),
  data: Data.optional(),
  input: Data.optional(),
  value: z.string().transform(BigInt).optional(),
  gas: z.string().transform(BigInt).optional(),
})
const Request = z.object({
  id: z.union([z.string(), z.number(), z.null()]).default(null),
  method: z.string(),
  params: z.array(z.unknown()).default([]),
})

export class RpcServer {
  readonly #chain: LocalChain
  readonly #info: Info
  readonly #log: Logger
  readonly #http: Server
  readonly #webSockets: WebSocketServer

  constructor(chain: LocalChain, {blockIntervalMs, log}: {blockIntervalMs: number; log: Logger}) {
    this.#chain = chain
    this.#log = log
    this.#info = {
      chain: chain.code,
      chain_id: chain.chainId,
      block_interval_ms: blockIntervalMs,
      faucet_address: faucet.address,
    }
    this.#http = createServer((request, response) => {
      this.#onHttp(request, response).catch(() => request.destroy()) // the client went away
    })
    this.#webSockets = new WebSocketServer({server: this.#http, maxPayload: BODY_LIMIT_BYTES})
    this.#webSockets.on('connection', socket => this.#onSocket(socket))
    this.#webSockets.on('error', () => {}) // the HTTP server's errors are repeated here
  }

  /** Listens on this port, or on a free one where it is taken or undefined. Resolves to the port. */
  async listen(port: number | undefined): Promise<number> {
    return await listenLocally(this.#http, port)
  }

  close(): void {
    for (const socket of this.#webSockets.clients) socket.terminate()
    this.#http.close()
    this.#http.closeAllConnections()
  }

  // --- transports ---

  async #onHttp(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    let length = 0
    for await (const chunk of request) {
      chunks.push(chunk)
      length += chunk.length
      if (length > BODY_LIMIT_BYTES) return void response.writeHead(413).end()
    }
    if (request.method !== 'POST') return void response.writeHead(405, {allow: 'POST'}).end()
    const answer = await this.#answer(Buffer.concat(chunks).toString())
    response.writeHead(200, {'content-type': 'application/json'}).end(answer)
  }

  #onSocket(socket: WebSocket): void {
    const subscriptions = new Map<string, () => void>()
    socket.on('message', async message => socket.send(await this.#answer(String(message), {socket, subscriptions})))
    socket.on('error', () => {}) // its close follows
    socket.on('close', () => {
      for (const end of subscriptions.values()) end()
    })
  }

  /** The answer to a request, or to a batch, as JSON. */
  async #answer(text: string, connection?: Connection): Promise<string> {
    let requests: unknown
    try {
      requests = JSON.parse(text)
    } catch {
      return JSON.stringify(failure(null, {code: -32700, message: 'the request is not JSON'}))
    }
    if (!Array.isArray(requests)) return JSON.stringify(await this.#one(requests, connection))
    return JSON.stringify(await Promise.all(requests.map(request => this.#one(request, connection))))
  }

  async #one(input: unknown, connection?: Connection): Promise<object> {
    const request = Request.safeParse(input)
    if (!request.success) return failure(null, {code: -32600, message: z.prettifyError(request.error)})
    const {id, method, params} = request.data
    try {
      const result = connection ? this.#subscription(method, params, connection) : undefined
      return {jsonrpc: '2.0', id, result: result ?? (await this.#call(method, params)) ?? null}
    } catch (error) {
      if (error instanceof RpcError) return failure(id, error)
      if (error instanceof z.ZodError) return failure(id, {code: -32602, message: z.prettifyError(error)})
      if (error instanceof RangeError) return failure(id, {code: -32602, message: error.message})
      this.#log.error({error: String(error), method}, 'request failed')
      return failure(id, {code: -32603, message: error instanceof Error ? error.message : String(error)})
    }
  }

  /** The result of a method that belongs to a connection; undefined for the others. */
  #subscription(method: string, params: unknown[], {socket, subscriptions}: Connection): unknown {
    if (method === 'eth_unsubscribe') {
      const [id] = z.tuple([z.string()]).parse(params)
      subscriptions.get(id)?.()
      return subscriptions.delete(id)
    }
    if (method !== 'eth_subscribe') return undefined
    z.tuple([z.literal('newHeads', 'only newHeads can be subscribed to')]).parse(params)
    const id = numberToHex(crypto.getRandomValues(new BigUint64Array(1))[0]!)
    const notify = (block: Block) => {
      const {transactions: _transactions, uncles: _uncles, withdrawals: _withdrawals, ...header} = block
      const params = {subscription: id, result: header}
      socket.send(JSON.stringify({jsonrpc: '2.0', method: 'eth_subscription', params}))
    }
    this.#chain.on('block', notify)
    subscriptions.set(id, () => this.#chain.off('block', notify))
    return id
  }

  // --- methods ---

  async #call(method: string, params: unknown[]): Promise<unknown> {
    if (STATE_METHODS.has(method)) return await this.#chain.query(method, params)
    switch (method) {
      case 'eth_chainId':
        return numberToHex(this.#chain.chainId)
      case 'eth_syncing':
        return false
      case 'eth_blockNumber':
        return numberToHex(this.#chain.head.height)
      case 'eth_getBlockByNumber':
      case 'eth_getBlockByHash':
        return view(this.#block(params[0]), z.boolean().default(false).parse(params[1]))
      case 'eth_getBlockReceipts':
        return this.#block(params[0])?.receipts
      case 'eth_getTransactionByHash':
        return await this.#transaction(Hash.parse(params[0]))
      case 'eth_getTransactionReceipt': {
        const found = this.#chain.journal.inclusion(Hash.parse(params[0]))
        return found?.block.receipts[found.position]
      }
      case 'eth_getLogs':
        return this.#logs(Filter.parse(params[0]))
      case 'debug_traceBlockByHash':
      case 'debug_traceBlockByNumber':
        return this.#callTraces(this.#block(params[0]), params[1])
      case 'trace_block':
        return this.#block(params[0])?.traces
      case 'eth_sendRawTransaction':
        return await this.#chain.submit(Data.parse(params[0]))
      case 'eth_sendTransaction':
        return await this.#send(Transaction.parse(params[0]))
      case 'devnet_info':
        return this.#info
      case 'devnet_fund': {
        const [to, coins] = z.tuple([Address, z.int().min(1)]).parse(params)
        return await this.#fund(to, parseEther(String(coins)))
      }
      case 'devnet_mine':
        return await this.#mine(z.int().min(1).parse(params[0]))
      case 'devnet_reorg': {
        const [depth, keepTransactions] = z.tuple([z.int(), z.boolean()]).parse(params)
        return await this.#chain.reorg(depth, {keepTransactions})
      }
      default:
        throw new RpcError({code: -32601, message: `the local chain does not serve ${method}`})
    }
  }

  /** Pays an address that has nothing; false where it has something. */
  async #fund(to: Hex, value: bigint): Promise<boolean> {
    const balance = await this.#chain.query('eth_getBalance', [to, 'latest'])
    if (BigInt(z.string().parse(balance)) > 0n) return false
    await this.#send({to, value})
    return true
  }

  async #mine(blocks: number): Promise<Head> {
    if (blocks > MAX_MINED) throw new RangeError(`cannot mine ${blocks} blocks at once, only ${MAX_MINED}`)
    return await this.#chain.mine(blocks)
  }

  #block(param: unknown): FullBlock | undefined {
    const key = z.union([Hash, Tag]).parse(param)
    const isHash = typeof key === 'string' && key.startsWith('0x')
    return this.#chain.journal.block(isHash ? key : this.#height(Tag.parse(param)))
  }

  #height(tag: z.infer<typeof Tag>): number {
    if (typeof tag === 'number') return tag
    const depth = {
      latest: 0,
      pending: 0,
      safe: SAFE_DEPTH,
      finalized: FINALIZED_DEPTH,
      earliest: Number.POSITIVE_INFINITY,
    }
    return Math.max(0, this.#chain.head.height - depth[tag])
  }

  async #transaction(txid: string): Promise<unknown> {
    const found = this.#chain.journal.inclusion(txid)
    if (found) return found.block.block.transactions[found.position]
    return await this.#chain.query('eth_getTransactionByHash', [txid]) // it may wait in the pool
  }

  #callTraces(block: FullBlock | undefined, options: unknown): unknown {
    Tracer.parse(options)
    if (!block) throw new RpcError({code: -32000, message: 'block not found'})
    return block.callTraces
  }

  #logs({fromBlock, toBlock, blockHash, address, topics}: z.infer<typeof Filter>): unknown[] {
    const addresses = address && [address].flat().map(one => one.toLowerCase())
    const blocks = blockHash
      ? [this.#block(blockHash)].filter(block => block !== undefined)
      : this.#chain.journal.blocksWithTransactions(this.#height(fromBlock), this.#height(toBlock))
    return [...blocks]
      .flatMap(block => block.receipts.flatMap(receipt => receipt.logs))
      .filter(log => !addresses || addresses.includes(log.address))
      .filter(log => topics.every((wanted, i) => wanted === null || [wanted].flat().includes(log.topics[i] ?? '')))
  }

  async #send({from, to, data, input, value, gas}: z.infer<typeof Transaction>): Promise<string> {
    const account = from ? accounts.find(({address}) => address.toLowerCase() === from.toLowerCase()) : faucet
    if (!account) throw new RpcError({code: -32000, message: `the local chain has no key for ${from}`})
    return await this.#chain.submitAs(account, {to, data: data ?? input, value, gas})
  }
}

type Connection = {socket: WebSocket; subscriptions: Map<string, () => void>}

function failure(id: string | number | null, {code, message, data}: {code: number; message: string; data?: unknown}) {
  return {jsonrpc: '2.0', id, error: {code, message, data}}
}

function view(full: FullBlock | undefined, withTransactions: boolean): Block | object | undefined {
  if (!full || withTransactions) return full?.block
  return {...full.block, transactions: full.block.transactions.map(transaction => transaction.hash)}
}
