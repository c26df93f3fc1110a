// Events: the same as webhooks deliver, as a list.
import {z} from 'zod'
import type {App, Context} from '../app.ts'
import {type Statement, statement} from '../database.ts'
import {notFound} from '../errors.ts'
import {page, pageStatement} from '../page.ts'
import {
  address,
  amount,
  chainCode,
  errors,
  externalRef,
  id,
  metadata,
  pageOf,
  pageQuery,
  timestamp,
  token,
  txid,
  uuidOf,
} from '../schemas.ts'

export const eventTypes = [
  'deposit.pending',
  'deposit.confirmed',
  'deposit.reorged',
  'payout.completed',
  'payout.failed',
] as const

// Newest first, or, after an event, forward: sequences follow the order of commits, so that reading forward skips none.
const lists = new Map<string, Statement>()
for (const forward of [false, true])
  for (const byType of [false, true]) {
    const name = listName(forward, byType)
    const rows = `select * from app.event where merchant_id = $1 and sequence is not null and not is_test${byType ? ' and type = $4' : ''}`
    const item = 'app.event_body(p.payload, p.sequence)'
    lists.set(name, pageStatement({name, rows, position: 'sequence', ascending: forward, item}))
  }

function listName(forward: boolean, byType: boolean): string {
  return `list_events${forward ? '_forward' : ''}${byType ? '_of_type' : ''}`
}

const findSequence = statement(
  'find_sequence',
  'select sequence from app.event where id = $1 and merchant_id = $2 and sequence is not null and not is_test',
)

const common = {
  id: id('evt').describe('De-duplicate on it.'),
  created_at: timestamp,
  sequence: z.int().describe('Rises in the order in which events happened; gaps are allowed.'),
  test: z.literal(true).optional().describe('Only in a test of an endpoint: nothing happened.'),
}
export const DepositEvent = z
  .object({
    type: z.enum(['deposit.pending', 'deposit.confirmed', 'deposit.reorged']),
    ...common,
    deposit_id: id('dep'),
    user: z.object({
      id: id('usr'),
      external_ref: externalRef,
      metadata: metadata.describe('The metadata that the user had when it happened.'),
    }),
    chain: chainCode,
    token,
    amount,
    txid,
  })
  .meta({id: 'DepositEvent'})
export const PayoutEvent = z
  .object({
    type: z.enum(['payout.completed', 'payout.failed']),
    ...common,
    payout_id: id('pay'),
    chain: chainCode,
    token,
    gross: amount,
    fee: amount,
    net: amount,
    address,
    txid: txid.nullable().describe('The transaction that paid it; null if it failed.'),
    error: z.object({code: z.string(), message: z.string()}).nullable().describe('Why it failed; else null.'),
  })
  .meta({id: 'PayoutEvent'})
const Event = z.union([DepositEvent, PayoutEvent])

export function events(app: App, {db}: Context): void {
  app.get(
    '/v1/events',
    {
      schema: {
        tags: ['Events'],
        summary: 'List events',
        description:
          'Each event exactly as webhooks deliver it. Newest first; with `after`, the events that followed that one, oldest first, ' +
          'none skipped.',
        querystring: z.object({
          type: z.enum(eventTypes).optional(),
          after: id('evt').optional().describe('Id of the last event that you have.'),
          ...pageQuery,
        }),
        response: {200: pageOf('events', Event), ...errors(404)},
      },
    },
    async ({merchantId, query}) => {
      const {type, after} = query
      const list = lists.get(listName(after !== undefined, type !== undefined))!
      const start = after === undefined ? undefined : await sequenceOf(merchantId, after)
      return page(db.of(merchantId), {key: 'events', statement: list, owner: merchantId, filters: [type], query, start})
    },
  )

  async function sequenceOf(merchantId: string, publicId: string): Promise<bigint> {
    const event = uuidOf('evt', publicId)
    const found = event && (await db.of(merchantId).read<[string]>(findSequence, [event, merchantId]))
    if (!found) throw notFound('event')
    return BigInt(found[0])
  }
}
