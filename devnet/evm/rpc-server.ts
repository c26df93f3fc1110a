// The JSON-RPC server of a local EVM chain, HTTP and WebSocket on one port of 127.0.0.1. Blocks, transactions,
// receipts, logs and traces come from the journal, for the whole life of the chain; state (calls, balances, gas) comes
// from anvil. Methods that would change the engine without the journal are not served.
import {type Hex, isAddress, numberToHex} from 'viem'
import {type WebSocket, WebSocketServer} from 'ws'
import {z} from 'zod'
import type {Logger} from '../../base/log.ts'
import type {Info} from '../client.ts'
import {RpcError} from '../engine.ts'
import {controlMethods, failureOf, HttpServer, type Method, type Reply, response} from '../rpc-server.ts'
import type {LocalChain} from './chain.ts'
import {accounts, faucet, finalizedDepth, safeDepth} from './constants.ts'
import type {Block, FullBlock} from './journal.ts'

const bodyLimitBytes = 8 * 1024 * 1024

/** Methods for anvil: state at the head or shortly below, and the mempool. */
const stateMethods = new Set(
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
  tracer: z.literal('callTracer', 'only callTracer is supported'),
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
/** What happens to the transactions of replaced blocks. */
const Reorg = z.strictObject(
  {keepTransactions: z.boolean().default(false)},
  {error: 'a reorganisation of an EVM chain either mines all transactions again or drops them all'},
)

export class EvmRpcServer extends HttpServer {
  readonly #chain: LocalChain
  readonly #log: Logger
  readonly #webSockets: WebSocketServer
  readonly #controls: Record<string, Method>

  constructor(chain: LocalChain, info: Info, log: Logger) {
    super(bodyLimitBytes, request => this.#onRequest(request))
    this.#chain = chain
    this.#log = log
    this.#controls = controlMethods(info, {
      check: async () => {}, // the next request replaces an anvil that ended
      settledHead: () => chain.settledHead(),
      holds: address => this.#holds(Address.parse(address)),
      give: (to, value) => chain.submitAs(faucet, {to: Address.parse(to), value}),
      mine: blocks => chain.mine(blocks),
      reorg: (depth, options) => chain.reorg(depth, Reorg.parse(options ?? {})),
      forget: txids => chain.forget(txids),
    })
    this.#webSockets = new WebSocketServer({server: this.server, maxPayload: bodyLimitBytes})
    this.#webSockets.on('connection', socket => this.#onSocket(socket))
    this.#webSockets.on('error', () => {}) // the HTTP server's errors are repeated here
  }

  override close(): void {
    for (const socket of this.#webSockets.clients) socket.terminate()
    super.close()
  }

  // --- transports ---

  async #onRequest({method, body}: {method: string; body: string}): Promise<Reply> {
    return method === 'POST' ? {status: 200, body: await this.#response(body)} : {status: 405, body: ''}
  }

  #onSocket(socket: WebSocket): void {
    const subscriptions = new Map<string, () => void>()
    socket.on('message', async message => socket.send(await this.#response(String(message), {socket, subscriptions})))
    socket.on('error', () => {}) // its close follows
    socket.on('close', () => {
      for (const end of subscriptions.values()) end()
    })
  }

  /** As JSON. */
  async #response(text: string, connection?: Connection): Promise<string> {
    const responded = await response(text, {
      serve: async (method, params) =>
        (connection && this.#subscription(method, params, connection)) ?? (await this.#call(method, params)),
      failed: (error, method) => failureOf(error, {method, log: this.#log, invalid: -32602}),
    })
    return JSON.stringify(responded)
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
    if (stateMethods.has(method)) return await this.#chain.query(method, params)
    const control = this.#controls[method]
    if (control) return await control(params)
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
        const found = this.#chain.journal.confirmedTx(Hash.parse(params[0]))
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
      default:
        throw new RpcError({code: -32601, message: `the local chain does not serve ${method}`})
    }
  }

  async #holds(address: Hex): Promise<bigint> {
    return BigInt(z.string().parse(await this.#chain.query('eth_getBalance', [address, 'latest'])))
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
      safe: safeDepth,
      finalized: finalizedDepth,
      earliest: Number.POSITIVE_INFINITY,
    }
    return Math.max(0, this.#chain.head.height - depth[tag])
  }

  async #transaction(txid: string): Promise<unknown> {
    const found = this.#chain.journal.confirmedTx(txid)
    if (found) return found.block.block.transactions[found.position]
    return await this.#chain.query('eth_getTransactionByHash', [txid]) // it may be in the mempool
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

function view(full: FullBlock | undefined, withTransactions: boolean): Block | object | undefined {
  if (!full || withTransactions) return full?.block
  return {...full.block, transactions: full.block.transactions.map(transaction => transaction.hash)}
}
