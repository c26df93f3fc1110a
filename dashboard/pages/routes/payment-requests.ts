// Payment requests: seen, made and cancelled; and what may be missing of a new one.
import {setTimeout as sleep} from 'node:timers/promises'
import type {FastifyRequest} from 'fastify'
import {z} from 'zod'
import {html} from '../../../base/html.ts'
import {basisPoints} from '../../../base/percent.ts'
import {formsOf} from '../../../chains/families.ts'
import {codeFor} from '../../../chains/payment-code.ts'
import type {App, Context} from '../app.ts'
import {chainsOf} from '../chains.ts'
import type {Data, NewPaymentRequest, PaymentRequestDetail} from '../data.ts'
import {download} from '../download.ts'
import {askedOf, decimal, listed} from '../filters.ts'
import {id, Refusal, read, show, showForm, submit} from '../form.ts'
import {type Fields, fieldsOf, referenceWith} from '../view.ts'
import {currenciesOf} from '../views/lists.ts'
import {question} from '../views/notices.ts'
import {paymentRequestPath} from '../views/paths.ts'
import {
  newPaymentRequestPage,
  paymentRequestList,
  paymentRequestPage,
  paymentRequestPart,
  paymentRequestStatuses,
  paymentRequestsPage,
  tolerancePage,
} from '../views/payment-requests.ts'

const addressTimeoutMs = 3000
const pollMs = 50
const hourSeconds = 3600

const names = [
  'chain',
  'currency',
  'from',
  'to',
  'paid_from',
  'paid_to',
  'amount_from',
  'amount_to',
  'sender',
  'address',
] as const
export function paymentRequests(app: App, context: Context): void {
  const chains = chainsOf(context)
  const list = async (request: FastifyRequest) => {
    const {data, me} = request
    const found = await listed(request, {names, statuses: paymentRequestStatuses, read: data.paymentRequests})
    return {...found, names, currencies: currenciesOf(me.chains, chains)}
  }
  const one = async (request: FastifyRequest) => {
    const found = await request.data.paymentRequest(read(id, request.params).id)
    const shown = {found, chain: chains(found.chain), pageUrl: `${context.apiUrl}/pay/${found.page_token}`}
    return {...shown, code: await codeOf(context, found)}
  }

  app.get('/payment-requests', async request => {
    const {saved} = read(z.object({saved: z.literal('tolerance').optional()}), request.query)
    const [found, bps] = await Promise.all([list(request), request.data.paymentTolerance()])
    return show(request, paymentRequestsPage(found, {bps, isSaved: saved !== undefined}, request.me.chains))
  })
  app.get('/payment-requests/part', async request => paymentRequestList(await list(request)).text)
  app.get('/payment-requests/download', (request, reply) => {
    const asked = askedOf(request, names, paymentRequestStatuses)
    return download(request, reply, {kind: 'payment_request', name: 'payment-requests', asked})
  })
  app.get('/payment-requests/:id', async request => show(request, paymentRequestPage(await one(request))))
  app.get('/payment-requests/:id/part', async request => paymentRequestPart(await one(request)).text)

  const form = async ({data, me}: FastifyRequest, typed: Fields, error?: string) => {
    const [currencies, bps] = await Promise.all([data.currencies(), data.paymentTolerance()])
    const hours = String(context.paymentExpiryMs / 1000 / hourSeconds)
    return newPaymentRequestPage({currencies, bps, hours, prefix: me.merchant_prefix, typed, error})
  }
  app.get('/payment-requests/new', async request => showForm(request, await form(request, fieldsOf(request.query))))
  app.post('/payment-requests', (request, reply) =>
    submit(request, reply, {
      url: '/payment-requests/new',
      fields: {
        currency: z.string().min(1).max(64),
        amount: decimal,
        reference: z.string().trim().min(1, 'must not be empty').max(255),
        hours: decimal,
        tolerance: z.string().trim().max(10).optional(),
      },
      act: async ({request: form, currency, amount, reference, hours, tolerance}) => {
        const made = await create(request.data, form, {
          ...{currency, amount, externalId: referenceWith(request.me.merchant_prefix, reference)},
          expiresInSeconds: secondsOf(hours),
          tolerance: tolerance ? percentOf(tolerance) : undefined,
          lateAfterSeconds: context.paymentLateAfterMs / 1000,
        })
        return paymentRequestPath(made.id)
      },
      again: (typed, error) => form(request, typed, error),
      done: ['/payment-requests', 'To the payment requests'],
    }),
  )

  const cancelPage = async (request: FastifyRequest, error?: string) => {
    const {external_id, amount, currency} = await request.data.paymentRequest(read(id, request.params).id)
    return question({
      title: `Cancel the request for ${amount} ${currency}`,
      section: '/payment-requests',
      parent: [paymentRequestPath(external_id), 'Payment request'],
      text: html`<p>Its page asks for nothing from then on. What is paid all the same still counts.</p>`,
      action: `${paymentRequestPath(external_id)}/cancel`,
      button: 'Cancel the request',
      isDestructive: true,
      error,
    })
  }
  app.get('/payment-requests/:id/cancel', async request => show(request, await cancelPage(request)))
  app.post('/payment-requests/:id/cancel', (request, reply) => {
    const path = paymentRequestPath(read(id, request.params).id)
    return submit(request, reply, {
      url: `${path}/cancel`,
      fields: {},
      act: async ({request: form}) => {
        await request.data.cancelPaymentRequest(form, read(id, request.params).id)
        return path
      },
      again: (_typed, error) => cancelPage(request, error),
      done: [path, 'To the payment request'],
    })
  })

  app.get('/payment-requests/tolerance', async request => {
    await request.data.requireFullRights()
    return showForm(request, tolerancePage(await request.data.paymentTolerance(), fieldsOf(request.query)))
  })
  app.post('/payment-requests/tolerance', (request, reply) =>
    submit(request, reply, {
      url: '/payment-requests/tolerance',
      fields: {tolerance: z.string().trim().min(1, 'must not be empty').max(10)},
      act: async ({request: form, tolerance}) => {
        await request.data.setPaymentTolerance(form, bpsOf(tolerance))
        return '/payment-requests?saved=tolerance'
      },
      again: async (typed, error) => tolerancePage(await request.data.paymentTolerance(), typed, error),
      done: ['/payment-requests', 'To the payment requests'],
    }),
  )
}

