// The routes of the dashboard, asked of its servers, so that a test that goes through all of them meets a new one, too;
// and what to fill them with.
import {randomUUID} from 'node:crypto'
import type {FastifyInstance} from 'fastify'
import {fillPool} from './api.ts'
import type {Person, Site} from './dashboard-site.ts'
import type {Money} from './money.ts'
import {password} from './sign-in.ts'

/** A form that was not sent before. */
export const form = (fields: Record<string, string> = {}) => ({request: randomUUID(), ...fields})

/** The form that pays out USDC on ETH, as the page has it. */
export const payoutForm = async (money: Money, {merchantId}: {merchantId: string}, more: Record<string, string> = {}) =>
  form({chain: 'ETH', token: 'USDC', address: await money.payoutAddress(merchantId), ...more})

/** One of everything, made by this person: its ids. */
export async function things(
  site: Site,
  person: Person,
  {url, label = 'x'}: {url: string; label?: string},
): Promise<Record<string, string>> {
  const last = (location: string | null) => location!.split('/').at(-1)!
  const key = await person.http.post('/api-keys', form({label, scopes: 'read'}))
  const endpoint = await person.http.post('/webhooks', form({url, event_types: 'payout.failed'}))
  const endpointId = /href="\/webhooks\/([^"/]+)">I have stored it/.exec(endpoint.text)![1]!
  const delivery = await person.http.post(`/webhooks/${endpointId}/test`, form({type: 'payout.failed'}))
  const [user] = await site.money.db.rows<{address: string}>(
    `select address from app.address where merchant_id = $1 and chain = 'ETH'`,
    [person.merchantId],
  )
  await site.money.deposit(user!.address, 20_000_000)
  const payout = await person.http.post('/payouts', await payoutForm(site.money, person))
  await fillPool(site.money.db, 1)
  const request = await person.http.post(
    '/payment-requests',
    form({currency: 'ETH-USDC', amount: '25', reference: 'invoice 7/25', hours: '24'}),
  )
  const deposits = await person.http.get('/deposits')
  const users = await person.http.get('/users')
  return {
    'api-keys': /id is <code>([^<]+)</.exec(key.text)![1]!,
    webhooks: endpointId,
    deliveries: last(delivery.location),
    payouts: last(payout.location),
    'payment-requests': last(request.location),
    deposits: /href="\/deposits\/(dep_[^"]+)"/.exec(deposits.text)![1]!,
    users: /href="\/users\/(usr_[^"]+)"/.exec(users.text)![1]!,
  }
}

export interface Route {
  path: string
  methods: string[]
}

/** What a server says that its routes are. */
export function routesOf(app: FastifyInstance): Route[] {
  const above: string[] = []
  return app
    .printRoutes({commonPrefix: false})
    .split('\n')
    .flatMap(line => {
      const [, indent, part, methods] = /^((?:│ {3}| {4})*)[├└]── (\S*)(?: \((.+)\))?$/.exec(line) ?? []
      if (part === undefined) return []
      const depth = indent!.length / 4
      above.splice(depth, above.length, part)
      return methods ? [{path: above.join(''), methods: methods.split(', ')}] : []
    })
}

/** A route with these ids in it. */
export const fill = (path: string, ids: Record<string, string>) =>
  path.replace(/([^/]+)\/:(\w+)/g, (whole, folder, name) =>
    name === 'chain' ? `${folder}/ETH` : ids[folder] ? `${folder}/${ids[folder]}` : whole,
  )

/** The paths of every page, with these ids in them. */
export const pagesOf = ({pages}: Site, ids: Record<string, string>) => [
  ...routesOf(pages)
    .filter(
      ({path, methods}) => methods.includes('GET') && !/\/(part|download|logo\.png)$|^\/(live|api-docs)$|\*/.test(path),
    )
    .map(({path}) => (path === '/payouts/new' ? `${path}?chain=ETH&token=USDC` : fill(path, ids))),
  '/sign-in',
  '/second-factor?notice=not-done',
  '/security',
  '/nothing/here',
]

/** The routes that change something. */
export const changesOf = (app: FastifyInstance): string[] =>
  routesOf(app)
    .filter(({path, methods}) => methods.includes('POST') && !path.includes('*'))
    .map(({path}) => path)

/** Everything that a change would change. */
export async function stateOf({money}: Site): Promise<unknown> {
  return await money.db.rows(
    `select (select count(*)::int from dashboard.audit_entry) as entries, (select count(*)::int from dashboard.change_request) as forms,
       (select json_agg(k order by k.id) from app.api_key k) as keys, (select json_agg(p order by p.id) from app.payout p) as payouts,
       (select json_agg(to_jsonb(w) - 'failing_since' order by w.id) from app.webhook_endpoint w) as endpoints,
       (select json_agg(a order by a.chain, a.address) from app.payout_address a) as addresses,
       (select json_agg(json_build_array(m.payment_tolerance_bps, m.time_zone) order by m.id) from app.merchant m) as settings, (select json_agg(b order by b.merchant_id) from app.merchant_brand b) as brands,
       (select json_agg(o order by o.merchant_id, o.origin) from app.payment_page_site o) as sites,
       (select json_agg(r order by r.id) from app.payment_request r) as requests,
       (select count(*)::int from app.delivery) as deliveries, (select json_agg(s.token order by s.id) from auth.session s) as sessions,
       (select json_agg(a.password order by a.id) from auth.account a) as passwords, (select count(*)::int from auth.authenticator) as authenticators`,
  )
}

/** A form that has every field of every form. */
export const filled = (email: string) =>
  form({
    label: 'x',
    scopes: 'read',
    address: '0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045',
    tolerance: '1',
    currency: 'ETH-USDC',
    amount: '25',
    reference: 'x',
    hours: '24',
    time_zone: 'Europe/Berlin',
    accent: '#0b5cad',
    site_url: 'https://shop.example',
    help_url: 'https://shop.example/help',
    sites: 'https://shop.example',
    chain: 'ETH',
    token: 'USDC',
    url: 'https://example.com/',
    event_types: 'payout.failed',
    type: 'payout.failed',
    since: '2026-01-01T00:00:00',
    email,
    password,
    present: password,
    code: '123456',
    name: 'x',
  })
