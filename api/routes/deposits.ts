// Deposits: what reached the addresses of users. (What was paid for payment requests is in payment-requests.ts.)
import {z} from 'zod'
import {text} from '../../base/text.ts'
import {chainCodes} from '../../chains/registry.ts'
import type {App, Context} from '../app.ts'
import {statement} from '../database.ts'
import {errors} from '../error-codes.ts'
import {notFound} from '../errors.ts'
import {type Fields, jsonOf, page, pageStatement} from '../page.ts'
import {
  address,
  amount,
  chainCode,
  externalRef,
  id,
  metadata,
  moment,
  pageOf,
  pageQuery,
  timestamp,
  token,
  txid,
  uuidOf,
  withoutCase,
} from '../schemas.ts'

export const depositStatuses = ['pending', 'final', 'reorged'] as const

export const depositFields: Fields = {
  id: {plain: `app.public_id('dep', p.id)`},
  chain: {plain: 'p.chain'},
  token: {plain: 'p.token'},
  amount: {plain: 'app.decimal(p.amount, a.decimals)'},
  sender: {plain: 'p.sender'}, // addresses and transaction ids are hex, base58 or bech32 on every chain
  txid: {plain: 'p.txid'},
  status: {plain: 'p.status'},
  confirmations: {number: 'app.deposit_confirmations(p.status, p.block_height, c.head_height)'},
  settlement_id: `app.public_id('pay', p.settlement_id)`,
  created_at: {plain: 'app.iso(p.created_at)'},
  address: {plain: 'p.address'},
  output_index: {number: 'p.output_index'},
  user_id: {plain: `app.public_id('usr', p.user_id)`},
  external_ref: 'u.external_ref',
  metadata: 'u.metadata',
  settled_before_restore: 'p.settled_before_restore',
}
export const depositJoins =
  'join app.asset a on a.chain = p.chain and a.token = p.token join app.user u on u.id = p.user_id left join chain.cursor c on c.chain = p.chain'

// $4 is the lowest position, $5… the status, the chain and the token, or null. Indexes have the deposits of each
// status, chain and token in order.
const list = {position: 'position', item: jsonOf(depositFields), joins: depositJoins}
const rowsOf = (owner: string, source = 'app.deposit') =>
  `select * from ${source} where ${owner} = $1 and credited and user_id is not null and position >= $4`
const isPart = 'and status = part.status and chain = part.chain and token = part.token'
const statusPart = `unnest('{${depositStatuses}}'::text[]) s (status)`
const isAsked = 'coalesce(s.status = $5, true) and coalesce(a.chain = $6, true) and coalesce(a.token = $7, true)'

export const lists = {
  all: pageStatement({...list, name: 'list_deposits', rows: rowsOf('merchant_id')}),
  parts: pageStatement({
    ...list,
    name: 'list_deposits_by_part',
    parts: `select s.status, a.chain, a.token from app.asset a, ${statusPart} where ${isAsked}`,
    rows: `${rowsOf('merchant_id')} ${isPart}`,
  }),
  // $8: the address, of which a user has one on each chain. $9: the payout.
  ofUser: pageStatement({
    ...list,
    name: 'list_deposits_of_user',
    parts: `select s.status, a.chain, a.token from app.address d join app.asset a on a.chain = d.chain, ${statusPart}
      where d.user_id = $1 and coalesce(d.address = $8, true) and ${isAsked}`,
    rows: `${rowsOf('user_id')} ${isPart} and ($9::uuid is null or settlement_id = $9)`,
  }),
  // $8: the payout, which is of one chain and token. An index has its deposits of each status in order.
  ofPayout: pageStatement({
    ...list,
    name: 'list_deposits_of_payout',
    parts: `select s.status from app.payout a, ${statusPart} where a.id = $8 and a.merchant_id = $1 and ${isAsked}`,
    rows: `${rowsOf('merchant_id')} and settlement_id = $8 and status = part.status`,
  }),
  // $8: the address. $9: the user. $10: the transaction. $11: the payout. (`offset 0`, because the planner would rather
  // walk the merchant's page: it cannot know $4.)
  ofTransaction: pageStatement({
    ...list,
    name: 'list_deposits_of_transaction',
    rows: `${rowsOf('merchant_id', '(select * from app.deposit where txid = $10 offset 0) t')}
      and coalesce(status = $5, true) and coalesce(chain = $6, true)
      and coalesce(token = $7, true) and coalesce(address = $8, true) and coalesce(user_id = $9, true)
      and ($11::uuid is null or settlement_id = $11)`,
  }),
}
type Filters = (string | null)[]

const positions = {end: 2n ** 127n - 1n, show: String, read: BigInt}
/** The position before the deposits of a moment. */
const positionAt = (time: string) => (BigInt(Date.parse(time)) * 1000n) << 63n

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

/** SQL of the id of the payout that collected a deposit: null until the payout is completed. */
export function settlementOf(payout: string): string {
  return `(select row_to_json(s) from (
    select app.public_id('pay', o.id) as id, o.status, o.txid as payout_txid from app.payout o
    where o.id = ${payout} and o.status = 'completed'
  ) s)`
}
const findDeposit = statement(
  'find_deposit',
  `select ${jsonOf({...depositFields, finalised_at: 'app.iso(p.finalised_at)', settlement: settlementOf('p.settlement_id'), held_back: 'app.held_back_of(p)'})}
  from app.deposit p ${depositJoins} where p.id = $1 and p.merchant_id = $2 and p.credited and p.user_id is not null`,
)

