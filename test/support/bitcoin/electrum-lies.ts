// The ways in which an Electrum server can lie, in the forms of its protocol. `lie` starts one in a LyingElectrum,
// or ends it: the server then sends the notifications that its clients missed, like a server that has caught up.
import {createHash, randomBytes} from 'node:crypto'
import {Transaction} from 'bitcoinjs-lib'
import type {Behaviour} from '../rpc-proxy.ts'
import {type Ask, faults, type LyingElectrum} from './lying-electrum.ts'

export type Lie =
  /**
   * Shows the chain and the unconfirmed transactions as they were when this began, like a server whose node is cut off.
   */
  | 'lags'
  /** Repeats its previous response to every second request. */
  | 'repeats itself'
  /** Returns empty results. */
  | 'returns nothing'
  /**
   * Sends errors, broken connections, half responses and invalid JSON in turn. Sometimes it responds, and always to the
   * handshake.
   */
  | 'fails'
  | 'hangs'
  /** Has another block 0. Connected clients do not ask for it again. */
  | 'is of another network'
  /** Merkle proofs lead to another root. */
  | 'forges proofs'
  /** Shows unconfirmed transactions, and one that does not exist, in the newest block, with proofs. */
  | 'forges histories'
  /** Adds 0.01 to the first output of each transaction. */
  | 'forges transactions'

interface Entry {
  tx_hash: string
  height: number
  fee?: number
}

export async function lie(server: LyingElectrum, lie?: Lie): Promise<void> {
  const behave = lie && (await lies[lie](server))
  server.tells = lie === undefined || !['lags', 'returns nothing', 'hangs'].includes(lie)
  server.behave = behave
  if (!lie) await server.retell()
}

const lies: Record<Lie, (server: LyingElectrum) => Behaviour | Promise<Behaviour>> = {
  async lags(server) {
    const {head, headers, histories, proofs} = await server.honestly(ask => takeSnapshot(ask, server.scripthashes))
    const history = (scripthash: unknown) => histories.get(String(scripthash)) ?? []
    return async ({method, params}, pass) => {
      const [first, second] = params
      if (method === 'blockchain.headers.subscribe') return await pass().then(() => head)
      if (method === 'blockchain.block.header') return headers[Number(first)] ?? faults.error('no such height')
      if (method === 'blockchain.block.headers') return sliceOf(headers, Number(first), Number(second))
      if (method === 'blockchain.scripthash.get_history') return history(first)
      if (method === 'blockchain.scripthash.get_mempool') return history(first).filter(({height}) => height <= 0)
      if (method === 'blockchain.scripthash.subscribe') return await pass().then(() => statusOf(history(first)))
      if (method === 'blockchain.transaction.get_merkle') return proofs.get(`${first} ${second}`) ?? (await pass())
      return await pass()
    }
  },

  'repeats itself'() {
    const before = new Map<string, unknown>()
    let calls = 0
    return async (call, pass) => {
      const question = JSON.stringify(call)
      const response = await pass()
      if (++calls % 2 === 0 && before.has(question)) return before.get(question)
      before.set(question, response)
      return response
    }
  },

  'returns nothing': () => async (call, pass) => {
    const response = await pass()
    const {method} = call
    if (method === 'blockchain.scripthash.subscribe') return null
    if (method.startsWith('blockchain.scripthash.')) return []
    if (method === 'blockchain.block.headers') return {hex: '', count: 0, max: 2016}
    if (method === 'blockchain.transaction.get') faults.error('No such mempool or blockchain transaction.', 2)
    if (method === 'blockchain.transaction.get_merkle') faults.error('tx not in block', 1)
    return response
  },

  fails() {
    const noJson = () => faults.send('{"jsonrpc":')
    const error = () => faults.error('internal error')
    const ways = [error, undefined, faults.drop, undefined, error, faults.truncate, undefined, error, noJson, undefined]
    const greeting = ['server.version', 'blockchain.block.header']
    let calls = 0
    return async ({method}, pass) => {
      const way = greeting.includes(method) ? undefined : ways[calls++ % ways.length]
      return way ? way() : await pass()
    }
  },

  hangs: () => () => faults.hang(),

  'is of another network': () => async (call, pass) => {
    const response = await pass()
    if (call.method === 'server.features') return {...(response as object), genesis_hash: '00'.repeat(32)}
    if (call.method !== 'blockchain.block.header' || call.params[0] !== 0) return response
    return `02${String(response).slice(2)}`
  },

  'forges proofs': () => async (call, pass) => {
    const response = await pass()
    if (call.method !== 'blockchain.transaction.get_merkle') return response
    const {merkle} = response as {merkle: string[]}
    return {...(response as object), merkle: [randomHash(), ...merkle.slice(1)]}
  },

  async 'forges histories'(server) {
    const {height} = (await server.honestly(ask => ask('blockchain.headers.subscribe'))) as {height: number}
    const invented = {tx_hash: randomHash(), height}
    const forge = (history: Entry[]) => [
      ...history.map(entry => (entry.height > 0 ? entry : {tx_hash: entry.tx_hash, height})),
      invented,
    ]
    const proof = {block_height: height, pos: 1, merkle: [randomHash()]}
    return async ({method, params}, pass) => {
      if (method === 'blockchain.transaction.get_merkle') return await Promise.resolve(pass()).catch(() => proof)
      if (method === 'blockchain.scripthash.get_mempool') return []
      if (method === 'blockchain.scripthash.get_history') return forge((await pass()) as Entry[])
      if (method !== 'blockchain.scripthash.subscribe') return await pass()
      await pass()
      const history = await server.honestly(ask => ask('blockchain.scripthash.get_history', params[0]))
      return statusOf(forge(history as Entry[]))
    }
  },

  'forges transactions': () => async (call, pass) => {
    const response = await pass()
    if (call.method !== 'blockchain.transaction.get' || typeof response !== 'string') return response
    const transaction = Transaction.fromHex(response)
    transaction.outs[0]!.value += 1_000_000n
    return transaction.toHex()
  },
}

