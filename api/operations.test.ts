// What operators and their tools see: health, metrics, the documents, logs, and the process from its start to its end.

import {type ChildProcess, fork} from 'node:child_process'
import {once} from 'node:events'
import {readFileSync} from 'node:fs'
import {connect, createServer, type Server} from 'node:net'
import SwaggerParser from '@apidevtools/swagger-parser'
import {createConfig, lintFromString} from '@redocly/openapi-core'
import {Validator} from '@seriousme/openapi-schema-validator'
import pg from 'pg'
import ts from 'typescript'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {eventTypes} from '../base/event-types.ts'
import {escaped} from '../base/html.ts'
import {registry} from '../base/observe.ts'
import {freePort} from '../devnet/listen.ts'
import {type Api, Client, fillPool, makeKey, startApi, strictly} from '../test/support/api.ts'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {makeTreasury, topUp} from '../test/support/evm/payouts.ts'
import {makeMerchant, makeUser} from '../test/support/people.ts'
import {until} from '../test/support/until.ts'
import {type OpenApi, type Operation, responseOf, type Schema} from './openapi-document.ts'

let db: TestDatabase
let api: Api
const children: ChildProcess[] = []

beforeAll(async () => {
  db = await testDatabase()
  api = await startApi(db, {metricsOnApiPort: true})
})
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL')
  await api.close()
  await db.drop()
})

const newClient = async (chains?: string[]) => {
  const merchantId = await makeMerchant(db, chains)
  const {secret} = await makeKey(db, merchantId)
  return {merchantId, secret, client: new Client(api, secret)}
}

async function metrics(url = api.url): Promise<Map<string, number>> {
  const response = await fetch(`${url}/metrics`)
  expect(response.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/)
  const lines = (await response.text()).split('\n').filter(line => line && !line.startsWith('#'))
  return new Map(lines.map(line => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]))
}

// --- health ---

test('/livez is 200 while the process lives', async () => {
  const {status, body} = await new Client(api).get('/livez')
  expect([status, body]).toEqual([200, {alive: true}])
})

test('/readyz waits until any chain was followed once; an added chain, or a node that is away, shows in the body only', async () => {
  const own = await testDatabase()
  const indexer = new pg.Client({connectionString: own.url('sluice_indexer')})
  try {
    await indexer.connect()
    await makeMerchant(own, ['ETH'])
    const ownApi = await startApi(own)
    const readyz = async () => {
      const {status, body} = await new Client(ownApi).get('/readyz')
      return {status, ...body}
    }
    expect(await readyz()).toMatchObject({status: 503, ready: false, database: true, waiting_for: ['ETH']})
    await indexer.query(`select chain.configure('ETH'), chain.configure('BTC')`)
    await indexer.query(`select chain.tell_waiting('ETH', 'wrong_network', 'the node is on another network', null)`)
    const never = {head_height: null, final_height: null, halted: false, lag_seconds: null}
    expect(await readyz()).toMatchObject({
      status: 503,
      waiting_for: ['BTC', 'ETH'],
      chains: [
        {chain: 'BTC', ...never, waiting: null, way_out: null},
        {chain: 'ETH', ...never, waiting: 'wrong_network'},
      ],
    })
    await indexer.query(`select chain.tell_waiting('ETH', null, null, null)`)
    const eth = await ChainWriter.open(own, 'ETH')
    await eth.write({add: [[], [], []]})
    await eth.finalise(1)
    await eth.close()
    const lag_seconds = expect.any(Number)
    const chain = {
      chain: 'ETH',
      head_height: 3,
      final_height: 1,
      halted: false,
      lag_seconds,
      waiting: null,
      way_out: null,
    }
    expect(await readyz()).toEqual({
      status: 200,
      ready: true,
      database: true,
      replica: null,
      waiting_for: ['BTC'],
      chains: [{chain: 'BTC', ...never, waiting: null, way_out: null}, chain],
    })

    await own.rows(`update chain.cursor set head_time = now() - interval '1 day'`)
    await indexer.query(`select chain.tell_waiting('ETH', 'node_unavailable', 'connect ECONNREFUSED', null)`)
    const away = await readyz()
    expect(away).toMatchObject({status: 200, ready: true, waiting_for: ['BTC', 'ETH']})
    expect(away.chains[1]).toMatchObject({waiting: 'node_unavailable', head_height: 3})
    expect(away.chains[1].lag_seconds).toBeGreaterThan(86_000)
    expect(JSON.stringify(away)).not.toContain('ECONNREFUSED') // what a node says is for operators

    // The same for a process that starts now. A chain that waits for an operator does not hold it up.
    await own.rows(`select chain.halt('ETH', '{}')`)
    const later = await startApi(own)
    expect((await new Client(later).get('/readyz')).body).toMatchObject({ready: true, waiting_for: ['BTC']})
    await later.close()
    await ownApi.close()
  } finally {
    await indexer.end()
    await own.drop()
  }
})

