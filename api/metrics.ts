// What Prometheus reads: requests served by this process, and the state of chains, jobs and webhooks from the database, asked when it
// is scraped. No label names a merchant, a user or an address.
import {Counter, Gauge, Histogram, Registry} from 'prom-client'
import {type Database, statement} from './database.ts'

const readMetrics = statement('read_metrics', 'select metric, chain, value from app.metrics()')

const help: Record<string, string> = {
  sluice_chain_head_height: 'Height of the newest indexed block.',
  sluice_chain_final_height: 'Everything at or below this height is final.',
  sluice_chain_head_age_seconds: 'Age of the newest indexed block by its own timestamp.',
  sluice_chain_halted: '1 while the chain stands still for an operator.',
  sluice_deposits_pending: 'Deposits that are seen and not final.',
  sluice_incidents_open: 'Incidents that wait for an operator.',
  sluice_oldest_due_job_age_seconds: 'For how long the job that is due longest has been waiting.',
  sluice_webhook_deliveries_pending: 'Deliveries that have neither succeeded nor failed.',
  sluice_webhook_endpoints_failing: 'Endpoints whose last attempt failed.',
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
    help: '1 if the database answered this scrape.',
    registers: [this.#registry],
  })
  readonly #gauges = new Map(
    Object.entries(help).map(([name, text]) => {
      const labelNames = /_chain_|_deposits_|_incidents_/.test(name) ? ['chain'] : []
      return [name, new Gauge({name, help: text, labelNames, registers: [this.#registry]})]
    }),
  )
  /** The children of each (method, route, status), so that a request does not look its labels up. */
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

  /** Everything, in the text format of Prometheus. Without a database, what this process knows by itself. */
  async text(db: Database): Promise<string> {
    for (const gauge of this.#gauges.values()) gauge.reset()
    try {
      const rows = await db.rows<[metric: string, chain: string | null, value: number]>(readMetrics)
      for (const [metric, chain, value] of rows) this.#gauges.get(metric)?.set(chain === null ? {} : {chain}, value)
      this.#databaseUp.set(1)
    } catch {
      this.#databaseUp.set(0)
    }
    return this.#registry.metrics()
  }
}
