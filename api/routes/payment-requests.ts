// Payment requests: an exact amount to an address of its own, paid once, by a payer who is no user. Replies have the
// form of the contract's second group: the result is in `data`, and the status in `code`.
import {z} from 'zod'
import {qrSvg} from '../../base/qr.ts'
import {text} from '../../base/text.ts'
import {formsOf} from '../../chains/families.ts'
import {codeFor} from '../../chains/payment-code.ts'
import type {ChainCode} from '../../chains/registry.ts'
import {
  currency,
  externalId,
  metadata,
  moment,
  pageLimit,
  pageOf,
  pageQuery,
  paymentStatus,
  utc,
  withoutCase,
} from '../../reading/fields.ts'
import {amountsOf, listed, made, oneOrMore, sender, timesOf} from '../../reading/filters.ts'
import {
  Payment,
  PaymentRequest,
  PaymentRequestItem,
  PaymentRequestState,
  paymentKinds,
} from '../../reading/payment-requests.ts'
import type {App, Context} from '../app.ts'
import {statement, value} from '../database.ts'
import {changeErrors, errors} from '../error-codes.ts'
import {checkAmounts, invalid, notFound, nothingDue} from '../errors.ts'
import {idempotencyHeaders, keyAndHash} from '../idempotency.ts'
import {listOf, pageOfList} from '../page.ts'
import {withAddresses} from '../pool.ts'
import {settingsWith} from '../tokens.ts'

/** A month, and the days to choose one in any time zone. */
const mostPaidDays = 33

/** The longest amount of any asset has 78 digits before its decimals. */
const longestAmount = 100

const listAssets = statement(
  'list_assets',
  `select coalesce(json_agg(a order by a.name), '[]')::text
  from (
    select a.name, a.display_name from app.merchant_chain m join app.asset a using (chain)
    where m.merchant_id = $1 and m.enabled and not app.is_disabled(a.chain, a.token)
  ) a`,
)
const createRequest = statement(
  'create_payment_request',
  `select body, chain, token, address, amount
  from app.request_payment($1, $2, $3, $4, $5::bigint * interval '1 millisecond', $6, decode($7, 'hex'), $8, $9, $10,
    $11::bigint * interval '1 millisecond')`,
)
const findRequest = statement(
  'find_payment_request',
  'select body, chain, token, address, amount from app.read_payment_request($1, $2)',
)
const cancelRequest = statement('cancel_payment_request', 'select app.cancel_payment_request($1, $2)')
/** `due` is what is to be sent, in base units; 0 if enough was seen. */
type Response = [body: string, chain: ChainCode, token: string, address: string, due: string]

export const requestList = listOf('data', 'app.read_payment_requests')
export const paymentList = listOf('data', 'app.read_payments')

const code = z.literal(200)
const message = z.string()

const Asset = z
  .object({
    name: currency.describe('The `currency` of payment requests.'),
    display_name: z.string().meta({examples: ['USD Coin']}),
  })
  .meta({id: 'Asset'})

const returnUrl = text(2048).refine(
  url => /^https:\/\/[^\s\\@]+$/i.test(url) && URL.canParse(url),
  'must be an https URL without a user name or password',
)

