// Bitcoin as Electrum servers show it, for what the loop follows and for what is unmined. Promises: a transaction counts as mined only by a
// merkle proof that leads to a header of our own chain of headers, and is read from bytes that have its id; a server that contradicts itself,
// or offers a false proof, is dropped, and nothing is written (status tells of it, as long as the chain stands still for it); what is in no
// block, and the server does not have, is absent, whatever a history says; new addresses are subscribed before anything else is asked; the
// history of an address is taken only where it has the status that the server named for it; every status is asked again now and then, because
// an event is never a fact. What a server keeps quiet about, and only that, it can keep from us.
import {createHash} from 'node:crypto'
import type pg from 'pg'
import {z} from 'zod'
import {RetryableError} from '../../base/errors.ts'
import type {Logger} from '../../base/log.ts'
import {
  assertContents,
  assertInBlock,
  type BlockHeader,
  isCoinbase,
  MalformedError,
  parseHeader,
  parseTransaction,
  type Transaction,
} from '../../chains/bitcoin/block.ts'
import {type Electrum, ElectrumError} from '../../chains/bitcoin/electrum.ts'
import {type AddressFormat, addressOfScript, scripthashOf, scriptOfAddress} from '../../chains/bitcoin/script.ts'
import {type BitcoinNetworkData, caip2} from '../../chains/registry.ts'
import type {BlockRef, ChainCursor} from '../cursor.ts'
import type {Link} from '../family.ts'
import {CannotFollow, type ChainSource} from '../follow.ts'
import type {ReadBlock} from '../match.ts'
import type {AddressFeed} from './addresses.ts'
import {HeaderChain} from './headers.ts'
import {blockTimes} from './network.ts'
import {coinbaseSender, type KnownTransaction, readBlock, unknownSender} from './read-block.ts'
import type {Unmined, UnminedSource} from './unmined.ts'

const Txid = z.string().regex(/^[0-9a-f]{64}$/)
const Hex = z.string().regex(/^([0-9a-f]{2})*$/i)
const Tip = z.object({height: z.int().min(0), hex: Hex})
const Headers = z.object({count: z.int().min(0), hex: Hex})
const History = z.array(z.object({tx_hash: Txid, height: z.int().min(-1)}))
const Merkle = z.object({merkle: z.array(Txid), pos: z.int().min(0)})

type History = z.infer<typeof History>

/** What a server answers about a transaction contradicts what it, or the header of the block, says. */
class Contradiction extends MalformedError {
  readonly txid: string

  constructor(txid: string, message: string) {
    super(message)
    this.txid = txid
  }
}

/** A block of our own chain of headers. */
interface Place {
  height: number
  header: BlockHeader
}

const headersPerCall = 2016
/** How far below the top a reorganisation is looked for at first. */
const firstStepBack = 8
/** Within this time every status was asked again. */
const askAgainMs = 600_000
/** Blocks are handed over until they hold so many. */
const transactionsPerCall = 2000
/** Transactions of a block that are named in one go. */
const positionsPerCall = 500
/** Transactions that are kept after they were proven or fetched. */
const cacheSize = 20_000
/** How servers say that there is no such transaction; they refuse for other reasons, too, which say nothing about it. */
const saysNone = /no such (mempool|transaction)|missing transaction|not found/i

export interface ElectrumSourceOptions {
  electrum: Electrum
  cursor: ChainCursor
  db: pg.Pool
  addresses: Pick<AddressFeed, 'take' | 'changed'>
  format: BitcoinNetworkData
  confirmations: number
  log: Logger
  /** Where final blocks are read once more: the block below the lowest of them. Then what is stored is no proof of itself. */
  readsAgainAbove?: BlockRef
}

export class ElectrumSource implements ChainSource, UnminedSource {
  private readonly options: ElectrumSourceOptions
  readonly confirmations: number
  readonly blockTimes = blockTimes
  /** The server's chain as it was at the last look; absent until the first one. */
  private headers: HeaderChain | undefined
  private tip: BlockRef = {height: 0, hash: ''}
  /** Scripthash by address: all that are subscribed. */
  private readonly scripthashes = new Map<string, string>()
  private readonly addressOf = new Map<string, string>()
  private readonly notSubscribed = new Set<string>()
  private readonly histories = new Map<string, History>()
  /** Scripthashes whose history is to be asked. */
  private readonly outdated = new Set<string>()
  private readonly refused = new Set<string>()
  /** What was found late once, so that it is not found again where it leaves no row. */
  private readonly told = new Set<string>()
  private revised = Number.POSITIVE_INFINITY
  private readonly transactions = new Cache<KnownTransaction>(cacheSize)
  /** Transactions that were proven to be in a block: `<block hash>:<txid>`. */
  private readonly proven = new Cache<true>(cacheSize)
  private askAgain: string[] = []
  private askedAgainAt = Date.now()
  private lookedAt: {generation: number} | undefined

