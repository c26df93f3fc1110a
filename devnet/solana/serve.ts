// Serves a local Solana chain: the JSON-RPC API of a node and the control of the chain, and a websocket that tells each
// slot, at one port.
import type {Server} from 'node:http'
import {type WebSocket, WebSocketServer} from 'ws'
import {z} from 'zod'
import {exactly} from '../../base/json.ts'
import {type ChainCode, chain as registered} from '../../chains/registry.ts'
import type {Opened, ServeOptions, Serving} from '../family.ts'
import {listenAgain} from '../listen.ts'
import {controlMethods, failureOf, HttpServer, type Method, response} from '../rpc-server.ts'
import {asRpcError, SolanaApi} from './api.ts'
import {Mining, Reorg, SolanaLocalChain} from './chain.ts'
import {faucet, faucetKey, finalLag} from './constants.ts'
import {type LocalBlock, SolanaJournal} from './journal.ts'
import {tokenCalled, tokenPayment, tokens} from './tokens.ts'
import {payment, transactionWith} from './transaction.ts'
import {Trouble, Troubled} from './trouble.ts'

export const node = 'litesvm'

/** Undefined for the native coin. */
const Token = z
  .string()
  .optional()
  .transform(token => (token === 'SOL' ? undefined : token))
const Address = z.string().regex(/^[1-9A-HJ-NP-Za-km-z]{32,44}$/, 'is no address of Solana')

export function open(code: ChainCode, file: string): Opened {
  const journal = new SolanaJournal(file, code)
  return {journal, serve: options => serve(code, journal, options)}
}

async function serve(code: ChainCode, journal: SolanaJournal, options: ServeOptions): Promise<Serving> {
  const chain = new SolanaLocalChain(journal)
  const server = new HttpServer(2 ** 20, responder(code, chain, options))
  const closeSockets = tellSlots(server.server, chain)
  const port = await listenAgain(journal, 'port', server)
  options.log.info({height: chain.head.height, port}, 'the local chain is ready')
  const url = `http://127.0.0.1:${port}`
  const source = {[`${code}_RPC_URL`]: url, [`${code}_WS_URL`]: `ws://127.0.0.1:${port}`}
  return {
    where: {node, url, control_url: url, identity: {[`${code}_NETWORK`]: 'local', ...tokenSettings(code)}, source},
    mine: async () => chain.mine(),
    async close() {
      closeSockets()
      server.close()
    },
  }
}

/** The settings with the mints of the tokens that the registry knows. */
function tokenSettings(code: ChainCode): Record<string, string> {
  const {assets} = registered(code)
  const known = tokens.filter(({token}) => assets.some(asset => asset.token === token))
  return Object.fromEntries(known.map(({token, mint}) => [`${code}_${token}_CONTRACT`, mint]))
}

function responder(code: ChainCode, chain: SolanaLocalChain, {blockIntervalMs, log}: ServeOptions) {
  const api = new SolanaApi(chain)
  const methods = methodsOf(code, api, {chain, blockIntervalMs})
  const failed = (error: unknown, method: string) => failureOf(asRpcError(error), {method, log, invalid: -32602})
  const serveOne = (method: string, params: unknown[]) =>
    Object.hasOwn(methods, method) ? methods[method]!(params) : api.answer(method, params)
  return async ({body}: {body: string}) => ({
    status: 200,
    body: JSON.stringify(await response(body, {serve: serveOne, failed}), exactly),
  })
}

