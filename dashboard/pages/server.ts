// The HTTP server of the pages, on a unix socket that the sign-in process forwards to. Promises: a request comes with
// the token of a session and nothing else of a person; the database decides by the token what it may see and do. A
// person never sees a bare error: each is a page that says what to do next. Nothing about a person or a secret is
// logged.
import {randomUUID} from 'node:crypto'
import {Readable} from 'node:stream'
import Fastify, {type FastifyReply, type FastifyRequest} from 'fastify'
import type pg from 'pg'
import {type Html, html} from '../../base/html.ts'
import {Live} from '../../base/live.ts'
import type {Logger} from '../../base/log.ts'
import {failureOf, inWords, isAway} from '../../db/client/failure.ts'
import type {Outage} from '../../db/client/outage.ts'
import {page} from '../layout.ts'
import {inZone} from '../zone.ts'
import {type App, type Context, refusalOf} from './app.ts'
import {Data, type Me} from './data.ts'
import {personOf} from './form.ts'
import {apiKeys} from './routes/api-keys.ts'
import {auditLog} from './routes/audit-log.ts'
import {charts} from './routes/charts.ts'
import {deposits} from './routes/deposits.ts'
import {overview} from './routes/overview.ts'
import {paymentPage} from './routes/payment-page.ts'
import {paymentRequests} from './routes/payment-requests.ts'
import {payoutAddresses} from './routes/payout-addresses.ts'
import {payouts} from './routes/payouts.ts'
import {search} from './routes/search.ts'
import {settings} from './routes/settings.ts'
import {statements} from './routes/statements.ts'
import {users} from './routes/users.ts'
import {webhooks} from './routes/webhooks.ts'
import {readUpload} from './upload.ts'
import {sentence} from './view.ts'

const bodyLimitBytes = 64 * 1024

export interface ServerOptions extends Context {
  /** With the role sluice_dashboard. */
  pool: pg.Pool
  log: Logger
  outage: Outage
}

/** Where what failed is reported. */
type Reports = Pick<ServerOptions, 'log' | 'outage'>

/** A server that is ready to listen. close() ends its streams, not the pool. */
export async function buildServer({pool, log, outage, ...context}: ServerOptions): Promise<App> {
  const app: App = Fastify({
    bodyLimit: bodyLimitBytes,
    forceCloseConnections: true,
    routerOptions: {maxParamLength: 64 * 1024}, // longer than Node lets any URL be: a long id is one that does not exist
  })
  const live = openLive({pool, log, outage})
  acceptForms(app)
  app.decorateRequest('formUrl', '')
  app.addHook('preValidation', async (request, reply) => {
    reply.type('text/html; charset=utf-8')
    request.data = new Data(pool, tokenOf(request))
    requireText(request)
    request.me = await request.data.me()
  })
  app.addHook('preHandler', (request, _reply, done) => inZone(request.me.time_zone, done))
  // What fails once a file is on its way can be said to nobody else.
  app.addHook('onSend', async (_request, _reply, payload) => {
    if (payload instanceof Readable)
      payload.on('error', error => log.warn({error: inWords(error)}, 'a file was not sent as a whole'))
    return payload
  })
  app.addHook('preClose', async () => live.close())
  app.setErrorHandler((error, request, reply) => sendError(error, request, reply, {log, outage}))
  app.setNotFoundHandler(async (request, reply) => {
    reply.code(404).type('text/html; charset=utf-8')
    const me = await new Data(pool, tokenOf(request)).me()
    return errorPage(
      'There is nothing here',
      html`<p>Please check the address of this page, or use the search.</p>`,
      me,
    )
  })
  for (const routes of [
    overview,
    deposits,
    users,
    paymentRequests,
    payouts,
    payoutAddresses,
    statements,
    charts,
    apiKeys,
    webhooks,
    auditLog,
    settings,
    paymentPage,
    search,
  ])
    routes(app, context)
  app.get('/live', (request, reply) => {
    reply.hijack()
    live.open({key: tokenOf(request)}, reply.raw)
  })
  await app.ready()
  return app
}

/** Open pages hear of news for as long as their session lives. A browser opens few at once. */
function openLive({pool, log, outage}: Pick<ServerOptions, 'pool'> & Reports): Live {
  return new Live({
    async ask(tokens) {
      const text = 'select token, news from dashboard.news($1)'
      const {rows} = await pool.query<{token: string; news: string}>({name: 'news', text, values: [tokens]})
      return new Map(rows.map(({token, news}) => [token, news]))
    },
    failed(error, isFirst) {
      if (isAway(error)) outage.failed(inWords(error))
      else if (isFirst) log.warn({error: inWords(error)}, 'open pages get no news; trying again')
    },
    streamsOfKey: 20,
    streams: 10_000,
  })
}

