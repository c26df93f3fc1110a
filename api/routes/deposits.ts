// Deposits: what reached the addresses of users. (What was paid for payment requests is in payment-requests.ts.)
import {z} from 'zod'
import {type ChainCode, chainCodes} from '../../chains/registry.ts'
import type {App, Context} from '../app.ts'
import {type Statement, statement} from '../database.ts'
import {notFound} from '../errors.ts'
import {type Fields, jsonOf, page, pageStatement} from '../page.ts'
import {
  address,
  amount,
  chainCode,
  errors,
  externalRef,
  id,
  pageOf,
  pageQuery,
  timestamp,
  token,
  txid,
  uuidOf,
} from '../schemas.ts'

const statuses = ['pending', 'final', 'reorged'] as const
type Status = (typeof statuses)[number]

export const depositFields: Fields = {
  id: {plain: `app.public_id('dep', p.id)`},
  chain: {plain: 'p.chain'},
  token: {plain: 'p.token'},
  amount: {plain: 'app.decimal(p.amount, a.decimals)'},
  sender: {plain: 'p.sender'}, // addresses and transaction ids are hex, base58 or bech32 on every chain
  txid: {plain: 'p.txid'},
  status: {plain: 'p.status'},
  confirmations: {
    number: `case p.status when 'reorged' then 0 else greatest(c.head_height - p.block_height + 1, 0) end`,
  },
  settlement_id: `app.public_id('pay', p.settlement_id)`,
  created_at: {plain: 'app.iso(p.created_at)'},
  address: {plain: 'p.address'},
  output_index: {number: 'p.output_index'},
  user_id: {plain: `app.public_id('usr', p.user_id)`},
  external_ref: 'u.external_ref',
  settled_before_restore: 'p.settled_before_restore',
}
export const depositJoins =
  'join app.asset a on a.chain = p.chain and a.token = p.token join app.user u on u.id = p.user_id left join chain.cursor c on c.chain = p.chain'

// A statement for each combination of filters. Statuses are in the text, because an index covers only the rare ones.
const lists = new Map<string, Statement>()
for (const byUser of [false, true])
  for (const byChain of [false, true])
    for (const status of [undefined, ...statuses]) {
      const name = listName(byUser, byChain, status)
      const owner = byUser ? 'user_id' : 'merchant_id'
      const filters = (status ? ` and status = '${status}'` : '') + (byChain ? ' and chain = $4' : '')
      const rows = `select * from app.deposit where ${owner} = $1 and credited and user_id is not null${filters}`
      lists.set(name, pageStatement({name, rows, position: 'seq', item: jsonOf(depositFields), joins: depositJoins}))
    }

function listName(byUser: boolean, byChain: boolean, status?: Status): string {
  return `list_deposits${byUser ? '_of_user' : ''}${byChain ? '_of_chain' : ''}${status ? `_${status}` : ''}`
}

const ownsUser = statement('owns_user', 'select true from app.user where id = $1 and merchant_id = $2')

/** SQL of the id of the payout that collected a deposit: null until the payout is completed. */
export function settlementOf(payout: string): string {
  return `(select row_to_json(s) from (
    select app.public_id('pay', o.id) as id, o.status, o.txid as payout_txid from app.payout o
    where o.id = ${payout} and o.status = 'completed'
  ) s)`
}
const findDeposit = statement(
  'find_deposit',
  `select ${jsonOf({...depositFields, finalised_at: 'app.iso(p.finalised_at)', settlement: settlementOf('p.settlement_id')})}
  from app.deposit p ${depositJoins} where p.id = $1 and p.merchant_id = $2 and p.credited and p.user_id is not null`,
)

const shape = {
  id: id('dep'),
  chain: chainCode,
  token,
  amount,
  sender: address,
  txid,
  status: z.enum(statuses),
  confirmations: z
    .int()
    .describe('Number of blocks from its own to the newest, both included; 0 if unconfirmed or reorged.'),
  settlement_id: id('pay').nullable().describe('The payout that collected it; null until then.'),
  created_at: timestamp,
  address: address.describe('The address that received it.'),
  output_index: z.int().describe('Position inside the transaction.'),
  user_id: id('usr'),
  external_ref: externalRef,
  settled_before_restore: z
    .boolean()
    .describe(
      'True if it was paid out before the service was restored from a backup, and the payout that collected it is not known. ' +
        'The balance does not include it, and no payout pays it again.',
    ),
}
const Deposit = z.object(shape).meta({id: 'Deposit'})
export const Settlement = z
  .object({id: id('pay'), status: z.string(), payout_txid: txid})
  .nullable()
  .describe('Null until paid out.')
const SingleDeposit = z
  .object({
    ...shape,
    finalised_at: timestamp.nullable(),
    settlement: Settlement,
  })
  .meta({id: 'SingleDeposit'})

const filters = {
  status: z.enum(statuses).optional(),
  chain: z.enum(chainCodes).optional(),
  user_id: id('usr').optional(),
}

export function deposits(app: App, {db}: Context): void {
  app.get(
    '/v1/deposits',
    {
      schema: {
        tags: ['Deposits'],
        summary: 'List deposits',
        description: 'Polling with `status=final` is a fallback to webhooks.',
        querystring: z.object({...filters, ...pageQuery}),
        response: {200: pageOf('deposits', Deposit), ...errors(404)},
      },
    },
    async ({merchantId, query}) => {
      const {status, chain, user_id} = query
      const owner = user_id === undefined ? merchantId : await userOf(merchantId, user_id)
      const list = lists.get(listName(user_id !== undefined, chain !== undefined, status))!
      return page(db.of(merchantId), {
        key: 'deposits',
        statement: list,
        owner,
        filters: [chain satisfies ChainCode | undefined],
        query,
      })
    },
  )

  app.get(
    '/v1/deposits/:id',
    {
      schema: {
        tags: ['Deposits'],
        summary: 'Get a deposit',
        params: z.object({id: id('dep')}),
        response: {200: SingleDeposit, ...errors(404)},
      },
    },
    async ({merchantId, params}) => {
      const deposit = uuidOf('dep', params.id)
      const found = deposit && (await db.of(merchantId).read<[string]>(findDeposit, [deposit, merchantId]))
      if (!found) throw notFound('deposit')
      return found[0]
    },
  )

  async function userOf(merchantId: string, publicId: string): Promise<string> {
    const user = uuidOf('usr', publicId)
    if (!user || !(await db.of(merchantId).read(ownsUser, [user, merchantId]))) throw notFound('user')
    return user
  }
}
