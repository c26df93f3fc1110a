// The HTTP server of the API. Promises: a route needs a key unless it is marked open. Every reply, except those of open
// routes, states what the rate limit leaves. Every refusal has the contract's format, even where Node would refuse by
// itself. Every reply and every log line of a request has the request's id. A request is authenticated before a byte of
// its body is read. No secret is logged.
import {randomUUID} from 'node:crypto'
import type {IncomingMessage} from 'node:http'
import type {Socket} from 'node:net'
import Fastify, {type FastifyReply, type FastifyRequest} from 'fastify'
import {z} from 'zod'
import type {Logger} from '../base/log.ts'
import type {Scope} from '../base/scopes.ts'
import {whatIsWrong} from '../base/wrong-value.ts'
import {connections} from '../db/client/connections.ts'
import {inWords} from '../db/client/failure.ts'
import type {Outage} from '../db/client/outage.ts'
import type {App, Context} from './app.ts'
import {Database} from './database.ts'
import {docs} from './docs/page.ts'
import {howToSendKey} from './error-codes.ts'
import {ApiError, invalid, invalidRequest, toApiError, tooMany, wrongBody} from './errors.ts'
import {type Holder, Keys} from './keys.ts'
import {Metrics} from './metrics.ts'
import {documentRoutes} from './openapi.ts'
import {RateLimiter} from './rate-limit.ts'
import {Databases} from './replica.ts'
import {balances} from './routes/balances.ts'
import {deposits} from './routes/deposits.ts'
import {events} from './routes/events.ts'
import {health} from './routes/health.ts'
import {pay} from './routes/pay.ts'
import {paymentRequests} from './routes/payment-requests.ts'
import {payoutAddress} from './routes/payout-address.ts'
import {payouts} from './routes/payouts.ts'
import {statements} from './routes/statements.ts'
import {users} from './routes/users.ts'
import {webhookEndpoints} from './routes/webhook-endpoints.ts'

const bodyLimitBytes = 64 * 1024
const poolSize = connections.sluice_api.pool
/** If the replica does not respond in this time, the primary takes the read. */
const replicaTimeoutMs = 3_000
const apiMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const

export interface ServerOptions extends Omit<Context, 'db'> {
  /** URL of the role sluice_api. */
  databaseUrl: string
  /** URL of the same role on a replica, which takes reads. */
  replicaUrl?: string
  rateLimitPerMinute: number
  log: Logger
  outage: Outage
}

