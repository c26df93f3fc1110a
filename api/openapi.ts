// The OpenAPI 3.1 document, made from the zod schemas beside the handlers.
import swagger from '@fastify/swagger'
import {jsonSchemaTransform, jsonSchemaTransformObject} from 'fastify-type-provider-zod'
import {type EventType, eventTypes} from '../base/event-types.ts'
import packageJson from '../package.json' with {type: 'json'}
import type {App} from './app.ts'
import {
  type Content,
  exampleOf,
  type Header,
  type OpenApi,
  type Operation,
  type Response,
  type Schema,
} from './openapi-document.ts'
import {eventNames} from './routes/events.ts'

const description = `Deposit addresses for your users, deposits as they become final, balances, payouts, payment requests, and signed webhooks.

**Authentication.** Send your API key with every request: as \`Authorization: Bearer <key>\` or as \`x-api-key: <key>\`. Both work everywhere; a request with two different keys is refused. A key belongs to one account and sees only its data. Its scopes say what it may do: \`read\` is every GET; \`users\`, \`payouts\` (with payout addresses), \`payments\` (payment requests) and \`webhooks\` (endpoints) each add the changes of that part. Without the scope the reply is 403 \`insufficient_scope\`.

**Amounts** are decimal strings, never floats. **Ids** are opaque. **Times** are ISO 8601 in UTC with milliseconds.

**Lists** are pages, newest first: pass \`next_cursor\` as \`cursor\`, with the same filters, until \`has_more\` is false.

**Limits.** The header \`RateLimit\` of each reply says how many requests are left; beyond that the reply is 429 with \`Retry-After\`.

**Request ids.** Each reply has an \`X-Request-Id\`: yours, if you send one of 1 to 128 printable ASCII characters, else a new one.

**Errors** are \`{error, message?, details?}\`; programs should use only \`error\`. Each route lists the codes that it can give. \`details\`, of \`invalid_request\` and \`payout_failed\` alone, is a list of \`{path, code, message}\`.

**Changes.** Unknown fields of a body are ignored, except \`amount\` of a payout; unknown parameters of a query are refused. Fields and event types may be added without notice; what is removed carries \`Deprecation\` and \`Sunset\` headers for at least 180 days.`

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
  {
    name: 'Webhooks',
    description: 'What Sluice posts to your endpoints. De-duplicate on `id`; sort by `sequence` where order matters.',
  },
]

/** Must be called before the routes are added; the document is complete once the app is ready. */
export async function documentRoutes(app: App): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Sluice API',
        version: packageJson.version,
        description,
        license: {name: packageJson.license, identifier: packageJson.license},
      },
      servers: [{url: '/', description: 'The service that serves this document.'}],
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

/** Replies that every route has in the same form, by status. */
const shared = ['401', '403', '413', '415', '429', '500', '503']

function finished(document: OpenApi): OpenApi {
  for (const name of Object.keys(document.components.schemas)) {
    if (name.endsWith('Input')) delete document.components.schemas[name] // duplicates for requests, which nothing refers to
  }
  document.components.headers = headers
  document.components.responses = {}
  document.components.schemas.Error = error
  for (const operation of Object.values(document.paths).flatMap(Object.values<Operation>)) {
    const needsKey = operation.security === undefined
    if (operation.requestBody) allowNoBody(operation.requestBody)
    // The form of a list in a query is copied to its parameter, and left in the schema.
    for (const parameter of operation.parameters ?? []) parameter.schema = withoutForm(parameter.schema)
    for (const [status, response] of Object.entries(operation.responses)) {
      response.headers = headersOf(status, needsKey)
      if (status === '204') delete response.content
      if (status >= '400') asError(response)
      if (!needsKey || !shared.includes(status)) continue
      const {properties} = response.content!['application/json']!.schema
      const name = String(properties!.error!.enum![0])
      document.components.responses[name] = response
      operation.responses[status] = {$ref: `#/components/responses/${name}`} as never
    }
  }
  document.webhooks = Object.fromEntries(eventTypes.map(webhook))
  for (const operation of [document.paths, document.webhooks].flatMap(Object.values).flatMap(Object.values<Operation>))
    addExamples(document, [operation.requestBody ?? {}, ...Object.values(operation.responses)])
  addExamples(document, Object.values(document.components.responses))
  return withoutNoise(document) as OpenApi
}

/** What every error has in common, so that clients have one type for all. */
const error: Schema = {
  type: 'object',
  description: 'An error. Programs should use only the status and `error`.',
  properties: {
    error: {type: 'string', description: 'Code for programs.', examples: ['invalid_request']},
    message: {type: 'string', description: 'For people; may change.', examples: ['external_ref: is missing']},
  },
  required: ['error'],
}

const withoutForm = ({style, explode, ...schema}: Schema & {style?: string; explode?: boolean}): Schema => schema

function asError({content}: Response): void {
  const json = content?.['application/json']
  if (json?.schema.properties?.error) json.schema = {allOf: [{$ref: '#/components/schemas/Error'}], ...json.schema}
}

