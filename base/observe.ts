// The metrics and health of every process: GET /metrics for Prometheus, and for health checks GET /livez (it lives) and
// GET /readyz (it does its work: it no longer waits for the database, or for what it needs to begin), on
// HOST:METRICS_PORT if that is set. Promises: no other path is served. Nothing that is served names a merchant, a user
// or an address. If the port is taken, the error says so. The server does not keep the process from ending.
import {once} from 'node:events'
import {createServer, type IncomingMessage, type Server, type ServerResponse} from 'node:http'
import {collectDefaultMetrics, Registry} from 'prom-client'
import {isReady} from './lifecycle.ts'
import {listening} from './listen.ts'
import type {Logger} from './log.ts'

/** The metrics of this process, named in its metrics.ts. Make each one with registers: [registry]. */
export const registry = new Registry()

export interface ObserveOptions {
  host: string
  /** Absent: nothing listens. */
  metricsPort?: number
  log: Logger
  /** The whole of /metrics; absent: what the registry holds. */
  text?: () => Promise<string>
}

/** Begins to measure this process and to serve its metrics. Resolves to a function that ends the server. */
export async function observe({host, metricsPort, log, text}: ObserveOptions): Promise<() => Promise<void>> {
  if (!registry.getSingleMetric('process_start_time_seconds')) measureProcess()
  if (metricsPort === undefined) return async () => {}
  const server = createServer((request, response) => {
    respond(request, response, text ?? (() => registry.metrics())).catch(error => {
      log.error({error: String(error)}, 'the metrics could not be read')
      response.writeHead(500).end()
    })
  })
  server.on('connection', socket => socket.unref())
  const listens = once(server.listen(metricsPort, host), 'listening')
  await listening(listens, host, metricsPort, 'the metrics', 'METRICS_PORT')
  server.unref()
  log.info({host, port: metricsPort}, 'metrics are served')
  return () => close(server)
}

// Samples of the event loop's delay would wake each process 100 times a second, also one that has nothing to do. So the
// delay is measured only when metrics are read (nodejs_eventloop_lag_seconds): the sampling cannot be left out, but
// made so rare that it never happens.
function measureProcess(): void {
  collectDefaultMetrics({register: registry, eventLoopMonitoringPrecision: 2 ** 31 - 1})
  for (const name of ['min', 'max', 'mean', 'stddev', 'p50', 'p90', 'p99'])
    registry.removeSingleMetric(`nodejs_eventloop_lag_${name}_seconds`)
}

const json = {'content-type': 'application/json; charset=utf-8'}

async function respond(request: IncomingMessage, response: ServerResponse, text: () => Promise<string>): Promise<void> {
  const path = request.url?.split('?')[0]
  if (path !== '/metrics' && path !== '/livez' && path !== '/readyz') {
    response.writeHead(404).end('there is nothing at this path\n')
  } else if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.writeHead(405, {allow: 'GET, HEAD'}).end('this path takes GET\n')
  } else if (path === '/livez') {
    response.writeHead(200, json).end('{"alive":true}')
  } else if (path === '/readyz') {
    response.writeHead(isReady() ? 200 : 503, json).end(JSON.stringify({ready: isReady()}))
  } else {
    const body = await text()
    response.writeHead(200, {'content-type': registry.contentType}).end(body)
  }
}

async function close(server: Server): Promise<void> {
  server.closeAllConnections()
  await new Promise(resolve => server.close(resolve))
}
