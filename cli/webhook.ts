// sluice webhook: merchants' webhook endpoints, their deliveries, and redelivery.
import type {Command} from 'commander'
import {InvalidArgumentError} from 'commander'
import type pg from 'pg'
import {PermanentError} from '../base/errors.ts'
import {refusalOfWebhook} from '../base/public-address.ts'
import {action, leaf, requireId, time} from './command.ts'
import {findMerchant, merchantOption} from './merchant.ts'
import {facts, moment, table} from './output.ts'
import {type PageOptions, paged, pageOf, withTotal} from './page.ts'

const exampleEndpoint = 'whe_0199f2c4a1b27c3d8e4f5a6b7c8d9e0f'

interface Endpoint {
  id: string
  merchantId: string
}

async function findEndpoint(db: pg.Client, given: string): Promise<Endpoint> {
  const {rows} = await db.query<Endpoint>(
    'select id, merchant_id as "merchantId" from app.webhook_endpoint where id = $1 and deleted_at is null',
    [requireId('whe', 'webhook endpoint', given)],
  )
  if (!rows[0]) throw new PermanentError(`there is no webhook endpoint ${given}; sluice webhook list shows them`)
  return rows[0]
}

const endpointArgument = ['<endpoint-id>', 'id of the webhook endpoint'] as const

