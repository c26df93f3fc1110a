// The first page.
import type {FastifyRequest} from 'fastify'
import type {App, Context} from '../app.ts'
import {chainsOf} from '../chains.ts'
import type {Data} from '../data.ts'
import {show} from '../form.ts'
import {overviewPage, overviewPart} from '../views/overview.ts'

export function overview(app: App, context: Context): void {
  const chains = chainsOf(context)
  const shown = async ({data, me}: FastifyRequest) => {
    const [overview, today] = await Promise.all([data.overview(), todayOf(data)])
    return {overview, today, chains, me, apiUrl: context.apiUrl}
  }

  app.get('/api-docs', async (_request, reply) => reply.code(303).header('location', `${context.apiUrl}/docs`).send())
  app.get('/', async request => show(request, overviewPage(await shown(request))))
  app.get('/overview/part', async request => overviewPart(await shown(request)).text)
}

/** Nothing while the totals of an older database are being made. */
const todayOf = (data: Data) =>
  data.today().catch((error: {code?: string}) => {
    if (error.code !== 'SL503') throw error
    return undefined
  })
