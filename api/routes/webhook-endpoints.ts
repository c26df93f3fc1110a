// Webhook endpoints and their deliveries.
import {z} from 'zod'
import {eventTypes} from '../../base/event-types.ts'
import {webhookUrl} from '../../base/webhook-url.ts'
import {id, pageOf, pageQuery, uuidOf} from '../../reading/fields.ts'
import {listed, made, oneOrMore, timesOf} from '../../reading/filters.ts'
import {Delivery, deliveryStatuses, Endpoint, EndpointWithSecret} from '../../reading/webhooks.ts'
import type {App, Context} from '../app.ts'
import {statement, value} from '../database.ts'
import {changeErrors, errors} from '../error-codes.ts'
import {notFound} from '../errors.ts'
import {listOf, objectStatement, pageOfList, uuids} from '../page.ts'

const listEndpoints = statement(
  'list_webhook_endpoints',
  `select '{"webhook_endpoints":[' || coalesce(string_agg(item::text, ',' order by n), '') || ']}'
  from app.read_endpoints($1) with ordinality as e (item, n)`,
)
const findEndpoint = objectStatement('app.read_endpoint')
const createEndpoint = statement(
  'create_webhook_endpoint',
  'select id, secret from app.create_webhook_endpoint($1, $2, $3)',
)
const updateEndpoint = statement('update_webhook_endpoint', 'select app.update_webhook_endpoint($1, $2, $3, $4, $5)')
const deleteEndpoint = statement('delete_webhook_endpoint', 'select app.delete_webhook_endpoint($1, $2)')
const rotateSecret = statement('rotate_webhook_secret', 'select app.rotate_webhook_secret($1, $2)')
const testEndpoint = statement('test_webhook', 'select app.test_webhook($1, $2, $3)')
const redeliver = statement('redeliver', 'select app.redeliver($1, $2, $3)')
const redeliverFailed = statement('redeliver_failed', 'select app.redeliver_failed($1, $2, to_timestamp($3))')

const findDelivery = statement('find_delivery', 'select app.read_delivery($1, $2, $3)::text')
export const list = listOf('deliveries', 'app.read_deliveries', uuids)

const params = z.object({id: id('whe')})
const deliveryParams = z.object({id: id('whe'), delivery_id: id('dlv')})