test('without a database the API is alive and not ready, returns 503 unavailable with Retry-After, and still serves its own metrics', async () => {
  const gone = {...db, url: () => 'postgres://nobody:x@127.0.0.1:1/nothing'}
  const blind = await startApi(gone, {metricsOnApiPort: true})
  try {
    const {secret} = await newClient()
    const client = new Client(blind, secret)
    expect((await client.get('/livez')).status).toBe(200)
    const readyz = await client.get('/readyz')
    expect([readyz.status, readyz.headers.get('retry-after')]).toEqual([503, '1'])
    expect(readyz.body).toMatchObject({ready: false, database: false, chains: []})
    const refused = await client.get('/v1/balances')
    expect([refused.status, refused.body.error, refused.headers.get('retry-after')]).toEqual([503, 'unavailable', '1'])
    const seen = await metrics(blind.url)
    // Those of other processes are of other files of tests, which ran in this one.
    const names = registry.getMetricsAsArray().map(({name}) => name)
    const others = names.filter(name => !name.startsWith('sluice_api_'))
    const isOurs = (key: string) => key.startsWith('sluice_') && !others.some(name => key.startsWith(name))
    const ours = [...seen.keys()].filter(isOurs)
    expect(ours.sort()).toEqual([
      'sluice_api_database_connections{state="idle"}',
      'sluice_api_database_connections{state="in_use"}',
      'sluice_api_database_waiting',
      'sluice_database_up',
    ])
    expect(seen.get('sluice_database_up')).toBe(0)
  } finally {
    await blind.close()
  }
})

