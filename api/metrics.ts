// The metrics for Prometheus: requests served by this process, and the state of chains, jobs and webhooks, read from
// the database at each scrape. No label names a merchant, a user or an address. A label names a transaction only if
// servers contradict themselves about it.
import {Counter, Gauge, Histogram, Registry} from 'prom-client'
import {registry as process_} from '../base/observe.ts'
import {type Database, statement} from './database.ts'

const readMetrics = statement('read_metrics', 'select metric, labels, value from app.metrics()')

/** What the database knows; a name that ends in _total is of a counter. */
const known: Record<string, [help: string, ...labels: string[]]> = {
  sluice_chain_head_height: ['Height of the newest indexed block.', 'chain'],
  sluice_chain_final_height: ['Everything at or below this height is final.', 'chain'],
  sluice_chain_head_age_seconds: ['Age of the newest indexed block by its own timestamp.', 'chain'],
  sluice_chain_head_moved_age_seconds: ['Time since a block was indexed, or since the chain was configured.', 'chain'],
  sluice_chain_final_moved_age_seconds: ['Time since the final height moved.', 'chain'],
  sluice_chain_last_reorg_depth_blocks: ['Blocks that left the chain in the last reorganisation.', 'chain'],
  sluice_chain_last_reorg_age_seconds: ['Time since the last reorganisation.', 'chain'],
  sluice_chain_contradicted_seconds: [
    'How long nothing new of the chain could be written, because its servers contradict themselves.',
    'chain',
    'txid',
  ],
  sluice_chain_waiting_seconds: ['How long its indexer has not been able to follow the chain.', 'chain', 'reason'],
  sluice_chain_halted: ['1 while the chain is halted until an operator decides.', 'chain'],
  sluice_deposits_pending: ['Deposits, and payments of payment requests, that are not final yet.', 'chain'],
  sluice_unattributed_deposits: [
    'Final deposits that no merchant was credited with, and that no operator decided about.',
    'chain',
  ],
  sluice_payment_requests_open: ['Payment requests that are neither paid nor ended.', 'chain', 'status'],
  sluice_incidents_open: ['Open incidents; chain="none" if they concern no single chain.', 'chain'],
  sluice_oldest_due_job_age_seconds: ['How long the oldest due job has been waiting.', 'task'],
  sluice_events_unsequenced: ['Events that have no number yet; they are delivered once they have one.'],
  sluice_events_unsequenced_oldest_seconds: ['How long the oldest event without a number has been waiting for it.'],
  sluice_webhook_deliveries_pending: ['Deliveries that have neither succeeded nor failed.'],
  sluice_webhook_deliveries_failed: ['Deliveries that were given up and are still stored.'],
  sluice_webhook_endpoints_disabled: ['Disabled webhook endpoints, by reason.', 'reason'],
  sluice_webhook_endpoints_failing: ['Webhook endpoints whose last attempt failed.'],
  sluice_payouts_open: ['Open payouts: not completed and not failed.', 'chain', 'status'],
  sluice_payouts_failed_total: ['Payouts that failed.', 'chain'],
  sluice_payouts_waiting: ['Payouts that wait, by reason.', 'chain', 'reason'],
  sluice_payout_oldest_wait_seconds: [
    'How long the oldest payout or transaction that waits for this reason has been waiting.',
    'chain',
    'reason',
  ],
  sluice_transactions_open: ['Outgoing payments that are not final.', 'chain', 'kind'],
  sluice_transactions_waiting: ['Outgoing payments that wait, by reason.', 'chain', 'reason'],
  sluice_treasury_balance: ['What the treasury holds, in whole coins.', 'chain', 'token'],
  sluice_treasury_reserved: [
    'The part of the treasury that is reserved for open transactions, in whole coins.',
    'chain',
    'token',
  ],
  sluice_treasury_operator_funds: [
    "The operator's own money in the treasury that is free, in whole coins.",
    'chain',
    'token',
  ],
  sluice_treasury_gas_left_seconds: [
    "How long the operator's own native coins last, at the network fees of the last 7 days.",
    'chain',
  ],
  sluice_address_pool_free: ['Free addresses in the pool.', 'family'],
  sluice_audit_age_seconds: ['Time since an audit ended.'],
  sluice_audit_addresses_age_seconds: [
    'Age of the oldest comparison of an address with the chain: every address that was handed out earlier was compared since.',
    'chain',
  ],
  sluice_audit_incomplete: ['1 if the last audit could not check everything.'],
  sluice_audit_findings: ['What the last audit found wrong.', 'check'],
  sluice_database_size_bytes: ['Size of the database on its disk.'],
  sluice_replica_connected: ['1 while the replica of this replication slot is connected to the primary.', 'slot'],
  sluice_replica_behind_bytes: ['Bytes of the write-ahead log that the primary keeps for the replica.', 'slot'],
  sluice_wal_archive_failing: ['1 while the last attempt to archive a segment of the write-ahead log failed.'],
  sluice_wal_archive_age_seconds: ['Time since a segment of the write-ahead log was archived.'],
  sluice_backup_age_seconds: ['Time since a backup was finished.'],
  sluice_drill_age_seconds: ['Time since a drill succeeded.'],
  sluice_drill_failed: ['1 if the last drill failed.'],
  sluice_delivery_partitions_ahead_seconds: ['How long the existing partitions of deliveries last.'],
}

