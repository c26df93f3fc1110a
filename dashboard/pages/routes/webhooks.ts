// Webhook endpoints and their deliveries.
import type {FastifyRequest} from 'fastify'
import {z} from 'zod'
import {eventTypes} from '../../../base/event-types.ts'
import {webhookUrl} from '../../../base/webhook-url.ts'
import {deliveryStatuses} from '../../../reading/webhooks.ts'
import type {App, Context} from '../app.ts'
import {download} from '../download.ts'
import {askedOf, listed} from '../filters.ts'
import {beforeDelivery, id, read, show, showForm, submit} from '../form.ts'
import {fieldsOf, many, type View} from '../view.ts'
import {deliveriesPage, deliveryList, deliveryPage, deliveryPart, sentAgain} from '../views/deliveries.ts'
import {
  changeEndpointPage,
  type EndpointChange,
  editEndpointPage,
  endpointChanges,
  endpointPage,
  endpointPart,
  endpointTable,
  newEndpointPage,
  webhookSecretPage,
  webhooksPage,
} from '../views/webhooks.ts'

const names = ['from', 'to'] as const
const DeliveryParams = z.object({id: z.string(), delivery: z.string()})
const idOf = ({params}: FastifyRequest) => read(id, params).id
const pathOf = (request: FastifyRequest) => `/webhooks/${encodeURIComponent(idOf(request))}`
const endpointOf = (request: FastifyRequest) => request.data.endpoint(idOf(request))

export function webhooks(app: App, context: Context): void {
  endpoints(app, context)
  for (const change of Object.keys(endpointChanges) as EndpointChange[]) changes(app, change)
  tests(app)
  deliveries(app)
}

function endpoints(app: App, {webhookAllowPrivate}: Context): void {
  const fields = {
    url: webhookUrl(webhookAllowPrivate),
    event_types: z.preprocess(
      value => many(value as string | string[] | undefined),
      z.array(z.enum(eventTypes)).min(1, 'tick at least one event'),
    ),
  }

  app.get('/webhooks', async request => show(request, webhooksPage(await request.data.endpoints())))
  app.get('/webhooks/part', async request => endpointTable(await request.data.endpoints()).text)
  app.get('/webhooks/:id', async request => show(request, endpointPage(await endpointOf(request))))
  app.get('/webhooks/:id/part', async request => endpointPart(await endpointOf(request)).text)

  app.get('/webhooks/new', async request => {
    await request.data.requireFullRights()
    return showForm(request, newEndpointPage(fieldsOf(request.query)))
  })
  app.post('/webhooks', (request, reply) =>
    submit(request, reply, {
      url: '/webhooks/new',
      fields,
      act: async ({request: form, url, event_types}) => {
        const {id, secret} = await request.data.createEndpoint(form, url, event_types)
        return webhookSecretPage(id, secret, false)
      },
      again: newEndpointPage,
      done: ['/webhooks', 'To the endpoints'],
    }),
  )
  app.get('/webhooks/:id/edit', async request => {
    await request.data.requireFullRights()
    return showForm(request, editEndpointPage(await endpointOf(request), fieldsOf(request.query)))
  })
  app.post('/webhooks/:id/edit', (request, reply) =>
    submit(request, reply, {
      url: `${pathOf(request)}/edit`,
      fields,
      act: async ({request: form, url, event_types}) => {
        await request.data.updateEndpoint(form, idOf(request), url, event_types, null)
        return pathOf(request)
      },
      again: async (typed, error) => editEndpointPage(await endpointOf(request), typed, error),
      done: [pathOf(request), 'To the endpoint'],
    }),
  )
}

/** What is asked before it is done, on a page of its own. */
function changes(app: App, change: EndpointChange): void {
  app.get(`/webhooks/:id/${change}`, async request => {
    if (change === 'rotate') await request.data.requireFullRights()
    return show(request, changeEndpointPage(await endpointOf(request), change))
  })
  app.post(`/webhooks/:id/${change}`, (request, reply) =>
    submit(request, reply, {
      url: `${pathOf(request)}/${change}`,
      fields: {},
      act: ({request: form}) => carryOut[change](request, form),
      again: async (_typed, error) => changeEndpointPage(await endpointOf(request), change, error),
      done: change === 'delete' ? ['/webhooks', 'To the endpoints'] : [pathOf(request), 'To the endpoint'],
    }),
  )
}

