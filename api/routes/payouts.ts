// Payouts.
import {z} from 'zod'
import {text} from '../../base/text.ts'
import {chainCodes, findChain} from '../../chains/registry.ts'
import {id, pageOf, pageQuery, requestedChain, token, uuidOf} from '../../reading/fields.ts'
import {amountsOf, listed, made, oneOrMore, timesOf} from '../../reading/filters.ts'
import {Payout, PayoutItem, PayoutPart, payoutShape, payoutStatuses} from '../../reading/payouts.ts'
import type {App, Context} from '../app.ts'
import {statement, value} from '../database.ts'
import {changeErrors, errors} from '../error-codes.ts'
import {ApiError, checkAmounts, invalid, notFound} from '../errors.ts'
import {idempotencyHeaders, keyAndHash} from '../idempotency.ts'
import {listOf, objectStatement, pageOfList} from '../page.ts'
import type {Queries} from '../replica.ts'

const createPayout = statement('create_payout', `select app.create_payout($1, $2, $3, $4, $5, decode($6, 'hex'))`)
const cancelPayout = statement('cancel_payout', 'select app.cancel_payout($1, $2)')
const findPayout = objectStatement('app.read_payout')
export const list = listOf('payouts', 'app.read_payouts')
export const partsList = listOf('deposits', 'app.read_whole_payout')

const {gross, fee, net} = payoutShape
const NewPayout = z
  .object({
    id: payoutShape.id,
    status: payoutShape.status.meta({examples: ['pending']}),
    gross,
    fee,
    net,
    txid: payoutShape.txid.meta({examples: [null]}),
  })
  .meta({id: 'NewPayout'})
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
          status: oneOrMore(payoutStatuses),
          chain: z.enum(chainCodes).optional(),
          token: text(64).optional(),
          address: text(128).optional().describe('Where they are paid to.'),
          ...amountsOf('Payouts of a net of'),
          ...timesOf('Payouts that were made'),
          ...pageQuery,
        }),
        response: {200: pageOf('payouts', PayoutItem), ...errors()},
      },
    },
    ({merchantId, query}) => {
      const {chain, token, address, amount_from, amount_to} = query
      checkAmounts(query, chain && token)
      const asked = {status: listed(query.status), chain, token, address, amount_from, amount_to, ...made(query)}
      return pageOfList(db.of(merchantId), list, {merchantId, asked, query})
    },
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
      return pageOfList(db.of(merchantId), partsList, {merchantId, asked: {payout}, query})
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
  const found = payout && (await db.read<[string]>(findPayout, [merchantId, payout]))
  if (!found) throw notFound('payout')
  return found[0]
}
