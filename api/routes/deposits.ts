// Deposits: what reached the addresses of users. (What was paid for payment requests is in payment-requests.ts.)
import {z} from 'zod'
import {text} from '../../base/text.ts'
import {chainCodes} from '../../chains/registry.ts'
import {Deposit, depositStatuses, SingleDeposit} from '../../reading/deposits.ts'
import {id, pageOf, pageQuery, uuidOf, withoutCase} from '../../reading/fields.ts'
import {amountsOf, listed, oneOrMore, sender, timesOf} from '../../reading/filters.ts'
import type {App, Context} from '../app.ts'
import {statement} from '../database.ts'
import {errors} from '../error-codes.ts'
import {checkAmounts, notFound} from '../errors.ts'
import {integers, listOf, objectStatement, pageOfList} from '../page.ts'

/** Their places are numeric: the microsecond of created_at, times 2^63, plus a number. */
export const list = listOf('deposits', 'app.read_deposits', integers(2n ** 127n - 1n))
/** The place before the deposits of a moment. */
const placeAt = (time: string | undefined) =>
  time === undefined ? undefined : String((BigInt(Date.parse(time)) * 1000n) << 63n)

const owns = {
  user: ['usr', statement('owns_user', 'select true from app.user where id = $1 and merchant_id = $2')],
  payout: ['pay', statement('owns_payout', 'select true from app.payout where id = $1 and merchant_id = $2')],
} as const
const findAddress = statement(
  'find_address_of_user',
  `select d.user_id, d.address from app.chain c
  join app.address d on d.chain = c.chain and d.match_key = app.match_key($2, c.folds_addresses)
  where d.merchant_id = $1 and d.user_id is not null limit 1`,
)
const findDeposit = objectStatement('app.read_deposit')

const filters = {
  status: oneOrMore(depositStatuses),
  chain: z.enum(chainCodes).optional(),
  token: text(64).optional(),
  user_id: id('usr').optional(),
  address: text(128).optional().describe('Address of one of your users.'),
  txid: text(128).optional().describe('Transaction id. One transaction can hold several deposits.'),
  settlement_id: id('pay')
    .optional()
    .describe('The payout that collected them. `GET /v1/payouts/:id/deposits` has all that a payout is made of.'),
  sender,
  ...amountsOf('Deposits of'),
  ...timesOf('Deposits that were first seen'),
}
type Query = z.output<z.ZodObject<typeof filters>>

export function deposits(app: App, {db}: Context): void {
  app.get(
    '/v1/deposits',
    {
      schema: {
        tags: ['Deposits'],
        summary: 'List deposits',
        operationId: 'listDeposits',
        description: 'Polling with `status=final` is a fallback to webhooks.',
        querystring: z.object({...filters, ...pageQuery}),
        response: {200: pageOf('deposits', Deposit), ...errors('user_not_found', 'payout_not_found')},
      },
    },
    async ({merchantId, query}) => {
      const asked = await askedOf(merchantId, query)
      if (!asked) return '{"deposits":[],"next_cursor":null,"has_more":false}'
      return pageOfList(db.of(merchantId), list, {merchantId, asked, query})
    },
  )

  app.get(
    '/v1/deposits/:id',
    {
      schema: {
        tags: ['Deposits'],
        summary: 'Get a deposit',
        operationId: 'getDeposit',
        params: z.object({id: id('dep')}),
        response: {200: SingleDeposit.describe('The deposit.'), ...errors('deposit_not_found')},
      },
    },
    async ({merchantId, params}) => {
      const deposit = uuidOf('dep', params.id)
      const found = deposit && (await db.of(merchantId).read<[string]>(findDeposit, [merchantId, deposit]))
      if (!found) throw notFound('deposit')
      return found[0]
    },
  )

  /** What is asked for, as app.read_deposits takes it; undefined if the address is of no user of the merchant. */
  async function askedOf(merchantId: string, query: Query): Promise<object | undefined> {
    const {chain, token, txid, sender, amount_from, amount_to} = query
    checkAmounts(query, chain && token)
    const user = query.user_id === undefined ? undefined : await owned(merchantId, 'user', query.user_id)
    const payout =
      query.settlement_id === undefined ? undefined : await owned(merchantId, 'payout', query.settlement_id)
    const found =
      query.address === undefined
        ? undefined
        : await db.of(merchantId).read<[user: string, address: string]>(findAddress, [merchantId, query.address])
    if (query.address !== undefined && !found) return undefined
    return {
      ...{status: listed(query.status), chain, token, payout, user: user ?? found?.[0], address: found?.[1]},
      ...{sender, amount_from, amount_to},
      txid: txid === undefined ? undefined : withoutCase(txid),
      from: placeAt(query.created_from),
      to: placeAt(query.created_to),
    }
  }

  /** The uuid of a user or payout of the merchant. */
  async function owned(merchantId: string, kind: keyof typeof owns, publicId: string): Promise<string> {
    const [prefix, isOwn] = owns[kind]
    const uuid = uuidOf(prefix, publicId)
    if (!uuid || !(await db.of(merchantId).read(isOwn, [uuid, merchantId]))) throw notFound(kind)
    return uuid
  }
}