test('an unexpected error is 500 internal_error and does not reveal its cause', async () => {
  const own = await testDatabase()
  const ownApi = await startApi(own)
  try {
    const client = new Client(ownApi, (await makeKey(own, await makeMerchant(own))).secret)
    await own.rows('alter function app.provision_user rename to provision_nobody')
    const {status, body} = await client.post('/v1/users', {external_ref: 'a'})
    expect([status, body.error]).toEqual([500, 'internal_error'])
    expect(JSON.stringify(body)).not.toMatch(/provision|function|sql|stack|api\//i)
    expect(body.message).toMatch(/[0-9a-f]{8}-[0-9a-f-]{27}$/) // under which the operator finds it in the log
  } finally {
    await ownApi.close()
    await own.drop()
  }
})

// --- metrics ---

test('/metrics counts requests by method, route and status, and shows what the database knows, without names of merchants or users', async () => {
  const {client, merchantId} = await newClient()
  const user = await makeUser(db, merchantId)
  const eth = await ChainWriter.open(db, 'ETH')
  await eth.write({add: [[], [{txid: '0xM', amount: 5n, recipient: user.address}]]})
  await eth.finalise(1)
  await topUp(eth, await makeTreasury(db), 'ETH', 25n * 10n ** 17n)
  await eth.write({add: [[{txid: '0xN', amount: 5n, recipient: user.address}]]})
  await eth.close()
  await client.put('/v1/payout-address', {chain: 'ETH', address: '0x52908400098527886E0F7030069857D2E4169EE7'})
  const {body: payout} = await client.post('/v1/payouts', {chain: 'ETH', token: 'USDC'})
  await db.rows(`select app.wait_payout(id, 'not_whitelisted', null, 1000) from app.payout`)
  const {body: endpoint} = await client.post('/v1/webhook-endpoints', {url: 'http://127.0.0.1:9/'})
  await client.post(`/v1/webhook-endpoints/${endpoint.id}/test`)
  await client.get('/v1/users/usr_x')
  await client.get('/v1/nothing')
  const seen = await metrics()
  expect(seen.get('http_requests_total{method="GET",route="/v1/users/:id",status="404"}')).toBe(1)
  expect(seen.get('http_requests_total{method="GET",route="unknown",status="404"}')).toBe(1)
  expect(
    seen.get('http_request_duration_seconds_count{method="POST",route="/v1/webhook-endpoints",status="201"}'),
  ).toBe(1)
  expect(seen.get('sluice_database_up')).toBe(1)
  expect(seen.get('sluice_chain_head_height{chain="ETH"}')).toBe(4)
  expect(seen.get('sluice_chain_final_height{chain="ETH"}')).toBe(3)
  expect(seen.get('sluice_chain_head_age_seconds{chain="ETH"}')).toBeLessThan(60)
  expect(seen.get('sluice_chain_halted{chain="ETH"}')).toBe(0)
  expect(seen.get('sluice_deposits_pending{chain="ETH"}')).toBe(1)
  expect(seen.get('sluice_incidents_open{chain="ETH"}')).toBe(0)
  expect(seen.get('sluice_payouts_open{chain="ETH",status="pending"}')).toBe(1)
  expect(seen.get('sluice_payouts_open{chain="ETH",status="paying"}')).toBe(0)
  expect(seen.get('sluice_payouts_failed_total{chain="ETH"}')).toBe(0)
  expect(seen.get('sluice_payouts_waiting{chain="ETH",reason="not_whitelisted"}')).toBe(1)
  const waits = [...seen].filter(([name]) => name.startsWith('sluice_payout_oldest_wait_seconds'))
  expect(waits).toEqual([
    ['sluice_payout_oldest_wait_seconds{chain="ETH",reason="not_whitelisted"}', expect.closeTo(0, -2)],
  ])
  expect(seen.get('sluice_transactions_open{chain="ETH",kind="sweep"}')).toBe(0)
  expect(seen.get('sluice_treasury_balance{chain="ETH",token="ETH"}')).toBe(2.5)
  expect(seen.get('sluice_treasury_operator_funds{chain="ETH",token="ETH"}')).toBe(2.5)
  expect(seen.get('sluice_webhook_deliveries_pending')).toBe(1)
  expect(seen.get('sluice_webhook_endpoints_failing')).toBe(0)
  expect(seen.get('sluice_oldest_due_job_age_seconds{task="sequence_events"}')).toBeGreaterThan(0)
  expect(seen.get('sluice_events_unsequenced')).toBeGreaterThan(0)
  expect(seen.get('sluice_events_unsequenced_oldest_seconds')).toBeGreaterThan(0)
  expect(seen.get('sluice_webhook_deliveries_failed')).toBe(0)
  expect(seen.get('sluice_database_size_bytes')).toBeGreaterThan(1e6)
  await db.rows(`select chain.halt('ETH', '{}')`)
  const halted = await metrics()
  expect([halted.get('sluice_chain_halted{chain="ETH"}'), halted.get('sluice_incidents_open{chain="ETH"}')]).toEqual([
    1, 1,
  ])
  const text = [...seen.keys()].join('\n')
  for (const secret of [merchantId, merchantId.replaceAll('-', ''), user.address, endpoint.id, payout.id])
    expect(text).not.toContain(secret)
})

test('treasury holdings are served on the metrics port only, unless METRICS_ON_API_PORT is set', async () => {
  const metricsPort = await freePort()
  const {url} = await startProcess({METRICS_PORT: `${metricsPort}`})
  const {status, body} = await new Client({...api, url}).get('/metrics')
  expect([status, body.error]).toEqual([404, 'route_not_found'])
  const metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
  expect(metrics).toContain('\nsluice_treasury_balance{')
  const onBoth = await startProcess({METRICS_ON_API_PORT: '1'})
  expect(await (await fetch(`${onBoth.url}/metrics`)).text()).toContain('\nsluice_treasury_balance{')
})

// --- documents ---

const getJson = async (path: string) => (await fetch(api.url + path)).json()

test('/openapi.json is an OpenAPI 3.1 document of every route, and all its references resolve', async () => {
  const document = (await getJson('/openapi.json')) as OpenApi & {openapi: string; security: unknown}
  expect(document.openapi).toMatch(/^3\.1\./)
  expect(document.security).toEqual([{bearer: []}, {xApiKey: []}])
  const routes = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({name: `${method.toUpperCase()} ${path}`, operation})),
  )
  expect(routes.map(({name}) => name).sort()).toEqual([
    'DELETE /v1/webhook-endpoints/{id}',
    'GET /livez',
    'GET /payments',
    'GET /readyz',
    'GET /v1/balances',
    'GET /v1/crypto',
    'GET /v1/deposits',
    'GET /v1/deposits/{id}',
    'GET /v1/events',
    'GET /v1/events/{id}',
    'GET /v1/payment-requests',
    'GET /v1/payment-requests/{external_id}',
    'GET /v1/payment-requests/{external_id}/qr.svg',
    'GET /v1/payout-addresses',
    'GET /v1/payouts',
    'GET /v1/payouts/{id}',
    'GET /v1/payouts/{id}/deposits',
    'GET /v1/statements',
    'GET /v1/statements/lines',
    'GET /v1/users',
    'GET /v1/users/{id}',
    'GET /v1/webhook-endpoints',
    'GET /v1/webhook-endpoints/{id}',
    'GET /v1/webhook-endpoints/{id}/deliveries',
    'PATCH /v1/users/{id}',
    'PATCH /v1/webhook-endpoints/{id}',
    'POST /v1/payment-requests/{external_id}/cancel',
    'POST /v1/payouts',
    'POST /v1/payouts/{id}/cancel',
    'POST /v1/users',
    'POST /v1/users/{id}/addresses',
    'POST /v1/webhook-endpoints',
    'POST /v1/webhook-endpoints/{id}/deliveries/{delivery_id}/redeliver',
    'POST /v1/webhook-endpoints/{id}/redeliver-failed',
    'POST /v1/webhook-endpoints/{id}/rotate-secret',
    'POST /v1/webhook-endpoints/{id}/test',
    'POST /v1/{currency}/payment-request',
    'PUT /v1/payout-address',
  ])
  for (const {name, operation} of routes) {
    expect(operation.summary, name).toBeTruthy()
    const statuses = Object.keys(operation.responses)
    expect(
      statuses.filter(status => status < '300'),
      name,
    ).not.toEqual([])
    if (operation.security?.length === 0) continue
    expect(statuses, name).toEqual(expect.arrayContaining(['400', '401', '403', '429', '500']))
    if (name.includes('{')) expect(statuses, name).toContain('404')
    if (!name.startsWith('GET')) expect(statuses, name).toEqual(expect.arrayContaining(['413', '415']))
  }
  const text = JSON.stringify(document)
  for (const [, name] of text.matchAll(/"#\/components\/schemas\/(\w+)"/g))
    expect(document.components.schemas[name!], name).toBeDefined()
  // A client that generates types must not break when a field is added.
  expect(text).not.toContain('"additionalProperties":false')
})

