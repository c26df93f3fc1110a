// Decides which heads evm-processor follows. By itself, it believes any head height that a node returns: it waits until
// the chain is that high, and drops what it would need to undo its blocks. Promises: the undoable range is counted from
// blocks that were read and that link. A head that is too high is dropped as soon as the node returns another. A head
// that goes back, as behind a balancer, undoes nothing. What the node refuses is told as what the chain waits for
// (reading.ts), and asked for again with the next head; only what cannot be written ends the stream.
import {setTimeout as sleep} from 'node:timers/promises'
import type {RpcClient} from '@subsquid/rpc-client'
import {RetryableError} from '../../base/errors.ts'
import type {Logger} from '../../base/log.ts'
import type {BlockRef} from '../cursor.ts'
import {slower} from '../pace.ts'
import {type BlockSource, isInconsistent, type Navigate, replace} from '../subsquid/source.ts'
import type {FetchedBlock, StreamedBlock} from './block.ts'
import {type Header, headerCall, readHeader} from './header.ts'
import type {Reading} from './reading.ts'

export interface HeadOptions {
  client: RpcClient
  /** How many of the newest blocks can be undone. */
  horizonBlocks: number
  intervalMs: number
  /** Completes the blocks of an update, before they are written. */
  complete(blocks: StreamedBlock[]): Promise<FetchedBlock[]>
  reading: Reading
  log: Logger
}

type Source = BlockSource<StreamedBlock>

/** How many blocks above the newest one are read at once; the processor reads as many. */
const stepBlocks = 10

/** Replaces the processor's own polling of heads, while it catches up and afterwards. */
export function followBelievedHeads(source: Source, options: HeadOptions): void {
  const getFinalizedHeight = finalizedHeights(options)
  const read = source.processHotBlocks.bind(source)
  const {complete, reading} = options
  const processHotBlocks: Source['processHotBlocks'] = (requests, from, write) => {
    let newest = from.top.at(-1)?.height ?? from.height
    const follow = (navigate: Navigate) => followHeads(source, navigate, () => newest, options)
    replace(source, {
      subscription: follow, // the processor's own two loops
      polling: follow,
      getFinalizedHeight: async () => newest - options.horizonBlocks, // used only by a metric that is not served
    })
    return read(requests, from, async update => {
      const blocks = await complete(update.blocks)
      await reading.written(write({...update, blocks}))
      newest = (update.blocks.at(-1)?.header ?? update.baseHead).height
    })
  }
  replace(source, {getFinalizedHeight, processHotBlocks})
}

/** While the processor catches up: N below the highest head that had N linked blocks below it. */
function finalizedHeights(options: HeadOptions): () => Promise<number> {
  const {client, horizonBlocks, intervalMs} = options
  let highest = -1
  return async () => {
    for (;;) {
      const at = await quietly(linkedHead(client, horizonBlocks), options)
      if (at?.isLinked) highest = Math.max(highest, at.head.height - horizonBlocks, 0)
      else if (at) await doubt(at.head, options)
      if (highest >= 0) return highest
      await sleep(intervalMs)
    }
  }
}

/** Once it has caught up. */
async function followHeads(
  source: Source,
  navigate: Navigate,
  newest: () => number,
  options: HeadOptions,
): Promise<void> {
  let highest = -1
  const {client, reading} = options
  const goTo = async (head: BlockRef) => {
    while (head.height >= highest) {
      const next = await stepTo(client, head, newest())
      if (!next) return await doubt(head, options)
      await navigate(next)
      await reading.works()
      highest = next.height
      if (next === head) return
    }
  }
  for await (const head of namedHeads(source, options)) {
    for (let attempt = 1; attempt <= 3; attempt++) {
      try {
        await goTo(head)
        break
      } catch (error) {
        await reading.fails(error, newest())
        if (!isInconsistent(error)) break
        await sleep(100)
      }
    }
  }
}

/** A subscription reports only the next head, and may end, noticed or not. So the head is also polled now and then. */
async function* namedHeads(source: Source, options: HeadOptions): AsyncGenerator<BlockRef> {
  const {client, intervalMs, log} = options
  let subscription = client.supportsNotifications() ? source.subscribeNewHeads() : undefined
  let next = subscription?.take()
  for (let head: BlockRef | undefined; ; ) {
    head ??= await quietly(newestHead(client), options)
    if (head) yield head
    const heard = await Promise.race([
      sleep(next ? slower * intervalMs : intervalMs, 'nothing' as const),
      ...(next ? [next] : []),
    ])
    head = undefined
    if (heard === 'nothing') continue
    if (heard && !(heard instanceof Error)) head = heard
    else {
      log.warn({error: heard?.message}, 'the node reports no more heads; it is asked for them')
      subscription = undefined
    }
    next = subscription?.take()
  }
}

async function newestHead(client: RpcClient): Promise<BlockRef | undefined> {
  return (await headers(client, ['latest']))[0]
}

/** The head, or, if that is far away, a block on the way to it; undefined if the node has none. */
async function stepTo(client: RpcClient, head: BlockRef, newest: number): Promise<BlockRef | undefined> {
  if (head.height <= newest + stepBlocks) return head
  const [block] = await headers(client, [newest + stepBlocks])
  return block?.height === newest + stepBlocks ? block : undefined
}

/** The head, and whether the node has N linked blocks below it; undefined if the node names none. */
async function linkedHead(client: RpcClient, horizonBlocks: number) {
  const head = await newestHead(client)
  return head && {head, isLinked: await isLinked(client, head, horizonBlocks)}
}

/** Whether the node has the head and N linked blocks below it. */
async function isLinked(client: RpcClient, head: BlockRef, horizonBlocks: number): Promise<boolean> {
  const from = Math.max(head.height - horizonBlocks, 0)
  const chain = await headers(
    client,
    Array.from({length: head.height - from + 1}, (_, i) => from + i),
  )
  return (
    chain.at(-1)?.hash === head.hash &&
    chain.every((block, i) => block?.height === from + i && (i === 0 || block.parentHash === chain[i - 1]?.hash))
  )
}

async function headers(client: RpcClient, heights: (number | 'latest')[]): Promise<(Header | undefined)[]> {
  const responses = await client.batchCall(heights.map(headerCall))
  return responses.map(readHeader)
}

/** Runs a request that is repeated soon anyway. */
async function quietly<T>(asked: Promise<T>, {reading}: HeadOptions): Promise<T | undefined> {
  try {
    return await asked
  } catch (error) {
    await reading.fails(error)
    return undefined
  }
}

function doubt({height}: BlockRef, {reading}: HeadOptions): Promise<void> {
  const what = `the node reports the head ${height} but lacks the blocks below it; the head is ignored`
  return reading.fails(new RetryableError(what))
}
