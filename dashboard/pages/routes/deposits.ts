// Deposits: read only.
import type {FastifyRequest} from 'fastify'
import type {App, Context} from '../app.ts'
import {chainsOf} from '../chains.ts'
import {download} from '../download.ts'
import {askedOf, listed} from '../filters.ts'
import {id, read, show} from '../form.ts'
import {depositList, depositPage, depositPart, depositStatuses, depositsPage} from '../views/deposits.ts'

const names = ['chain', 'currency', 'from', 'to', 'amount_from', 'amount_to', 'sender', 'address', 'user'] as const

export function deposits(app: App, context: Context): void {
  const chains = chainsOf(context)
  const list = async (request: FastifyRequest) => {
    const {data} = request
    const found = await listed(request, {names, statuses: depositStatuses, read: data.deposits})
    return {...found, names, chains}
  }
  const page = async (request: FastifyRequest) => {
    const [found, hasPaymentRequests] = await Promise.all([list(request), request.data.hasPaymentRequests()])
    return depositsPage({...found, hasPaymentRequests}, request.me.chains)
  }
  const one = (request: FastifyRequest) => request.data.deposit(read(id, request.params).id)

  app.get('/deposits', async request => show(request, await page(request)))
  app.get('/deposits/part', async request => depositList(await list(request), request.me.chains).text)
  app.get('/deposits/download', (request, reply) => {
    const asked = askedOf(request, names, depositStatuses)
    return download(request, reply, {kind: 'deposit', name: 'deposits', asked})
  })
  app.get('/deposits/:id', async request => {
    const deposit = await one(request)
    return show(request, depositPage(deposit, chains(deposit.chain)))
  })
  app.get('/deposits/:id/part', async request => {
    const deposit = await one(request)
    return depositPart(deposit, chains(deposit.chain)).text
  })
}