const enable = (isEnabled: boolean) => async (request: FastifyRequest, form: string) => {
  await request.data.updateEndpoint(form, idOf(request), null, null, isEnabled)
  return pathOf(request)
}

const carryOut: Record<EndpointChange, (request: FastifyRequest, form: string) => Promise<string | View>> = {
  rotate: async (request, form) => {
    const {id, secret} = await request.data.rotateSecret(form, idOf(request))
    return webhookSecretPage(id, secret, true)
  },
  enable: enable(true),
  disable: enable(false),
  delete: async (request, form) => {
    await request.data.deleteEndpoint(form, idOf(request))
    return '/webhooks'
  },
}

function tests(app: App): void {
  app.post('/webhooks/:id/test', (request, reply) =>
    submit(request, reply, {
      url: pathOf(request),
      fields: {type: z.enum(eventTypes)},
      act: async ({request: form, type}) => {
        const {id} = await request.data.testEndpoint(form, idOf(request), type)
        return `${pathOf(request)}/deliveries/${id}`
      },
      again: async (_typed, error) => endpointPage(await endpointOf(request), error),
      done: [`${pathOf(request)}/deliveries`, 'To the deliveries'],
    }),
  )
}

function deliveries(app: App): void {
  const list = async (request: FastifyRequest) => {
    const [endpoint, found] = await Promise.all([
      endpointOf(request),
      listed(request, {
        names,
        statuses: deliveryStatuses,
        before: beforeDelivery,
        read: (asked, start) => request.data.deliveries(idOf(request), asked, start),
      }),
    ])
    return {...found, names, endpoint}
  }
  const one = (request: FastifyRequest) => {
    const {id, delivery} = read(DeliveryParams, request.params)
    return request.data.delivery(id, delivery)
  }

  app.get('/webhooks/:id/deliveries', async request => {
    return show(request, deliveriesPage(await list(request)))
  })
  app.get('/webhooks/:id/deliveries/download', (request, reply) => {
    const asked = {...askedOf(request, names, deliveryStatuses), endpoint: idOf(request)}
    return download(request, reply, {kind: 'delivery', name: 'deliveries', asked})
  })
  app.get('/webhooks/:id/deliveries/part', async request => deliveryList(await list(request)).text)
  app.post('/webhooks/:id/redeliver-failed', (request, reply) =>
    submit(request, reply, {
      url: `${pathOf(request)}/deliveries`,
      fields: {since: z.iso.datetime({local: true, error: 'must be a time'})},
      // The page itself, and no redirect with the number in its query: anybody can make a link that says what was done.
      act: async ({request: form, since}) => {
        const count = await request.data.redeliverFailed(form, idOf(request), `${since} ${request.me.time_zone}`)
        return deliveriesPage(await list(request), {done: sentAgain(count)})
      },
      again: async (_typed, failed) => deliveriesPage(await list(request), {failed}),
      done: [`${pathOf(request)}/deliveries`, 'To the deliveries'],
    }),
  )

  app.get('/webhooks/:id/deliveries/:delivery', async request => show(request, deliveryPage(await one(request))))
  app.get('/webhooks/:id/deliveries/:delivery/part', async request => deliveryPart(await one(request)).text)
  app.post('/webhooks/:id/deliveries/:delivery/redeliver', (request, reply) => {
    const {id, delivery} = read(DeliveryParams, request.params)
    const path = `${pathOf(request)}/deliveries/${encodeURIComponent(delivery)}`
    return submit(request, reply, {
      url: path,
      fields: {},
      act: async ({request: form}) => {
        await request.data.redeliver(form, id, delivery)
        return path
      },
      again: async (_typed, error) => deliveryPage(await one(request), error),
      done: [path, 'To the delivery'],
    })
  })
}
