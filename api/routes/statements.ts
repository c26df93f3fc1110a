// Statements: what changed the balances of a merchant in a period, in sums that add up, and line by line.
import {z} from 'zod'
import {text} from '../../base/text.ts'
import {chainCodes} from '../../chains/registry.ts'
import {pageOf, pageQuery, timestamp, utc} from '../../reading/fields.ts'
import {period, Statement, StatementLine} from '../../reading/statements.ts'
import type {App, Context} from '../app.ts'
import {statement, value} from '../database.ts'
import {errors} from '../error-codes.ts'
import {invalid} from '../errors.ts'
import {integers, listOf, pageOfList} from '../page.ts'

const readStatements = statement(
  'read_statements',
  `select json_build_object('from', app.iso($4), 'to', app.iso($5), 'statements', app.read_statements($1, $2, $3, $4, $5))::text`,
)
/** Their places are numeric: time, entry of the ledger, part of that. */
const lines = listOf('lines', 'app.read_lines', integers(2n ** 128n - 1n))

const asked = {...period, chain: z.enum(chainCodes).optional(), token: text(64).optional()}
type Query = z.output<z.ZodObject<typeof asked>>

export function statements(app: App, {db}: Context): void {
  app.get(
    '/v1/statements',
    {
      schema: {
        tags: ['Balances'],
        summary: 'Read statements of a period',
        operationId: 'getStatements',
        description:
          'One statement for each asset that had a balance, or movements. Amounts below zero left the balance: each statement adds up to the last unit, and so do its lines. A payout counts when it claims the balance.',
        querystring: z.object(asked),
        response: {
          200: z.object({from: timestamp, to: timestamp, statements: z.array(Statement)}).describe('The statements.'),
          ...errors('unprocessable'),
        },
      },
    },
    ({merchantId, query}) => {
      const [from, to] = boundsOf(query)
      return value(
        db
          .of(merchantId)
          .read<[string]>(readStatements, [merchantId, query.chain ?? null, query.token ?? null, from, to]),
      )
    },
  )

  app.get(
    '/v1/statements/lines',
    {
      schema: {
        tags: ['Balances'],
        summary: 'List the lines of statements',
        operationId: 'listStatementLines',
        description: 'What is behind the sums of `GET /v1/statements` of the same period, newest first.',
        querystring: z.object({...asked, ...pageQuery}),
        response: {200: pageOf('lines', StatementLine), ...errors()},
      },
    },
    ({merchantId, query}) => {
      const [from, to] = boundsOf(query)
      const {chain, token} = query
      return pageOfList(db.of(merchantId), lines, {merchantId, asked: {chain, token, from, to}, query})
    },
  )
}

/** The beginning and the end, in UTC. Throws 400 invalid_request for an end that is not after the beginning. */
function boundsOf(query: Query): [from: string, to: string] {
  const [from, to] = [utc(query.from)!, utc(query.to)!]
  if (from >= to) throw invalid('to', 'invalid_value', 'must be after from')
  return [from, to]
}
