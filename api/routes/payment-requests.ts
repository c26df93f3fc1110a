// Payment requests: an exact amount to an address of its own, paid once, by a payer who is no user. Replies have the
// form of the contract's second group: the result is in `data`, and the status in `code`.
import {z} from 'zod'
import {qrSvg} from '../../base/qr.ts'
import {text} from '../../base/text.ts'
import {formsOf} from '../../chains/families.ts'
import type {ChainCode} from '../../chains/registry.ts'
import {Settlement} from '../../reading/deposits.ts'
import {
  address,
  amount,
  currency,
  externalId,
  id,
  metadata,
  moment,
  pageLimit,
  pageOf,
  pageQuery,
  paymentStatus,
  timestamp,
  txid,
  withoutCase,
} from '../../reading/fields.ts'
import type {App, Context} from '../app.ts'
import {type Statement, statement, value} from '../database.ts'
import {changeErrors, errors} from '../error-codes.ts'
import {invalid, notFound, nothingDue} from '../errors.ts'
import {idempotencyHeaders, keyAndHash} from '../idempotency.ts'
import {type Fields, jsonOf, oneRow, page, pageStatement} from '../page.ts'
import {codeFor} from '../pay/payment.ts'
import {withAddresses} from '../pool.ts'
import {settingsWith} from '../tokens.ts'

const statuses = ['paid', 'underpaid'] as const
type Status = (typeof statuses)[number]

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

const fields: Fields = {
  external_id: 'p.external_id',
  currency: {plain: 'a.name'},
  amount: {plain: 'app.decimal(p.amount, a.decimals)'},
  amount_received: {plain: 'app.decimal(p.received, a.decimals)'},
  shortfall: {plain: 'app.decimal(greatest(p.amount - p.received, 0), a.decimals)'},
  status: {plain: 'p.status'},
  late: 'p.late',
  txid: {plain: 'p.txid'},
  paid_at: 'app.iso(p.paid_at)',
  settlement_id: `app.public_id('pay', s.payout_id)`,
  settlement: 'app.settlement_of(s.payout_id)',
  metadata: 'p.metadata',
}
const joins = `join app.asset a on a.chain = p.chain and a.token = p.token
  cross join lateral (
    select case when bool_and(r.settlement_id is not null) then (array_agg(r.settlement_id order by r.finalisation desc, r.seq desc))[1] end as payout_id
    from app.receipt r where r.payment_request_id = p.id and r.status = 'final'
  ) s`

// A statement for each combination of filters. Statuses are in the text, because an index covers only the rare one.
export const paymentLists = new Map<string, Statement>()
for (const byId of [false, true])
  for (const byCurrency of [false, true])
    for (const status of [undefined, ...statuses]) {
      const name = listName(byId, byCurrency, status)
      const [chain, token] = byId ? ['$5', '$6'] : ['$4', '$5']
      const filters =
        (status ? ` and status = '${status}'` : '') + (byCurrency ? ` and chain = ${chain} and token = ${token}` : '')
      const ofOne = oneRow(
        'select * from app.payment_request where merchant_id = $1 and external_id = app.request_ref($1, $4)',
      )
      const rows = `select * from ${byId ? ofOne : 'app.payment_request'} where merchant_id = $1 and position is not null${filters}`
      paymentLists.set(name, pageStatement({name, rows, position: 'position', item: jsonOf(fields), joins}))
    }

function listName(byId: boolean, byCurrency: boolean, status?: Status): string {
  return `list_payments${byId ? '_of_id' : ''}${byCurrency ? '_of_currency' : ''}${status ? `_${status}` : ''}`
}

