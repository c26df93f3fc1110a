// A chain in memory for the property test of the follow loop: random forks, transactions that are mined again elsewhere
// or run again with another result, and addresses handed out just before. It has several sources, and one of them makes
// every error that sources make.

import type {Candidate, ReadBlock} from '../../indexers/block.ts'
import type {BlockRef} from '../../indexers/cursor.ts'
import type {ChainSource} from '../../indexers/follow.ts'

/** A number from 0 up to 1. */
export type Chance = () => number

interface FakeTransaction {
  txid: string
  /** Sent by an address of ours. */
  ours: boolean
  fee: bigint
  outputs: Candidate[]
  /** The highest block that can hold it. */
  lastHeight: number
}

export interface FakeBlock extends BlockRef {
  parentHash: string
  inside: FakeTransaction[]
}

interface View {
  blocks: FakeBlock[]
  /** Index of the newest final block. */
  final: number
}

export interface FakeOptions {
  random: Chance
  /** The newest final block is this far below the head, or further while finality stalls. */
  finality: number
  /** The address of ours that sends. */
  sender: string
  /** How many blocks after the head a new transaction stays valid; absent: it never expires. */
  lifetime?: number
  /** Hands an address out, committed before any transaction pays it. */
  provision: () => Promise<string>
}

export class FakeChain {
  readonly options: FakeOptions
  readonly genesis: string
  readonly byHash = new Map<string, FakeBlock>()
  readonly counts = {blocks: 0, forks: 0, deepest: 0, hidden: 0}
  blocks: FakeBlock[] = []
  final = 0
  readonly history: View[] = []
  /** Transactions that no source shows yet, though their block exists. */
  readonly hidden = new Set<FakeTransaction>()
  hideRate = 0
  #addresses: string[] = []
  #pool: FakeTransaction[] = []
  #serial = 0
  #stalled = 0

  constructor(name: string, options: FakeOptions) {
    this.options = options
    this.genesis = `${name}0`
    this.#append([], {height: -1, hash: ''})
  }

  get head(): FakeBlock {
    return this.blocks.at(-1)!
  }

  /** One event: mostly a block, now and then a fork. */
  async step(): Promise<void> {
    const {random, finality} = this.options
    const deepest = Math.min(12, this.blocks.length - 1 - this.final)
    await this.#transact()
    if (random() < 0.3 && deepest > 0) this.#fork(1 + Math.floor(random() * deepest))
    else this.#mine()
    if (this.#stalled > 0) this.#stalled--
    else if (random() < 0.03) this.#stalled = 5 + Math.floor(random() * 30)
    else this.final = Math.max(this.final, this.blocks.length - 1 - finality)
    this.history.push({blocks: this.blocks, final: this.final})
  }

  /** Ends all faults: blocks until everything before is final. */
  settle(): void {
    for (let i = 0; i < 4 || this.blocks.length - 1 - this.final > this.options.finality; i++) {
      this.#mine()
      this.final = this.blocks.length - 1 - this.options.finality
    }
  }

  async #transact(): Promise<void> {
    const {random, lifetime = Number.POSITIVE_INFINITY} = this.options
    const lastHeight = this.head.height + lifetime
    for (let i = Math.floor(random() * 3); i > 0; i--) {
      const txid = `tx${++this.#serial}`
      const outputs: Candidate[] = []
      for (let outputIndex = 0; outputIndex < 1 + Math.floor(random() * 3); outputIndex++) {
        const token = random() < 0.5 ? 'ETH' : 'USDC'
        const recipientKey = await this.#recipient()
        const kind = token === 'ETH' ? 'native' : 'token'
        outputs.push({txid, outputIndex, kind, token, amount: this.#amount(), sender: 'someone', recipientKey})
      }
      this.#pool.push({txid, ours: random() < 0.2, fee: 1000n, outputs, lastHeight})
    }
  }

  async #recipient(): Promise<string> {
    const {random, provision} = this.options
    const dice = random()
    if (dice < 0.35) return `stranger${Math.floor(random() * 1e6)}`
    if (dice < 0.5 || !this.#addresses.length) this.#addresses.push(await provision())
    return dice < 0.5 ? this.#addresses.at(-1)! : this.#addresses[Math.floor(random() * this.#addresses.length)]!
  }

  #amount(): bigint {
    const {random} = this.options
    return 1n + BigInt(Math.floor(random() * 1e9)) * 10n ** BigInt(Math.floor(random() * 40))
  }

  #append(inside: FakeTransaction[], parent: BlockRef): void {
    const height = parent.height + 1
    const hash = height ? `${this.genesis}.${height}.${this.byHash.size}` : this.genesis
    const block = {height, hash, parentHash: parent.hash, inside}
    this.byHash.set(hash, block)
    this.blocks = [...this.blocks, block] // a new array, so that history keeps the old chain
    this.counts.blocks++
    for (const transaction of inside) {
      if (this.options.random() >= this.hideRate) continue
      this.hidden.add(transaction)
      this.counts.hidden++
    }
  }

