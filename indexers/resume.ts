// The checks before blocks are read: is this the right network, and are our blocks still on it? Promises: nothing is
// written if the node is on another network, or on a main network without permission, if a token's contract contradicts
// the settings, or if the database has other tokens. If a fork above the final block is too deep for the store to undo,
// the chain is rewound to it. A fork below the final block halts the chain after `threshold` observations in a row, and
// nothing moves until an operator decides. While blocks cannot be read, the database says why.
import {setTimeout as sleep} from 'node:timers/promises'
import {RetryableError} from '../base/errors.ts'
import type {Logger} from '../base/log.ts'
import {isMainNetwork} from '../chains/registry.ts'
import type {BlockRef, ChainCursor, Cursor} from './cursor.ts'
import type {ChainView} from './family.ts'
import {threshold} from './finality.ts'
import {failedRounds} from './metrics.ts'
import {startingBlock} from './start.ts'
import {Waiting, type WaitingReason, whyOf} from './waits.ts'

export interface ResumeOptions {
  /** CAIP-2 id of the network that must be followed. */
  network: string
  /** The settings that decide the source's network. */
  networkSettings: string
  /** Why this process must not follow the chain; undefined if it may. */
  refusal?: () => Promise<string | undefined>
  /** Allows a network whose coins are worth money. */
  mainnet?: boolean
  /** The first block to read at the first start (start.ts). */
  startHeight?: number | undefined
  log: Logger
  retryMs?: number
}

/** Waits until blocks can be read from the cursor's position on. */
export async function resume(source: ChainView, cursor: ChainCursor, options: ResumeOptions): Promise<void> {
  const {log, retryMs = 1000} = options
  let observations = {count: 0, of: ''} // a verdict takes effect only after several observations in a row
  for (;;) {
    let waitMs = retryMs
    try {
      const verdict = await poll(source, cursor, options)
      const reason = reasons[verdict.kind]
      if (reason && verdict.kind !== 'go') await cursor.waits.tell('reading', {reason, message: verdict.message}, {log})
      else await cursor.waits.end('reading')
      if (verdict.kind === 'go') return
      observations = {count: observations.of === verdict.kind ? observations.count + 1 : 1, of: verdict.kind}
      if (observations.count === 1) log.warn({height: verdict.height}, verdict.message)
      if (verdict.kind === 'rewind_asked' || (verdict.kind === 'rewind' && observations.count >= threshold)) {
        await cursor.rewind(verdict.to)
        log.warn({height: verdict.to.height}, 'rewound; the blocks above are read again')
      } else if (verdict.kind === 'fork_below_final' && observations.count >= threshold) {
        await cursor.halt(verdict.details)
      }
    } catch (error) {
      failedRounds.inc({chain: cursor.chain})
      observations = {count: 0, of: ''}
      const why = whyOf(error)
      await cursor.waits.tell('reading', why, {log})
      if (forOperators.has(why.reason)) waitMs *= 10
    }
    await sleep(waitMs)
  }
}

/** The recorded reason for each verdict. A halted chain needs none: the halt itself is recorded. */
const reasons: Partial<Record<Verdict['kind'], WaitingReason>> = {
  behind: 'node_behind',
  rewind: 'fork',
  fork_below_final: 'fork',
}

/** Reasons that only an operator can remove, and that take many requests to detect. */
const forOperators = new Set<WaitingReason>(['start_unknown', 'start_height_too_high', 'blocks_missing'])

type Verdict =
  | {kind: 'go'}
  | {kind: 'halted' | 'behind'; height: number; message: string}
  | {kind: 'rewind' | 'rewind_asked'; height: number; message: string; to: BlockRef}
  | {kind: 'fork_below_final'; height: number; message: string; details: object}

