// For operators and their tools: /livez, /readyz and, where it is asked for, /metrics. No key is needed, and nothing of a merchant is in them.
// /metrics tells what the treasuries hold, so it is here, beside the page that everybody reaches, only if METRICS_ON_API_PORT says so.
import {z} from 'zod'
import type {App, Context} from '../app.ts'
import {statement, value} from '../database.ts'
import {chainCode} from '../schemas.ts'

const databaseTimeoutMs = 2_000

const readChains = statement(
  'read_chains',
  `select coalesce(json_agg(c order by chain), '[]') from app.chain_state c where enabled or configured or head_height is not null`,
)

const ChainState = z.object({
  chain: chainCode,
  enabled: z.boolean(),
  head_height: z.int().nullable(),
  final_height: z.int().nullable(),
  head_age_seconds: z.number().nullable(),
  halted: z.boolean(),
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
      lag_seconds: z.number().nullable().describe('For how long at most what it shows has not been the newest.'),
    })
    .nullable()
    .describe('Null where none is named. Requests are served without it.'),
  waiting_for: z
    .array(chainCode)
    .describe('Chains that are configured, or enabled for a merchant, and are not followed now.'),
  chains: z.array(
    ChainState.pick({chain: true, head_height: true, final_height: true, halted: true}).extend({
      lag_seconds: z
        .number()
        .nullable()
        .describe('Age of the newest indexed block; null if the chain was never followed.'),
      waiting: z
        .string()
        .nullable()
        .describe(
          'Why nothing of it is read now, as far as that is known: the kind of the incident that halts it, or why its indexer waits. sluice status says more.',
        ),
      way_out: z
        .string()
        .nullable()
        .describe('What an operator does about that, where it is known; the log of its indexer says more.'),
    }),
  ),
})

export function health(app: App, {db, metricsOnApiPort}: Context, metricsType: string): void {
  const tags = ['Operations']
  const config = {open: true}

  app.get(
    '/livez',
    {config, schema: {tags, summary: 'Is the process alive', response: {200: z.object({alive: z.literal(true)})}}},
    async () => '{"alive":true}',
  )

  app.get(
    '/readyz',
    {
      config,
      schema: {
        tags,
        summary: 'Can it serve requests',
        description:
          'The database answers, and some chain was followed at some time. A chain that is added later, or whose node is away, shows in the body alone.',
        response: {200: Ready, 503: Ready},
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

// One that stands still for an operator is in the body as halted.
function isAwaited({head_height, halted, waiting_reason}: ChainState): boolean {
  return !halted && (head_height === null || waiting_reason !== null)
}

function shown({chain, head_height, final_height, halted, head_age_seconds, waiting_reason, way_out}: ChainState) {
  return {chain, head_height, final_height, halted, lag_seconds: head_age_seconds, waiting: waiting_reason, way_out}
}