  #mine(): void {
    const height = this.head.height + 1
    const taken = this.#pool.filter(({lastHeight}) => this.options.random() < 0.6 && height <= lastHeight)
    this.#pool = this.#pool.filter(transaction => !taken.includes(transaction))
    this.#append(taken, this.head)
  }

  /** The top blocks leave. Their transactions return, return changed, are replaced, or are lost. */
  #fork(depth: number): void {
    const {random} = this.options
    const orphaned = this.blocks.slice(-depth).flatMap(({inside}) => inside)
    this.blocks = this.blocks.slice(0, -depth)
    this.counts.forks++
    this.counts.deepest = Math.max(this.counts.deepest, depth)
    for (const transaction of orphaned) {
      const dice = random()
      if (dice < 0.6) this.#pool.push(transaction)
      else if (dice < 0.75) this.#pool.push(this.#again(transaction))
      else if (dice < 0.85) this.#pool.push(this.#instead(transaction))
    }
    const length = random() < 0.15 ? depth - 1 : depth + Math.floor(random() * 3) // sometimes shorter for a while
    for (let i = 0; i < length; i++) this.#mine()
  }

  /** The same transaction run on another state: a contract may now pay another amount, or another recipient. */
  #again(transaction: FakeTransaction): FakeTransaction {
    const {random} = this.options
    const other = () => this.#addresses[Math.floor(random() * this.#addresses.length)] ?? 'stranger'
    const outputs = transaction.outputs.map(output => {
      const amount = random() < 0.5 ? this.#amount() : output.amount
      return {...output, amount, recipientKey: random() < 0.3 ? other() : output.recipientKey}
    })
    return {...transaction, fee: transaction.fee + 1n, outputs}
  }

  #instead({txid, outputs, lastHeight}: FakeTransaction): FakeTransaction {
    const id = `${txid}r${++this.#serial}`
    return {txid: id, ours: false, fee: 1n, outputs: outputs.map(output => ({...output, txid: id})), lastHeight}
  }
}

export class HonestSource implements ChainSource {
  readonly chain: FakeChain
  readonly confirmations = 1
  readonly blockTimes = {medianOf: 1, marginMs: 0}
  #invalidatedHeight: number | undefined

  constructor(chain: FakeChain) {
    this.chain = chain
  }

  /** From now on one hidden transaction is shown. */
  reveal(share: number): void {
    for (const transaction of [...this.chain.hidden]) {
      if (this.chain.options.random() >= share) continue
      this.chain.hidden.delete(transaction)
      for (const {height, inside} of this.chain.byHash.values())
        if (inside.includes(transaction)) this.#invalidatedHeight = Math.min(height, this.#invalidatedHeight ?? height)
    }
  }

  takeInvalidatedHeight(): number | undefined {
    const invalidatedHeight = this.#invalidatedHeight
    this.#invalidatedHeight = undefined
    return invalidatedHeight
  }

  protected view(): View {
    return {blocks: this.chain.blocks, final: this.chain.final}
  }

  async network(): Promise<string> {
    return this.chain.genesis
  }

  async head(): Promise<BlockRef> {
    return this.view().blocks.at(-1)!
  }

  async finalBlock(): Promise<BlockRef | undefined> {
    const {blocks, final} = this.view()
    return blocks[final]
  }

  async blockAt(height: number): Promise<(BlockRef & {time: Date}) | undefined> {
    const block = this.view().blocks[height]
    return block && {...block, time: timeOf(block)}
  }

  async lacks(): Promise<undefined> {}

  async hashAt(height: number): Promise<string | undefined> {
    return this.view().blocks[height]?.hash
  }

  async hashesAt(heights: number[]): Promise<(string | undefined)[]> {
    const {blocks} = this.view()
    return heights.map(height => blocks[height]?.hash)
  }