  constructor(options: ElectrumSourceOptions) {
    this.options = options
    this.confirmations = options.confirmations
  }

  async changed(signal: AbortSignal): Promise<void> {
    await Promise.race([this.options.electrum.changed(signal), this.options.addresses.changed(signal)])
  }

  async network(): Promise<string> {
    const genesis = await this.askHeader(0)
    if (!genesis) throw new RetryableError('the Electrum server has no block 0')
    return caip2('bip122', genesis.hash)
  }

  async head(): Promise<BlockRef> {
    await this.look()
    return this.tip
  }

  takeRevised(): number | undefined {
    const {revised} = this
    this.revised = Number.POSITIVE_INFINITY
    return Number.isFinite(revised) ? revised : undefined
  }

  async finalBlock(): Promise<BlockRef | undefined> {
    const head = this.headers ? this.tip : (await this.askTip()).ref
    return this.blockAt(Math.max(head.height - this.confirmations + 1, 0))
  }

  async blockAt(height: number): Promise<(BlockRef & {time: Date}) | undefined> {
    const header = this.headers?.at(height) ?? (await this.askHeader(height))
    return header && {height, hash: header.hash, time: header.time}
  }

  async hashAt(height: number): Promise<string | undefined> {
    return (await this.hashesAt([height]))[0]
  }

  async hashesAt(heights: number[]): Promise<(string | undefined)[]> {
    const {headers} = this
    if (headers && heights.every(height => height >= headers.base.height)) return heights.map(at => headers.hashAt(at))
    const calls = heights.map(height => ({method: 'blockchain.block.header', params: [height]}))
    return this.trusting(async () => {
      const answers = await this.options.electrum.batch(calls, Hex)
      return answers.map(answer => (answer instanceof ElectrumError ? undefined : headerOf(answer).hash))
    })
  }

  /** Whoever has the headers has an index of all that is in the blocks. */
  async lacks(height: number): Promise<string | undefined> {
    return (await this.hashAt(height)) === undefined ? 'it has no such block' : undefined
  }

  async blocksAbove(height: number, limit: number): Promise<ReadBlock[]> {
    const {headers} = this
    if (!headers) throw new Error('blocks are asked for after the head')
    const found: Place[] = []
    for (let at = height + 1; at <= Math.min(height + limit, headers.top.height); at++) {
      const header = headers.at(at)
      if (header) found.push({height: at, header})
    }
    const claims = await this.claimed(found)
    const enough = found.findIndex((_, i) => count(found.slice(0, i + 1), claims) >= transactionsPerCall)
    const blocks = enough < 0 ? found : found.slice(0, enough + 1)
    const known = await this.prove(blocks, claims)
    return blocks.map(({height, header}) => {
      const inside = [...claims.get(height)!].map(txid => known.get(txid)!)
      return readBlock(height, header, inside, this.options.format)
    })
  }

  /** What links the blocks of these heights. */
  links(heights: number[]): Link[] {
    return heights.map(height => {
      const header = this.headers?.at(height)
      if (!header) throw new RetryableError(`the Electrum server has no block ${height}`)
      return {height, hash: header.hash, parentHash: header.parentHash}
    })
  }

  /** Believes nothing that was answered before, and asks the next server, where there are several. */
  askAnew(): void {
    this.transactions.clear()
    this.proven.clear()
    for (const scripthash of this.addressOf.keys()) this.outdated.add(scripthash)
    this.options.electrum.drop('another one is asked for a second opinion')
  }