/** A body that may be null may be left out. */
function allowNoBody(body: NonNullable<Operation['requestBody']>): void {
  const json = body.content['application/json']!
  const options = json.schema.anyOf
  if (!options?.some(({type}) => type === 'null')) return
  const {anyOf: _, ...rest} = json.schema
  json.schema = {...rest, ...options.find(({type}) => type !== 'null')}
  body.required = false
}

function addExamples(document: OpenApi, parts: {content?: Content}[]): void {
  for (const {content} of parts) {
    const json = content?.['application/json']
    if (json) json.example ??= exampleOf(document, json.schema)
  }
}

const text = {type: 'string'}
const headers: Record<string, Header> = {
  'X-Request-Id': {
    description: 'The id of the request: yours, or a new one. The operator finds the request in the log by it.',
    schema: {...text, maxLength: 128},
    example: '3f0e4c1a-5b7d-4d0c-9a39-5f1d2f0f8a11',
  },
  'RateLimit-Policy': {
    description: 'The limit of the account: `q` requests in `w` seconds.',
    schema: text,
    example: '"default";q=600;w=60',
  },
  RateLimit: {
    description: 'What it leaves: `r` requests for the next `t` seconds.',
    schema: text,
    example: '"default";r=598;t=53',
  },
  'Retry-After': {
    description: 'Seconds to wait before trying again.',
    schema: {type: 'integer', minimum: 1},
    example: 12,
  },
  'WWW-Authenticate': {description: 'What is missing (RFC 6750).', schema: text, example: 'Bearer'},
}

function headersOf(status: string, needsKey: boolean): Record<string, {$ref: string}> {
  const names = [
    'X-Request-Id',
    ...(needsKey ? ['RateLimit-Policy', 'RateLimit'] : []),
    ...(status === '429' || status === '503' ? ['Retry-After'] : []),
    ...(status === '401' || status === '403' ? ['WWW-Authenticate'] : []),
  ]
  return Object.fromEntries(names.map(name => [name, {$ref: `#/components/headers/${name}`}]))
}

const signatureHeaders: [name: string, description: string, example: string][] = [
  [
    'webhook-id',
    'The id of the event: the same at each attempt. De-duplicate on it.',
    'evt_0192f3a4b5c67d8e9fa0b1c2d3e4f509',
  ],
  ['webhook-timestamp', 'Seconds since 1970 at which this attempt was signed.', '1769860800'],
  [
    'webhook-signature',
    "`v1,` and the base64 of the HMAC-SHA-256 of `<webhook-id>.<webhook-timestamp>.<body>` under the endpoint's secret (Standard Webhooks). While " +
      'two secrets are valid it has two signatures, with a space between them.',
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  ],
]

// What Sluice sends by itself.
function webhook(type: EventType): [string, {post: Operation}] {
  const schema = {$ref: `#/components/schemas/${eventNames[type]}`}
  const operation: Operation = {
    tags: ['Webhooks'],
    operationId: `on${eventNames[type]}`,
    summary: type,
    description: whenSent[type],
    security: [],
    parameters: signatureHeaders.map(([name, description, example]) => {
      return {name, in: 'header', required: true, description, schema: text, example}
    }),
    requestBody: {required: true, content: {'application/json': {schema}}},
    responses: {
      '2XX': {description: 'Received.'},
      '410': {
        description:
          'Nothing but 410 for a minute disables the endpoint; before that, it is sent again as after any other.',
      },
      default: {
        description:
          'Any other response, redirects included, or none within 15 s: it is sent again after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h ' +
          'and 24 h, or as `Retry-After` says.',
      },
    },
  }
  return [type, {post: operation}]
}

const whenSent: Record<EventType, string> = {
  'deposit.pending': 'A deposit was seen. Show it; do not credit your user yet.',
  'deposit.confirmed': 'A deposit is final. Credit your user, once per `deposit_id`.',
  'deposit.reorged':
    'The block of a deposit left the chain, and no other has it. If it comes back, it is pending again.',
  'payout.completed': 'The payment of a payout is final.',
  'payout.failed': 'A payout failed: nothing was paid, and its deposits are in the balance again.',
  'payment_request.detected': 'Money for a payment request was seen. It is not final, or not enough, yet.',
  'payment_request.partially_paid': 'More of a payment request is final, and it is not enough yet.',
  'payment_request.paid': 'A payment request is paid: what is final is enough. Deliver, once per `external_id`.',
  'payment_request.underpaid': 'A payment request has ended with less than it needs.',
  'payment_request.expired': 'A payment request has expired, and nothing came that counts as a payment.',
  'payment_request.cancelled': 'You cancelled a payment request.',
  'payment_request.reopened':
    'What had come for a payment request left the chain (a reorganisation): it is not paid any more. `status` says what it is.',
  'webhook_endpoint.disabled':
    'Another of your endpoints was disabled, because of its answers. Mend it, enable it, and have what failed delivered again.',
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