  async blocksAbove(height: number, limit: number): Promise<ReadBlock[]> {
    const {blocks} = this.view()
    return blocks.slice(height + 1, height + 1 + limit).map(block => this.#read(block))
  }

  #read(block: FakeBlock): ReadBlock {
    const {height, hash, parentHash} = block
    const inside = block.inside.filter(transaction => !this.chain.hidden.has(transaction))
    const senderKey = this.chain.options.sender
    const sent = inside.flatMap(({txid, ours, fee}) => (ours ? [{txid, senderKey, nonce: 1, executed: true, fee}] : []))
    const candidates = inside.flatMap(({outputs}) => outputs)
    return {height, hash, parentHash, time: timeOf(block), candidates, sent, spends: []}
  }
}

function timeOf({height}: BlockRef): Date {
  return new Date(1.7e12 + height * 1000)
}

/** Like a pool of nodes behind one address: each response may come from another node, another moment, or not at all. */
export class FaultySource extends HonestSource {
  readonly counts: Record<string, number> = {}
  readonly #random: Chance
  #rate: number
  readonly #stranger: FakeChain
  readonly #previous = new Map<string, unknown>()
  #lost = 0 // calls that another network still responds to
  #behind = 0 // calls that a lagging node still responds to

  constructor(chain: FakeChain, stranger: FakeChain, random: Chance, rate: number) {
    super(chain)
    this.#stranger = stranger
    this.#random = random
    this.#rate = rate
  }

  /** No more wrong responses from now on. */
  calm(): void {
    this.#rate = 0
    this.#lost = 0
    this.#behind = 0
  }

  protected override view(): View {
    if (this.#lost > 0) return {blocks: this.#stranger.blocks, final: this.#stranger.final}
    const {history} = this.chain
    const lags = this.#behind > 0 || this.#random() < this.#rate / 2
    return (lags && history[Math.max(0, history.length - 2 - Math.floor(this.#random() * 2))]) || super.view()
  }

  async #response<T>(method: string, right: () => Promise<T>, wrong: (value: T) => T): Promise<T> {
    if (this.#lost > 0) this.#lost--
    if (this.#behind > 0) this.#behind--
    if (this.#random() < this.#rate) {
      const fault = ['error', 'repeat', 'wrong', 'lag', 'network', 'advance'][Math.floor(this.#random() * 6)]!
      this.counts[fault] = (this.counts[fault] ?? 0) + 1
      if (fault === 'error') throw new Error('503')
      if (fault === 'repeat' && this.#previous.has(method)) return this.#previous.get(method) as T
      if (fault === 'lag') this.#behind = 1 + Math.floor(this.#random() * 5)
      if (fault === 'network') this.#lost = 1 + Math.floor(this.#random() * 6)
      if (fault === 'advance') await this.chain.step()
      if (fault === 'wrong') return wrong(await right())
    }
    const value = await right()
    this.#previous.set(method, value)
    return value
  }

  override network(): Promise<string> {
    const right = async () => (this.#lost > 0 ? this.#stranger.genesis : this.chain.genesis)
    return this.#response('network', right, value => value)
  }

  override head(): Promise<BlockRef> {
    return this.#response(
      'head',
      () => super.head(),
      head => (this.#random() < 0.5 ? this.chain.blocks[this.chain.final]! : {...head, height: head.height + 5000}), // too old, or nowhere
    )
  }

  override finalBlock(): Promise<BlockRef | undefined> {
    return this.#response(
      'finalBlock',
      () => super.finalBlock(),
      () => undefined,
    )
  }

  override blockAt(height: number): Promise<(BlockRef & {time: Date}) | undefined> {
    return this.#response(
      `blockAt ${height}`,
      () => super.blockAt(height),
      () => undefined,
    )
  }

  override hashAt(height: number): Promise<string | undefined> {
    return this.#response(
      `hashAt ${height}`,
      () => super.hashAt(height),
      () => undefined,
    )
  }

  override hashesAt(heights: number[]): Promise<(string | undefined)[]> {
    return this.#response(
      `hashesAt ${heights}`,
      () => super.hashesAt(heights),
      all => all.map(() => undefined),
    )
  }

  override blocksAbove(height: number, limit: number): Promise<ReadBlock[]> {
    const wrong = (blocks: ReadBlock[]) => {
      if (this.#random() < 0.3) return []
      if (this.#random() < 0.5) return blocks.filter(() => this.#random() < 0.8)
      return blocks.slice(0, 1)
    }
    return this.#response('blocksAbove', () => super.blocksAbove(height, limit), wrong)
  }
}
