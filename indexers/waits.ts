// Why the chain is not followed now: for status, /readyz and the metrics, and for the log, at once and then once a
// minute. Promises: parts of an indexer that wait at the same time do not overwrite each other's reasons. A reason is
// there from when a part finds it until that part works again; nobody ends or restarts a process for it.
import {RetryableError} from '../base/errors.ts'
import type {Logger} from '../base/log.ts'
import {type Failure, failureOf, inWords} from '../db/client/failure.ts'

/** As a code for programs. docs/operations.md says what to do about each. */
export type WaitingReason =
  | 'node_unavailable'
  | Failure['reason']
  | 'node_behind'
  | 'node_refuses'
  | 'state_pruned'
  | 'response_too_large'
  | 'method_missing'
  | 'tracer_changed'
  | 'wrong_network'
  | 'token_refused'
  | 'fork'
  | 'custody_not_started'
  | 'start_unknown'
  | 'start_height_too_high'
  | 'blocks_missing'

export interface Why {
  reason: WaitingReason
  /** For people: what happened, why, and what to do. */
  message: string
  /** The first block to read, if known. */
  firstHeight?: number | undefined
}

/** The chain cannot be followed for a reason that does not pass at once. */
export class Waiting extends RetryableError {
  override name = 'Waiting'
  readonly reason: WaitingReason
  readonly firstHeight: number | undefined

  constructor(reason: WaitingReason, message: string, firstHeight?: number) {
    super(message)
    this.reason = reason
    this.firstHeight = firstHeight
  }
}

/** What an error says about the chain: the database (its errors say so), or the node. */
export function whyOf(error: unknown): Why {
  const message = withoutPaths(inWords(error))
  if (error instanceof Waiting) return {reason: error.reason, message, firstHeight: error.firstHeight}
  return {reason: failureOf(error)?.reason ?? 'node_unavailable', message}
}

/** What may wait, by itself: reading blocks, or moving the final height. The first one's reason is told. */
const parts = ['reading', 'finality'] as const
type Part = (typeof parts)[number]

const minuteMs = 60_000

interface TellOptions {
  log: Logger
  /** What passes by itself need not be recorded before it has lasted this long. */
  afterMs?: number
}

/** One for each chain (ChainCursor). */
export class Waits {
  readonly #write: (why: Why | undefined) => Promise<void>
  readonly #standing = new Map<Part, Why & {since: number; isTold: boolean}>()
  /** An earlier process may have left a reason. */
  #mayBeTold = true
  readonly #logged = new Map<Part, {reason: string; at: number}>()
  readonly #toldAt = new Map<Part, number>()

  /** `write` records the reason, or that there is none, in the database. */
  constructor(write: (why: Why | undefined) => Promise<void>) {
    this.#write = write
  }

  /** A part waits, and tries again. */
  async tell(part: Part, why: Why, {log, afterMs = 0}: TellOptions): Promise<void> {
    this.#logSparingly(part, why, log)
    if (afterMs === 0) this.#toldAt.set(part, performance.now())
    const before = this.#standing.get(part)
    const since = before?.since ?? performance.now()
    const isTold = before?.isTold || performance.now() - since >= afterMs // what follows a reason that is told is told, too
    this.#standing.set(part, {...why, since, isTold})
    await this.#record()
  }

  /** How long ago a part last said what it waits for, without a doubt: it does not hang. Infinity: never. */
  silentMs(part: Part): number {
    return performance.now() - (this.#toldAt.get(part) ?? Number.NEGATIVE_INFINITY)
  }

  /** A part works again. */
  async end(part: Part): Promise<void> {
    const ended = this.#standing.delete(part)
    if (!ended && !this.#mayBeTold) return
    this.#logged.delete(part)
    await this.#record()
  }

  /** Without a database nothing can be recorded. */
  async #record(): Promise<void> {
    const why = parts.map(part => this.#standing.get(part)).find(standing => standing?.isTold)
    if (!why && !this.#mayBeTold) return
    this.#mayBeTold = true // also if it is written, and the response is lost
    try {
      await this.#write(why)
      this.#mayBeTold = why !== undefined
    } catch (error) {
      if (!failureOf(error)) throw error
    }
  }

  #logSparingly(part: Part, {reason, message}: Why, log: Logger): void {
    const last = this.#logged.get(part)
    if (last?.reason === reason && performance.now() - last.at < minuteMs) return
    this.#logged.set(part, {reason, at: performance.now()})
    log.warn({reason, error: message}, 'the chain cannot be followed now; trying again')
  }
}

/** Shortens URLs to their hosts: the rest may contain a password, or a key of the node's provider. */
function withoutPaths(message: string): string {
  return message.replace(/\b[a-z]+:\/\/[^\s"'<>(),;]+/gi, url => URL.parse(url)?.host ?? 'the node')
}