async function poll(source: ChainView, cursor: ChainCursor, options: ResumeOptions): Promise<Verdict> {
  const {network, networkSettings, mainnet = false} = options
  const responded = await source.network()
  if (!mainnet && isMainNetwork(responded)) {
    throw new Waiting(
      'wrong_network',
      `the node is on a main network (${responded}), where coins are worth money, and SLUICE_MAINNET does not allow it; use a node of a test network, and check ${networkSettings}`,
    )
  }
  if (responded !== network) {
    throw new Waiting('wrong_network', `the node is on ${responded}, expected ${network}; check ${networkSettings}`)
  }
  const refusal = (await options.refusal?.()) ?? (await source.refusal?.())
  if (refusal !== undefined) throw new Waiting('token_refused', refusal)
  const at = await cursor.read()
  if (!at) return startFollowing(source, cursor, options)
  if (at.network !== network) {
    throw new Waiting(
      'wrong_network',
      `this database follows ${at.network}, and ${cursor.chain} is set to ${network}; check ${networkSettings}, or name another database (DATABASE_URL)`,
    )
  }
  if (at.rewindTo !== null) return rewindAsAsked(source, cursor, at.rewindTo)
  if (at.halted !== null)
    return {kind: 'halted', height: at.finalHeight, message: `${cursor.chain} is halted: ${at.halted}`}
  return compare(source, cursor, at)
}

async function startFollowing(source: ChainView, cursor: ChainCursor, options: ResumeOptions): Promise<Verdict> {
  const {height, hash, time} = await startingBlock(source, cursor, options)
  await cursor.anchor(options.network, height, hash, time)
  return {kind: 'go'}
}

async function rewindAsAsked(source: ChainView, cursor: ChainCursor, height: number): Promise<Verdict> {
  const block = await source.blockAt(height)
  if (!block) throw new RetryableError(`the chain must be rewound to ${height}, but the node has no such block`)
  const ours = await cursor.hashAt(height)
  if (ours !== undefined && ours !== block.hash) {
    throw new RetryableError(
      `the chain must be rewound to ${height}, but the node has another block there; choose a lower height`,
    )
  }
  return {kind: 'rewind_asked', height, message: 'an operator asked to rewind the chain', to: block}
}

/** Compares our blocks with the node's, from the head down. */
async function compare(source: ChainView, cursor: ChainCursor, at: Cursor): Promise<Verdict> {
  const rollbackHeight = await cursor.rollbackHeight()
  const lowest = Math.max(rollbackHeight, at.finalHeight) // the store can and may undo the blocks above
  const fork = await commonBlock(source, await cursor.blocksFrom(Math.min(rollbackHeight, at.finalHeight)))
  if (fork && fork.height >= lowest) return {kind: 'go'}
  if (!(await source.blockAt(lowest))) {
    const message = `the node is behind: it has no block ${lowest}; waiting for it`
    return {kind: 'behind', height: lowest, message}
  }
  if (fork && fork.height >= at.finalHeight) {
    const message = `a reorganisation goes below the rollback horizon, down to ${fork.height}; the chain is rewound if it persists`
    return {kind: 'rewind', height: fork.height, message, to: fork}
  }
  return forkBelowFinal(source, cursor, at)
}

/** Our newest block that the node has too. */
async function commonBlock(source: ChainView, ours: BlockRef[]): Promise<BlockRef | undefined> {
  for (let from = 0; from < ours.length; from += 100) {
    const part = ours.slice(from, from + 100)
    const theirs = await source.hashesAt(part.map(block => block.height))
    const found = part.findIndex((block, i) => block.hash === theirs[i])
    if (found >= 0) return part[found]
  }
}

async function forkBelowFinal(source: ChainView, cursor: ChainCursor, at: Cursor): Promise<Verdict> {
  const theirs = await source.blockAt(at.finalHeight)
  if (theirs?.hash === at.finalHash) {
    const message = 'the node returns sometimes our blocks and sometimes others; waiting until its responses agree'
    return {kind: 'behind', height: at.finalHeight, message}
  }
  const common = await commonBlock(source, await cursor.blocksFrom(0))
  const details = {
    final_height: at.finalHeight,
    our_hash: at.finalHash,
    node_hash: theirs?.hash ?? null,
    common_height: common?.height ?? null,
  }
  const message = `final block ${at.finalHeight} is not on the node's chain; the chain is halted if this persists`
  return {kind: 'fork_below_final', height: at.finalHeight, message, details}
}
