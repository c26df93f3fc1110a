// The page on which a customer pays a payment request. Its token is enough to see it: no key, no cookie. Promises:
// browsers and search engines store nothing of it, and send its URL to no other site; a customer never sees a bare
// error; a loop on a page slows nobody else; one query a second finds what is new on all open pages.
import {hash} from 'node:crypto'
import {readFileSync} from 'node:fs'
import {setTimeout as sleep} from 'node:timers/promises'
import type {FastifyReply, FastifyRequest} from 'fastify'
import {z} from 'zod'
import {Live} from '../../base/live.ts'
import {qrSvg} from '../../base/qr.ts'
import type {ChainSettings} from '../../chains/families.ts'
import {forQr} from '../../chains/payment-code.ts'
import {inWords} from '../../db/client/failure.ts'
import type {App, Context} from '../app.ts'
import {statement} from '../database.ts'
import {notFound, nothingDue, tooMany} from '../errors.ts'
import {pageHeaders} from '../page-headers.ts'
import {brandSheet, pageOf, policyFor, refusalOf, refusalPolicy} from '../pay/page.ts'
import {Payment, shownOf} from '../pay/payment.ts'
import {languageCodes, type Voice, voiceFor} from '../pay/voice.ts'
import {RateLimiter} from '../rate-limit.ts'
import {settingsWith} from '../tokens.ts'

const readPayment = statement('read_payment_page', 'select body from app.payment_page($1)')
const readLogo = statement('read_payment_logo', 'select app.payment_logo($1)')

const readPayments = statement(
  'read_payment_pages',
  'select t.token, p.body from unnest($1::text[]) as t (token) cross join lateral app.payment_page(t.token) p',
)
const readNews = statement('read_payment_news', 'select page_token, news from app.payment_page_news($1)')

const headers = pageHeaders(policyFor([]))

/**
 * A page asks every few seconds, and may be open in several browsers. One allowance is for each of 4,096 groups of
 * pages, and one for all unknown tokens.
 */
const requestsPerMinute = 240
const refusalMs = 1_000

/** Pages that are open at once, and for one payment. Each is a connection. */
const streams = 10_000
const streamsOfPage = 50

export function pay(app: App, context: Context): void {
  const {db} = context
  const limiter = new RateLimiter(requestsPerMinute)
  const schema = {hide: true, params: z.object({token: z.string()})}
  const options = {config: {open: true}, schema}
  // The amount is in the URL so that a browser asks again when it changes.
  const querystring = z.object({amount: z.string().optional(), content: z.literal('payment_uri').optional()})
  const picture = {...options, schema: {...schema, querystring}, onSend: guarded}
  const live = new Live({
    ask: async tokens => new Map(await db.primary.rows<[string, string]>(readNews, [tokens])),
    async say(pages) {
      const tokens = [...new Set(pages.map(({key}) => key))]
      const bodies = new Map(await db.primary.rows<[string, string]>(readPayments, [tokens]))
      return await Promise.all(
        pages.map(async ({key, language}) => {
          const body = bodies.get(key)
          return body && (await stateOf(await paymentIn(body), voiceFor(languageOf(language), undefined)))
        }),
      )
    },
    failed: (error, isFirst) => isFirst && app.log.warn({error: inWords(error)}, 'open payment pages poll instead'),
    streamsOfKey: streamsOfPage,
    streams,
  })
  app.addHook('preClose', async () => live.close())

  app.get('/pay/:token', {...options, onSend: [guarded, asPage]}, async (request, reply) => {
    const {token} = request.params
    const {payment, settings} = await read(token)
    const voice = voiceOf(request)
    reply.headers(pageHeaders(policyFor(payment.brand.sites)))
    return pageOf({token, payment, shown: await shownOf(payment, settings, voice), settings, voice})
  })
  // A link that lost or got something on its way.
  const wrong = {config: {open: true}, schema: {hide: true}, onSend: [guarded, asPage]}
  for (const path of ['/pay', '/pay/', '/pay/:token/*'])
    app.get(path, wrong, () => {
      throw notFound('payment_request')
    })
  app.get('/pay/:token/state', {...options, onSend: guarded}, async request => {
    return await stateOf(await read(request.params.token), voiceOf(request))
  })
  app.get(
    '/pay/:token/events',
    {...options, config: {open: true, isStream: true}, onSend: guarded, exposeHeadRoute: false},
    async (request, reply) => {
      const {token} = request.params
      await read(token)
      reply.hijack()
      live.open({key: token, language: voiceOf(request).language}, reply.raw, {...headers, 'x-request-id': request.id})
    },
  )
  app.get('/pay/:token/qr.svg', picture, async (request, reply) => {
    const {payment, settings} = await read(request.params.token)
    const {code, uri} = await shownOf(payment, settings, voiceOf(request))
    const text = request.query.content === 'payment_uri' ? uri : code
    if (text === null) throw nothingDue()
    reply.header('content-type', 'image/svg+xml')
    return qrSvg(forQr(text))
  })
  app.get('/pay.js', {config: {open: true}, schema: {hide: true}}, (_request, reply) =>
    reply.headers(scriptHeaders).send(embedScript),
  )

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
    return await paymentIn(row[0])
  }

  async function paymentIn(body: string) {
    const payment = Payment.parse(JSON.parse(body))
    return {payment, settings: await settingsWith(context, payment.chain, payment.token)}
  }
}

/** The language that the page was switched to, else one of the browser's. */
function voiceOf({query, headers}: FastifyRequest): Voice {
  const {lang} = query as {lang?: unknown} // a link may have got parameters on its way: they are ignored
  return voiceFor(languageOf(lang), headers['accept-language'])
}

const languageOf = (asked: unknown) => languageCodes.find(code => code === asked)

/** What the page is to show now, for its script. */
const stateOf = async ({payment, settings}: {payment: Payment; settings: ChainSettings}, voice: Voice) =>
  JSON.stringify(await shownOf(payment, settings, voice))

/** For the sites of merchants, which show the page in a frame. */
const embedScript = readFileSync(new URL('../pay/embed.js', import.meta.url), 'utf8')
const scriptHeaders = {
  'content-type': 'text/javascript; charset=utf-8',
  'cache-control': 'public, max-age=300',
  'cross-origin-resource-policy': 'cross-origin',
  'x-content-type-options': 'nosniff',
}

const isPageToken = (text: string) => /^[\w-]{32}$/.test(text)

type OnSend = (
  request: FastifyRequest,
  reply: FastifyReply,
  payload: unknown,
  done: (error: null, payload: unknown) => void,
) => void

const guarded: OnSend = (_request, reply, payload, done) => {
  if (!reply.hasHeader('content-security-policy')) reply.headers(headers)
  done(null, payload)
}

// The error is JSON already, and its cause is logged. A person gets a page with the same message.
const asPage: OnSend = (request, reply, payload, done) => {
  const {statusCode} = reply
  reply.header('content-type', 'text/html; charset=utf-8')
  if (statusCode >= 400) reply.headers(pageHeaders(refusalPolicy))
  done(null, statusCode < 400 ? payload : refusalOf(statusCode, JSON.parse(String(payload)).message, voiceOf(request)))
}