/** What its QR code holds while something is due; null once nothing is, or where the token is new to this process. */
async function codeOf({chains}: Context, {chain, token, address, due}: PaymentRequestDetail): Promise<string | null> {
  if (due === '0') return null
  const settings = chains.get(chain)!
  if (!settings.chain.assets.some(asset => asset.token === token)) return address
  const uri = (await formsOf(settings)).paymentUri(settings, {token, address, amount: BigInt(due)})
  return codeFor(settings, {token, address}, uri)
}

/** Waits a few seconds for an address, if none is free. */
async function create(data: Data, form: string, asked: NewPaymentRequest): Promise<{id: string}> {
  for (const deadline = Date.now() + addressTimeoutMs; ; await sleep(pollMs))
    try {
      return await data.createPaymentRequest(form, asked)
    } catch (error) {
      if ((error as {code?: string}).code !== 'SL503') throw error
      if (Date.now() > deadline) throw new Refusal('No address is free at the moment. Please try again in a minute.')
      await data.askForAddresses()
    }
}

function bpsOf(percent: string): number {
  const bps = basisPoints(percent)
  if (bps === undefined) throw new Refusal('The tolerance must be a percentage with at most two decimals, such as 0.5')
  return bps
}
const percentOf = (typed: string) => `${bpsOf(typed) / 100}%`

function secondsOf(hours: string): number {
  const seconds = Math.round(Number(hours) * hourSeconds)
  if (seconds >= 300 && seconds <= 604_800) return seconds
  throw new Refusal('It must expire after 0.1 to 168 hours (a week)')
}