interface Snapshot {
  head: {height: number; hex: string}
  headers: string[]
  histories: Map<string, Entry[]>
  /** Keys are '<txid> <height>'. */
  proofs: Map<string, unknown>
}

async function takeSnapshot(ask: Ask, scripthashes: Set<string>): Promise<Snapshot> {
  const head = (await ask('blockchain.headers.subscribe')) as Snapshot['head']
  const headers: string[] = []
  while (headers.length <= head.height) {
    const count = Math.min(head.height + 1 - headers.length, 2016)
    const {hex} = (await ask('blockchain.block.headers', headers.length, count)) as {hex: string}
    headers.push(...hex.match(/.{160}/g)!)
  }
  const histories: Snapshot['histories'] = new Map()
  const proofs: Snapshot['proofs'] = new Map()
  for (const scripthash of scripthashes) {
    const history = (await ask('blockchain.scripthash.get_history', scripthash)) as Entry[]
    histories.set(scripthash, history)
    for (const {tx_hash, height} of history) {
      if (height <= 0) continue
      proofs.set(`${tx_hash} ${height}`, await ask('blockchain.transaction.get_merkle', tx_hash, height))
    }
  }
  return {head, headers, histories, proofs}
}

function sliceOf(headers: string[], from: number, count: number): {hex: string; count: number; max: number} {
  const slice = headers.slice(from, from + Math.min(count, 2016))
  return {hex: slice.join(''), count: slice.length, max: 2016}
}

/** As the protocol defines it. */
function statusOf(history: Entry[]): string | null {
  if (history.length === 0) return null
  const text = history.map(({tx_hash, height}) => `${tx_hash}:${height}:`).join('')
  return createHash('sha256').update(text).digest('hex')
}

function randomHash(): string {
  return randomBytes(32).toString('hex')
}