export class Metrics {
  readonly #registry = new Registry()
  readonly #requests = new Counter({
    name: 'http_requests_total',
    help: 'Requests served.',
    labelNames: ['method', 'route', 'status'],
    registers: [this.#registry],
  })
  readonly #duration = new Histogram({
    name: 'http_request_duration_seconds',
    help: 'Time from the request to the end of its reply.',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers: [this.#registry],
  })
  readonly #databaseUp = new Gauge({
    name: 'sluice_database_up',
    help: '1 if the database responded to this scrape.',
    registers: [this.#registry],
  })
  readonly #connections = new Gauge({
    name: 'sluice_api_database_connections',
    help: 'Connections of this process to the database.',
    labelNames: ['state'],
    registers: [this.#registry],
  })
  readonly #waiting = new Gauge({
    name: 'sluice_api_database_waiting',
    help: 'Statements that wait for a connection.',
    registers: [this.#registry],
  })
  readonly #known = new Map(
    Object.entries(known).map(([name, [help, ...labelNames]]) => {
      const Kind = name.endsWith('_total') ? Counter : Gauge
      return [name, new Kind({name, help, labelNames, registers: [this.#registry]})]
    }),
  )
  /** The children of each (method, route, status), so that no request has to search by labels. */
  readonly #served = new Map<string, {count(): void; observe(seconds: number): void}>()

  readonly contentType = this.#registry.contentType

  /** Counts a request that was served. `route` is the pattern, such as /v1/users/:id. */
  served(method: string, route: string, status: number, seconds: number): void {
    const key = `${method} ${route} ${status}`
    let child = this.#served.get(key)
    if (!child) {
      const requests = this.#requests.labels(method, route, String(status))
      const duration = this.#duration.labels(method, route, String(status))
      child = {count: () => requests.inc(), observe: value => duration.observe(value)}
      this.#served.set(key, child)
    }
    child.count()
    child.observe(seconds)
  }

  /** All metrics in Prometheus's text format. Without a database, only those of this process. */
  async text(db: Database): Promise<string> {
    const {inUse, idle, waiting} = db.usage
    this.#connections.set({state: 'in_use'}, inUse)
    this.#connections.set({state: 'idle'}, idle)
    this.#waiting.set(waiting)
    try {
      const rows = await db.rows<[metric: string, labels: Record<string, string>, value: number]>(readMetrics)
      this.#forget()
      for (const [metric, labels, value] of rows) this.#known.get(metric)?.inc(labels, value)
      this.#databaseUp.set(1)
    } catch {
      this.#forget()
      this.#databaseUp.set(0)
    }
    return (await this.#registry.metrics()) + (await process_.metrics())
  }

  /** Unknown values are left out: a 0 would be mistaken for a real value. */
  #forget(): void {
    for (const metric of this.#known.values()) {
      metric.reset()
      metric.remove({}) // where there are no labels, it would be 0 now
    }
  }
}