/** A server that is ready to listen. close() ends it and its database connections. */
export async function buildServer({
  databaseUrl,
  replicaUrl,
  rateLimitPerMinute,
  log,
  outage,
  ...rest
}: ServerOptions): Promise<App> {
  const limiter = new RateLimiter(rateLimitPerMinute)
  const app: App = Fastify({
    bodyLimit: bodyLimitBytes,
    routerOptions: {maxParamLength: 64 * 1024}, // longer than Node lets any URL be
    requestTimeout: 30_000,
    forceCloseConnections: 'idle',
    http: {requireHostHeader: false}, // admission() refuses a request without Host, with a reply body
    genReqId: requestId,
    frameworkErrors: (error, request, reply) => {
      // The path is no valid URL. No route was matched, so no key was checked.
      reply.headers({...replyHeaders(request.id), 'ratelimit-policy': limiter.policy, ratelimit: limiter.untouched})
      sendError(error, request, reply)
    },
    clientErrorHandler: refuseMalformed,
  })
  // Node would refuse an Expect header with an empty body. admission() refuses it instead.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))
  const primary = new Database(databaseUrl, {max: poolSize, log})
  const forReads = {max: poolSize, log, timeoutMs: replicaTimeoutMs, isForReads: true}
  const replica = replicaUrl ? new Database(replicaUrl, forReads) : undefined
  const db = new Databases(primary, replica, log)
  const keys = new Keys(primary, databaseUrl, {log, outage})
  const context: Context = {db, ...rest}
  const metrics = new Metrics()

  app.decorateRequest('merchantId', '')
  app.decorate('metrics', () => metrics.text(primary))
  app.addHook('onRequest', admission(keys, limiter))
  app.addHook('onResponse', (request, reply, done) => {
    record(request, reply)
    done()
  })
  app.addHook('onClose', async () => {
    await keys.close()
    await db.close()
  })
  app.setErrorHandler(sendError)
  app.setNotFoundHandler(() => undefined) // onRequest refuses it, before its body is read
  app.setValidatorCompiler<z.ZodType>(({schema: given, httpPart}) => {
    const schema = httpPart === 'querystring' ? (given as z.ZodObject).strict() : given
    const parameters = httpPart === 'querystring' ? Object.keys((given as z.ZodObject).shape) : []
    return data => {
      const result = schema.safeParse(data, {error: httpPart === 'body' ? wrongBody : whatIsWrong})
      return result.success ? {value: result.data} : {error: invalidRequest(result.error, parameters)}
    }
  })
  app.addHook('onRoute', route => {
    if (route.config?.open) return
    route.schema = {querystring: z.object({}), ...route.schema} // otherwise no query would be checked
    if (route.config?.withoutKey) return
    if ([route.method].flat().every(method => method === 'GET' || method === 'HEAD'))
      route.config = {...route.config, scope: 'read'}
    if (!route.config?.scope) throw new Error(`${route.method} ${route.url} needs a scope`)
  })
  app.setSerializerCompiler(() => String) // replies are already text; their schemas are for the documentation
  acceptJson(app)
  await documentRoutes(app)

  const refuseOtherMethods = methodsOf(app)
  for (const routes of [
    users,
    deposits,
    balances,
    statements,
    payoutAddress,
    payouts,
    paymentRequests,
    events,
    webhookEndpoints,
  ])
    routes(app, context)
  pay(app, context)
  health(app, context, metrics.contentType)
  docs(app, context)
  refuseOtherMethods()
  await app.ready()
  return app

  function record(request: FastifyRequest, reply: FastifyReply): void {
    if (request.routeOptions.config?.isStream && reply.statusCode < 400) return // it ends when a page is closed
    const route = request.routeOptions.url ?? 'unknown'
    metrics.served(request.method, route, reply.statusCode, reply.elapsedTime / 1000)
    const level = reply.statusCode < 400 ? 'debug' : 'info'
    if (!log.isLevelEnabled(level)) return
    const {method, merchantId} = request
    const duration_ms = Math.round(reply.elapsedTime)
    const facts = {request_id: request.id, method, route, status: reply.statusCode, duration_ms}
    log[level](merchantId ? {...facts, merchant_id: merchantId} : facts, 'request')
  }

  function sendError(error: Error, request: FastifyRequest, reply: FastifyReply): void {
    const known = isGone(request) ? noteGone(request) : toApiError(error)
    if (known.status === 503 && known.cause) outage.failed(inWords(known.cause))
    else if (known.cause)
      known.message += `; the operator finds the cause in the log by the id ${logCause(known.cause, request)}`
    reply.code(known.status).headers(known.headers).header('content-type', 'application/json; charset=utf-8')
    // After a body that is too large, Fastify would close the connection, and the client would see a reset instead of
    // the reply.
    reply.removeHeader('connection').send(known.body)
  }

  /** The client does not read the reply, and nothing of ours failed: it is only logged. */
  function noteGone(request: FastifyRequest): ApiError {
    const {id: request_id, method} = request
    log.info({request_id, method, route: request.routeOptions.url}, 'the client went away before it had sent its body')
    return cutOff
  }

  function logCause(cause: unknown, request: FastifyRequest): string {
    const error_id = randomUUID()
    const {stack, code} = cause as Error & {code?: string}
    const {url: route} = request.routeOptions
    const {id: request_id, method} = request
    log.error({error_id, request_id, method, route, error: inWords(cause), code, stack}, 'a request failed')
    return error_id
  }
}

// Authenticates a request before its body is read. Not async: a cached key costs no turn of the event loop. It goes by
// the matched route, never by the spelling of the URL (/%76%31/users is /v1/users).
function admission(keys: Keys, limiter: RateLimiter) {
  const missingKey = new ApiError('invalid_api_key', howToSendKey, {headers: {'www-authenticate': 'Bearer'}})
  return (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void): void => {
    const {url: route, config} = request.routeOptions
    reply.headers(replyHeaders(request.id))
    const refusal = refusalOf(request.raw)
    if (config.open) {
      done(refusal ?? misdirected(route, config.allow))
      return
    }
    reply.header('ratelimit-policy', limiter.policy)
    if (refusal) {
      reply.header('ratelimit', limiter.untouched)
      done(refusal)
      return
    }
    const holder = keys.holderOf(request.headers)
    if (holder instanceof Promise) holder.then(found => done(admit(found)), done)
    else done(admit(holder))

    function admit(holder: Holder | undefined): Error | undefined {
      if (isGone(request)) return cutOff // it went away meanwhile: waiting for its body would never end
      if (holder) {
        request.merchantId = holder.merchantId
        const allowance = limiter.take(holder.merchantId)
        reply.header('ratelimit', allowance.header)
        if (!allowance.allowed) return tooMany(allowance.resetSeconds)
        return misdirected(route, config.allow) ?? beyond(holder, config.scope)
      }
      reply.header('ratelimit', limiter.untouched)
      return misdirected(route, config.allow) ?? (config.withoutKey ? undefined : missingKey)
    }
  }
}