  async unmined(): Promise<Unmined | undefined> {
    if (this.lookedAt?.generation !== this.options.electrum.generation) return
    const {hash: head} = this.tip
    const claims: {txid: string; height: number; scripthash: string}[] = []
    for (const [scripthash, history] of this.histories)
      for (const {tx_hash: txid, height} of history)
        if (height <= 0 || height > this.tip.height) claims.push({txid, height, scripthash}) // histories may be newer than the head
    const {known, none} = await this.fetch(claims.map(({txid}) => txid))
    const missing = claims.filter(({txid}) => !known.has(txid))
    for (const {scripthash} of missing) this.outdated.add(scripthash)
    // One in no block that the server has not is nowhere. One in a block that was not written yet is there all the same.
    if (missing.every(({txid, height}) => none.has(txid) && height <= 0))
      return {head, transactions: [...known.values()]}
  }

  /** Takes in everything that the server shows now: first what is new of us, then its chain, then what happened to us in it. */
  private async look(): Promise<void> {
    this.lookedAt = undefined
    const {generation} = this.options.electrum
    await this.trusting(async () => {
      await this.subscribe()
      await this.lookAtHeaders()
      const changed = await this.lookAtHistories()
      if (!this.options.readsAgainAbove) await this.findLate(changed)
    })
    if (generation === this.options.electrum.generation) this.lookedAt = {generation}
  }

  // Addresses -----------------------------------------------------------------------------------------------------------------------------

  private async subscribe(): Promise<void> {
    const {addresses, electrum, format} = this.options
    for (const address of await addresses.take()) {
      const scripthash = scripthashOf(scriptOfAddress(address, format))
      this.scripthashes.set(address, scripthash)
      this.addressOf.set(scripthash, address)
      this.notSubscribed.add(scripthash)
    }
    if (this.notSubscribed.size) {
      const fresh = [...this.notSubscribed]
      await electrum.subscribeScripthashes(fresh)
      for (const scripthash of fresh) this.notSubscribed.delete(scripthash)
    }
    await electrum.subscribeScripthashes(this.nextToAskAgain())
  }

  private nextToAskAgain(): string[] {
    const now = Date.now()
    const share = Math.min(1, (now - this.askedAgainAt) / askAgainMs)
    const count = Math.floor(this.addressOf.size * share)
    if (!count) return []
    this.askedAgainAt = now
    if (!this.askAgain.length) this.askAgain = [...this.addressOf.keys()]
    return this.askAgain.splice(0, count)
  }

  // Headers -------------------------------------------------------------------------------------------------------------------------------

  private async lookAtHeaders(): Promise<void> {
    const {cursor, format, readsAgainAbove} = this.options
    this.headers ??= new HeaderChain(readsAgainAbove ?? (await cursor.blocksFrom(0)).at(-1)!, format.easiestBits)
    const {ref: tip} = await this.askTip()
    const {headers} = this
    if (headers.hashAt(tip.height) !== tip.hash && tip.height >= headers.base.height) {
      const fork = await this.forkBelow(tip.height)
      if (fork < headers.top.height) this.forget(fork)
      while (headers.top.height < tip.height) {
        const from = headers.top.height + 1
        const more = await this.askHeaders(from, Math.min(headersPerCall, tip.height - from + 1))
        if (!more.length || !headers.extend(more))
          throw new RetryableError('the chain changed while its headers were read')
      }
      if (headers.top.hash !== tip.hash) throw new RetryableError('the head changed while its headers were read')
    }
    this.tip = tip
  }

  /** The height of the newest of our headers that the server has, too. */
  private async forkBelow(tipHeight: number): Promise<number> {
    const headers = this.headers!
    const highest = Math.min(headers.top.height, tipHeight)
    if (highest === headers.top.height && tipHeight > highest) {
      const [next] = await this.askHeaders(highest + 1, 1)
      if (next?.parentHash === headers.top.hash) return highest
    }
    for (let back = firstStepBack; ; back *= 2) {
      const from = Math.max(highest - Math.min(back, headersPerCall - 1), headers.base.height)
      const theirs = await this.askHeaders(from, highest - from + 1)
      const same = theirs.findLastIndex(({hash}, i) => headers.hashAt(from + i) === hash)
      if (same >= 0) return from + same
      if (from === headers.base.height || back >= headersPerCall) {
        throw new CannotFollow(`block ${from} (${headers.hashAt(from)}) is not on the server's chain`)
      }
    }
  }

  /** The server's chain is another one above this height. Nothing tells which transactions are in it at the same height as before. */
  private forget(fork: number): void {
    this.headers!.cut(fork)
    for (const [scripthash, history] of this.histories)
      if (history.some(({height}) => height > fork)) this.outdated.add(scripthash)
  }

