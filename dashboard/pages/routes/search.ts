// The search. If it finds exactly one thing, it leads there.
import {z} from 'zod'
import type {App} from '../app.ts'
import {read, show} from '../form.ts'
import {pathOf, searchPage} from '../views/search.ts'

const Query = z.object({q: z.string().trim().max(255).default('')})

export function search(app: App): void {
  app.get('/search', async (request, reply) => {
    const {q} = read(Query, request.query)
    const found = q === '' ? [] : await request.data.search(q)
    if (found.length === 1) return reply.code(303).header('location', pathOf(found[0]!)).send()
    return show(request, searchPage({text: q, found, hasPaymentRequests: await request.data.hasPaymentRequests()}))
  })
}
