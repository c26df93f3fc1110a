// An indexer's metrics for Prometheus (docs/operations/monitoring.md). Promises: rows count only after their
// transaction is committed.
import {Counter, Gauge, Histogram} from 'prom-client'
import type {EntityManager} from 'typeorm'
import {registry} from '../base/observe.ts'
import type {Cursor} from './cursor.ts'
import {Block, ConfirmedTx, Transfer} from './entities.ts'

const of = {labelNames: ['chain'] as const, registers: [registry]}

export const active = new Gauge({
  name: 'sluice_indexer_active',
  help: '1 while this process follows the chain; 0 while it is on standby or cannot follow it.',
  ...of,
})
const written = new Map<unknown, Counter<'chain'>>([
  [Block, new Counter({name: 'sluice_indexer_blocks_total', help: 'Blocks written.', ...of})],
  [Transfer, new Counter({name: 'sluice_indexer_transfers_total', help: 'Transfers to us written.', ...of})],
  [
    ConfirmedTx,
    new Counter({name: 'sluice_indexer_confirmed_txs_total', help: 'Confirmed transactions of ours written.', ...of}),
  ],
])
export const batchDuration = new Histogram({
  name: 'sluice_indexer_batch_duration_seconds',
  help: 'Time that a committed transaction took to write its blocks.',
  buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
  ...of,
})
const reorgDepth = new Histogram({
  name: 'sluice_indexer_reorg_depth_blocks',
  help: 'Blocks that left the chain in each reorganisation.',
  buckets: [1, 2, 3, 5, 10, 20, 50, 100],
  ...of,
})
export const nodeErrors = new Counter({
  name: 'sluice_indexer_node_errors_total',
  help: 'Requests to the node that failed or got a wrong response.',
  ...of,
})
export const failedRounds = new Counter({
  name: 'sluice_indexer_failed_rounds_total',
  help: 'Polls of the chain that failed and were retried.',
  ...of,
})

/** Starts every counter of this chain at 0: a counter that first appears above 0 shows no increase. */
export function beginCounting(chain: string): void {
  active.set({chain}, 0)
  for (const counter of [...written.values(), nodeErrors, failedRounds]) counter.inc({chain}, 0)
  for (const histogram of [batchDuration, reorgDepth]) histogram.zero({chain})
}

/** Records what is inserted through this manager, which lives for one transaction. The returned function counts it. */
export function noteInserts(manager: EntityManager, chain: string): () => void {
  const noted: {counter: Counter<'chain'>; rows: number}[] = []
  const insert = manager.insert.bind(manager)
  manager.insert = (target, rows) => {
    const counter = written.get(target)
    if (counter) noted.push({counter, rows: [rows].flat().length})
    return insert(target, rows)
  }
  return () => {
    for (const {counter, rows} of noted) counter.inc({chain}, rows)
  }
}

/**
 * The returned function takes the chain's position at each poll, and counts each reorganisation after the first call.
 */
export function reorgCounter(chain: string): (at: Cursor | undefined) => void {
  let last: string | null | undefined
  return at => {
    const now = at?.lastReorgAt ?? null // a chain that is not followed yet has had none
    if (last !== undefined && now !== last) reorgDepth.observe({chain}, at?.lastReorgDepth ?? 0)
    last = now
  }
}

/** The same source; failed requests are counted. */
export function countErrors<Source extends object>(source: Source, chain: string): Source {
  return new Proxy(source, {
    get(target, name) {
      const value = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      return (...given: unknown[]) => {
        const response = value.apply(target, given)
        if (response instanceof Promise) response.catch(() => nodeErrors.inc({chain}))
        return response
      }
    },
  })
}
