// Users: read only. They are made with the API.
import type {App, Context} from '../app.ts'
import {chainsOf} from '../chains.ts'
import {download} from '../download.ts'
import {askedOf, listed} from '../filters.ts'
import {id, read, show} from '../form.ts'
import {userDeposits, userPage, usersPage} from '../views/users.ts'

const names = ['beginning', 'from', 'to'] as const

export function users(app: App, context: Context): void {
  const chains = chainsOf(context)

  app.get('/users', async request => {
    const found = await listed(request, {names, read: request.data.users})
    return show(request, usersPage({...found, names, apiUrl: context.apiUrl}))
  })
  app.get('/users/download', (request, reply) =>
    download(request, reply, {kind: 'user', name: 'users', asked: askedOf(request, names, [])}),
  )
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
