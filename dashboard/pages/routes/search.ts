// The search. If it finds exactly one thing, it leads there.
import {z} from 'zod'
import type {App} from '../app.ts'
import type {Found} from '../data.ts'
import {read, show} from '../form.ts'
import {searched} from '../searched.ts'
import {pathOf} from '../views/paths.ts'
import {searchPage} from '../views/search.ts'

const Query = z.object({q: z.string().trim().default('')})

export function search(app: App): void {
  app.get('/search', async (request, reply) => {
    const {q} = read(Query, request.query)
    let found: Found[] = []
    for (const text of searched(q)) if (found.length === 0) found = await request.data.search(text)
    if (found.length === 1 && found[0]!.kind !== 'not_credited')
      return reply.code(303).header('location', pathOf(found[0]!)).send()
    return show(request, searchPage({text: q, found, hasPaymentRequests: await request.data.hasPaymentRequests()}))
  })
}