  private async askTip(): Promise<{ref: BlockRef}> {
    const {height, hex} = await this.options.electrum.request('blockchain.headers.subscribe', [], Tip)
    return {ref: {height, hash: headerOf(hex).hash}}
  }

  /** Undefined where the server has none. */
  private askHeader(height: number): Promise<BlockHeader | undefined> {
    return this.trusting(async () => {
      const [answer] = await this.options.electrum.batch([{method: 'blockchain.block.header', params: [height]}], Hex)
      return answer instanceof ElectrumError ? undefined : headerOf(answer!)
    })
  }

  private async askHeaders(from: number, count: number): Promise<BlockHeader[]> {
    const answer = await this.options.electrum.request('blockchain.block.headers', [from, count], Headers)
    if (answer.count > count || answer.hex.length !== answer.count * 160)
      throw new MalformedError('headers of another length')
    return Array.from({length: answer.count}, (_, i) => headerOf(answer.hex.slice(i * 160, (i + 1) * 160)))
  }

  // Histories -----------------------------------------------------------------------------------------------------------------------------

  /** The scripthashes whose history is another one than before, or may be in other blocks. */
  private async lookAtHistories(): Promise<string[]> {
    const {electrum} = this.options
    for (const scripthash of electrum.takeChanged()) this.outdated.add(scripthash)
    if (!this.outdated.size) return []
    let asked = [...this.outdated]
    const changed: string[] = []
    for (let attempt = 1; asked.length; attempt++) {
      const calls = asked.map(scripthash => ({method: 'blockchain.scripthash.get_history', params: [scripthash]}))
      const answers = await electrum.batch(calls, History)
      const statuses = electrum.statuses()
      const doubtful: string[] = []
      asked.forEach((scripthash, i) => {
        const history = answers[i]!
        if (history instanceof ElectrumError) {
          this.sayRefused(scripthash, history)
        } else if (statusOf(history) !== statuses.get(scripthash)) doubtful.push(scripthash)
        else {
          this.histories.set(scripthash, history)
          this.outdated.delete(scripthash)
          this.refused.delete(scripthash)
          changed.push(scripthash)
        }
      })
      if (attempt > 1 && doubtful.length) throw new MalformedError('a history is not the one that its status says')
      if (doubtful.length) await electrum.subscribeScripthashes(doubtful) // it may have changed between
      asked = doubtful
    }
    return changed
  }

  /** One history that is too long for the server must not hold up all the others. It is asked for again with each look. */
  private sayRefused(scripthash: string, {message}: ElectrumError): void {
    if (this.refused.has(scripthash)) return
    this.refused.add(scripthash)
    this.options.log.error(
      {error: message, scripthash},
      'the server refuses the history of an address; what it is paid is not seen until then',
    )
  }

  /** Of what is in blocks of ours, but has no row there: the lowest is to be written again. */
  private async findLate(changed: string[]): Promise<void> {
    const headers = this.headers!
    const inBlocks = changed.flatMap(scripthash =>
      this.histories.get(scripthash)!.flatMap(({tx_hash: txid, height}) => {
        const header = headers.at(height)
        const key = `${scripthash}:${txid}:${header?.hash}`
        return header && !this.told.has(key)
          ? [{key, address: this.addressOf.get(scripthash)!, txid, height, hash: header.hash}]
          : []
      }),
    )
    if (!inBlocks.length) return
    const {rows} = await this.options.db.query<{n: string}>(
      `select s.n from unnest($2::text[], $3::text[], $4::int[], $5::text[]) with ordinality as s (address, txid, height, hash, n)
       join chain.block b on b.chain = $1 and b.height = s.height and b.hash = s.hash
       where not exists (
         select from chain.transfer t
         where t.chain = $1 and t.block_height = s.height and t.txid = s.txid and t.recipient = s.address
       ) and not exists (
         select from chain.inclusion i join chain.transfer t on t.id = $1 || ':' || i.sender
         where i.chain = $1 and i.block_height = s.height and i.txid = s.txid and t.recipient = s.address
       )`,
      [
        this.options.cursor.chain,
        inBlocks.map(({address}) => address),
        inBlocks.map(({txid}) => txid),
        inBlocks.map(({height}) => height),
        inBlocks.map(({hash}) => hash),
      ],
    )
    for (const {n} of rows) {
      const {key, height} = inBlocks[Number(n) - 1]!
      this.told.add(key)
      this.revised = Math.min(this.revised, height)
    }
  }

