// The page on which a customer pays a payment request. Its token is enough to see it: no key, no cookie. Promises:
// browsers and search engines store nothing of it, and send its URL to no other site; a customer never sees a bare
// error; a loop on a page slows nobody else.
import {hash} from 'node:crypto'
import {setTimeout as sleep} from 'node:timers/promises'
import type {FastifyReply, FastifyRequest} from 'fastify'
import {z} from 'zod'
import {qrSvg} from '../../base/qr.ts'
import type {App, Context} from '../app.ts'
import {statement} from '../database.ts'
import {notFound, nothingDue, tooMany} from '../errors.ts'
import {pageHeaders} from '../page-headers.ts'
import {brandSheet, pageOf, policy, refusalOf} from '../pay/page.ts'
import {Payment, shownOf} from '../pay/payment.ts'
import {RateLimiter} from '../rate-limit.ts'
import {settingsWith} from '../tokens.ts'

const readPayment = statement('read_payment_page', 'select body from app.payment_page($1)')
const readLogo = statement('read_payment_logo', 'select app.payment_logo($1)')

const headers = pageHeaders(policy)

/**
 * A page asks every few seconds, and may be open in several browsers. One allowance is for each of 4,096 groups of
 * pages, and one for all unknown tokens.
 */
const requestsPerMinute = 240
const refusalMs = 1_000

export function pay(app: App, context: Context): void {
  const {db} = context
  const limiter = new RateLimiter(requestsPerMinute)
  const schema = {hide: true, params: z.object({token: z.string()})}
  const options = {config: {open: true}, schema}
  // The amount is in the URL so that a browser asks again when it changes.
  const querystring = z.object({amount: z.string().optional(), content: z.literal('payment_uri').optional()})
  const picture = {...options, schema: {...schema, querystring}, onSend: guarded}

  app.get('/pay/:token', {...options, onSend: [guarded, asPage]}, async ({params: {token}}) => {
    const {payment, settings} = await read(token)
    return pageOf(token, payment, await shownOf(payment, settings), settings)
  })
  app.get('/pay/:token/state', {...options, onSend: guarded}, async ({params: {token}}) => {
    const {payment, settings} = await read(token)
    return JSON.stringify(await shownOf(payment, settings))
  })
  app.get('/pay/:token/qr.svg', picture, async ({params: {token}, query: {content}}, reply) => {
    const {payment, settings} = await read(token)
    const {code, uri} = await shownOf(payment, settings)
    const text = content === 'payment_uri' ? uri : code
    if (text === null) throw nothingDue()
    reply.header('content-type', 'image/svg+xml')
    return qrSvg(text)
  })

  app.get('/pay/:token/logo.png', {...options, onSend: guarded}, async ({params: {token}}, reply) => {
    await read(token)
    const [logo] = (await db.primary.read<[Buffer | null]>(readLogo, [token]))!
    if (logo === null) throw notFound('payment_request')
    return reply.header('content-type', 'image/png').send(logo)
  })
  app.get('/pay/:token/brand.css', {...options, onSend: guarded}, async ({params: {token}}, reply) => {
    const {accent} = (await read(token)).payment.brand
    reply.header('content-type', 'text/css; charset=utf-8')
    return accent === null ? '' : brandSheet(accent)
  })

  /** Takes one of the allowance of a page. Whoever has used it up waits: a loop then costs nobody else anything. */
  async function admit(page: string): Promise<void> {
    const {allowed, resetSeconds} = limiter.take(page)
    if (allowed) return
    await sleep(refusalMs)
    throw tooMany(resetSeconds)
  }

  async function read(pageToken: string) {
    if (!isPageToken(pageToken)) throw notFound('payment_request')
    await admit(hash('sha256', pageToken).slice(0, 3))
    const row = await db.primary.read<[string]>(readPayment, [pageToken])
    if (!row) {
      await admit('unknown')
      throw notFound('payment_request')
    }
    const payment = Payment.parse(JSON.parse(row[0]))
    return {payment, settings: await settingsWith(context, payment.chain, payment.token)}
  }
}

const isPageToken = (text: string) => /^[\w-]{32}$/.test(text)

type OnSend = (
  request: FastifyRequest,
  reply: FastifyReply,
  payload: unknown,
  done: (error: null, payload: unknown) => void,
) => void

const guarded: OnSend = (_request, reply, payload, done) => {
  reply.headers(headers)
  done(null, payload)
}

// The error is JSON already, and its cause is logged. A person gets a page with the same message.
const asPage: OnSend = (_request, reply, payload, done) => {
  reply.header('content-type', 'text/html; charset=utf-8')
  done(null, reply.statusCode < 400 ? payload : refusalOf(reply.statusCode, JSON.parse(String(payload)).message))
}
