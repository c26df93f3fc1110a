// For operators and their tools: /livez, /readyz and, where it is asked for, /metrics. No key is needed, and nothing of a merchant is in them.
// /metrics tells what the treasuries hold, so it is here, beside the page that everybody reaches, only if METRICS_ON_API_PORT says so.
import {z} from 'zod'
import {findChain} from '../../chains/registry.ts'
import type {App, Context} from '../app.ts'
import {statement, value} from '../database.ts'
import {chainCode} from '../schemas.ts'

const DATABASE_TIMEOUT_MS = 2_000

const readChains = statement(
  'read_chains',
  `select coalesce(json_agg(c order by chain), '[]') from app.chain_state c where enabled or head_height is not null`,
)

const ChainState = z.object({
  chain: chainCode,
  enabled: z.boolean(),
  head_height: z.int().nullable(),
  final_height: z.int().nullable(),
  head_age_seconds: z.number().nullable(),
  head_moved_seconds_ago: z.number().nullable(),
  halted: z.boolean(),
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
  waiting_for: z.array(chainCode).describe('Enabled chains that were not followed yet since this process started.'),
  chains: z.array(
    ChainState.pick({chain: true, head_height: true, final_height: true, halted: true}).extend({
      lag_seconds: z.number().nullable().describe('Age of the newest indexed block.'),
    }),
  ),
})

export function health(app: App, {db, metricsOnApiPort}: Context, metricsType: string): void {
  const tags = ['Operations']
  const config = {open: true}
  /** Set once every enabled chain was seen to be followed; a chain that falls behind later shows in the body alone. */
  let wasFollowed = false

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
        description: 'The database answers and, once after the start, every enabled chain was followed.',
        response: {200: Ready, 503: Ready},
      },
    },
    async (_request, reply) => {
      const chains = await readWithin(DATABASE_TIMEOUT_MS).catch(() => undefined)
      const waitingFor = wasFollowed ? [] : (chains ?? []).filter(isAwaited).map(state => state.chain)
      if (chains && waitingFor.length === 0) wasFollowed = true
      const ready = chains !== undefined && waitingFor.length === 0
      const body = {
        ready,
        database: chains !== undefined,
        replica: db.replica ?? null,
        waiting_for: waitingFor,
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

// A chain that stands still for an operator is not awaited: the others must be served meanwhile.
function isAwaited({chain, enabled, halted, head_moved_seconds_ago}: ChainState): boolean {
  const stallSeconds = (findChain(chain)?.stallTimeoutMs ?? 0) / 1000
  return enabled && !halted && (head_moved_seconds_ago === null || head_moved_seconds_ago > stallSeconds)
}

function shown({chain, head_height, final_height, halted, head_age_seconds}: ChainState) {
  return {chain, head_height, final_height, halted, lag_seconds: head_age_seconds}
}