const requestItem = jsonOf({
  external_id: 'p.external_id',
  currency: {plain: 'a.name'},
  address: {plain: 'w.address'},
  amount: {plain: 'app.decimal(p.amount, a.decimals)'},
  tolerance: {plain: 'app.decimal(p.tolerance, a.decimals)'},
  status: {plain: 'p.status'},
  explanation: {plain: 'app.why_payment(p)'},
  amount_received: {plain: 'app.decimal(p.received, a.decimals)'},
  amount_pending: {plain: 'app.decimal(p.pending, a.decimals)'},
  shortfall: {plain: 'app.decimal(greatest(p.amount - p.received, 0), a.decimals)'},
  amount_missing: {plain: 'app.decimal(app.payment_missing(p), a.decimals)'},
  late: 'p.late',
  txid: 'p.txid',
  paid_at: 'app.iso(p.paid_at)',
  created_at: {plain: 'app.iso(p.created_at)'},
  expires_at: {plain: 'app.iso(p.expires_at)'},
  cancelled_at: 'app.iso(p.cancelled_at)',
  metadata: 'p.metadata',
  return_url: 'p.return_url',
})
const requestJoins = `join app.asset a on a.chain = p.chain and a.token = p.token
  join app.address w on w.payment_request_id = p.id and w.chain = p.chain`

// $4 status, $5 chain, $6 token, $7 and $8 from when to when they were made: each may be null. An index has the
// requests of each status, chain and token in the order of seq, which is that of created_at but for what is made at the
// same moment; so a range of time is found by its place in that order.
const isAsked = 'coalesce(s.status = $4, true) and coalesce(a.chain = $5, true) and coalesce(a.token = $6, true)'
const wasMade = `created_at >= coalesce($7::timestamptz, '-infinity') and created_at < coalesce($8::timestamptz, 'infinity')`
const nearest = (beyond: string, order: string) =>
  `(select seq from app.payment_request where merchant_id = $1 and created_at ${beyond} order by created_at ${order} limit 1)`
// $9 and $10 from when to when they were paid, $11 the address, $12 the transaction: few requests, all of which are
// looked at.
const isOne = `coalesce(status = $4, true) and coalesce(chain = $5, true) and coalesce(token = $6, true) and ${wasMade}
  and coalesce(paid_at >= $9::timestamptz, $9 is null) and coalesce(paid_at < $10::timestamptz, $10 is null)`
const hasAddress = (address: string) => `select r.* from app.chain c
  join app.address w on w.chain = c.chain and w.match_key = app.match_key(${address}, c.folds_addresses)
  join app.payment_request r on r.id = w.payment_request_id and r.chain = w.chain where r.merchant_id = $1`
const hasTransaction =
  'select * from app.payment_request where merchant_id = $1 and id in (select payment_request_id from app.receipt where txid = $12)'
const few = (name: string, source: string, and = '') =>
  pageStatement({
    name: `list_payment_requests_${name}`,
    rows: `select * from ${oneRow(source)} where ${isOne}${and}`,
    position: 'seq',
    item: requestItem,
    joins: requestJoins,
  })

export const requestLists = {
  all: pageStatement({
    name: 'list_payment_requests',
    parts: `select s.status, a.chain, a.token, b.above, b.below from app.asset a, unnest('{${paymentStatus.options}}'::text[]) s (status),
      (select coalesce(${nearest(`< $7::timestamptz - interval '1 minute'`, 'desc')}, 0) as above,
        coalesce(${nearest(`> $8::timestamptz + interval '1 minute'`, 'asc')}, 9223372036854775807) as below) b where ${isAsked}`,
    rows: `select * from app.payment_request where merchant_id = $1 and status = part.status and chain = part.chain and token = part.token
      and seq > part.above and seq < part.below and ${wasMade}`,
    position: 'seq',
    item: requestItem,
    joins: requestJoins,
  }),
  paid: few(
    'paid',
    `select * from app.payment_request where merchant_id = $1
      and paid_at >= coalesce($9::timestamptz, '-infinity') and paid_at < coalesce($10::timestamptz, 'infinity')`,
  ),
  ofAddress: few('of_address', hasAddress('$11')),
  ofTransaction: few(
    'of_transaction',
    hasTransaction,
    ` and ($11::text is null or id in (select id from (${hasAddress('$11')}) o))`,
  ),
}

