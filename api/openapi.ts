// The OpenAPI 3.1 document, made from the zod schemas beside the handlers.
import swagger from '@fastify/swagger'
import {jsonSchemaTransform, jsonSchemaTransformObject} from 'fastify-type-provider-zod'
import {z} from 'zod'
import packageJson from '../package.json' with {type: 'json'}
import type {App} from './app.ts'
import {DepositEvent, eventTypes, TestEvent} from './routes/events.ts'

const description = `Deposit addresses for your users, deposits as they become final, balances, and signed webhooks.

**Authentication.** Send \`Authorization: Bearer <your API key>\` with every request below \`/v1\`. A key belongs to one account and sees
nothing of another's.

**Amounts** are decimal strings, never floats. **Ids** are opaque. **Times** are ISO 8601 in UTC with milliseconds.

**Lists** are pages, newest first: pass \`next_cursor\` as \`cursor\`, with the same filters, until \`has_more\` is false.

**Limits.** Each reply says what is left in \`RateLimit\`; beyond it, 429 with \`Retry-After\`.

**Errors** are \`{error, message?, details?}\`; programs should look at \`error\` alone.

**Changes.** Unknown fields of a body are ignored. Fields and event types may be added without notice; what is removed carries
\`Deprecation\` and \`Sunset\` headers for at least 180 days.`

/** Must be called before the routes are added; app.swagger() is complete once the app is ready. */
export async function documentRoutes(app: App): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {title: 'Sluice', version: packageJson.version, description, license: {name: packageJson.license}},
      tags: [
        {name: 'Users', description: 'Your end users and their deposit addresses.'},
        {
          name: 'Deposits',
          description: 'What arrived: `pending` in a block, then `final`; or `reorged`, when its block left the chain.',
        },
        {name: 'Balances', description: 'What can be paid out.'},
        {name: 'Payouts', description: 'Where payouts go.'},
        {name: 'Events', description: 'What happened, to be read again.'},
        {name: 'Webhook endpoints', description: 'Where events are posted to, signed as Standard Webhooks says.'},
        {name: 'Operations', description: 'For operators; no key is needed.'},
      ],
      components: {
        securitySchemes: {
          apiKey: {type: 'http', scheme: 'bearer', description: 'An API key: `sk_` and 43 characters.'},
        },
      },
    },
    transform: jsonSchemaTransform,
    transformObject: document => withWebhooks(jsonSchemaTransformObject(document)),
  })
}

/** Adds what Sluice sends by itself to the document of what it answers. */
function withWebhooks(document: object): object {
  const webhooks = Object.fromEntries(
    [...eventTypes.filter(type => type.startsWith('deposit.')), 'webhook.test'].map(type => {
      const schema = type === 'webhook.test' ? TestEvent : DepositEvent
      return [
        type,
        {
          post: {
            tags: ['Webhooks'],
            summary: type,
            requestBody: {content: {'application/json': {schema: z.toJSONSchema(schema, {target: 'draft-2020-12'})}}},
            responses: {'2XX': {description: 'Received. Anything else is tried again.'}},
          },
        },
      ]
    }),
  )
  return {...document, webhooks}
}
