// Transactions from Electrum servers. Promises: a transaction is read from bytes that have its id. It counts as mined
// only with a merkle proof that leads to a header of our own chain of headers. It counts as missing from a block only
// if the block's whole contents are proven. "The server does not have it" is distinguished from "the server refuses to
// say".
import {z} from 'zod'
import {RetryableError} from '../../base/errors.ts'
import {
  assertContents,
  assertInBlock,
  type BlockHeader,
  coinbaseSender,
  isCoinbase,
  MalformedError,
  parseTransaction,
  type Transaction,
} from '../../chains/bitcoin/block.ts'
import {ElectrumError} from '../../chains/bitcoin/electrum.ts'
import type {AddressFormat} from '../../chains/bitcoin/script.ts'
import type {ElectrumHeaders, Place} from './electrum-headers.ts'
import {Contradiction, type ElectrumServers} from './electrum-servers.ts'
import {firstSpent, type KnownTransaction, senderOfScript} from './read-block.ts'
import {Hash, Hex} from './shapes.ts'

const Merkle = z.object({merkle: z.array(Hash), pos: z.int().min(0)})

/** Transactions of a block that are listed in one call. */
const positionsPerCall = 500
/** Transactions that stay in the cache after they were proven or fetched. */
const cacheSize = 20_000
/** How servers say that there is no such transaction. Refusals for other reasons say nothing about it. */
const saysNone = /no such (mempool|transaction)|missing transaction|not found/i

/** The claim that a transaction is in a block. */
export interface Claim extends Place {
  txid: string
}

interface Responded {
  found: {transaction: Transaction; raw: string}[]
  /** Ids that do not exist, according to the server. */
  none: Set<string>
}

export class ElectrumTransactions {
  readonly #servers: ElectrumServers
  readonly #headers: ElectrumHeaders
  readonly #format: AddressFormat
  readonly #fetched = new Cache<KnownTransaction>(cacheSize)
  /** Transactions that were proven to be in a block: `<block hash>:<txid>`. */
  readonly #proven = new Cache<true>(cacheSize)

  constructor(servers: ElectrumServers, headers: ElectrumHeaders, format: AddressFormat) {
    this.#servers = servers
    this.#headers = headers
    this.#format = format
  }

  /** Drops everything learnt from earlier responses. */
  forget(): void {
    this.#fetched.clear()
    this.#proven.clear()
  }

  /** Which of these transactions the server has, by txid, and which do not exist according to it. */
  async fetch(txids: string[]): Promise<{known: Map<string, KnownTransaction>; none: Set<string>}> {
    const known = new Map<string, KnownTransaction>()
    const missing: string[] = []
    for (const txid of new Set(txids)) {
      const cached = this.#fetched.get(txid)
      if (cached) known.set(txid, cached)
      else missing.push(txid)
    }
    if (!missing.length) return {known, none: new Set()}
    const {found, none} = await this.#ask(missing)
    const parents = await this.#ask([...new Set(found.flatMap(({transaction}) => parentOf(transaction)))])
    const parentById = new Map(parents.found.map(({transaction}) => [transaction.txid, transaction]))
    for (const one of found) {
      const sender = senderOf(one.transaction, parentById, this.#format)
      known.set(one.transaction.txid, {...one, sender})
      this.#fetched.set(one.transaction.txid, {...one, sender})
    }
    return {known, none}
  }

  /** The claimed transactions by txid, each proven. */
  async prove(claims: Claim[]): Promise<Map<string, KnownTransaction>> {
    const {known} = await this.fetch(claims.map(({txid}) => txid))
    const unproven = claims.filter(({header, txid}) => !this.#proven.get(`${header.hash}:${txid}`))
    const calls = unproven.map(({txid, height}) => ({
      method: 'blockchain.transaction.get_merkle',
      params: [txid, height],
    }))
    await this.#servers.trusting(async electrum => {
      const hidden = claims.find(one => !known.has(one.txid) && !unproven.includes(one))
      if (hidden) throw new Contradiction(hidden.txid, `it has no ${hidden.txid}, which is in block ${hidden.height}`)
      const responses = await electrum.batch(calls, Merkle)
      for (const [i, {height, header, txid}] of unproven.entries()) {
        try {
          assertProven(txid, known.get(txid)?.transaction, responses[i]!, header)
        } catch (error) {
          // The server may already be on another branch; if so, its response was not false.
          const [theirs] = await this.#headers.ask([height])
          if (theirs?.hash === header.hash) throw error
          throw new RetryableError('the chain changed while transactions were proven')
        }
        this.#proven.set(`${header.hash}:${txid}`, true)
      }
    })
    return known
  }