const wanted = amount.meta({
  description: 'The amount to pay. Plain decimal, without trailing zeros.',
  examples: ['25'],
})
const received = amount.meta({description: 'What arrived and is final.', examples: ['25']})
const late = z.boolean().meta({
  description: 'Whether some of it came after the request expired, or was cancelled.',
  examples: [false],
})
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

const created = {
  external_id: externalId,
  currency,
  address: address.describe('Where to pay. The address is for this request only.'),
  amount: wanted,
  tolerance: amount.meta({description: 'How much of it may be missing: it is paid all the same.', examples: ['0']}),
  payment_uri: z.string().meta({
    description: 'Address and amount in one, in the format of the wallets of the chain.',
    examples: [
      'ethereum:0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238@11155111/transfer?address=0x70997970C51812dc3A010C7d01b50e0d17dc79C8&uint256=25000000',
    ],
  }),
  payment_url: z.string().meta({
    description: 'A page for your customer, with a QR code and what has arrived.',
    examples: ['https://pay.example/pay/Vb1Zq0cWb3XcJ8mF5yTn2sKd7RgHe4La'],
  }),
  expires_at: timestamp.describe('A later payment still counts, with `late`.'),
  metadata,
  return_url: z
    .string()
    .nullable()
    .meta({
      description: 'Where the page sends your customer back to.',
      examples: ['https://shop.example/orders/1042'],
    }),
}
const PaymentRequest = z.object(created).meta({id: 'PaymentRequest'})

const Receipt = z
  .object({
    txid,
    output_index: z.int().meta({description: 'Position inside the transaction.', examples: [3]}),
    amount: amount.meta({examples: ['25']}),
    status: z.enum(['pending', 'final']).meta({examples: ['final']}),
    confirmations: z.int().meta({
      description: 'Number of blocks from its own to the newest, both included; 0 while it is in no block.',
      examples: [12],
    }),
    late: late.describe('Whether it came after the request expired, or was cancelled.'),
    settlement_id: id('pay')
      .nullable()
      .meta({description: 'The payout that collected it; null until then.', examples: [null]}),
    created_at: timestamp,
  })
  .meta({id: 'Receipt'})
const shortfall = amount.meta({
  description: 'What is missing from `amount`, exactly; also if it may be missing.',
  examples: ['0'],
})
const state = {
  status: paymentStatus.meta({
    description:
      '`detected`: money was seen, and is not enough or not final yet. `expired`, `cancelled`: nothing came, or too little to count as a payment.',
    examples: ['paid'],
  }),
  explanation: z.string().meta({description: 'Why it has this status, in words.', examples: ['all of it came']}),
  amount_received: received,
  amount_pending: amount.meta({description: 'What was seen and is not final yet.', examples: ['0']}),
  shortfall,
  amount_missing: amount.meta({
    description: 'What is missing besides what was seen: 0 if that is enough, and never less than anybody can send.',
    examples: ['0'],
  }),
  late,
  txid: txid.nullable().describe('The transaction that completed the payment; until then the last final one.'),
  paid_at: timestamp.nullable(),
  created_at: timestamp,
  cancelled_at: timestamp
    .nullable()
    .meta({description: 'When you cancelled it; null unless you did.', examples: [null]}),
}
const {payment_uri: _uri, payment_url: _url, ...listed} = created
const PaymentRequestItem = z.object({...listed, ...state}).meta({id: 'PaymentRequestItem'})
const PaymentRequestState = z
  .object({
    ...created,
    payment_uri: created.payment_uri
      .nullable()
      .describe('Address and what is still missing in one; null if nothing is missing, or the request has ended.'),
    ...state,
    receipts: z.array(Receipt).describe('The payments that arrived, in the order in which they were seen.'),
  })
  .meta({id: 'PaymentRequestState'})

