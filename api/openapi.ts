// The OpenAPI 3.1 document, made from the zod schemas beside the handlers.
import swagger from '@fastify/swagger'
import {jsonSchemaTransform, jsonSchemaTransformObject} from 'fastify-type-provider-zod'
import packageJson from '../package.json' with {type: 'json'}
import type {App} from './app.ts'
import {eventTypes} from './routes/events.ts'

const description = `Deposit addresses for your users, deposits as they become final, balances, payouts, payment requests, and signed webhooks.

**Authentication.** Send your API key with every request: as \`Authorization: Bearer <key>\` or as \`x-api-key: <key>\`. Both work everywhere; a request with two different keys is refused. A key belongs to one account and sees only its data. Its scopes say what it may do: \`read\` is every GET; \`users\`, \`payouts\` (with payout addresses), \`payments\` (payment requests) and \`webhooks\` (endpoints) each add the changes of that part. Without the scope the reply is 403 \`insufficient_scope\`.

**Amounts** are decimal strings, never floats. **Ids** are opaque. **Times** are ISO 8601 in UTC with milliseconds.

**Lists** are pages, newest first: pass \`next_cursor\` as \`cursor\`, with the same filters, until \`has_more\` is false.

**Limits.** The header \`RateLimit\` of each reply says how many requests are left; beyond that the reply is 429 with \`Retry-After\`.

**Request ids.** Each reply has an \`X-Request-Id\`: yours, if you send one of 1 to 128 printable ASCII characters, else a new one.

**Errors** are \`{error, message?, details?}\`; programs should use only \`error\`.

**Changes.** Unknown fields of a body are ignored; unknown parameters of a query are refused. Fields and event types may be added without notice; what is removed carries \`Deprecation\` and \`Sunset\` headers for at least 180 days.`

const tags = [
  {name: 'Users', description: 'Your end users and their deposit addresses.'},
  {
    name: 'Deposits',
    description:
      'Payments that arrived: `pending` in a block, then `final`; or `reorged`, when the block left the chain.',
  },
  {name: 'Balances', description: 'What can be paid out.'},
  {
    name: 'Payment requests',
    description: 'An exact amount to a new address, for one payment by a customer who need not be one of your users.',
  },
  {name: 'Payouts', description: 'Payout addresses, payouts and their status.'},
  {name: 'Events', description: 'The events that webhooks deliver, as a list.'},
  {name: 'Webhook endpoints', description: 'The URLs that events are posted to, signed by Standard Webhooks.'},
  {name: 'Operations', description: 'For operators; no key is needed.'},
]

/** The parts of an OpenAPI document, and of its JSON schemas, that are read here. */
export interface Schema {
  $ref?: string
  type?: string | string[]
  description?: string
  properties?: Record<string, Schema>
  items?: Schema
  enum?: unknown[]
  const?: unknown
  anyOf?: Schema[]
  required?: string[]
  examples?: unknown[]
  default?: unknown
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  format?: string
}
type Content = Record<string, {schema: Schema; example?: unknown}>
export interface Operation {
  tags?: string[]
  summary?: string
  description?: string
  security?: unknown[]
  parameters?: {name: string; in: string; required?: boolean; description?: string; schema: Schema; example?: unknown}[]
  requestBody?: {content: Content}
  responses: Record<string, {description: string; content?: Content}>
}
export interface OpenApi {
  info: {title: string; version: string; description: string}
  tags: {name: string; description: string}[]
  components: {schemas: Record<string, Schema>}
  paths: Record<string, Record<string, Operation>>
  webhooks: Record<string, {post: Operation}>
}

/** Must be called before the routes are added; the document is complete once the app is ready. */
export async function documentRoutes(app: App): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {title: 'Sluice API', version: packageJson.version, description, license: {name: packageJson.license}},
      tags,
      components: {
        securitySchemes: {
          bearer: {type: 'http', scheme: 'bearer', description: '`sk_` and 43 characters.'},
          xApiKey: {type: 'apiKey', in: 'header', name: 'x-api-key', description: 'The same key.'},
        },
      },
      security: [{bearer: []}, {xApiKey: []}],
    },
    transform: input => {
      const {schema, url} = jsonSchemaTransform(input)
      return {url, schema: input.route.config?.open ? {...schema, security: []} : schema}
    },
    // biome-ignore lint/suspicious/noExplicitAny: two libraries each have types of their own for the same document
    transformObject: document => finished(jsonSchemaTransformObject(document) as any) as any,
  })
}

export function documentOf(app: App): OpenApi {
  return app.swagger() as unknown as OpenApi
}

function finished(document: OpenApi): OpenApi {
  for (const name of Object.keys(document.components.schemas)) {
    if (name.endsWith('Input')) delete document.components.schemas[name] // duplicates for requests, which nothing refers to
  }
  for (const operation of Object.values(document.paths).flatMap(Object.values<Operation>)) {
    for (const [status, response] of Object.entries(operation.responses)) {
      if (response.description === 'Default Response') response.description = ''
      if (!response.content || (status === '503' && operation.tags?.includes('Operations'))) continue
      if (status >= '400') response.content['application/json']!.schema = {$ref: '#/components/schemas/Error'}
    }
  }
  document.webhooks = Object.fromEntries(eventTypes.map(webhook))
  return withoutNoise(document) as OpenApi
}

// What Sluice sends by itself.
function webhook(type: string): [string, {post: Operation}] {
  const schema = {$ref: `#/components/schemas/${type.startsWith('deposit.') ? 'DepositEvent' : 'PayoutEvent'}`}
  const content = {'application/json': {schema}}
  const responses = {'2XX': {description: 'Received. Any other response, or none within 15 s, is retried.'}}
  return [type, {post: {summary: type, security: [], requestBody: {content}, responses}}]
}

// zod closes every object, and bounds every integer by what a double holds; a generated client would then break when a
// field is added.
function withoutNoise(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(withoutNoise)
  if (typeof node !== 'object' || node === null) return node
  return Object.fromEntries(
    Object.entries(node)
      .filter(([key, value]) => !(key === 'additionalProperties' && value === false))
      .filter(([, value]) => Math.abs(value) !== Number.MAX_SAFE_INTEGER)
      .map(([key, value]) => [key, withoutNoise(value)]),
  )
}