function tokenOf({headers}: FastifyRequest): string {
  const token = headers['sluice-session']
  return typeof token === 'string' ? token : ''
}

function acceptForms(app: App): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/x-www-form-urlencoded', {parseAs: 'string'}, (_request, body, done) => {
    const fields = new URLSearchParams(body as string)
    const all = [...new Set(fields.keys())].map(name => [name, fields.getAll(name)] as const)
    done(null, Object.fromEntries(all.map(([name, values]) => [name, values.length > 1 ? values : values[0]])))
  })
  app.addContentTypeParser('multipart/form-data', (request, payload, done) => {
    if (request.url !== '/settings/payment-page')
      return done(Object.assign(new Error('a form without a file is expected'), {statusCode: 415}))
    readUpload(request.headers, payload).then(fields => done(null, fields), done)
  })
}

/** What PostgreSQL cannot store is refused, wherever it stands. (%00 in a path or a form, half of a surrogate pair.) */
function requireText({params, query, body}: FastifyRequest): void {
  const values = [params, query, body].flatMap(part => Object.values(part ?? {})).flat()
  if (values.some(value => typeof value === 'string' && (value.includes('\0') || !value.isWellFormed())))
    throw Object.assign(new Error('a character that cannot be used'), {statusCode: 400})
}

interface Failure extends Error {
  code?: string
  statusCode?: number
}

function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply, reports: Reports): FastifyReply {
  const {code, statusCode} = error as Failure
  reply.removeHeader('content-disposition') // of a file that is not sent
  if (code === 'SLAUT' && request.headers.accept === 'text/event-stream') return reply.code(204).send() // ends the stream for good
  if (code === 'SLAUT') return reply.code(303).header('location', '/sign-in').send()
  if (code === 'SLSTP') return askForSecondFactor(request, reply)
  const [status, title, body] = describe(error, statusCode, reports)
  if (status === 503) reply.header('retry-after', '5')
  return reply
    .code(status)
    .type('text/html; charset=utf-8')
    .send(errorPage(title, body, request.me))
}

/** Nothing was done. The form is shown again afterwards, with what was typed. */
function askForSecondFactor({method, url, formUrl}: FastifyRequest, reply: FastifyReply): FastifyReply {
  const isForm = method !== 'GET'
  const next = isForm ? formUrl || '/' : url
  const query = new URLSearchParams({next, ...(isForm ? {notice: 'not-done'} : {})})
  return reply.code(303).header('location', `/second-factor?${query}`).send()
}

function describe(
  error: unknown,
  statusCode = 500,
  {log, outage}: Reports,
): [status: number, title: string, body: Html] {
  const {code, message} = error as Failure
  if (code === 'SL404')
    return [404, 'There is nothing here', html`<p>It does not exist, or belongs to somebody else.</p>`]
  if (code === 'SLINV') return [400, 'This cannot be read', html`<p>${sentence(message)}</p>`]
  if (code === 'SL429') return [429, 'Please wait', html`<p>${sentence(message)}</p>`]
  if (code === 'SL503') return [503, 'Please wait', html`<p>${sentence(message)}</p>`]
  if (code === 'SLSUS') return [403, 'This account is suspended', html`<p>${refusalOf(error)}</p>`]
  const failure = failureOf(error)
  if (failure && failure.reason !== 'database_error') {
    if (isAway(error)) outage.failed(failure.message)
    else log.warn({error: failure.message}, 'a page could not be shown')
    return [
      503,
      'Please wait',
      html`<p>The service is unavailable at the moment. Nothing was changed; please try again.</p>`,
    ]
  }
  if (statusCode < 500)
    return [
      statusCode,
      'This cannot be read',
      html`<p>${sentence(message)} Please go back and check what you typed.</p>`,
    ]
  const error_id = randomUUID()
  log.error({error_id, error: inWords(error), code, stack: (error as Error).stack}, 'a page failed')
  return [
    500,
    'Something went wrong',
    html`<p>It is not your fault. The operator finds the cause by this number: <code>${error_id}</code></p>`,
  ]
}

function errorPage(title: string, body: Html, me?: Me): string {
  const person = me && personOf(me)
  return page({
    title,
    person,
    body: html`<section class="card">${body}<p><a href="/">To the overview</a></p></section>`,
  })
}
