// Balances.
import {z} from 'zod'
import {Balance} from '../../reading/balances.ts'
import type {App, Context} from '../app.ts'
import {statement, value} from '../database.ts'
import {errors} from '../error-codes.ts'

const readBalances = statement(
  'read_balances',
  'select found::text from app.read_balances($1) found where found is not null',
)

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