export function webhookEndpoints(app: App, {db, webhookAllowPrivate}: Context): void {
  const tags = ['Webhook endpoints']
  const url = webhookUrl(webhookAllowPrivate)
  const types = z
    .array(z.enum(eventTypes))
    .min(1)
    .max(50)
    .describe('If omitted at creation: the four types other than `deposit.reorged`.')

  app.post(
    '/v1/webhook-endpoints',
    {
      config: {scope: 'webhooks'},
      schema: {
        tags,
        summary: 'Create a webhook endpoint',
        operationId: 'createWebhookEndpoint',
        description: 'At most five per account.',
        body: z
          .object({url, event_types: types.optional()})
          .meta({examples: [{url: 'https://example.com/webhooks/sluice'}]}),
        response: {
          201: EndpointWithSecret.describe('The endpoint was made. Its secret is shown here alone.'),
          ...changeErrors('unprocessable'),
        },
      },
    },
    async ({merchantId, body}, reply) => {
      const created = await db
        .of(merchantId)
        .change<[id: string, secret: string]>(createEndpoint, [merchantId, body.url, unique(body.event_types)])
      const [endpoint, shownOnce] = created!
      return reply.code(201).send(withSecret(await read(merchantId, endpoint), shownOnce))
    },
  )

  app.get(
    '/v1/webhook-endpoints',
    {
      schema: {
        tags,
        summary: 'List webhook endpoints',
        operationId: 'listWebhookEndpoints',
        response: {200: z.object({webhook_endpoints: z.array(Endpoint)}).describe('All endpoints.'), ...errors()},
      },
    },
    ({merchantId}) => value(db.of(merchantId).read<[string]>(listEndpoints, [merchantId])),
  )

  app.get(
    '/v1/webhook-endpoints/:id',
    {
      schema: {
        tags,
        summary: 'Get a webhook endpoint',
        operationId: 'getWebhookEndpoint',
        params,
        response: {200: Endpoint.describe('The endpoint.'), ...errors('webhook_endpoint_not_found')},
      },
    },
    ({merchantId, params}) => read(merchantId, endpointOf(params)),
  )

  app.patch(
    '/v1/webhook-endpoints/:id',
    {
      config: {scope: 'webhooks'},
      schema: {
        tags,
        summary: 'Change a webhook endpoint',
        operationId: 'updateWebhookEndpoint',
        description:
          'Fields that are left out stay as they are. Disabling an endpoint fails its pending deliveries. Enabling it sends the events ' +
          'that happen from then on; `redeliver-failed` sends the rest.',
        params,
        body: z
          .object({url: url.optional(), event_types: types.optional(), enabled: z.boolean().optional()})
          .meta({examples: [{enabled: true}]}),
        response: {200: Endpoint.describe('The endpoint as it is now.'), ...changeErrors('webhook_endpoint_not_found')},
      },
    },
    async ({merchantId, params, body}) => {
      const endpoint = endpointOf(params)
      const {url, event_types, enabled} = body
      await db
        .of(merchantId)
        .change(updateEndpoint, [merchantId, endpoint, url ?? null, unique(event_types), enabled ?? null])
      return read(merchantId, endpoint)
    },
  )

  app.delete(
    '/v1/webhook-endpoints/:id',
    {
      config: {scope: 'webhooks'},
      schema: {
        tags,
        summary: 'Delete a webhook endpoint',
        operationId: 'deleteWebhookEndpoint',
        params,
        response: {204: z.void().describe('Deleted.'), ...changeErrors('webhook_endpoint_not_found')},
      },
    },
    async ({merchantId, params}, reply) => {
      await db.of(merchantId).change(deleteEndpoint, [merchantId, endpointOf(params)])
      return reply.code(204).removeHeader('content-type').send('')
    },
  )

  app.post(
    '/v1/webhook-endpoints/:id/rotate-secret',
    {
      config: {scope: 'webhooks'},
      schema: {
        tags,
        summary: 'Rotate the secret',
        operationId: 'rotateWebhookSecret',
        description: 'Events are signed with the new secret and, for 24 hours, with the one before it too.',
        params,
        response: {
          200: EndpointWithSecret.describe('The new secret, which is shown here alone.'),
          ...changeErrors('webhook_endpoint_not_found'),
        },
      },
    },
    async ({merchantId, params}) => {
      const endpoint = endpointOf(params)
      const shownOnce = await value(db.of(merchantId).change<[string]>(rotateSecret, [merchantId, endpoint]))
      return withSecret(await read(merchantId, endpoint), shownOnce)
    },
  )

  app.post(
    '/v1/webhook-endpoints/:id/test',
    {
      config: {scope: 'webhooks'},
      schema: {
        tags,
        summary: 'Send a test event',
        operationId: 'testWebhookEndpoint',
        description:
          'Sends a signed example to this endpoint alone, whatever types it gets: `"test": true` in the body, an id that begins with ' +
          '`evt_test_`, and in no list of events.',
        params,
        body: z
          .object({type: z.enum(eventTypes).optional().describe('If omitted, `deposit.confirmed`.')})
          .nullish()
          .meta({examples: [{type: 'payout.completed'}]}),
        response: {
          201: Delivery.describe('The example is on its way.'),
          ...changeErrors('webhook_endpoint_not_found', 'unprocessable'),
        },
      },
    },
    async ({merchantId, params, body}, reply) => {
      const endpoint = endpointOf(params)
      const type = body?.type ?? 'deposit.confirmed'
      const delivery = await value(db.of(merchantId).change<[string]>(testEndpoint, [merchantId, endpoint, type]))
      return reply
        .code(201)
        .send(await value(db.of(merchantId).read<[string]>(findDelivery, [merchantId, endpoint, delivery])))
    },
  )

  app.get(
    '/v1/webhook-endpoints/:id/deliveries',
    {
      schema: {
        tags,
        summary: 'List deliveries',
        operationId: 'listWebhookDeliveries',
        description: 'Each with its attempts.',
        params,
        querystring: z.object({
          status: oneOrMore(deliveryStatuses),
          ...timesOf('Deliveries that were made'),
          ...pageQuery,
        }),
        response: {200: pageOf('deliveries', Delivery), ...errors('webhook_endpoint_not_found')},
      },
    },
    async ({merchantId, params, query}) => {
      const endpoint = endpointOf(params)
      await read(merchantId, endpoint)
      const asked = {endpoint, status: listed(query.status), ...made(query)}
      return pageOfList(db.of(merchantId), list, {merchantId, asked, query})
    },
  )

  app.post(
    '/v1/webhook-endpoints/:id/deliveries/:delivery_id/redeliver',
    {
      config: {scope: 'webhooks'},
      schema: {
        tags,
        summary: 'Deliver an event again',
        operationId: 'redeliverWebhook',
        description: 'Sends it at once, and retries by the full schedule.',
        params: deliveryParams,
        response: {
          200: Delivery.describe('It is sent again.'),
          ...changeErrors('webhook_endpoint_not_found', 'webhook_delivery_not_found', 'unprocessable'),
        },
      },
    },
    async ({merchantId, params}) => {
      const endpoint = endpointOf(params)
      const delivery = uuidOf('dlv', params.delivery_id)
      if (!delivery) throw notFound('webhook_delivery')
      await db.of(merchantId).change(redeliver, [merchantId, endpoint, delivery])
      return value(db.of(merchantId).read<[string]>(findDelivery, [merchantId, endpoint, delivery]))
    },
  )

  app.post(
    '/v1/webhook-endpoints/:id/redeliver-failed',
    {
      config: {scope: 'webhooks'},
      schema: {
        tags,
        summary: 'Redeliver failed deliveries',
        operationId: 'redeliverFailedWebhooks',
        params,
        body: z
          .object({since: z.iso.datetime({offset: true}).describe('Events that happened at or after this time.')})
          .meta({examples: [{since: '2026-01-31T00:00:00.000Z'}]}),
        response: {
          200: z.object({count: z.int().meta({examples: [3]})}).describe('How many are sent again.'),
          ...changeErrors('webhook_endpoint_not_found', 'unprocessable'),
        },
      },
    },
    async ({merchantId, params, body}) => {
      const since = Date.parse(body.since) / 1000
      return `{"count":${await value(db.of(merchantId).change<[number]>(redeliverFailed, [merchantId, endpointOf(params), since]))}}`
    },
  )

  async function read(merchantId: string, endpoint: string): Promise<string> {
    const found = await db.of(merchantId).read<[string]>(findEndpoint, [merchantId, endpoint])
    if (!found) throw notFound('webhook_endpoint')
    return found[0]
  }
}

function endpointOf(params: {id: string}): string {
  const endpoint = uuidOf('whe', params.id)
  if (!endpoint) throw notFound('webhook_endpoint')
  return endpoint
}

function unique<T>(list: T[] | undefined): T[] | null {
  return list ? [...new Set(list)] : null
}

function withSecret(json: string, shownOnce: string): string {
  return `${json.slice(0, -1)},"secret":"${shownOnce}"}`
}