export function paymentRequests(app: App, context: Context): void {
  const {db, paymentExpiryMs, paymentLateAfterMs} = context
  const tags = ['Payment requests']
  const ofChains = [...context.chains.values()].map(({chain}) => chain)
  const assets = new Map(
    ofChains.flatMap(({code, assets}) => assets.map(({name, token}) => [name, {chain: code, token}])),
  )
  const assetOf = (currency: string | undefined) => (currency === undefined ? {} : assets.get(currency))
  const listFilters = {
    status: oneOrMore(paymentStatus.options),
    currency: z.enum([...assets.keys()]).optional(),
    ...amountsOf('Requests for'),
    ...timesOf('Requests that were made'),
    paid_from: moment.optional().describe('Requests that were paid at this time or later.'),
    paid_to: moment.optional().describe('Requests that were paid before this time.'),
    address: text(128).optional().describe('The address of a request.'),
    txid: text(128).optional().describe('A transaction that paid for requests.'),
    sender,
  }
  const filters = {
    external_id: externalId.optional(),
    currency: z.enum([...assets.keys()]).optional(),
    status: oneOrMore(paymentKinds),
  }

  app.get(
    '/v1/crypto',
    {
      schema: {
        tags,
        summary: 'List assets',
        operationId: 'listAssets',
        description: 'What a payment request can ask for: the assets of the chains that are enabled for your account.',
        response: {200: z.object({code, data: z.array(Asset)}).describe('All assets.'), ...errors()},
      },
    },
    async ({merchantId}) => enveloped(await value(db.of(merchantId).read<[string]>(listAssets, [merchantId]))),
  )

  app.post(
    '/v1/:currency/payment-request',
    {
      config: {scope: 'payments'},
      schema: {
        tags,
        summary: 'Request a payment',
        operationId: 'createPaymentRequest',
        description:
          'Gives the payment an address of its own. Show your customer the address and the amount of the reply. Errors: 400 ' +
          '`external_id_prefix_mismatch` if `external_id` does not begin with the prefix of your account and `-`; 404 ' +
          '`currency_not_found`; 409 `external_id_conflict` if a request with this `external_id` exists: ' +
          '`GET /v1/payment-requests/:external_id` shows it.',
        params: z.object({currency}),
        headers: idempotencyHeaders('request', '"order-1042"'),
        body: z
          .object({
            external_id: externalId,
            amount: z
              .string('must be a JSON string, such as "25.5": a number can lose digits on its way')
              .max(longestAmount, `must have at most ${longestAmount} characters`)
              .regex(/^(0|[1-9]\d*)(\.\d+)?$/, 'must be a plain decimal, such as 25.5')
              .meta({description: 'No more decimals than the asset has.', examples: ['25']}),
            expires_in: z
              .int()
              .min(300, 'must be at least 300 seconds')
              .max(604_800, 'must be at most 604800 seconds')
              .optional()
              .meta({description: 'Seconds until it expires. Omitted: as the operator set it.', examples: [3600]}),
            tolerance: z
              .string('must be a JSON string, such as "0.5%" or "0.1"')
              .max(longestAmount, `must have at most ${longestAmount} characters`)
              .regex(/^(0|[1-9]\d*)(\.\d+)?%?$/, 'must be a plain decimal, such as 0.1, or a percentage, such as 0.5%')
              .optional()
              .meta({
                description:
                  'How much may be missing, at most half: an amount, or a percentage of it. Omitted: as your account has it.',
                examples: ['0.5%'],
              }),
            metadata: metadata.optional(),
            return_url: returnUrl.optional().meta({
              description: 'https: where the page sends your customer back to.',
              format: 'uri',
              examples: ['https://shop.example/orders/1042'],
            }),
          })
          .meta({examples: [{external_id: 'acme-1042', amount: '25'}]}),
        response: {
          200: z.object({code, message, data: PaymentRequest}).describe('The request was made.'),
          ...changeErrors(
            'external_id_prefix_mismatch',
            'currency_not_found',
            'external_id_conflict',
            'chain_not_enabled',
            'idempotency_key_reused',
            'unprocessable',
          ),
        },
      },
    },
    async ({merchantId, headers, params, body}) => {
      const {currency} = params
      if (!isStorable(currency)) throw notFound('currency')
      const {external_id, amount, expires_in, metadata, return_url, tolerance} = body
      const asked = [currency, external_id, amount]
      const notes = Object.entries(metadata ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)) // the order of notes means nothing
      const options = JSON.stringify({expires_in, notes: notes.length ? notes : undefined, return_url, tolerance})
      const key = keyAndHash(headers['idempotency-key'], options === '{}' ? asked : [...asked, options])
      const expiryMs = expires_in === undefined ? paymentExpiryMs : 1000 * expires_in
      const noted = metadata ? JSON.stringify(metadata) : null
      const values = [
        merchantId,
        ...asked,
        expiryMs,
        ...key,
        noted,
        return_url ?? null,
        tolerance ?? null,
        paymentLateAfterMs,
      ]
      const response = await withAddresses<Response>(db.of(merchantId), createRequest, values)
      return enveloped(await shown(context, response), 'payment request created')
    },
  )

  app.get(
    '/v1/payment-requests',
    {
      schema: {
        tags,
        summary: 'List payment requests',
        operationId: 'listPaymentRequests',
        description: 'Newest first. `GET /v1/payment-requests/:external_id` has the payments that arrived, too.',
        querystring: z.object({...listFilters, ...pageQuery}),
        response: {
          200: z.object({code, ...pageOf('data', PaymentRequestItem).shape}).describe('One page of the list.'),
          ...errors(),
        },
      },
    },
    async ({merchantId, query}) => {
      const {address, currency, paid_from, paid_to, sender, amount_from, amount_to} = query
      const status = listed(query.status)
      checkAmounts(query, currency)
      if (status && !status.includes('paid') && (paid_from ?? paid_to)) return nothing
      checkSpan(paid_from, paid_to)
      const asked = {
        ...{status, ...assetOf(currency), ...made(query), address, sender, amount_from, amount_to},
        ...{paid_from: utc(paid_from), paid_to: utc(paid_to)},
        txid: query.txid === undefined ? undefined : withoutCase(query.txid),
      }
      return enveloping(await pageOfList(db.of(merchantId), requestList, {merchantId, asked, query}))
    },
  )

  app.post(
    '/v1/payment-requests/:external_id/cancel',
    {
      config: {scope: 'payments'},
      schema: {
        tags,
        summary: 'Cancel a payment request',
        operationId: 'cancelPaymentRequest',
        description:
          'Only one that is `awaiting` can be cancelled; afterwards it is 422 `unprocessable`. What is paid all the same still counts, with ' +
          '`late`. Cancelling it again changes nothing.',
        params: z.object({external_id: z.string().meta({examples: ['acme-1042']})}),
        response: {
          200: z.object({code, message, data: PaymentRequestState}).describe('It is cancelled.'),
          ...changeErrors('payment_request_not_found', 'unprocessable'),
        },
      },
    },
    async ({merchantId, params: {external_id}}) => {
      if (!isStorable(external_id)) throw notFound('payment_request')
      await db.of(merchantId).change(cancelRequest, [merchantId, external_id])
      return enveloped(await shown(context, await requestOf(merchantId, external_id)), 'payment request cancelled')
    },
  )

  app.get(
    '/v1/payment-requests/:external_id',
    {
      schema: {
        tags,
        summary: 'Get a payment request',
        operationId: 'getPaymentRequest',
        description: 'The current state, with the payments that arrived. Use it if the reply to your request was lost.',
        params: z.object({external_id: z.string().meta({examples: ['acme-1042']})}),
        response: {
          200: z.object({code, message, data: PaymentRequestState}).describe('The request.'),
          ...errors('payment_request_not_found'),
        },
      },
    },
    async ({merchantId, params}) =>
      enveloped(await shown(context, await requestOf(merchantId, params.external_id)), 'payment request found'),
  )

  app.get(
    '/v1/payment-requests/:external_id/qr.svg',
    {
      schema: {
        tags,
        summary: 'Get a payment request as a QR code',
        operationId: 'getPaymentRequestQr',
        description:
          'A picture for wallets: of a coin the `payment_uri`, of a token the address alone, because wallets read links of tokens wrongly. ' +
          '`content=payment_uri` is the link of a token, too. It asks for what is still missing; 410 `nothing_due` if nothing is, or the request has ended.',
        params: z.object({external_id: z.string().meta({examples: ['acme-1042']})}),
        querystring: z.object({content: z.literal('payment_uri').optional()}),
        response: {
          200: {description: 'An SVG document.', content: {'image/svg+xml': {schema: z.string()}}},
          ...errors('payment_request_not_found', 'nothing_due'),
        },
      },
    },
    async ({merchantId, params, query}, reply) => {
      const response = await requestOf(merchantId, params.external_id)
      const [, chain, token, address] = response
      const uri = await uriOf(context, response)
      if (uri === null) throw nothingDue()
      const text =
        query.content === 'payment_uri'
          ? uri
          : codeFor(await settingsWith(context, chain, token), {token, address}, uri)
      return reply.header('content-type', 'image/svg+xml').send(qrSvg(text))
    },
  )

  app.get(
    '/payments',
    {
      schema: {
        tags,
        summary: 'List payments',
        operationId: 'listPayments',
        description:
          'Requests that are `paid` or `underpaid`, newest first. When the status or the received amount of one changes, it becomes ' +
          'the newest again.',
        querystring: z.object({...filters, ...pageQuery, limit: pageLimit(200)}),
        response: {
          200: z.object({code, ...pageOf('data', Payment).shape}).describe('One page of the list.'),
          ...errors(),
        },
      },
    },
    async ({merchantId, query}) => {
      const {external_id, currency} = query
      const asked = {external_id, status: listed(query.status), ...assetOf(currency)}
      return enveloping(await pageOfList(db.of(merchantId), paymentList, {merchantId, asked, query}))
    },
  )

  async function requestOf(merchantId: string, externalId: string): Promise<Response> {
    const found =
      isStorable(externalId) && (await db.of(merchantId).read<Response>(findRequest, [merchantId, externalId]))
    if (!found) throw notFound('payment_request')
    return found
  }
}