/** The client's request id if it is safe to log as it is, else a new one. */
function requestId({headers}: Pick<IncomingMessage, 'headers'>): string {
  const given = headers['x-request-id']
  return typeof given === 'string' && /^[ -~]{1,128}$/.test(given) ? given : randomUUID()
}

/** The headers of every reply, unless a route sets others. */
function replyHeaders(id: string) {
  return {'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store', 'x-request-id': id}
}

/** Refusals that HTTP itself requires. */
function refusalOf({httpVersion, headers: {host, expect}}: IncomingMessage): ApiError | undefined {
  if (httpVersion !== '1.1') return undefined
  if (host === undefined) return new ApiError('invalid_request', 'the header Host is missing')
  if (expect === undefined || /(^|\W)100-continue($|\W)/i.test(expect)) return undefined // as Node reads it
  const message = 'the only value that the header Expect may have is 100-continue'
  return new ApiError('invalid_request', message, {status: 417}) // RFC 9110, section 10.1.1
}

const cutOff = new ApiError('invalid_request', 'the body is incomplete')

/** Whether the client went away before it had sent all of its body. */
function isGone({raw}: FastifyRequest): boolean {
  return raw.destroyed && !raw.complete
}

/** The refusal of what a key may not do (RFC 6750, 3.1); none for a route that needs no scope. */
function beyond({scopes}: Holder, scope?: Scope): ApiError | undefined {
  if (!scope || scopes.includes(scope)) return undefined
  const message = `this needs a key with the scope ${scope}; this key has ${scopes.join(', ')}`
  const headers = {'www-authenticate': `Bearer error="insufficient_scope", scope="${scope}"`}
  return new ApiError('insufficient_scope', message, {headers})
}

function misdirected(route?: string, allow?: string): ApiError | undefined {
  if (route === undefined) return new ApiError('route_not_found', 'there is nothing at this path')
  if (allow) return new ApiError('method_not_allowed', `this path takes ${allow}`, {headers: {allow}})
  return undefined
}

// JavaScript takes this name for the prototype of an object: what a client noted under it would be lost. (Elsewhere it
// is an unknown field.)
function withoutPrototype(body: unknown): unknown {
  const {metadata} = (body ?? {}) as {metadata?: unknown}
  if (typeof metadata === 'object' && metadata !== null && Object.hasOwn(metadata, '__proto__'))
    throw invalid('metadata.__proto__', 'invalid_name', 'no note can have this name')
  return body
}

// Bodies are JSON in UTF-8. An empty body counts as none: clients may send the content type with every request.
function acceptJson(app: App): void {
  const utf8 = new TextDecoder('utf-8', {fatal: true})
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', {parseAs: 'buffer'}, (_request, body, done) => {
    try {
      done(null, body.length === 0 ? undefined : withoutPrototype(JSON.parse(utf8.decode(body as Buffer))))
    } catch (error) {
      done(error instanceof ApiError ? error : new ApiError('invalid_request', 'the body is not JSON in UTF-8'))
    }
  })
}

// Records the methods of each path, so that other methods get a 405 and OPTIONS lists them.
function methodsOf(app: App): () => void {
  const paths = new Map<string, {methods: string[]; open: boolean}>()
  app.addHook('onRoute', ({url, method, config}) => {
    const {methods = [], open = true} = paths.get(url) ?? {}
    paths.set(url, {methods: [...methods, ...[method].flat()], open: open && config?.open === true})
  })
  return () => {
    for (const [url, {methods, open}] of [...paths]) {
      const allow = [...methods, 'OPTIONS'].sort().join(', ')
      const others = apiMethods.filter(method => !methods.includes(method) && method !== 'OPTIONS')
      const schema = {hide: true}
      const config = {open, withoutKey: true}
      app.route({method: others, url, schema, config: {...config, allow}, handler: async () => ''})
      app.options(url, {schema, config}, async (_request, reply) =>
        reply.code(204).removeHeader('content-type').header('allow', allow).send(),
      )
    }
  }
}

// Refuses what is not valid HTTP.
function refuseMalformed(error: Error & {code?: string}, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  const tooLarge = error.code === 'HPE_HEADER_OVERFLOW'
  const status = tooLarge ? '431 Request Header Fields Too Large' : '400 Bad Request'
  const {body} = new ApiError('invalid_request', tooLarge ? 'the headers are too large' : 'this is no HTTP request')
  const headers = {...replyHeaders(randomUUID()), 'content-length': Buffer.byteLength(body), connection: 'close'}
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${status}\r\n${lines.join('')}\r\n${body}`)
}