  /**
   * The ids of all transactions in a block, proven by its header. Nothing else can show that a transaction is not in
   * the block.
   */
  contentsOf({height, header}: Place): Promise<Set<string>> {
    return this.#servers.trusting(async electrum => {
      const txids: string[] = []
      for (let isEnd = false; !isEnd; ) {
        const calls = Array.from({length: positionsPerCall}, (_, i) => ({
          method: 'blockchain.transaction.id_from_pos',
          params: [height, txids.length + i, false],
        }))
        const responses = await electrum.batch(calls, Hash)
        const end = responses.findIndex(response => response instanceof ElectrumError)
        isEnd = end >= 0
        txids.push(...((isEnd ? responses.slice(0, end) : responses) as string[]))
      }
      const [first] = (await this.#ask(txids.slice(0, 1))).found
      if (!first) throw new MalformedError(`it returns no transactions of block ${height}`)
      assertContents(txids, first.transaction, header)
      return new Set(txids)
    })
  }

  #ask(txids: string[]): Promise<Responded> {
    const calls = txids.map(txid => ({method: 'blockchain.transaction.get', params: [txid]}))
    return this.#servers.trusting(async electrum => {
      const responses = await electrum.batch(calls, Hex)
      const none = txids.filter((_, i) => responses[i] instanceof ElectrumError && saysNone.test(responses[i].message))
      const found = responses.flatMap((raw, i) => {
        if (raw instanceof ElectrumError) return []
        const txid = txids[i]!
        const transaction = parseTransaction(Buffer.from(raw, 'hex'))
        if (transaction.txid !== txid) throw new Contradiction(txid, `it has another transaction for ${txid}`)
        return [{transaction, raw}]
      })
      return {found, none: new Set(none)}
    })
  }
}

function assertProven(
  txid: string,
  transaction: Transaction | undefined,
  proof: z.infer<typeof Merkle> | ElectrumError,
  {merkleRoot}: BlockHeader,
): void {
  if (!transaction) throw new Contradiction(txid, `a history names ${txid}, and there is no such transaction`)
  if (proof instanceof ElectrumError)
    throw new Contradiction(txid, `a history names ${txid} without proof: ${proof.message}`)
  try {
    assertInBlock(transaction, {siblings: proof.merkle, position: proof.pos}, merkleRoot)
  } catch (error) {
    if (!(error instanceof MalformedError)) throw error
    throw new Contradiction(txid, error.message)
  }
}

/** The transaction whose output the first input spends. */
function parentOf(transaction: Transaction): string[] {
  return isCoinbase(transaction) ? [] : [firstSpent(transaction).txid]
}

/** The sender according to the parent, which the transaction id commits to. A server could invent a witness. */
function senderOf(transaction: Transaction, parents: Map<string, Transaction>, format: AddressFormat): string {
  if (isCoinbase(transaction)) return coinbaseSender
  const {txid, vout} = firstSpent(transaction)
  return senderOfScript(parents.get(txid)?.outputs[vout]?.script, format)
}

/** A cache of the newest entries, up to a maximum number. */
class Cache<T> {
  readonly #entries = new Map<string, T>()
  readonly #size: number

  constructor(size: number) {
    this.#size = size
  }

  get(key: string): T | undefined {
    return this.#entries.get(key)
  }

  clear(): void {
    this.#entries.clear()
  }

  set(key: string, value: T): void {
    this.#entries.set(key, value)
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= this.#size) return
      this.#entries.delete(oldest)
    }
  }
}
