// The page on which a customer pays a payment request. Its token is enough to see it: no key, no cookie. Promises: browsers and search
// engines store nothing of it, and send its URL to no other site; a customer never sees a bare error.
import type {FastifyReply, FastifyRequest} from 'fastify'
import {z} from 'zod'
import type {App, Context} from '../app.ts'
import {statement} from '../database.ts'
import {ApiError, notFound} from '../errors.ts'
import {pageHeaders} from '../html.ts'
import {pageOf, policy, refusalOf} from '../pay/page.ts'
import {Payment, shownOf} from '../pay/payment.ts'
import {qrSvg} from '../qr.ts'

const readPayment = statement('read_payment_page', 'select body from app.payment_page($1)')

const headers = pageHeaders(policy)

export function pay(app: App, {db, chains}: Context): void {
  const options = {config: {open: true}, schema: {hide: true, params: z.object({token: z.string()})}}

  app.get('/pay/:token', {...options, onSend: [guarded, asPage]}, async ({params: {token}}) => {
    const {payment, settings} = await read(token)
    return pageOf(token, payment, await shownOf(payment, settings), settings)
  })
  app.get('/pay/:token/state', {...options, onSend: guarded}, async ({params: {token}}) => {
    const {payment, settings} = await read(token)
    return JSON.stringify(await shownOf(payment, settings))
  })
  app.get('/pay/:token/qr.svg', {...options, onSend: guarded}, async ({params: {token}}, reply) => {
    const {payment, settings} = await read(token)
    const {uri} = await shownOf(payment, settings)
    if (uri === null) throw new ApiError(410, 'nothing_due', 'this payment request takes no more payments')
    reply.header('content-type', 'image/svg+xml')
    return qrSvg(uri)
  })

  async function read(pageToken: string) {
    const row = isPageToken(pageToken) ? await db.primary.read<[string]>(readPayment, [pageToken]) : undefined
    if (!row) throw notFound('payment_request')
    const payment = Payment.parse(JSON.parse(row[0]))
    return {payment, settings: chains.get(payment.chain)!}
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
