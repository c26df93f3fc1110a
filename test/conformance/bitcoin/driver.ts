// Bitcoin for the conformance suite, read from an Electrum server or from a node, each behind a proxy that can
// misbehave. Each payment spends its own output, so that each can be mined without the others; two with the same output
// exclude each other.
import {randomBytes} from 'node:crypto'
import {address, payments as kinds, networks, Psbt, Transaction} from 'bitcoinjs-lib'
import * as ecc from 'tiny-secp256k1'
import type {BitcoinClient} from '../../../devnet/bitcoin/client.ts'
import {RpcError} from '../../../devnet/engine.ts'
import type {BlockRef} from '../../../indexers/cursor.ts'
import {lie} from '../../support/bitcoin/electrum-lies.ts'
import {faults as electrumFaults, LyingElectrum} from '../../support/bitcoin/lying-electrum.ts'
import {type BitcoinNode, startBitcoin, type TestBitcoin} from '../../support/bitcoin/node.ts'
import {RpcProxy} from '../../support/rpc-proxy.ts'
import type {ChainUnderTest, Fault, LocalChain, Output, Payment, Place, Source} from '../chain.ts'
import {Purses} from '../purses.ts'
import {type Forms, RpcSource} from '../rpc-source.ts'

type Reading = 'electrum' | 'node'

const network = networks.regtest
/** What each payment can spend, in sat, and its fee. */
const purse = 200_000n
const fee = 2000n
const purses = 200

/** Bitcoin as an indexer reads it from an Electrum server, or from a node itself. */
export function bitcoin(reading: Reading, node: BitcoinNode): ChainUnderTest {
  return {
    name: `bitcoin, from ${reading === 'electrum' ? 'an Electrum server' : 'the node'}, on ${node}`,
    code: 'BTC',
    showsUnconfirmed: true,
    isSecondSource: reading === 'electrum',
    start: async finalDepth => {
      const bitcoin = await startBitcoin({node})
      const source = await (reading === 'electrum' ? ElectrumSource.start(bitcoin) : nodeSource(bitcoin))
      return LocalBitcoin.start(bitcoin, source, finalDepth)
    },
  }
}

interface BitcoinSource extends Source {
  environment: Record<string, string>
  close(): Promise<void>
}

interface KnownBlock extends BlockRef {
  txids: string[]
  /** The paid amounts by address. */
  paid: Map<string, bigint>
}

class LocalBitcoin implements LocalChain {
  readonly #bitcoin: TestBitcoin
  readonly source: BitcoinSource
  readonly #finalDepth: number
  readonly #key = randomBytes(32)
  readonly #purse = kinds.p2wpkh({pubkey: ecc.pointFromScalar(this.#key)!, network})
  readonly #purses = new Purses()
  /** The transaction that made the outputs. */
  #fund = ''
  /** The blocks above those that made the purses, as they were last read. */
  #blocks: KnownBlock[] = []
  #firstHeight = 0

  private constructor(bitcoin: TestBitcoin, source: BitcoinSource, finalDepth: number) {
    this.#bitcoin = bitcoin
    this.source = source
    this.#finalDepth = finalDepth
  }

  static async start(bitcoin: TestBitcoin, source: BitcoinSource, finalDepth: number): Promise<LocalBitcoin> {
    const chain = new LocalBitcoin(bitcoin, source, finalDepth)
    await chain.#fill()
    return chain
  }