function methodsOf(
  code: ChainCode,
  api: SolanaApi,
  {chain, blockIntervalMs}: {chain: SolanaLocalChain; blockIntervalMs: number},
): Record<string, Method> {
  const info = {
    chain: code,
    node,
    block_interval_ms: blockIntervalMs,
    confirmations: finalLag + 1,
    faucet_address: faucet,
  }
  const give = (to: string, amount: bigint) =>
    submit(Buffer.from(payment({key: faucetKey, on: chain.head.hash}, to, amount)))
  const submit = (raw: Uint8Array) => {
    chain.check(chain.parse(raw))
    return chain.submit(raw)
  }
  return {
    ...controlMethods(info, {
      check: async () => {},
      settledHead: async () => chain.head,
      holds: async address => (chain.waitsFor(address) ? 1n : (chain.account(address)?.lamports ?? 0n)),
      give: async (to, amount) => give(to, amount),
      mine: async (blocks, options = {}) => chain.mine(blocks, Mining.parse(options)),
      reorg: async (depth, options = {}) => chain.reorg(depth, Reorg.parse(options)),
      forget: async txids => chain.forget(txids),
    }),
    devnet_pay: ([to, amount, token]) => {
      const [recipient, units] = [Address.parse(to), z.string().regex(/^\d+$/).transform(BigInt).parse(amount)]
      const code = Token.parse(token)
      if (code === undefined) return give(recipient, units)
      const paid = tokenPayment(tokenCalled(code), {from: faucet, to: recipient, amount: units})
      return submit(Buffer.from(transactionWith(paid, {key: faucetKey, on: chain.head.hash})))
    },
    devnet_submit: ([raw]) => submit(Buffer.from(z.string().parse(raw), 'hex')),
    devnet_included: ([txid]) => chain.journal.heightOf(z.string().parse(txid)),
    devnet_waiting: () => chain.journal.pool().map(({txid}) => txid),
    devnet_balance: ([address, token]) => {
      const [owner, code] = [Address.parse(address), Token.parse(token)]
      if (code === undefined) return String(chain.account(owner)?.lamports ?? 0n)
      return String(chain.tokenBalance(owner, tokenCalled(code).mint))
    },
    devnet_skip: ([slots]) => chain.skip(z.int().min(1).parse(slots)),
    /** Goes wrong as asked from now on; without a wish, nothing does. */
    devnet_trouble: ([wish]) => {
      api.trouble = new Trouble(Troubled.parse(wish ?? {}))
    },
    /** Blocks below a height are gone. */
    devnet_prune: ([height]) => {
      api.firstHeight = chain.block(z.int().min(0).parse(height)).height
    },
  }
}

/** Without an id, it is a notification (JSON-RPC 2.0, section 4.1), such as the ping of Solana's own client library. */
const Subscribing = z.object({id: z.union([z.int(), z.string()]).optional(), method: z.string()})

/** Tells each new slot to all who subscribe (slotSubscribe). Returns what ends it. */
function tellSlots(server: Server, chain: SolanaLocalChain): () => void {
  const sockets = new WebSocketServer({server})
  const subscribed = new Set<WebSocket>()
  sockets.on('connection', socket => {
    socket.on('close', () => subscribed.delete(socket))
    socket.on('message', data => {
      const asked = Subscribing.safeParse(parsed(String(data))).data
      if (!asked) return socket.close()
      const {id, method} = asked
      if (id === undefined) return
      const result = method === 'slotSubscribe' ? 1 : method === 'slotUnsubscribe' ? true : undefined
      if (method === 'slotSubscribe') subscribed.add(socket)
      if (method === 'slotUnsubscribe') subscribed.delete(socket)
      const error = {code: -32601, message: 'Method not found'}
      socket.send(JSON.stringify({jsonrpc: '2.0', id, ...(result === undefined ? {error} : {result})}))
    })
  })
  chain.onBlock = ({slot, parentSlot: parent}: LocalBlock) => {
    const root = chain.block(chain.heightAt('finalized')).slot
    const params = {result: {slot, parent, root}, subscription: 1}
    const told = JSON.stringify({jsonrpc: '2.0', method: 'slotNotification', params})
    for (const socket of subscribed) socket.send(told)
  }
  return () => {
    for (const socket of sockets.clients) socket.terminate()
    sockets.close()
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
