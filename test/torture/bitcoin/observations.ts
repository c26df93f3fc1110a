// What a local Bitcoin chain showed during the run: its heights over time, and for how long each payment was missing,
// neither in a block nor in the mempool.
import {setTimeout as sleep} from 'node:timers/promises'
import type {BitcoinClient} from '../../../devnet/bitcoin/client.ts'

const pollEveryMs = 400

export class Observations {
  readonly #heads: {at: number; height: number}[] = []
  /** The chain at the last poll, from the first polled block on. */
  readonly #blocks: {hash: string; txids: string[]}[] = []
  #first = 0
  #polledAt = 0
  /** Every transaction that was ever unconfirmed or mined. */
  readonly shown = new Set<string>()
  readonly #payments = new Map<string, {madeAt: number; seenAt: number; longestAbsenceMs: number}>()

  /** Polls until `stopped`. */
  async watch(connect: () => Promise<BitcoinClient>, stopped: AbortSignal): Promise<void> {
    while (!stopped.aborted) {
      await connect()
        .then(client => this.#poll(client))
        .catch(() => {}) // the chain is down
      await sleep(pollEveryMs)
    }
  }

  /** A payment that is about to be sent, or was sent since `madeAt`. */
  expect(txid: string, madeAt: number): void {
    this.#payments.set(txid, {madeAt, seenAt: Date.now(), longestAbsenceMs: 0})
  }

  /** The earliest time at which a payment could be seen; undefined if its maker does not know it. */
  madeAt(txid: string): number | undefined {
    return this.#payments.get(txid)?.madeAt
  }

  noteHead(height: number): void {
    this.#heads.push({at: Date.now(), height})
  }

  /** The greatest height of the chain up to this time, or to the poll after it. */
  highestAt(time: number): number {
    const after = this.#heads.findIndex(({at}) => at >= time)
    const until = after < 0 ? this.#heads : this.#heads.slice(0, after + 1)
    return Math.max(...until.map(({height}) => height))
  }

  /** The longest time, at most, for which a payment was missing. */
  longestAbsenceMs(txid: string): number {
    const {seenAt, longestAbsenceMs} = this.#payments.get(txid)!
    return Math.max(longestAbsenceMs, this.#polledAt - seenAt)
  }

  /** Whether it was missing at the last poll. */
  isMissing(txid: string): boolean {
    return this.#payments.get(txid)!.seenAt < this.#polledAt
  }

  async #poll(client: BitcoinClient): Promise<void> {
    const begunAt = Date.now()
    const mempool = await client.mempool()
    await this.#readBlocks(client)
    const shown = new Set([...mempool, ...this.#blocks.flatMap(({txids}) => txids)])
    for (const txid of shown) this.shown.add(txid)
    const endedAt = Date.now()
    for (const [txid, payment] of this.#payments) {
      if (!shown.has(txid)) continue
      payment.longestAbsenceMs = Math.max(payment.longestAbsenceMs, endedAt - payment.seenAt)
      payment.seenAt = begunAt
    }
    this.#polledAt = begunAt
  }

  async #readBlocks(client: BitcoinClient): Promise<void> {
    const {height} = await client.head()
    this.noteHead(height)
    this.#first ||= height
    this.#blocks.length = Math.min(this.#blocks.length, height - this.#first + 1)
    const unread: {hash: string; txids: string[]}[] = []
    for (let at = height; at >= this.#first; at--) {
      const {hash, txids} = await client.block(at)
      const known = this.#blocks[at - this.#first]
      if (known?.hash === hash) break
      this.#blocks.length = Math.min(this.#blocks.length, at - this.#first)
      unread.unshift({hash, txids})
    }
    this.#blocks.push(...unread)
  }
}