test('/openapi.json passes the validators of others, but for paths that the contract itself makes ambiguous', async () => {
  const document = await getJson('/openapi.json')
  await SwaggerParser.validate(structuredClone(document) as never)
  expect(await new Validator().validate(structuredClone(document) as never)).toMatchObject({valid: true})
  const config = await createConfig({extends: ['recommended-strict']})
  const problems = await lintFromString({source: JSON.stringify(document), config})
  const described = problems.map(({ruleId, message, location}) => [ruleId, message, location[0]?.pointer])
  expect(described.filter(([rule]) => rule !== 'no-ambiguous-paths')).toEqual([])
  expect(described).toHaveLength(4)
})

test('/openapi.json says where a body may be left out, and where a reply has none; an error and an event have one type each', async () => {
  const {paths, components} = (await getJson('/openapi.json')) as OpenApi
  const endpoint = paths['/v1/webhook-endpoints/{id}']!
  expect(endpoint.delete!.responses['204']!.content).toBeUndefined()
  expect(paths['/v1/webhook-endpoints/{id}/test']!.post!.requestBody!.required).toBe(false)
  expect(paths['/v1/webhook-endpoints/{id}/redeliver-failed']!.post!.requestBody!.required).toBe(true)
  const {schema} = endpoint.get!.responses['404']!.content!['application/json']!
  expect(schema.allOf).toEqual([{$ref: '#/components/schemas/Error'}])
  expect(components.schemas.Event?.oneOf ?? components.schemas.Event?.anyOf).toHaveLength(eventTypes.length)
})

