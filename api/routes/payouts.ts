// Payouts.
import {z} from 'zod'
import {text} from '../../base/text.ts'
import {chainCodes, findChain} from '../../chains/registry.ts'
import {depositStatuses} from '../../reading/deposits.ts'
import {
  address,
  amount,
  chainCode,
  externalId,
  externalRef,
  failureCode,
  id,
  pageOf,
  pageQuery,
  requestedChain,
  timestamp,
  token,
  txid,
  uuidOf,
  waitingCode,
} from '../../reading/fields.ts'
import type {App, Context} from '../app.ts'
import {statement, value} from '../database.ts'
import {changeErrors, errors} from '../error-codes.ts'
import {ApiError, invalid, notFound} from '../errors.ts'
import {idempotencyHeaders, keyAndHash} from '../idempotency.ts'
import {type Fields, jsonOf, page, pageStatement} from '../page.ts'
import type {Queries} from '../replica.ts'

const statuses = ['pending', 'sweeping', 'swept', 'paying', 'completed', 'failed'] as const
/** Why a balance changed by something other than a deposit (app.adjustment.reason). */
const adjustmentReasons = [
  'deposit_lost',
  'deposit_back',
  'payout_failed',
  'payout_recovered',
  'paid_after_all',
] as const

const fields: Fields = {
  id: {plain: `app.public_id('pay', p.id)`},
  status: {plain: 'p.status'},
  chain: {plain: 'p.chain'},
  token: {plain: 'p.token'},
  gross: {plain: 'app.decimal(p.gross, a.decimals)'},
  fee: {plain: 'app.decimal(p.fee, a.decimals)'},
  net: {plain: 'app.decimal(p.net, a.decimals)'},
  txid: 'p.txid',
  error: `(select row_to_json(e) from (select p.error_code as code, p.error_message as message) e where p.error_code is not null)`,
  waiting: 'app.payout_waiting(p)',
  address: {plain: 'p.address'},
  completed_at: `case p.status when 'completed' then app.iso(p.finished_at) end`,
}
const joins = 'join app.asset a on a.chain = p.chain and a.token = p.token'

const createPayout = statement('create_payout', `select app.create_payout($1, $2, $3, $4, $5, decode($6, 'hex'))`)
const cancelPayout = statement('cancel_payout', 'select app.cancel_payout($1, $2)')
const findPayout = statement(
  'find_payout',
  `select ${jsonOf(fields)} from app.payout p ${joins} where p.id = $1 and p.merchant_id = $2`,
)
// An index has the payouts of each status, chain and token in order.
export const listPayouts = pageStatement({
  name: 'list_payouts',
  parts: `select s.status, a.chain, a.token from app.asset a, unnest('{${statuses}}'::text[]) s (status)
    where coalesce(s.status = $4, true) and coalesce(a.chain = $5, true) and coalesce(a.token = $6, true)`,
  rows: 'select * from app.payout where merchant_id = $1 and status = part.status and chain = part.chain and token = part.token',
  position: 'seq',
  item: jsonOf({...fields, created_at: {plain: 'app.iso(p.created_at)'}}),
  joins,
})

// $4: the payout. That the list is whole is asked in the same statement.
export const listPayoutParts = pageStatement({
  name: 'list_payout_parts',
  rows: 'select * from app.payout_parts(app.listed_payout($1, $4), $2, $3::int + 1) where true',
  position: 'place',
  item: jsonOf({
    type: {plain: 'p.type'},
    amount: {plain: 'app.decimal(p.amount, a.decimals)'},
    reason: 'p.reason',
    deposit_id: `case when d.user_id is not null then app.public_id('dep', d.id) end`,
    status: 'p.status',
    txid: 'd.txid',
    output_index: 'd.output_index',
    user_id: `app.public_id('usr', d.user_id)`,
    external_ref: 'u.external_ref',
    external_id: 'r.external_id',
    created_at: {plain: 'app.iso(p.created_at)'},
  }),
  joins: `join app.payout o on o.id = $4 join app.asset a on a.chain = o.chain and a.token = o.token
    left join app.deposit d on d.id = p.deposit_id left join app.user u on u.id = d.user_id
    left join app.payment_request r on r.id = d.payment_request_id`,
})

