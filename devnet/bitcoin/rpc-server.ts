// The JSON-RPC server of a local Bitcoin chain, HTTP on a port of 127.0.0.1: control of the chain (devnet_*), the
// node's own methods, and whole blocks at /rest/block/<hash>.bin. Methods that would change the node without the
// journal are not served. Any password is accepted.
import {z} from 'zod'
import type {Logger} from '../../base/log.ts'
import {scripthashOf} from '../../chains/bitcoin/script.ts'
import type {Info} from '../client.ts'
import {RpcError} from '../engine.ts'
import {controlMethods, type Failure, failureOf, HttpServer, type Method, type Reply} from '../rpc-server.ts'
import type {BitcoinChain} from './chain.ts'
import {type Payee, scriptOf} from './faucet.ts'

const bodyLimitBytes = 32 * 1024 * 1024
const notServed = new Set(
  `generate generateblock generatetoaddress generatetodescriptor invalidateblock loadtxoutset pruneblockchain preciousblock
   prioritisetransaction reconsiderblock setmocktime setnetworkactive stop submitblock submitheader forget`.split(
    /\s+/,
  ),
)

const Hex = z.string().regex(/^([0-9a-f]{2})+$/i, 'bytes in hex')
const Txid = z.string().regex(/^[0-9a-f]{64}$/)
const Amount = z.string().regex(/^\d+$/).transform(BigInt)
const Outputs = z
  .array(z.union([z.object({to: z.string(), amount: Amount}), z.object({script: Hex, amount: Amount})]))
  .transform(outputs => outputs.map(payee))
const FeeRate = z
  .number()
  .min(0)
  .nullish()
  .transform(rate => rate ?? undefined)
const Mine = z
  .object({
    only: z.array(Txid).optional(),
    include: z.array(Hex).optional(),
    to: z.string().transform(scriptOf).optional(),
  })
  .default({})
const Reorg = z
  .object({
    transactions: z.enum(['dropped', 'unconfirmed', 'same-height', 'later']).optional(),
    include: z.array(Hex).optional(),
    only: z.array(Txid).optional(),
    rest: z.enum(['dropped', 'unconfirmed']).optional(),
    keepTransactions: z.boolean().optional(),
    doubleSpend: Txid.optional(),
  })
  .default({})
const Invalidate = z.object({transactions: z.enum(['dropped', 'unconfirmed']).optional()}).default({})
const Request = z.object({
  jsonrpc: z.string().optional(),
  id: z.union([z.string(), z.number(), z.null()]).default(null),
  method: z.string(),
  params: z.union([z.array(z.unknown()), z.record(z.string(), z.unknown())]).default([]),
})
type Request = z.infer<typeof Request>

export class BitcoinRpcServer extends HttpServer {
  readonly #chain: BitcoinChain
  readonly #log: Logger
  readonly #controls: Record<string, Method>

  constructor(chain: BitcoinChain, info: Info, log: Logger) {
    super(bodyLimitBytes, ({method, path, body}) => (method === 'GET' ? this.#rest(path) : this.#response(body)))
    this.#chain = chain
    this.#log = log
    this.server.keepAliveTimeout = 3_600_000
    this.#controls = controlMethods(info, {
      check: () => chain.query('getblockcount', []), // it responds only while its node does
      settledHead: () => chain.settled(() => chain.head),
      holds: async address => {
        const {confirmed, unconfirmed} = await this.#balance(scriptOf(address))
        return confirmed + unconfirmed
      },
      give: (to, amount) => chain.pay([{script: scriptOf(to), amount}], {}),
      mine: (blocks, options) => {
        const {to: script, ...others} = Mine.parse(options)
        return chain.mine(blocks, {...others, script})
      },
      reorg: (depth, options) => this.#reorg(depth, Reorg.parse(options)),
      forget: txids => chain.forget(z.array(Txid).parse(txids)),
    })
  }