  // Transactions --------------------------------------------------------------------------------------------------------------------------

  /** By height, what histories place there, and what has a row in the very block: that was proven once, whatever a server says now. */
  private async claimed(blocks: Place[]): Promise<Map<number, Set<string>>> {
    const claims = new Map(blocks.map(({height}) => [height, new Set<string>()]))
    for (const history of this.histories.values())
      for (const {tx_hash, height} of history) claims.get(height)?.add(tx_hash)
    if (!blocks.length) return claims
    const {rows} = await this.options.db.query<{txid: string; height: number}>(
      `select b.height, r.txid from unnest($2::int[], $3::text[]) as b (height, hash)
       cross join lateral (
         select txid, block_hash from chain.transfer where chain = $1 and block_height = b.height
         union select txid, block_hash from chain.inclusion where chain = $1 and block_height = b.height
       ) r where r.block_hash = b.hash`,
      [this.options.cursor.chain, blocks.map(({height}) => height), blocks.map(({header}) => header.hash)],
    )
    const stored = rows.filter(({txid, height}) => !claims.get(height)!.has(txid))
    for (const {txid, height} of this.options.readsAgainAbove ? await this.stillThere(stored, blocks) : stored)
      claims.get(height)!.add(txid)
    return claims
  }

  /** Those without the ones that the server proves to be in none of these blocks, whatever histories mention. */
  private async stillThere(stored: {txid: string; height: number}[], blocks: Place[]) {
    const contents = new Map<number, Set<string>>()
    for (const {height, header} of blocks)
      if (stored.some(one => one.height === height)) contents.set(height, await this.contentsOf(height, header))
    return stored.filter(({txid, height}) => contents.get(height)!.has(txid))
  }

  /** The ids of all transactions in a block, proven by its header: the only way to show that something is not there. */
  private contentsOf(height: number, header: BlockHeader): Promise<Set<string>> {
    return this.trusting(async () => {
      const txids: string[] = []
      for (let isEnd = false; !isEnd; ) {
        const calls = Array.from({length: positionsPerCall}, (_, i) => ({
          method: 'blockchain.transaction.id_from_pos',
          params: [height, txids.length + i, false],
        }))
        const answers = await this.options.electrum.batch(calls, Txid)
        const end = answers.findIndex(answer => answer instanceof ElectrumError)
        isEnd = end >= 0
        txids.push(...((isEnd ? answers.slice(0, end) : answers) as string[]))
      }
      const [first] = (await this.askTransactions(txids.slice(0, 1))).found
      if (!first) throw new MalformedError(`it does not tell what is in block ${height}`)
      assertContents(txids, first.transaction, header)
      return new Set(txids)
    })
  }

  /** The transactions of these blocks, each with a proof. */
  private async prove(blocks: Place[], txids: Map<number, Set<string>>): Promise<Map<string, KnownTransaction>> {
    const claims = blocks.flatMap(place => [...txids.get(place.height)!].map(txid => ({...place, txid})))
    const {known} = await this.fetch(claims.map(({txid}) => txid))
    const unproven = claims.filter(({header, txid}) => !this.proven.get(`${header.hash}:${txid}`))
    const calls = unproven.map(({txid, height}) => ({
      method: 'blockchain.transaction.get_merkle',
      params: [txid, height],
    }))
    await this.trusting(async () => {
      const hidden = claims.find(one => !known.has(one.txid) && !unproven.includes(one))
      if (hidden) throw new Contradiction(hidden.txid, `it has no ${hidden.txid}, which is in block ${hidden.height}`)
      const answers = await this.options.electrum.batch(calls, Merkle)
      for (const [i, {height, header, txid}] of unproven.entries()) {
        try {
          assertProven(txid, known.get(txid)?.transaction, answers[i]!, header)
        } catch (error) {
          // The server may be on another branch already; then it said nothing false.
          if ((await this.askHeader(height))?.hash === header.hash) throw error
          throw new RetryableError('the chain changed while transactions were proven')
        }
        this.proven.set(`${header.hash}:${txid}`, true)
      }
    })
    return known
  }

