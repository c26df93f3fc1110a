// For operators and their tools: /livez, /readyz and, if METRICS_ON_API_PORT is set, /metrics. They need no key, and
// show nothing of a merchant. /metrics shows what the treasuries hold, so by default it is not on this port, which is
// open to everybody.
import {z} from 'zod'
import {chainCode} from '../../reading/fields.ts'
import type {App, Context} from '../app.ts'
import {statement, value} from '../database.ts'
import {openErrors} from '../error-codes.ts'

const databaseTimeoutMs = 2_000

const readChains = statement(
  'read_chains',
  `select coalesce(json_agg(c order by chain), '[]') from app.chain_state c where enabled or configured or head_height is not null`,
)

const ChainState = z.object({
  chain: chainCode,
  enabled: z.boolean(),
  head_height: z
    .int()
    .nullable()
    .meta({examples: [8100007]}),
  final_height: z
    .int()
    .nullable()
    .meta({examples: [8099943]}),
  head_age_seconds: z.number().nullable(),
  halted: z.boolean().meta({examples: [false]}),
  waiting_reason: z.string().nullable(),
  way_out: z.string().nullable(),
})
type ChainState = z.infer<typeof ChainState>

const Ready = z.object({
  ready: z.boolean(),
  database: z.boolean(),
  replica: z
    .object({
      serving: z.boolean().describe('Whether it takes reads; while it does not, the primary does.'),
      lag_seconds: z
        .number()
        .nullable()
        .describe('The most that it may be behind the primary, in seconds; null while unknown.'),
    })
    .nullable()
    .meta({description: 'Null if no replica is set. Requests are served without it, too.', examples: [null]}),
  waiting_for: z.array(chainCode).meta({
    description: 'Chains that are configured, or enabled for a merchant, but not followed now.',
    examples: [[]],
  }),
  chains: z.array(
    ChainState.pick({chain: true, head_height: true, final_height: true, halted: true}).extend({
      lag_seconds: z
        .number()
        .nullable()
        .meta({description: 'Age of the newest indexed block; null if the chain was never followed.', examples: [6.4]}),
      waiting: z
        .string()
        .nullable()
        .meta({
          description:
            'Why the chain is not read now, if known: the kind of the incident that halts it, or why its indexer waits. sluice status says more.',
          examples: [null],
        }),
      way_out: z
        .string()
        .nullable()
        .meta({
          description: 'What an operator has to do, if known; the log of its indexer says more.',
          examples: [null],
        }),
    }),
  ),
})

export function health(app: App, {db, metricsOnApiPort}: Context, metricsType: string): void {
  const tags = ['Operations']
  const config = {open: true}

  app.get(
    '/livez',
    {
      config,
      schema: {
        tags,
        summary: 'Check that the process is alive',
        operationId: 'getLiveness',
        response: {200: z.object({alive: z.literal(true)}).describe('It is alive.'), ...openErrors()},
      },
    },
    async () => '{"alive":true}',
  )

  app.get(
    '/readyz',
    {
      config,
      schema: {
        tags,
        summary: 'Check that requests can be served',
        operationId: 'getReadiness',
        description:
          '200 if the database responds and at least one chain was ever followed. A chain that was added later, or whose node is away, shows only in the body.',
        response: {
          200: Ready.describe('Requests can be served.'),
          503: Ready.describe('Not yet, or the database is away.'),
          ...openErrors(),
        },
      },
    },
    async (_request, reply) => {
      const chains = await readWithin(databaseTimeoutMs).catch(() => undefined)
      const ready = chains?.some(({head_height}) => head_height !== null) ?? false
      const body = {
        ready,
        database: chains !== undefined,
        replica: db.replica ?? null,
        waiting_for: (chains ?? []).filter(isAwaited).map(({chain}) => chain),
        chains: (chains ?? []).map(shown),
      }
      if (!ready) reply.header('retry-after', '1')
      return reply.code(ready ? 200 : 503).send(JSON.stringify(body satisfies z.infer<typeof Ready>))
    },
  )

  if (metricsOnApiPort) {
    app.get('/metrics', {config, schema: {hide: true}}, async (_request, reply) => {
      reply.header('content-type', metricsType)
      return app.metrics()
    })
  }

  async function readWithin(timeoutMs: number): Promise<ChainState[]> {
    const {promise: late, reject} = Promise.withResolvers<never>()
    const timer = setTimeout(reject, timeoutMs)
    try {
      return z.array(ChainState).parse(await Promise.race([value(db.primary.read<[unknown]>(readChains, [])), late]))
    } finally {
      clearTimeout(timer)
    }
  }
}

// A chain that waits for an operator is in the body as halted.
function isAwaited({head_height, halted, waiting_reason}: ChainState): boolean {
  return !halted && (head_height === null || waiting_reason !== null)
}

function shown({chain, head_height, final_height, halted, head_age_seconds, waiting_reason, way_out}: ChainState) {
  return {chain, head_height, final_height, halted, lag_seconds: head_age_seconds, waiting: waiting_reason, way_out}
}