  async #rest(target: string): Promise<Reply> {
    const [, hash] = /^\/rest\/block\/([0-9a-f]{64})\.bin$/.exec(target) ?? []
    const height = hash && this.#chain.journal.find(hash)?.height
    const block = height === undefined || height === '' ? undefined : this.#chain.journal.rawBlock(height)
    if (block) return {status: 200, body: block, type: 'application/octet-stream'}
    return await this.#chain.forward(target) // a block of an abandoned branch, and other paths
  }

  /** The response to a request, or to a batch: methods that are not ours go to the node unchanged. */
  async #response(text: string): Promise<Reply> {
    let parsed: unknown
    try {
      parsed = JSON.parse(text)
    } catch {
      return {status: 500, body: JSON.stringify(failure(null, {code: -32700, message: 'Parse error'}))}
    }
    const requests = z.array(Request).safeParse(Array.isArray(parsed) ? parsed : [parsed])
    if (!requests.success || requests.data.every(({method}) => !this.#isOurs(method)))
      return await this.#chain.forward('/', text)
    const responses = []
    for (const request of requests.data) responses.push(await this.#one(request))
    if (Array.isArray(parsed)) return {status: 200, body: JSON.stringify(responses)}
    return {status: responses[0]!.error ? 500 : 200, body: JSON.stringify(responses[0])}
  }

  #isOurs(method: string): boolean {
    return (
      method.startsWith('devnet_') ||
      method === 'sendrawtransaction' ||
      method === 'submitpackage' ||
      (method === 'getblock' && this.#chain.kind === 'bcoin') ||
      notServed.has(method)
    )
  }

  async #one({id, method, params}: Request) {
    try {
      const given = Array.isArray(params) ? params : [params]
      return {result: (await this.#call(method, given)) ?? null, error: null, id}
    } catch (error) {
      return failure(id, failureOf(error, {method, log: this.#log, invalid: -8}))
    }
  }

  async #balance(script: Uint8Array): Promise<{confirmed: bigint; unconfirmed: bigint}> {
    return await this.#chain.settled(() => this.#chain.ledger.balance(scripthashOf(script)))
  }

  async #reorg(depth: number, {keepTransactions, doubleSpend, ...options}: z.infer<typeof Reorg>) {
    const {transactions = keepTransactions ? 'later' : 'dropped', include = []} = options
    const rival = doubleSpend === undefined ? [] : [(await this.#chain.conflict(doubleSpend, [])).raw]
    return await this.#chain.reorg(depth, {...options, transactions, include: [...include, ...rival]})
  }

  async #call(method: string, params: unknown[]): Promise<unknown> {
    const chain = this.#chain
    const [first, second, third] = params
    if (notServed.has(method)) throw new RpcError({code: -32601, message: `the local chain does not serve ${method}`})
    const control = this.#controls[method]
    if (control) return await control(params)
    switch (method) {
      case 'sendrawtransaction':
        return await chain.submit(Hex.parse(first), ...params.slice(1))
      case 'submitpackage':
        return await chain.submitPackage(z.array(Hex).parse(first), ...params.slice(1))
      case 'devnet_block':
        return await chain.settled(() => chain.block(z.union([Txid, z.int()]).parse(first)))
      case 'devnet_raw':
        return await chain.settled(() => chain.journal.rawTransaction(Txid.parse(first)))
      case 'devnet_balance': {
        const {confirmed, unconfirmed} = await this.#balance(scriptOf(z.string().parse(first)))
        return {confirmed: String(confirmed), unconfirmed: String(unconfirmed)}
      }
      case 'devnet_pay': {
        const options = z.object({feeRate: FeeRate, inputs: z.array(z.string()).optional()}).parse(second ?? {})
        return await chain.pay(Outputs.parse(first), options)
      }
      case 'devnet_replace':
        return await chain.replace(
          Txid.parse(first),
          Outputs.nullish().parse(second) ?? undefined,
          FeeRate.parse(third),
        )
      case 'devnet_conflict':
        return await chain.conflict(Txid.parse(first), Outputs.nullish().parse(second) ?? undefined)
      case 'getblock':
        if (second !== 3 || chain.kind === 'bitcoind') return await chain.query(method, params)
        return await chain.settled(() => chain.withPrevouts(Txid.parse(first)))
      case 'devnet_invalidate':
        return await chain.invalidate(z.int().parse(first), Invalidate.parse(second))
      default:
        return await chain.query(method, params)
    }
  }
}

function payee(output: {amount: bigint} & ({to: string} | {script: string})): Payee {
  const script = 'to' in output ? scriptOf(output.to) : Buffer.from(output.script, 'hex')
  return {script, amount: output.amount}
}

function failure(id: Request['id'], {code, message}: Failure) {
  return {result: null, error: {code, message}, id}
}