const nothing = '{"code":200,"data":[],"next_cursor":null,"has_more":false}'

/** The requests that were paid in some time are all looked at. */
function checkSpan(from: string | undefined, to: string | undefined): void {
  if (from === undefined && to !== undefined) throw invalid('paid_from', 'missing', 'is needed with paid_to')
  const days =
    from === undefined ? 0 : ((to === undefined ? Date.now() : Date.parse(to)) - Date.parse(from)) / 86_400_000
  if (days > mostPaidDays)
    throw invalid('paid_from', 'too_long', `must be at most ${mostPaidDays} days before paid_to, or before now`)
}

/** Postgres refuses to look up anything else. */
const isStorable = (text: string) => !text.includes('\0')

function enveloped(data: string, message?: string): string {
  return `{"code":200,${message ? `"message":"${message}",` : ''}"data":${data}}`
}

const enveloping = (page: string) => `{"code":200,${page.slice(1)}`

/** The state of a request from the database, with the parts that come from the settings. */
async function shown(context: Context, response: Response): Promise<string> {
  const {external_id, currency, address, amount, tolerance, page_token, ...rest} = JSON.parse(response[0])
  const payment_url = `${context.publicUrl()}/pay/${page_token}`
  return JSON.stringify({
    external_id,
    currency,
    address,
    amount,
    tolerance,
    payment_uri: await uriOf(context, response),
    payment_url,
    ...rest,
  })
}

/** Asks for what is still missing; null if nothing is, or the request has ended. */
async function uriOf(context: Context, [, chain, token, address, due]: Response): Promise<string | null> {
  if (due === '0') return null
  const settings = await settingsWith(context, chain, token)
  return (await formsOf(settings)).paymentUri(settings, {token, address, amount: BigInt(due)})
}