test('each operation of /openapi.json has an id, says what every reply means, and has examples that its schemas allow', async () => {
  const document = (await getJson('/openapi.json')) as OpenApi
  const operations = [document.paths, document.webhooks].flatMap(paths =>
    Object.values(paths).flatMap(Object.values<Operation>),
  )
  const ids = operations.map(({operationId}) => operationId)
  expect(new Set(ids).size).toBe(operations.length)
  for (const id of ['createUser', 'listDeposits', 'createPayout', 'onDepositConfirmed']) expect(ids).toContain(id)
  for (const operation of operations) {
    const replies = Object.entries(operation.responses).map(([status, reply]) => ({
      status,
      ...responseOf(document, reply),
    }))
    for (const {status, description, content, headers} of replies) {
      const what = `${operation.operationId} ${status}`
      expect(description.length, what).toBeGreaterThan(5)
      if (operation.tags?.includes('Webhooks')) continue
      expect(Object.keys(headers!), what).toContain('X-Request-Id')
      const json = content?.['application/json']
      if (!json) continue
      expect(strictly(json.schema, document).safeParse(json.example).error?.issues, what).toBeUndefined()
      if (status >= '400' && status !== '503') expect(json.schema.properties!.error!.enum, what).not.toEqual([])
    }
  }
  const example = (name: string) =>
    JSON.stringify(document.webhooks[name]!.post.requestBody!.content['application/json']!.example)
  for (const type of Object.keys(document.webhooks)) expect(JSON.parse(example(type)).type).toBe(type)
})

/** The API of a database of its own, to a merchant with something to pay out. */
async function withBalance(work: (client: Client, own: TestDatabase, secret: string) => Promise<void>): Promise<void> {
  const own = await testDatabase()
  const ownApi = await startApi(own)
  try {
    const merchantId = await makeMerchant(own)
    const {secret} = await makeKey(own, merchantId)
    await fillPool(own, 4)
    const eth = await ChainWriter.open(own, 'ETH')
    await eth.write({add: [[{txid: '0xA', amount: 5n, recipient: (await makeUser(own, merchantId)).address}]]})
    await eth.finalise(1)
    await eth.close()
    await work(new Client(ownApi, secret), own, secret)
  } finally {
    await ownApi.close()
    await own.drop()
  }
}

test('the API accepts the examples of the OpenAPI document', () =>
  withBalance(async (client, own) => {
    const {body: user} = await client.post('/v1/users', {external_ref: 'a', chains: ['ETH']})
    const {body: endpoint} = await client.post('/v1/webhook-endpoints', {url: 'https://example.com/'})
    await own.rows(`update app.merchant set prefix = 'acme'`)
    const document = (await getJson('/openapi.json')) as OpenApi
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const [method, {requestBody}] of Object.entries(methods)) {
        const json = requestBody?.content['application/json']
        if (!json) continue
        expect(json.example, `${method} ${path}`).toBeDefined()
        const id = path.startsWith('/v1/users') ? user.id : endpoint.id
        const {status, body} = await client.call(
          method.toUpperCase(),
          path.replace('{id}', id).replace('{currency}', 'ETH'),
          json.example,
        )
        expect(status, `${method} ${path}: ${JSON.stringify(body)}`).toBeLessThan(300)
      }
    }
  }))