const shape = {
  id: id('pay'),
  status: z.enum(statuses).meta({examples: ['completed']}),
  chain: chainCode,
  token,
  gross: amount.meta({description: 'The balance that it collected.', examples: ['250']}),
  fee: amount.meta({
    description: 'Service fee: gross × fee_bps / 10000, rounded down in base units.',
    examples: ['1.25'],
  }),
  net: amount.meta({description: 'What is paid: gross − fee.', examples: ['248.75']}),
  txid: txid.nullable().describe('The transaction that paid it; null until it is completed.'),
  error: z
    .object({code: failureCode, message: z.string()})
    .nullable()
    .meta({
      description: 'Why it failed; null unless it did. Its deposits are in the balance again.',
      examples: [null],
    }),
  waiting: z
    .object({code: waitingCode, message: z.string(), since: timestamp})
    .nullable()
    .meta({
      description:
        'What its next step waits for, and since when; null while nothing is in its way, and once it has ended.',
      examples: [null],
    }),
  address: address.describe('Where it is paid to. A later change of the payout address does not change it.'),
  completed_at: timestamp.nullable().describe('When its payment was final; null until then.'),
}
const {gross, fee, net} = shape
const NewPayout = z
  .object({
    id: shape.id,
    status: shape.status.meta({examples: ['pending']}),
    gross,
    fee,
    net,
    txid: shape.txid.meta({examples: [null]}),
  })
  .meta({id: 'NewPayout'})
const Payout = z.object(shape).meta({id: 'Payout'})
const PayoutItem = z.object({...shape, created_at: timestamp}).meta({id: 'PayoutItem'})
const PayoutPart = z
  .object({
    type: z.enum(['deposit', 'receipt', 'adjustment']).meta({
      description:
        '`deposit`: of a user. `receipt`: what reached the address of a payment request. `adjustment`: a debt, or what cancels one.',
      examples: ['deposit'],
    }),
    amount: amount.meta({description: 'Its part of the gross: below zero for a debt.', examples: ['250']}),
    reason: z
      .enum(adjustmentReasons)
      .nullable()
      .meta({description: 'Why there is an adjustment; null for others.', examples: [null]}),
    deposit_id: id('dep').nullable().describe('The deposit, or the one that an adjustment is about.'),
    status: z
      .enum(depositStatuses)
      .nullable()
      .meta({
        description:
          'Of a deposit or receipt, now. One that was lost in a reorganisation stays in a payout that had begun to pay: a later payout has the debt.',
        examples: ['final'],
      }),
    txid: txid.nullable(),
    output_index: z
      .int()
      .nullable()
      .meta({description: 'Position inside the transaction.', examples: [3]}),
    user_id: id('usr').nullable(),
    external_ref: externalRef.nullable(),
    external_id: externalId.nullable().meta({description: 'Your reference of the payment request.', examples: [null]}),
    created_at: timestamp.describe('When it was first seen; of an adjustment, when it was made.'),
  })
  .meta({id: 'PayoutPart'})

