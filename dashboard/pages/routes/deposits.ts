// Deposits: read only.
import type {FastifyRequest} from 'fastify'
import {z} from 'zod'
import {chainCodes} from '../../../chains/registry.ts'
import type {App, Context} from '../app.ts'
import {chainsOf} from '../chains.ts'
import {before, id, read, show} from '../form.ts'
import {depositList, depositPage, depositPart, depositStatuses, depositsPage} from '../views/deposits.ts'

const Query = z.object({
  status: z.enum(depositStatuses).optional(),
  chain: z.enum(chainCodes).optional(),
  user: z.string().optional(),
  before,
})

export function deposits(app: App, context: Context): void {
  const chains = chainsOf(context)
  const list = async (request: FastifyRequest) => {
    const query = read(Query, request.query)
    return {query, page: await request.data.deposits(query), chains}
  }
  const page = async (request: FastifyRequest) => {
    const [found, hasPaymentRequests] = await Promise.all([list(request), request.data.hasPaymentRequests()])
    return depositsPage({...found, hasPaymentRequests}, request.me.chains)
  }
  const one = (request: FastifyRequest) => request.data.deposit(read(id, request.params).id)

  app.get('/deposits', async request => show(request, await page(request)))
  app.get('/deposits/part', async request => depositList(await list(request), request.me.chains).text)
  app.get('/deposits/:id', async request => {
    const deposit = await one(request)
    return show(request, depositPage(deposit, chains(deposit.chain)))
  })
  app.get('/deposits/:id/part', async request => {
    const deposit = await one(request)
    return depositPart(deposit, chains(deposit.chain)).text
  })
}