test('/docs is one page with every route that loads nothing from other servers', async () => {
  const response = await fetch(`${api.url}/docs`)
  const html = await response.text()
  expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8')
  const guards = [
    'content-security-policy',
    'cache-control',
    'referrer-policy',
    'x-content-type-options',
    'x-robots-tag',
  ]
  expect(guards.map(name => response.headers.get(name))).toEqual([
    expect.stringMatching(/^default-src 'none'; style-src 'sha256-/),
    'no-store',
    'no-referrer',
    'nosniff',
    'noindex',
  ])
  expect(html).not.toMatch(/<[^>]* src=|<link (?!rel="icon" href="data:,")/)
  expect(html).not.toMatch(/@import|url\(/)
  expect(html).not.toContain('class="try"')
  expect(response.headers.get('content-security-policy')).not.toContain('connect-src')
  const document = (await getJson('/openapi.json')) as OpenApi
  for (const [path, methods] of Object.entries(document.paths))
    for (const {summary} of Object.values(methods)) {
      expect(html).toContain(`<code class="path">${path}</code>`)
      expect(html).toContain(summary)
    }
  for (const type of Object.keys(document.webhooks)) expect(html.includes(type), type).toBe(true)
  expect(html).not.toContain('undefined')
  expect(html).not.toContain('[object Object]')
  const names = Object.values(document.components.schemas).flatMap((schema: Schema) =>
    Object.keys(schema.properties ?? {}),
  )
  for (const name of names) expect(new RegExp(`[>.]${name}</code>`).test(html), name).toBe(true)
})

test('/docs has the guides; every link on it leads somewhere, and its samples in TypeScript are valid', async () => {
  const html = await (await fetch(`${api.url}/docs`)).text()
  const ids = new Set([...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id))
  const targets = [...html.matchAll(/href="#([^"]*)"/g)].map(([, target]) => target)
  expect(targets.filter(target => !ids.has(target))).toEqual([])
  for (const id of [
    'api-ten-minutes',
    'api-webhooks',
    'api-payouts',
    'api-errors',
    'api-testing',
    'payment-requests-states',
  ])
    expect(ids, id).toContain(id)
  for (const [, file] of readFileSync('docs/api.md', 'utf8').matchAll(/\(\.\.\/(samples\/.+?)\)/g))
    expect(html, file).toContain(`<pre tabindex="0">${escaped(readFileSync(file!, 'utf8'))}</pre>`)
  const samples = [...html.matchAll(/In TypeScript<\/summary><pre tabindex="0">([^<]*)<\/pre>/g)]
  const document = (await getJson('/openapi.json')) as OpenApi
  expect(samples).toHaveLength(Object.values(document.paths).flatMap(Object.keys).length)
  for (const [, sample] of samples) {
    const text = sample!
      .replaceAll('&quot;', '"')
      .replaceAll('&#39;', "'")
      .replaceAll('&lt;', '<')
      .replaceAll('&gt;', '>')
      .replaceAll('&amp;', '&')
    const {diagnostics} = ts.transpileModule(text, {reportDiagnostics: true})
    expect(diagnostics, text).toEqual([])
  }
})

test('the commands in the guides for merchants work', () =>
  withBalance(async (client, own, secret) => {
    const {body: endpoint} = await client.post('/v1/webhook-endpoints', {url: 'https://example.com/'})
    await client.post(`/v1/webhook-endpoints/${endpoint.id}/test`)
    await own.rows('select app.sequence_events()')
    const [event] = (await client.get('/v1/events')).body.events
    await own.rows(`update app.merchant set prefix = 'demo'`)
    const guides = ['api.md', 'payment-requests.md'].map(name =>
      readFileSync(new URL(`../docs/${name}`, import.meta.url), 'utf8'),
    )
    const values: Record<string, string> = {SLUICE_URL: '', SLUICE_API_KEY: secret, LAST_EVENT_ID: event.id}
    const commands = [...guides.join('').matchAll(/^curl ((?:.*\\\n)*.*)/gm)].map(([, text]) =>
      text!.replaceAll('\\\n', '').replace(/\$(\w+)/g, (_match, name) => values[name]!),
    )
    expect(commands).toHaveLength(13)
    for (const command of commands) {
      const [, path] = /"(\/[^"]*)"/.exec(command)!
      const data = /-d '([^']*)'/.exec(command)?.[1]
      const method = /-X (\w+)/.exec(command)?.[1] ?? (data ? 'POST' : 'GET')
      const given = [...command.matchAll(/-H (["'])(.+?): (.+?)\1/g)]
      const headers = Object.fromEntries(given.map(([, , name, text]) => [name!.toLowerCase(), text!]))
      expect((await new Client(client.api).call(method, path!, data, headers)).status, command).toBeLessThan(300)
    }
  }))

// --- the process ---

interface Process {
  child: ChildProcess
  url: string
  log(): string
}

async function startProcess(environment: Record<string, string>): Promise<Process> {
  const child = fork(new URL('main.ts', import.meta.url), [], {
    env: {
      PATH: process.env.PATH,
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
      PORT: '0',
      DATABASE_URL: db.url('sluice_api'),
      ...environment,
    },
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  })
  children.push(child)
  let text = ''
  child.stderr!.on('data', data => {
    text += data
  })
  const ready = once(child, 'message').then(([message]) => message as {ready: true; url: string})
  const ended = once(child, 'close').then(() => ({ready: false, url: ''}))
  const {url} = await Promise.race([ready, ended])
  return {child, url, log: () => text}
}

const exitOf = async ({child}: Process) => {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  return child.exitCode
}

test('the API logs where it listens, and ends cleanly on SIGTERM, on SIGINT and when its parent is gone', async () => {
  for (const end of [
    (child: ChildProcess) => child.kill('SIGTERM'),
    (child: ChildProcess) => child.kill('SIGINT'),
    (child: ChildProcess) => child.disconnect(),
  ]) {
    const started = await startProcess({})
    expect(started.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    expect((await fetch(`${started.url}/livez`)).status).toBe(200) // its connection stays open
    end(started.child)
    expect(await exitOf(started)).toBe(0)
  }
})

test('logs are JSON lines with the route and the status, and without secrets', async () => {
  const {secret, merchantId} = await newClient()
  const started = await startProcess({LOG_LEVEL: 'debug'})
  const headers = {authorization: `Bearer ${secret}`, 'content-type': 'application/json'}
  const created = await fetch(`${started.url}/v1/webhook-endpoints`, {
    method: 'POST',
    headers,
    body: JSON.stringify({url: 'https://example.com/private-path'}),
  })
  const endpoint = (await created.json()) as {id: string; secret: string}
  await fetch(`${started.url}/payments?external_id=private-query`, {headers})
  await fetch(`${started.url}/v1/users`, {method: 'POST', headers, body: '{"external_ref":"private-person"'})
  await fetch(`${started.url}/private-path`, {headers: {authorization: 'Bearer sk_private'}})
  const lines = await until(
    async () => {
      const lines = started
        .log()
        .trim()
        .split('\n')
        .map(line => JSON.parse(line))
      return lines.filter(({msg}) => msg === 'request').length === 4 && lines
    },
    {timeoutMs: 5000, what: 'four requests in the log'},
  )
  expect(lines.filter(({msg}) => msg === 'request')).toMatchObject([
    {level: 20, process: 'api', method: 'POST', route: '/v1/webhook-endpoints', status: 201, merchant_id: merchantId},
    {level: 20, method: 'GET', route: '/payments', status: 200, duration_ms: expect.any(Number)},
    {level: 30, method: 'POST', route: '/v1/users', status: 400},
    {level: 30, method: 'GET', route: 'unknown', status: 404},
  ])
  for (const private_ of [secret, endpoint.secret, 'private', 'whsec_', new URL(db.url('sluice_api')).password])
    expect(started.log()).not.toContain(private_)
  started.child.kill('SIGTERM')
  expect(await exitOf(started)).toBe(0)
})

const linesOf = (log: string) =>
  log
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))

test('each log line that a request causes has the id of the request', async () => {
  const own = await testDatabase()
  try {
    const {secret} = await makeKey(own, await makeMerchant(own))
    await own.rows('alter function app.provision_user rename to provision_nobody')
    const started = await startProcess({DATABASE_URL: own.url('sluice_api')})
    const headers = {authorization: `Bearer ${secret}`, 'content-type': 'application/json', 'x-request-id': 'try 7'}
    const failed = await fetch(`${started.url}/v1/users`, {method: 'POST', headers, body: '{"external_ref":"a"}'})
    expect([failed.status, failed.headers.get('x-request-id')]).toEqual([500, 'try 7'])
    await until(async () => linesOf(started.log()).some(({msg}) => msg === 'request'), {
      what: 'its line',
      timeoutMs: 5000,
    })
    const lines = linesOf(started.log()).filter(({route}) => route)
    expect(lines).toMatchObject([
      {level: 50, msg: 'a request failed', request_id: 'try 7', error_id: expect.any(String)},
      {level: 30, msg: 'request', request_id: 'try 7', status: 500},
    ])
  } finally {
    await own.drop()
  }
})

test('a client that disconnects in the middle of its body is no error', async () => {
  const {secret} = await newClient()
  const started = await startProcess({})
  const headers = {host: 'x', authorization: `Bearer ${secret}`, 'content-type': 'application/json'}
  const fields = Object.entries({...headers, 'content-length': 100, expect: '100-continue'})
  const head = fields.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  const goAway = async (meanwhile: () => Promise<unknown>) => {
    const socket = connect(Number(new URL(started.url).port), '127.0.0.1')
    socket.write(`POST /v1/users HTTP/1.1\r\n${head}\r\n{"external_ref":`)
    await once(socket, 'data') // the server sends 100 Continue
    await meanwhile()
    socket.destroy()
  }
  await goAway(async () => {}) // while its key is looked up
  await goAway(() => fetch(`${started.url}/v1/users`, {headers})) // while its body is read: what came later is answered
  const lines = await until(
    async () => {
      const lines = linesOf(started.log()).filter(({route}) => route)
      return lines.length === 2 && lines
    },
    {what: 'the log lines of both', timeoutMs: 5000},
  )
  const msg = 'the client went away before it had sent its body'
  expect(lines).toMatchObject([1, 2].map(() => ({level: 30, route: '/v1/users', request_id: expect.any(String), msg})))
  expect(started.log()).not.toContain('stack')
})

test('a process that cannot start logs the reason and what to do', async () => {
  const missing = await startProcess({DATABASE_URL: ''})
  expect(await exitOf(missing)).toBe(1)
  expect(missing.log()).toContain('DATABASE_URL')
  const bad = await startProcess({RATE_LIMIT_PER_MINUTE: 'many'})
  expect(await exitOf(bad)).toBe(1)
  expect(bad.log()).toContain('RATE_LIMIT_PER_MINUTE')
  const loud = await startProcess({LOG_LEVEL: 'loud'})
  expect(await exitOf(loud)).toBe(1)
  expect(JSON.parse(loud.log()).error).toMatch(/LOG_LEVEL .* must be one of fatal, error/)
  const squatter: Server = createServer()
  await new Promise<void>(resolve => squatter.listen(0, '127.0.0.1', resolve))
  const {port} = squatter.address() as {port: number}
  const taken = await startProcess({PORT: String(port)})
  expect(await exitOf(taken)).toBe(1)
  expect(taken.log()).toContain(`the API cannot listen on 127.0.0.1:${port} (PORT): another program listens there`)
  squatter.close()
})