export function payouts(app: App, {db}: Context): void {
  app.post(
    '/v1/payouts',
    {
      config: {scope: 'payouts'},
      // The one field that is not ignored although it is unknown: who sends it would pay out more than they want.
      preValidation: async ({body}) => {
        if (typeof body === 'object' && body !== null && Object.hasOwn(body, 'amount'))
          throw invalid('amount', 'unknown_field', 'a payout always pays the whole balance; leave amount out')
      },
      schema: {
        tags: ['Payouts'],
        summary: 'Pay out a balance',
        operationId: 'createPayout',
        description:
          'Collects the whole balance of a chain and token and pays its net to the payout address of the chain, step by step; ' +
          'the event `payout.completed` or `payout.failed` says how it ended. 422 is `payout_failed` if there is nothing to pay out, ' +
          'no payout address, or the chain is stopped; `unsupported_token` for a pair that does not exist; `chain_not_enabled`; ' +
          '`idempotency_key_reused`.',
        headers: idempotencyHeaders('payout', '"payout-2026-01-31"'),
        body: z
          .object({
            chain: requestedChain,
            token: text(64).meta({description: token.description, examples: token.meta()?.examples as string[]}),
            sweep_first: z
              .boolean()
              .default(false)
              .describe('If true, every address of the balance is swept before anything is paid.'),
          })
          .meta({examples: [{chain: 'ETH', token: 'USDC'}]}),
        response: {
          202: NewPayout.describe('Accepted.'),
          ...changeErrors('payout_failed', 'unsupported_token', 'chain_not_enabled', 'idempotency_key_reused'),
        },
      },
    },
    async ({merchantId, headers, body}, reply) => {
      const {chain, token, sweep_first} = body
      if (!findChain(chain))
        throw new ApiError('unsupported_token', `there is no chain ${chain}; there are ${chainCodes.join(', ')}`)
      const asked = [chain, token, sweep_first]
      const values = [merchantId, ...asked, ...keyAndHash(headers['idempotency-key'], asked)]
      return reply.code(202).send(await value(db.of(merchantId).change<[string]>(createPayout, values)))
    },
  )

  app.get(
    '/v1/payouts',
    {
      schema: {
        tags: ['Payouts'],
        summary: 'List payouts',
        operationId: 'listPayouts',
        querystring: z.object({
          status: z.enum(statuses).optional(),
          chain: z.enum(chainCodes).optional(),
          token: text(64).optional(),
          ...pageQuery,
        }),
        response: {200: pageOf('payouts', PayoutItem), ...errors()},
      },
    },
    ({merchantId, query}) =>
      page(db.of(merchantId), {
        key: 'payouts',
        statement: listPayouts,
        owner: merchantId,
        filters: [query.status ?? null, query.chain ?? null, query.token ?? null],
        query,
      }),
  )

  app.get(
    '/v1/payouts/:id',
    {
      schema: {
        tags: ['Payouts'],
        summary: 'Get a payout',
        operationId: 'getPayout',
        params: z.object({id: id('pay')}),
        response: {200: Payout.describe('The payout.'), ...errors('payout_not_found')},
      },
    },
    ({merchantId, params}) => payoutOf(db.of(merchantId), merchantId, uuidOf('pay', params.id)),
  )

  app.get(
    '/v1/payouts/:id/deposits',
    {
      schema: {
        tags: ['Payouts'],
        summary: 'List what a payout is made of',
        operationId: 'listPayoutDeposits',
        description:
          'The deposits, the receipts of payment requests and the adjustments that the payout collected: adjustments first, then the newest first. ' +
          'The sum of their amounts is its gross. It is 409 `payout_collecting` while a large payout still collects them; a failed payout has none.',
        params: z.object({id: id('pay')}),
        querystring: z.object(pageQuery),
        response: {
          200: pageOf('deposits', PayoutPart),
          ...errors('payout_not_found', 'payout_collecting'),
        },
      },
    },
    async ({merchantId, params, query}) => {
      const payout = uuidOf('pay', params.id)
      if (!payout) throw notFound('payout')
      const list = {key: 'deposits', statement: listPayoutParts, owner: merchantId, filters: [payout], query}
      return page(db.of(merchantId), list)
    },
  )

  app.post(
    '/v1/payouts/:id/cancel',
    {
      config: {scope: 'payouts'},
      schema: {
        tags: ['Payouts'],
        summary: 'Cancel a payout',
        operationId: 'cancelPayout',
        description:
          'Cancels a payout until its payment has begun; afterwards it is 422 `unprocessable`. Its deposits are in the balance again at once, ' +
          'and what was moved to the treasury meanwhile is not moved again by the next payout. Within a day, only so many payouts that are no ' +
          'longer pending can be cancelled as the operator allows (20, unless told otherwise): 429 `rate_limited`.',
        params: z.object({id: id('pay')}),
        response: {
          200: Payout.describe('Cancelled: it is failed.'),
          ...changeErrors('payout_not_found', 'unprocessable'),
        },
      },
    },
    async ({merchantId, params}) => {
      const payout = uuidOf('pay', params.id)
      if (!payout) throw notFound('payout')
      await db.of(merchantId).change(cancelPayout, [merchantId, payout])
      return payoutOf(db.of(merchantId), merchantId, payout)
    },
  )
}

async function payoutOf(db: Queries, merchantId: string, payout?: string): Promise<string> {
  const found = payout && (await db.read<[string]>(findPayout, [payout, merchantId]))
  if (!found) throw notFound('payout')
  return found[0]
}
