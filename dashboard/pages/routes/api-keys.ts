// API keys: made, rotated and revoked. The secret is made here and shown once; the database gets its hash.
import type {FastifyRequest} from 'fastify'
import {z} from 'zod'
import {newKey} from '../../../base/api-key.ts'
import {scopes} from '../../../base/scopes.ts'
import type {App, Context} from '../app.ts'
import {id, notFound, read, show, showForm, submit} from '../form.ts'
import {fieldsOf, many} from '../view.ts'
import {apiKeysPage, createdApiKeyPage, newApiKeyPage, revokeKeyPage, rotateKeyPage} from '../views/api-keys.ts'

export function apiKeys(app: App, {apiUrl}: Context): void {
  const done = ['/api-keys', 'To the keys'] as const
  const one = async ({params, data}: FastifyRequest) => {
    const wanted = read(id, params).id
    const key = (await data.apiKeys()).find(each => each.id === wanted && each.revoked_at === null)
    if (!key) throw notFound('key that works')
    return key
  }

  app.get('/api-keys', async request => show(request, apiKeysPage(await request.data.apiKeys())))
  app.get('/api-keys/new', async request => {
    await request.data.requireFullRights()
    return showForm(request, newApiKeyPage(fieldsOf(request.query)))
  })
  app.post('/api-keys', (request, reply) =>
    submit(request, reply, {
      url: '/api-keys/new',
      fields: {
        label: z.string().trim().min(1, 'must not be empty').max(100, 'must have at most 100 characters'),
        scopes: z.preprocess(
          value => many(value as string | string[] | undefined),
          z.array(z.enum(scopes)).min(1, 'tick at least one scope'),
        ),
      },
      act: async ({request: form, label, scopes}) => {
        const {secret, hash} = newKey()
        const {id} = await request.data.createApiKey(form, hash, label, scopes)
        return createdApiKeyPage({id, secret, apiUrl})
      },
      again: newApiKeyPage,
      done,
    }),
  )

  app.get('/api-keys/:id/rotate', async request => {
    await request.data.requireFullRights()
    return show(request, rotateKeyPage(await one(request)))
  })
  app.post('/api-keys/:id/rotate', async (request, reply) => {
    const old = await one(request)
    return submit(request, reply, {
      url: `/api-keys/${old.id}/rotate`,
      fields: {},
      act: async ({request: form}) => {
        const {secret, hash} = newKey()
        const {id} = await request.data.createApiKey(form, hash, old.label ?? '', old.scopes)
        return createdApiKeyPage({id, secret, apiUrl, old})
      },
      again: (_typed, error) => rotateKeyPage(old, error),
      done,
    })
  })

  app.get('/api-keys/:id/revoke', async request => show(request, revokeKeyPage(await one(request))))
  app.post('/api-keys/:id/revoke', (request, reply) => {
    const {id: key} = read(id, request.params)
    return submit(request, reply, {
      url: `/api-keys/${encodeURIComponent(key)}/revoke`,
      fields: {},
      act: async ({request: form}) => {
        await request.data.revokeApiKey(form, key)
        return '/api-keys'
      },
      again: async (_typed, error) => revokeKeyPage(await one(request), error),
      done,
    })
  })
}
