// Users: read only. They are made with the API.
import {z} from 'zod'
import type {App, Context} from '../app.ts'
import {chainsOf} from '../chains.ts'
import {before, id, read, show} from '../form.ts'
import {userDeposits, userPage, usersPage} from '../views/users.ts'

const Query = z.object({external_ref: z.string().optional(), before})

export function users(app: App, context: Context): void {
  const chains = chainsOf(context)

  app.get('/users', async request => {
    const query = read(Query, request.query)
    const page = await request.data.users({externalRef: query.external_ref || undefined, before: query.before})
    return show(request, usersPage({query, page, apiUrl: context.apiUrl}))
  })
  app.get('/users/:id', async request => {
    const {id: user} = read(id, request.params)
    const {data} = request
    const [found, deposits, notCredited] = await Promise.all([
      data.user(user),
      data.deposits({user}),
      data.notCredited(user),
    ])
    return show(request, userPage({user: found, deposits, notCredited, chains}))
  })
  app.get('/users/:id/part', async request => {
    const {id: user} = read(id, request.params)
    return userDeposits(await request.data.deposits({user}), chains).text
  })
}