export function addWebhookCommands(program: Command): void {
  const webhook = program.command('webhook').description("merchants' webhook endpoints and their deliveries")

  leaf(
    webhook,
    'add',
    'Adds an endpoint that events are posted to. Its secret, which verifies the events, is shown once, here.',
    'sluice webhook add --merchant acme --url https://acme.example/sluice',
  )
    .requiredOption(...merchantOption)
    .requiredOption('--url <url>', 'where events are posted to')
    .option('--events <types>', 'types of events, separated by commas (default: all but deposit.reorged)')
    .action(
      action<{merchant: string; url: string; events?: string}>(async ({db, service}, options) => {
        const refusal = refusalOfWebhook(options.url, service.webhook_allow_private)
        if (refusal)
          throw new PermanentError(
            `the URL ${refusal}, so nothing would be sent to it; give another URL, or, for tests only, start the service with WEBHOOK_ALLOW_PRIVATE=1`,
          )
        const merchant = await findMerchant(db, options.merchant)
        const {rows} = await db.query<{id: string; secret: string}>(
          `select app.public_id('whe', id) as id, secret from app.create_webhook_endpoint($1, $2, $3)`,
          [merchant.id, options.url, options.events?.split(',').map(type => type.trim())],
        )
        const {id, secret} = rows[0]!
        return {json: {id, secret}, text: `${facts({id, secret})}\n\nThe secret is not shown again.`}
      }),
    )

  leaf(
    webhook,
    'list',
    'Lists the webhook endpoints of a merchant, or of all merchants.',
    'sluice webhook list --merchant acme',
  )
    .option(...merchantOption)
    .action(
      action<{merchant?: string}>(async ({db}, options) => {
        const merchant = options.merchant === undefined ? undefined : await findMerchant(db, options.merchant)
        const {rows} = await db.query<{
          id: string
          merchant: string
          url: string
          event_types: string[]
          disabled_reason: string | null
          failing_since: Date | null
          created_at: Date
        }>(
          `select app.public_id('whe', w.id) as id, m.prefix as merchant, w.url, w.event_types, w.disabled_reason,
             w.failing_since, w.created_at
           from app.webhook_endpoint w join app.merchant m on m.id = w.merchant_id
           where w.deleted_at is null and ($1::uuid is null or m.id = $1) order by w.created_at, w.id`,
          [merchant?.id],
        )
        const state = (row: (typeof rows)[number]) => {
          if (row.disabled_reason) return `disabled (${row.disabled_reason})`
          return row.failing_since ? `failing since ${moment(row.failing_since)}` : 'enabled'
        }
        return {
          json: {webhook_endpoints: rows},
          text: table(
            ['merchant', 'url', 'state', 'id'],
            rows.map(row => [row.merchant, row.url, state(row), row.id]),
            'There are no webhook endpoints; sluice webhook add makes one.',
          ),
        }
      }),
    )

  leaf(
    webhook,
    'rotate',
    'Makes a new secret for an endpoint. For 24 hours events are signed with the old secret, too.',
    `sluice webhook rotate ${exampleEndpoint}`,
  )
    .argument(...endpointArgument)
    .action(
      action(async ({db}, _options, id) => {
        const endpoint = await findEndpoint(db, id)
        const {rows} = await db.query<{secret: string}>('select app.rotate_webhook_secret($1, $2) as secret', [
          endpoint.merchantId,
          endpoint.id,
        ])
        const {secret} = rows[0]!
        const {rows: old} = await db.query<{until: Date}>(
          'select previous_secret_expires_at as until from app.webhook_endpoint where id = $1',
          [endpoint.id],
        )
        const {until} = old[0]!
        const text = [
          facts({id, secret}),
          '',
          `The secret is not shown again. Until ${moment(until)}, for 24 hours, events are signed with the old secret, too.`,
        ]
        return {json: {id, secret, old_secret_until: until.toISOString()}, text: text.join('\n')}
      }),
    )

  leaf(
    webhook,
    'test',
    'Sends an example of an event, marked as a test. sluice webhook deliveries shows the result.',
    `sluice webhook test ${exampleEndpoint} --type payout.completed`,
  )
    .argument(...endpointArgument)
    .option('--type <type>', 'the type of the event', 'deposit.confirmed')
    .action(
      action<{type: string}>(async ({db}, {type}, id) => {
        const endpoint = await findEndpoint(db, id)
        const {rows} = await db.query<{delivery: string}>(
          `select app.public_id('dlv', app.test_webhook($1, $2, $3)) as delivery`,
          [endpoint.merchantId, endpoint.id, type],
        )
        const {delivery} = rows[0]!
        return {json: {delivery_id: delivery}, text: `A test event is on its way (delivery ${delivery}).`}
      }),
    )

  paged(
    leaf(
      webhook,
      'deliveries',
      'Lists the deliveries to an endpoint, the newest first, with the result of the last attempt.',
      `sluice webhook deliveries ${exampleEndpoint} --status failed`,
    ),
    20,
  )
    .argument(...endpointArgument)
    .option('--status <status>', 'only those that are pending, delivered or failed', deliveryStatus)
    .action(
      action<PageOptions & {status?: string}>(async ({db}, {status, ...of}, id) => {
        const page = await pageOf<{
          id: string
          type: string
          status: string
          attempts: number
          response_status: number | null
          error: string | null
          created_at: Date
          next_attempt_at: Date | null
        }>(
          db,
          `select d.id as position, app.public_id('dlv', d.id) as id, e.type, d.status, d.attempts, a.response_status, a.error, d.created_at,
             d.next_attempt_at
           from app.delivery d join app.event e on e.id = d.event_id
           left join lateral (
             select response_status, error from app.delivery_attempt where delivery_id = d.id order by id desc limit 1
           ) a on true
           where d.endpoint_id = $1 and ($2::text is null or d.status = $2)`,
          [(await findEndpoint(db, id)).id, status],
          of,
        )
        const {rows, total, next} = page
        return {
          json: {deliveries: rows, total, next},
          text: withTotal(
            table(
              ['happened', 'type', 'status', 'attempts', 'last response', 'next attempt', 'id'],
              rows.map(row => [
                moment(row.created_at),
                row.type,
                row.status,
                row.attempts,
                row.error ?? row.response_status,
                row.status === 'pending' ? moment(row.next_attempt_at) : '',
                row.id,
              ]),
              'There are no such deliveries.',
            ),
            page,
          ),
        }
      }),
    )

  leaf(
    webhook,
    'redeliver',
    'Sends one delivery again, or all deliveries that failed since a time.',
    `sluice webhook redeliver ${exampleEndpoint} --since 2026-11-20T10:00:00Z\n` +
      `sluice webhook redeliver ${exampleEndpoint} --delivery dlv_0199f2c4a1b27c3d8e4f5a6b7c8d9e0f`,
  )
    .argument(...endpointArgument)
    .option('--delivery <id>', 'this delivery, whatever its status')
    .option('--since <time>', 'every delivery that failed, of events that happened at or after this time', time)
    .action(async (...given: unknown[]) => {
      const {delivery, since} = given[1] as {delivery?: string; since?: Date}
      if ((delivery === undefined) === (since === undefined))
        (given[2] as Command).error('error: give either --delivery or --since')
      await redeliver(...given)
    })
}

const redeliver = action<{delivery?: string; since?: Date}>(async ({db}, {delivery, since}, id) => {
  const {id: endpoint, merchantId} = await findEndpoint(db, id)
  if (delivery !== undefined) {
    await db.query('select app.redeliver($1, $2, $3)', [merchantId, endpoint, requireId('dlv', 'delivery', delivery)])
    return {json: {count: 1}, text: `Delivery ${delivery} is on its way again.`}
  }
  const {rows} = await db.query<{count: number}>('select app.redeliver_failed($1, $2, $3) as count', [
    merchantId,
    endpoint,
    since,
  ])
  const {count} = rows[0]!
  return {json: {count}, text: `${count} ${count === 1 ? 'delivery is' : 'deliveries are'} on the way again.`}
})

function deliveryStatus(text: string): string {
  if (!['pending', 'delivered', 'failed'].includes(text))
    throw new InvalidArgumentError('it must be pending, delivered or failed.')
  return text
}
