// Balances.
import {z} from 'zod'
import {amount, chainCode, token} from '../../reading/fields.ts'
import type {App, Context} from '../app.ts'
import {statement, value} from '../database.ts'
import {errors} from '../error-codes.ts'

/** The balances of m, a merchant. */
export const balancesOf = `
  select b.chain, b.token, app.decimal(b.gross, a.decimals) as gross, app.decimal(b.fee, a.decimals) as fee,
    app.decimal(b.net, a.decimals) as net, app.decimal(b.held_back, a.decimals) as held_back,
    b.deposit_count as "depositCount"
  from app.merchant_balance b join app.asset a on a.chain = b.chain and a.token = b.token
  where b.merchant_id = m.id order by b.chain, b.token`

const readBalances = statement(
  'read_balances',
  `select row_to_json(reply)::text from (
    select m.fee_bps, (select coalesce(json_agg(balance), '[]') from (${balancesOf}) balance) as balances
    from app.merchant m where m.id = $1
  ) reply`,
)

const Balance = z
  .object({
    chain: chainCode,
    token,
    gross: amount.meta({description: 'Sum of the final deposits that no payout has collected.', examples: ['250']}),
    fee: amount.meta({
      description: 'Service fee: (gross − held_back) × fee_bps / 10000, rounded down in base units.',
      examples: ['1.25'],
    }),
    net: amount.meta({description: 'What a payout made now would pay: gross − held_back − fee.', examples: ['248.75']}),
    held_back: amount.meta({
      description:
        'The part of gross that no payout collects yet: what is on its addresses is too little to be worth moving. It is collected once more arrives there; on BTC, where each payment is moved by itself, once fees are low.',
      examples: ['0'],
    }),
    depositCount: z.int().meta({description: 'How many deposits and receipts that is.', examples: [1]}),
  })
  .meta({id: 'Balance'})

export function balances(app: App, {db}: Context): void {
  app.get(
    '/v1/balances',
    {
      schema: {
        tags: ['Balances'],
        summary: 'Read balances',
        operationId: 'getBalances',
        description: 'Pairs of chain and token without unsettled deposits are left out.',
        response: {
          200: z
            .object({
              fee_bps: z.int().meta({description: 'Fee rate in basis points.', examples: [50]}),
              balances: z.array(Balance),
            })
            .describe('All balances.'),
          ...errors(),
        },
      },
    },
    ({merchantId}) => value(db.of(merchantId).read<[string]>(readBalances, [merchantId])),
  )
}
