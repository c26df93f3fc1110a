// Payouts: seen, requested and cancelled.
import type {FastifyRequest} from 'fastify'
import {z} from 'zod'
import {html} from '../../../base/html.ts'
import {chainCodes} from '../../../chains/registry.ts'
import type {App, Context} from '../app.ts'
import {chainsOf} from '../chains.ts'
import {download} from '../download.ts'
import {askedOf, listed} from '../filters.ts'
import {before, id, read, show, submit} from '../form.ts'
import {type Fields, fieldsOf} from '../view.ts'
import {currenciesOf} from '../views/lists.ts'
import {question} from '../views/notices.ts'
import {payoutParts, payoutPartsPage} from '../views/payout-parts.ts'
import {
  newPayoutPage,
  nothingToPayOut,
  payoutList,
  payoutPage,
  payoutPart,
  payoutStatuses,
  payoutsPage,
  tooLateToCancel,
} from '../views/payouts.ts'

const names = ['chain', 'currency', 'from', 'to', 'amount_from', 'amount_to', 'address'] as const
const pair = {chain: z.enum(chainCodes), token: z.string().min(1).max(64)}

export function payouts(app: App, context: Context): void {
  const chains = chainsOf(context)
  const list = async (request: FastifyRequest) => {
    const found = await listed(request, {names, statuses: payoutStatuses, read: request.data.payouts})
    return {...found, names, currencies: currenciesOf(request.me.chains, chains)}
  }
  const one = (request: FastifyRequest) => request.data.payout(read(id, request.params).id)

  app.get('/payouts', async request => show(request, payoutsPage(await list(request), request.me.chains)))
  app.get('/payouts/part', async request => payoutList(await list(request)).text)
  app.get('/payouts/download', (request, reply) => {
    const asked = askedOf(request, names, payoutStatuses)
    return download(request, reply, {kind: 'payout', name: 'payouts', asked})
  })
  /** With a page of what it is made of. */
  const whole = async (request: FastifyRequest, query: {before?: string} = {}) => {
    const {id: asked} = read(id, request.params)
    const [payout, page] = await Promise.all([one(request), request.data.payoutParts(asked, query.before)])
    return {payout, page, query}
  }
  app.get('/payouts/:id', async request => {
    const found = await whole(request)
    return show(request, payoutPage(found.payout, chains(found.payout.chain), payoutParts(found)))
  })
  app.get('/payouts/:id/part', async request => {
    const found = await whole(request)
    return payoutPart(found.payout, chains(found.payout.chain), payoutParts(found)).text
  })
  app.get('/payouts/:id/deposits', async request =>
    show(request, payoutPartsPage(await whole(request, read(z.object({before}), request.query)))),
  )

  async function draft({data, me}: FastifyRequest, typed: Fields, error?: string) {
    const {chain, token} = read(z.object(pair), typed)
    const [balance, addresses] = await Promise.all([data.balance(chain, token), data.payoutAddresses()])
    if (balance === null) return nothingToPayOut(chain, token)
    const address = addresses.find(row => row.chain === chain)
    const {payoutTimeoutMs} = context
    return newPayoutPage({balance, address, chain: chains(chain), me, payoutTimeoutMs, typed, error})
  }
  app.get('/payouts/new', async request => {
    await request.data.requireFullRights()
    return show(request, await draft(request, fieldsOf(request.query)))
  })
  app.post('/payouts', (request, reply) =>
    submit(request, reply, {
      url: '/payouts/new',
      fields: {...pair, address: z.string().max(128).optional(), sweep_first: z.literal('1').optional()},
      act: async ({request: form, chain, token, address, sweep_first}) =>
        `/payouts/${(await request.data.createPayout(form, chain, token, address, sweep_first === '1')).id}`,
      again: (typed, error) => draft(request, typed, error),
      done: ['/payouts', 'To the payouts'],
    }),
  )

  const cancelPage = async (request: FastifyRequest, error?: string) => {
    const payout = await one(request)
    if (!payout.is_cancellable) return tooLateToCancel(payout)
    return question({
      title: `Cancel the payout of ${payout.net} ${payout.token}`,
      section: '/payouts',
      parent: [`/payouts/${payout.id}`, 'Payout'],
      text: html`<p>Nothing is paid then, and its deposits are in the balance again. It can be cancelled until its payment begins.</p>`,
      action: `/payouts/${payout.id}/cancel`,
      button: 'Cancel the payout',
      isDestructive: true,
      error,
    })
  }
  app.get('/payouts/:id/cancel', async request => show(request, await cancelPage(request)))
  app.post('/payouts/:id/cancel', (request, reply) => {
    const path = `/payouts/${encodeURIComponent(read(id, request.params).id)}`
    return submit(request, reply, {
      url: `${path}/cancel`,
      fields: {},
      act: async ({request: form}) => {
        await request.data.cancelPayout(form, read(id, request.params).id)
        return path
      },
      again: (_typed, error) => cancelPage(request, error),
      done: [path, 'To the payout'],
    })
  })
}