const shape = {
  id: id('dep'),
  chain: chainCode,
  token,
  amount: amount.meta({examples: ['250']}),
  sender: address,
  txid,
  status: z.enum(depositStatuses).meta({examples: ['final']}),
  confirmations: z.int().meta({
    description: 'Number of blocks from its own to the newest, both included; 0 if unconfirmed or reorged.',
    examples: [9],
  }),
  settlement_id: id('pay')
    .nullable()
    .meta({description: 'The payout that collected it; null until then.', examples: [null]}),
  created_at: timestamp,
  address: address.describe('The address that received it.'),
  output_index: z.int().meta({description: 'Position inside the transaction.', examples: [3]}),
  user_id: id('usr'),
  external_ref: externalRef,
  metadata: metadata.describe('The metadata of the user.'),
  settled_before_restore: z.boolean().meta({
    description:
      'True if it was paid out before the service was restored from a backup, and the payout that collected it is not known. ' +
      'The balance does not include it, and no payout pays it again.',
    examples: [false],
  }),
}
const Deposit = z.object(shape).meta({id: 'Deposit'})
export const Settlement = z
  .object({id: id('pay'), status: z.string(), payout_txid: txid})
  .nullable()
  .meta({description: 'Null until paid out.', examples: [null]})
const SingleDeposit = z
  .object({
    ...shape,
    finalised_at: timestamp.nullable(),
    settlement: Settlement,
    held_back: z
      .object({
        reason: z
          .enum(['below_minimum', 'address_blocked'])
          .describe('`address_blocked`: the chain does not let the token leave the address now.'),
        minimum: amount
          .nullable()
          .describe('What must be on the address: less is not worth moving. (On BTC: in the output.)'),
        missing: amount
          .nullable()
          .describe('How much of that is missing. (On BTC what arrives later does not change it.)'),
      })
      .nullable()
      .meta({
        description: 'While the deposit is final and no payout can collect it; null otherwise.',
        examples: [null],
      }),
  })
  .meta({id: 'SingleDeposit'})

const filters = {
  status: z.enum(depositStatuses).optional(),
  chain: z.enum(chainCodes).optional(),
  token: text(64).optional(),
  user_id: id('usr').optional(),
  address: text(128).optional().describe('Address of one of your users.'),
  txid: text(128).optional().describe('Transaction id. One transaction can hold several deposits.'),
  settlement_id: id('pay')
    .optional()
    .describe('The payout that collected them. `GET /v1/payouts/:id/deposits` has all that a payout is made of.'),
  created_from: moment.optional().describe('Deposits that were first seen at this time or later.'),
  created_to: moment.optional().describe('Deposits that were first seen before this time.'),
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
      const source = await sourceOf(merchantId, query)
      if (!source) return '{"deposits":[],"next_cursor":null,"has_more":false}'
      const start = query.created_to === undefined ? positions.end : positionAt(query.created_to)
      return page(db.of(merchantId), {key: 'deposits', query, positions, start, ...source})
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
      const found = deposit && (await db.of(merchantId).read<[string]>(findDeposit, [deposit, merchantId]))
      if (!found) throw notFound('deposit')
      return found[0]
    },
  )

  /**
   * The statement that has what is asked for, and its filters; undefined if the address is of no user of the merchant.
   */
  async function sourceOf(merchantId: string, query: Query) {
    const {status = null, chain = null, token = null, txid} = query
    const lowest = query.created_from === undefined ? 0n : positionAt(query.created_from)
    const common: Filters = [String(lowest), status, chain, token]
    const asked = query.user_id === undefined ? undefined : await owned(merchantId, 'user', query.user_id)
    const payout = query.settlement_id === undefined ? null : await owned(merchantId, 'payout', query.settlement_id)
    const found =
      query.address === undefined
        ? undefined
        : await db.of(merchantId).read<[user: string, address: string]>(findAddress, [merchantId, query.address])
    if (query.address !== undefined && !found) return undefined
    const user = asked ?? found?.[0]
    const address = found?.[1] ?? null
    if (txid !== undefined)
      return {
        owner: merchantId,
        statement: lists.ofTransaction,
        filters: [...common, address, user ?? null, withoutCase(txid), payout],
      }
    if (user !== undefined) return {owner: user, statement: lists.ofUser, filters: [...common, address, payout]}
    if (payout !== null) return {owner: merchantId, statement: lists.ofPayout, filters: [...common, payout]}
    if (status ?? chain ?? token) return {owner: merchantId, statement: lists.parts, filters: common}
    return {owner: merchantId, statement: lists.all, filters: common.slice(0, 1)}
  }

  /** The uuid of a user or payout of the merchant. */
  async function owned(merchantId: string, kind: keyof typeof owns, publicId: string): Promise<string> {
    const [prefix, isOwn] = owns[kind]
    const uuid = uuidOf(prefix, publicId)
    if (!uuid || !(await db.of(merchantId).read(isOwn, [uuid, merchantId]))) throw notFound(kind)
    return uuid
  }
}
