// Balances.
import {z} from 'zod'
import {Balance} from '../../reading/balances.ts'
import {utc} from '../../reading/fields.ts'
import {pastMoment} from '../../reading/statements.ts'
import type {App, Context} from '../app.ts'
import {statement, value} from '../database.ts'
import {errors} from '../error-codes.ts'

const readBalances = statement(
  'read_balances',
  'select found::text from app.read_balances($1) found where found is not null',
)

const readBalancesAt = statement(
  'read_balances_at',
  'select found::text from app.read_balances_at($1, $2) found where found is not null',
)

export function balances(app: App, {db}: Context): void {
  app.get(
    '/v1/balances',
    {
      schema: {
        tags: ['Balances'],
        summary: 'Read balances',
        operationId: 'getBalances',
        description:
          'Pairs of chain and token without unsettled deposits are left out. With `at`: what they were, and the fee rate, at that time.',
        querystring: z.object({at: pastMoment.optional()}),
        response: {
          200: z
            .object({
              fee_bps: z.int().meta({description: 'Fee rate in basis points.', examples: [50]}),
              balances: z.array(Balance),
            })
            .describe('All balances.'),
          ...errors('unprocessable'),
        },
      },
    },
    ({merchantId, query}) => {
      const at = utc(query.at)
      const reads = db.of(merchantId)
      return value(
        at === undefined
          ? reads.read<[string]>(readBalances, [merchantId])
          : reads.read<[string]>(readBalancesAt, [merchantId, at]),
      )
    },
  )
}
