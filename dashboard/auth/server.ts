// The HTTP server that browsers reach. Promises: every response has the strictest headers, those of forwarded pages,
// too; a change comes from a page of ours, or is refused; whoever may see no page is led to where it becomes possible;
// an error is a page that says what to do next. Nothing about a person or a secret is logged.
import {randomUUID} from 'node:crypto'
import Fastify, {type FastifyInstance, type FastifyReply, type FastifyRequest} from 'fastify'
import type pg from 'pg'
import {html} from '../../base/html.ts'
import type {Logger} from '../../base/log.ts'
import {failureOf, inWords, isAway} from '../../db/client/failure.ts'
import type {Outage} from '../../db/client/outage.ts'
import {type Context, Detour, go, Refusal, show} from './app.ts'
import {Data} from './data.ts'
import {forward} from './forward.ts'
import {invitationRoutes} from './routes/invitation.ts'
import {passkeyRoutes} from './routes/passkeys.ts'
import {securityRoutes} from './routes/security.ts'
import {signInRoutes} from './routes/sign-in.ts'
import {SignIn} from './sign-in.ts'
import {serveStatic} from './static.ts'

export interface ServerOptions {
  /** With the role sluice_auth. */
  pool: pg.Pool
  secret: string
  /** The dashboard's URL for browsers, without a path. Asked once the server listens. */
  url: () => string
  /** Where the pages process listens. */
  socket: string
  /** Reverse proxies whose X-Forwarded-For is believed. */
  proxies: string[]
  log: Logger
  outage: Outage
}

/** Where what failed is reported. */
type Reports = Pick<ServerOptions, 'log' | 'outage'>

/** A server that is ready to listen. close() does not end the pool. */
export async function buildServer({
  pool,
  secret,
  url,
  socket,
  proxies,
  log,
  outage,
}: ServerOptions): Promise<FastifyInstance> {
  const app = Fastify({
    bodyLimit: 64 * 1024,
    forceCloseConnections: true,
    trustProxy: proxies.length ? proxies : false,
    frameworkErrors: (error, request, reply) => {
      reply.headers(securityHeaders(url())) // a path that cannot be decoded meets no hook
      sendError(error, request, reply, {log, outage})
    },
  })
  let signIn: SignIn | undefined
  const context: Context = {
    app,
    data: new Data(pool),
    signIn: () => (signIn ??= new SignIn({pool, secret, url: url(), log})),
    url,
  }
  app.addHook('onRequest', async (request, reply) => {
    reply.headers(securityHeaders(url()))
    requireOwnPage(request, url())
  })
  acceptForms(app)
  app.setErrorHandler((error, request, reply) => sendError(error, request, reply, {log, outage}))
  app.get('/livez', async (_request, reply) => reply.type('application/json').send('{"alive":true}'))
  serveStatic(app)
  for (const routes of [signInRoutes, invitationRoutes, securityRoutes, passkeyRoutes]) routes(context)
  const nothing = async () => {
    throw new Refusal(404, 'There is nothing here', 'Please check the address of this page.')
  }
  app.setNotFoundHandler(nothing)
  for (const reserved of ['/auth/*', '/static/*', '/invitation/*', '/security/*']) app.all(reserved, nothing) // never forwarded
  forward(context, socket)
  await app.ready()
  return app
}

function securityHeaders(url: string): Record<string, string> {
  return {
    'content-security-policy':
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'same-origin', // with no-referrer, the origin of a form would be null
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'cache-control': 'no-store',
    ...(url.startsWith('https:') && {'strict-transport-security': 'max-age=31536000'}),
  }
}

/** Browsers send the origin with every change, and no page can forge it. */
function requireOwnPage({method, headers}: FastifyRequest, url: string): void {
  if (method === 'GET' || method === 'HEAD') return
  const site = headers['sec-fetch-site']
  if (headers.origin === url && (site === undefined || site === 'same-origin')) return
  throw new Refusal(
    403,
    'This was refused',
    `It did not come from a page of this dashboard, so nothing was done. Please open ${url} and try again.`,
  )
}

function acceptForms(app: FastifyInstance): void {
  app.addContentTypeParser('application/x-www-form-urlencoded', {parseAs: 'string'}, (_request, body, done) =>
    done(null, Object.fromEntries(new URLSearchParams(body as string))),
  )
}

interface Failure extends Error {
  code?: string
  statusCode?: number
}

function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply, reports: Reports): FastifyReply {
  const {code} = error as Failure
  if (code === 'SLAUT') return sendError(new Detour('/sign-in'), request, reply, reports)
  const isForScript = request.url.startsWith('/auth/')
  if (error instanceof Detour) {
    if (request.headers.accept === 'text/event-stream') return reply.code(204).send() // ends the stream for good
    if (isForScript) return reply.code(401).send({message: 'Please sign in.', location: error.to})
    // A part of a page cannot be another page: the browser goes there.
    return request.headers['hx-request'] ? reply.code(200).header('hx-redirect', error.to).send() : go(reply, error.to)
  }
  if (code === 'SLSTP' && isForScript) {
    const location = '/second-factor?next=%2Fsecurity&notice=not-done'
    return reply.code(403).send({message: 'Please confirm first that it is you.', location})
  }
  const [status, title, message] = describe(error as Failure, reports)
  if (status === 503) reply.header('retry-after', '5')
  if (isForScript) return reply.code(status).send({message})
  return show(
    reply,
    title,
    html`<section class="card"><p>${message}</p><p><a href="/">To the overview</a></p></section>`,
    {status},
  )
}

function describe(error: Failure, {log, outage}: Reports): [status: number, title: string, message: string] {
  if (error instanceof Refusal) return [error.statusCode, error.title, error.message]
  const failure = failureOf(error)
  if (failure && failure.reason !== 'database_error') {
    if (isAway(error)) outage.failed(failure.message)
    else log.warn({error: failure.message}, 'a request failed')
    return [503, 'Please wait', 'The service is unavailable at the moment. Nothing was changed; please try again.']
  }
  if (error.statusCode && error.statusCode < 500)
    return [
      error.statusCode,
      'This cannot be read',
      'The browser sent something that cannot be read. Please go back and try again.',
    ]
  const error_id = randomUUID()
  log.error({error_id, error: inWords(error), stack: error.stack}, 'a request failed')
  return [500, 'Something went wrong', `It is not your fault. The operator finds the cause by this number: ${error_id}`]
}