  /** Those of these transactions that the server has, and which there are none of, as it says. */
  private async fetch(txids: string[]): Promise<{known: Map<string, KnownTransaction>; none: Set<string>}> {
    const known = new Map<string, KnownTransaction>()
    const missing: string[] = []
    for (const txid of new Set(txids)) {
      const cached = this.transactions.get(txid)
      if (cached) known.set(txid, cached)
      else missing.push(txid)
    }
    if (!missing.length) return {known, none: new Set()}
    const {found, none} = await this.askTransactions(missing)
    const parents = await this.askTransactions([...new Set(found.flatMap(({transaction}) => parentOf(transaction)))])
    const parentById = new Map(parents.found.map(({transaction}) => [transaction.txid, transaction]))
    for (const one of found) {
      const sender = senderOf(one.transaction, parentById, this.options.format)
      known.set(one.transaction.txid, {...one, sender})
      this.transactions.set(one.transaction.txid, {...one, sender})
    }
    return {known, none}
  }

  /** Those that the server has, and which there are none of, as it says. */
  private askTransactions(
    txids: string[],
  ): Promise<{found: {transaction: Transaction; raw: string}[]; none: Set<string>}> {
    const calls = txids.map(txid => ({method: 'blockchain.transaction.get', params: [txid]}))
    return this.trusting(async () => {
      const answers = await this.options.electrum.batch(calls, Hex)
      const none = txids.filter((_, i) => answers[i] instanceof ElectrumError && saysNone.test(answers[i].message))
      const found = answers.flatMap((raw, i) => {
        if (raw instanceof ElectrumError) return []
        const txid = txids[i]!
        const transaction = parseTransaction(Buffer.from(raw, 'hex'))
        if (transaction.txid !== txid) throw new Contradiction(txid, `it has another transaction for ${txid}`)
        return [{transaction, raw}]
      })
      return {found, none: new Set(none)}
    })
  }

  /** Drops the server if what it answers cannot be true, so that another one is asked; and says so, because all of them may be like that. */
  private async trusting<T>(ask: () => Promise<T>): Promise<T> {
    const {electrum, cursor, readsAgainAbove} = this.options
    const {generation} = electrum
    try {
      return await ask()
    } catch (error) {
      if (!(error instanceof MalformedError)) throw error
      electrum.drop(error.message, generation)
      const txid = error instanceof Contradiction ? error.txid : undefined
      if (!readsAgainAbove) await cursor.noteContradiction({txid, message: error.message})
      throw new RetryableError(`the Electrum server was dropped: ${error.message}`)
    }
  }
}

function headerOf(hex: string): BlockHeader {
  return parseHeader(Buffer.from(hex, 'hex'))
}

function count(blocks: Place[], claims: Map<number, Set<string>>): number {
  return blocks.reduce((sum, {height}) => sum + claims.get(height)!.size, 0)
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

/** The transaction whose output it spends first. */
function parentOf(transaction: Transaction): string[] {
  return isCoinbase(transaction) ? [] : [splitOutpoint(transaction).txid]
}

function splitOutpoint({inputs}: Transaction): {txid: string; vout: number} {
  const [txid, vout] = inputs[0]!.outpoint.split(':')
  return {txid: txid!, vout: Number(vout)}
}

/** By the parent, to which the transaction is bound; a server could make up a witness. */
function senderOf(transaction: Transaction, parents: Map<string, Transaction>, format: AddressFormat): string {
  if (isCoinbase(transaction)) return coinbaseSender
  const {txid, vout} = splitOutpoint(transaction)
  const output = parents.get(txid)?.outputs[vout]
  return (output && addressOfScript(output.script, format)) ?? unknownSender
}

/** As the protocol has it; null for an address that was never used. */
function statusOf(history: History): string | null {
  if (!history.length) return null
  const text = history.map(({tx_hash, height}) => `${tx_hash}:${height}:`).join('')
  return createHash('sha256').update(text).digest('hex')
}

/** The newest entries, up to a number of them. */
class Cache<T> {
  private readonly entries = new Map<string, T>()
  private readonly size: number

  constructor(size: number) {
    this.size = size
  }

  get(key: string): T | undefined {
    return this.entries.get(key)
  }

  clear(): void {
    this.entries.clear()
  }

  set(key: string, value: T): void {
    this.entries.set(key, value)
    for (const oldest of this.entries.keys()) {
      if (this.entries.size <= this.size) return
      this.entries.delete(oldest)
    }
  }
}