const Payment = z
  .object({
    external_id: externalId,
    currency,
    amount: wanted.describe('What was asked for.'),
    amount_received: received.describe('What arrived and is final; more than `amount` if too much was paid.'),
    shortfall,
    status: z.enum(statuses).describe('`underpaid`: the request expired with less than pays it.'),
    late,
    txid: txid.describe('The transaction that completed the payment; the last one if it is underpaid.'),
    paid_at: timestamp.nullable().describe('Null while it is underpaid.'),
    settlement_id: id('pay')
      .nullable()
      .meta({description: 'The payout that collected it; null until all of it was collected.', examples: [null]}),
    settlement: Settlement,
    metadata,
  })
  .meta({id: 'Payment'})

export function paymentRequests(app: App, context: Context): void {
  const {db, paymentExpiryMs, paymentLateAfterMs} = context
  const tags = ['Payment requests']
  const ofChains = [...context.chains.values()].map(({chain}) => chain)
  const assets = new Map(
    ofChains.flatMap(({code, assets}) => assets.map(({name, token}) => [name, {chain: code, token}])),
  )
  const listFilters = {
    status: paymentStatus.optional(),
    currency: z.enum([...assets.keys()]).optional(),
    created_from: moment.optional().describe('Requests that were made at this time or later.'),
    created_to: moment.optional().describe('Requests that were made before this time.'),
    paid_from: moment.optional().describe('Requests that were paid at this time or later.'),
    paid_to: moment.optional().describe('Requests that were paid before this time.'),
    address: text(128).optional().describe('The address of a request.'),
    txid: text(128).optional().describe('A transaction that paid for requests.'),
  }
  const filters = {
    external_id: externalId.optional(),
    currency: z.enum([...assets.keys()]).optional(),
    status: z.enum(statuses).optional(),
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
      const {status = null} = query
      const [created_from, created_to, paid_from, paid_to] = [
        query.created_from,
        query.created_to,
        query.paid_from,
        query.paid_to,
      ].map(time => (time === undefined ? null : new Date(time).toISOString())) as Bounds
      const {chain = null, token = null} = query.currency === undefined ? {} : assets.get(query.currency)!
      if (status !== null && status !== 'paid' && (paid_from ?? paid_to)) return nothing
      checkSpan(paid_from, paid_to)
      const {address, txid} = query
      const made = [status, chain, token, created_from, created_to]
      const all = [...made, paid_from, paid_to, address ?? null, txid === undefined ? null : withoutCase(txid)]
      const [statement, filters] =
        txid !== undefined
          ? [requestLists.ofTransaction, all]
          : address !== undefined
            ? [requestLists.ofAddress, all.slice(0, -1)]
            : (paid_from ?? paid_to)
              ? [requestLists.paid, all.slice(0, -2)]
              : [requestLists.all, made]
      return enveloping(await page(db.of(merchantId), {key: 'data', statement, owner: merchantId, filters, query}))
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
      const {external_id, currency, status} = query
      const asset = currency === undefined ? undefined : assets.get(currency)
      const list = paymentLists.get(listName(external_id !== undefined, currency !== undefined, status))!
      const listed = await page(db.of(merchantId), {
        key: 'data',
        statement: list,
        owner: merchantId,
        filters: [external_id, asset?.chain, asset?.token],
        query,
      })
      return enveloping(listed)
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
function checkSpan(from: string | null, to: string | null): void {
  if (from === null && to !== null) throw invalid('paid_from', 'missing', 'is needed with paid_to')
  const days = from === null ? 0 : ((to === null ? Date.now() : Date.parse(to)) - Date.parse(from)) / 86_400_000
  if (days > mostPaidDays)
    throw invalid('paid_from', 'too_long', `must be at most ${mostPaidDays} days before paid_to, or before now`)
}

type Bound = string | null
type Bounds = [createdFrom: Bound, createdTo: Bound, paidFrom: Bound, paidTo: Bound]

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