  async #fill(): Promise<void> {
    const outputs = Array.from({length: purses}, () => ({to: this.#purse.address!, amount: purse}))
    const {txid} = await this.#bitcoin.client.pay(outputs)
    this.#fund = txid
    const {height} = await this.mine()
    this.#firstHeight = height + 1
  }

  get environment(): Record<string, string> {
    return {
      BTC_NETWORK: 'regtest',
      BTC_FINALITY: `${this.#finalDepth + 1}`,
      ...this.source.environment,
    }
  }

  newAddress(): string {
    return this.#bitcoin.client.newAddress()
  }

  async sign(outputs: Output[], insteadOf?: Payment): Promise<Payment> {
    const index = this.#purses.take(insteadOf)
    const change = purse - fee - outputs.reduce((sum, {amount}) => sum + amount, 0n)
    const psbt = new Psbt({network})
    const witnessUtxo = {script: this.#purse.output!, value: purse}
    psbt.addInput({hash: this.#fund, index, sequence: 0xfffffffd, witnessUtxo})
    for (const {to, amount} of outputs) psbt.addOutput({address: to, value: amount})
    psbt.addOutput({script: this.#purse.output!, value: change})
    psbt.signInput(0, {publicKey: this.#purse.pubkey!, sign: hash => ecc.sign(hash, this.#key)})
    const transaction = psbt.finalizeAllInputs().extractTransaction()
    const paid = outputs.map((output, index) => ({...output, index}))
    const payment = {txid: transaction.getId(), raw: transaction.toHex(), outputs: paid}
    this.#purses.spend(index, payment)
    return payment
  }

  async send({raw}: Payment): Promise<void> {
    await this.#bitcoin.client.submit(raw)
  }

  forget({txid}: Payment): Promise<void> {
    return this.#bitcoin.client.forget([txid])
  }

  mine(blocks?: number): Promise<BlockRef> {
    return this.#bitcoin.client.mine(blocks)
  }

  async reorg(depth: number, again: Record<number, Payment[]> = {}): Promise<BlockRef> {
    const {client} = this.#bitcoin
    let head: BlockRef = await client.invalidate(depth, {transactions: 'dropped'})
    const waiting = new Set(await client.mempool())
    const early = Object.values(again).flatMap(list => list.map(({txid}) => txid))
    await client.forget(early.filter(txid => waiting.has(txid)))
    for (let place = 0; place < depth; place++)
      head = await client.mine(1, {only: [], include: (again[place] ?? []).map(({raw}) => raw)})
    return head
  }

  head(): Promise<BlockRef> {
    return this.#bitcoin.client.head()
  }

  async hashAt(height: number): Promise<string | undefined> {
    return (await this.#poll())[height - this.#firstHeight]?.hash ?? (await this.#bitcoin.client.block(height)).hash
  }

  async places(payments: Payment[]): Promise<Place[]> {
    const mined = (await this.#poll()).flatMap(({txids, height, hash}) =>
      txids.map(txid => [txid, {height, hash}] as const),
    )
    const unconfirmed = (await this.#bitcoin.client.mempool()).map(txid => [txid, 'unconfirmed'] as const)
    const places = new Map<string, Place>([...unconfirmed, ...mined])
    return payments.map(({txid}) => places.get(txid))
  }

  async received(to: string): Promise<bigint> {
    return (await this.#poll()).reduce((sum, {paid}) => sum + (paid.get(to) ?? 0n), 0n)
  }

  /** Reads blocks that are new or have changed. */
  async #poll(): Promise<KnownBlock[]> {
    const {client} = this.#bitcoin
    const blocks: KnownBlock[] = []
    for (let {height} = await client.head(); height >= this.#firstHeight; height--) {
      const {hash, txids} = await client.block(height)
      const known = this.#blocks[height - this.#firstHeight]
      if (known?.hash === hash) {
        this.#blocks.length = height - this.#firstHeight + 1
        this.#blocks.push(...blocks.reverse())
        return this.#blocks
      }
      const raw = await Promise.all(txids.map(txid => client.raw(txid)))
      const paid = new Map<string, bigint>()
      for (const {script, value} of raw.flatMap(hex => Transaction.fromHex(hex).outs)) {
        const to = addressOf(script)
        paid.set(to, (paid.get(to) ?? 0n) + value)
      }
      blocks.push({height, hash, txids, paid})
    }
    this.#blocks = blocks.reverse()
    return this.#blocks
  }

  async stop(): Promise<void> {
    await this.source.close()
    await this.#bitcoin.stop()
  }
}

function addressOf(script: Uint8Array): string {
  try {
    return address.fromOutputScript(script, network)
  } catch {
    return '' // not an address of ours
  }
}

class ElectrumSource implements BitcoinSource {
  readonly #server: LyingElectrum
  #fault: Fault | undefined

  private constructor(server: LyingElectrum) {
    this.#server = server
  }

  static async start({electrumUrl}: TestBitcoin): Promise<ElectrumSource> {
    return new ElectrumSource(await LyingElectrum.start(electrumUrl))
  }

  get environment(): Record<string, string> {
    return {BTC_SOURCE: 'electrum', BTC_ELECTRUM_URLS: this.#server.url}
  }

  async behave(fault?: Fault): Promise<void> {
    await lie(this.#server, fault)
    if (this.#fault === 'hangs') this.#server.disconnect()
    this.#fault = fault
  }

  async forget(below: number): Promise<void> {
    this.#server.behave = ({method, params}, pass) => {
      const height = method === 'blockchain.block.header' ? Number(params[0]) : 0 // block 0 identifies the network
      if (height > 0 && height < below) electrumFaults.error('no such height')
      return pass()
    }
  }

  asked(times: number): Promise<void> {
    return this.#server.asked(times)
  }

  close(): Promise<void> {
    return this.#server.close()
  }
}

async function nodeSource(bitcoin: TestBitcoin): Promise<BitcoinSource> {
  const call = (method: string, params: unknown[]) =>
    method === 'GET' ? get(`${bitcoin.rpcUrl}${params[0]}`) : post(bitcoin.rpcUrl, method, params)
  const proxy = await RpcProxy.start({call})
  const url = proxy.httpUrl.replace('//', '//user:password@')
  return Object.assign(new RpcSource(proxy, forms(bitcoin)), {
    environment: {BTC_SOURCE: 'node', BTC_RPC_URL: url},
  })
}

async function get(url: string): Promise<Uint8Array | undefined> {
  const response = await fetch(url)
  return response.ok ? new Uint8Array(await response.arrayBuffer()) : undefined
}

interface Response {
  result: unknown
  error: {code: number; message: string} | null
}

async function post(url: string, method: string, params: unknown[]): Promise<unknown> {
  const response = await fetch(url, {method: 'POST', body: JSON.stringify({jsonrpc: '1.0', id: 1, method, params})})
  const {result, error} = (await response.json()) as Response
  if (error) throw new RpcError(error)
  return result
}

const forms = ({client}: TestBitcoin): Forms => ({
  async lags() {
    const {height: top} = await client.head()
    const hashes = await hashesUpTo(client, top)
    const mempool = await client.mempool()
    return async ({method, params}, pass) => {
      if (method === 'getblockcount') return top
      if (method === 'getbestblockhash') return hashes[top]
      if (method === 'getblockhash') return hashes[Number(params[0])] ?? refuse(-8, 'Block height out of range')
      if (method === 'getrawmempool') return mempool
      if (method !== 'getblockchaininfo') return await pass()
      return {...((await pass()) as object), blocks: top, headers: top, bestblockhash: hashes[top]}
    }
  },

  'returns nothing': () => async (call, pass) => {
    const {method} = call
    if (method === 'GET') return new Uint8Array()
    if (method === 'getblock') return ''
    if (method === 'getrawmempool') return []
    if (method === 'getrawtransaction') refuse(-5, 'No such mempool or blockchain transaction.')
    return await pass()
  },

  'is of another network':
    () =>
    async ({method, params}, pass) =>
      method === 'getblockhash' && params[0] === 0 ? '00'.repeat(32) : await pass(),

  async forgets(below) {
    const forgotten = await hashesUpTo(client, below - 1)
    return ({method, params}, pass) => {
      const isForgotten = forgotten.some(hash => String(params[0]).includes(hash))
      if (method === 'getblock' && isForgotten) refuse(-1, 'Block not available (pruned data)')
      return method === 'GET' && isForgotten ? undefined : pass()
    }
  },
})

function hashesUpTo(client: BitcoinClient, top: number): Promise<string[]> {
  return Promise.all(Array.from({length: top + 1}, async (_, height) => (await client.block(height)).hash))
}

function refuse(code: number, message: string): never {
  throw new RpcError({code, message})
}
