// Clients that others' tools generate from /openapi.json: they compile in strict mode, and carry a merchant through the
// whole API: user, endpoint, webhook, deposit, balance, payout and payment request.
import {spawnSync} from 'node:child_process'
import {mkdtempSync, rmSync, writeFileSync} from 'node:fs'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import {Webhook} from 'standardwebhooks'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {logger} from '../../base/log.ts'
import {readSettings} from '../../chains/settings.ts'
import {startWorker} from '../../jobs/worker.ts'
import {type Api, fillPool, makeKey, startApi} from '../support/api.ts'
import {ChainWriter} from '../support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../support/database.ts'
import {endsOf} from '../support/ends.ts'
import {makeMerchant} from '../support/people.ts'
import {until} from '../support/until.ts'
import {type Receiver, startReceiver} from '../support/webhooks.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const destination = '0x52908400098527886E0F7030069857D2E4169EE7'

interface Given {
  baseUrl: string
  apiKey: string
  receiverUrl: string
  prefix: string
  pay(address: string): Promise<void>
}

/** What a flow must return, as the replies have it. */
interface Done {
  secret: string
  userId: string
  tested: string
  depositStatus: string
  net: string
  payoutStatus: string
  madeOf: string
  refusal: string
  paymentUri: string
  cancelled: string
}

// The same steps with each client, as a merchant's developer would write them. The types of the replies come from the
// generated code alone.
const flows = {
  'openapi-typescript': `
import createClient from 'openapi-fetch'
import type {paths} from './generated'

function valueOf<T>({data, error}: {data?: T; error?: {error: string}}): T {
  if (data === undefined) throw new Error(error?.error)
  return data
}

export async function flow({baseUrl, apiKey, receiverUrl, prefix, pay}: Given): Promise<Done> {
  const client = createClient<paths>({baseUrl, headers: {Authorization: \`Bearer \${apiKey}\`}})
  const endpoint = valueOf(await client.POST('/v1/webhook-endpoints', {body: {url: receiverUrl}}))
  const params = {path: {id: endpoint.id}}
  const tested = valueOf(await client.POST('/v1/webhook-endpoints/{id}/test', {params, body: {type: 'payout.failed'}}))
  const user = valueOf(await client.POST('/v1/users', {body: {external_ref: 'a', chains: ['ETH'], metadata: {plan: 'gold'}}}))
  await pay(user.addresses[0]!.address)
  const query = {status: 'final', user_id: user.id} as const
  const {deposits} = valueOf(await client.GET('/v1/deposits', {params: {query}}))
  const several = {params: {query: {status: ['final' as const, 'pending' as const], user_id: user.id}}}
  const {deposits: same} = valueOf(await client.GET('/v1/deposits', several))
  if (same[0]!.id !== deposits[0]!.id) throw new Error('a list of states finds what one finds')
  const {balances} = valueOf(await client.GET('/v1/balances'))
  valueOf(await client.PUT('/v1/payout-address', {body: {chain: 'ETH', address: '${destination}'}}))
  const header = {'idempotency-key': '"one"'}
  const payout = valueOf(await client.POST('/v1/payouts', {params: {header}, body: {chain: 'ETH', token: 'USDC'}}))
  const {deposits: parts} = valueOf(await client.GET('/v1/payouts/{id}/deposits', {params: {path: {id: payout.id}}}))
  const refused = await client.POST('/v1/payouts', {body: {chain: 'ETH', token: 'USDC'}})
  const refusal: 'payout_failed' | 'unsupported_token' | 'other' =
    refused.error?.error === 'payout_failed' || refused.error?.error === 'unsupported_token' ? refused.error.error : 'other'
  const {data: request} = valueOf(
    await client.POST('/v1/{currency}/payment-request', {
      params: {path: {currency: 'ETH-USDC'}},
      body: {external_id: \`\${prefix}-1\`, amount: '25'},
    }),
  )
  const cancelling = {params: {path: {external_id: request.external_id}}}
  const {data: cancelled} = valueOf(await client.POST('/v1/payment-requests/{external_id}/cancel', cancelling))
  return {
    secret: endpoint.secret, userId: user.id, tested: tested.event_id, depositStatus: deposits[0]!.status, net: balances[0]!.net,
    payoutStatus: payout.status, madeOf: parts[0]!.type + ' ' + parts[0]!.amount, refusal, paymentUri: request.payment_uri, cancelled: cancelled.status,
  }
}`,
  'hey-api': `
import * as api from './generated'
import {createClient} from './generated/client'

export async function flow({baseUrl, apiKey, receiverUrl, prefix, pay}: Given): Promise<Done> {
  const client = createClient({baseUrl, auth: () => apiKey})
  const throwing = {client, throwOnError: true} as const
  const {data: endpoint} = await api.createWebhookEndpoint({...throwing, body: {url: receiverUrl}})
  const {data: tested} = await api.testWebhookEndpoint({...throwing, path: {id: endpoint.id}, body: {type: 'payout.failed'}})
  const {data: user} = await api.createUser({...throwing, body: {external_ref: 'b', chains: ['ETH'], metadata: {plan: 'gold'}}})
  await pay(user.addresses[0]!.address)
  const {data: {deposits}} = await api.listDeposits({...throwing, query: {status: 'final', user_id: user.id}})
  const {data: {deposits: same}} = await api.listDeposits({...throwing, query: {status: ['final', 'pending'], user_id: user.id}})
  if (same[0]!.id !== deposits[0]!.id) throw new Error('a list of states finds what one finds')
  const {data: {balances}} = await api.getBalances(throwing)
  await api.setPayoutAddress({...throwing, body: {chain: 'ETH', address: '${destination}'}})
  const {data: payout} = await api.createPayout({
    ...throwing, headers: {'idempotency-key': '"one"'}, body: {chain: 'ETH', token: 'USDC'},
  })
  const {data: {deposits: parts}} = await api.listPayoutDeposits({...throwing, path: {id: payout.id}})
  const refused = await api.createPayout({client, body: {chain: 'ETH', token: 'USDC'}})
  const {data: {data: request}} = await api.createPaymentRequest({
    ...throwing, path: {currency: 'ETH-USDC'}, body: {external_id: \`\${prefix}-1\`, amount: '25'},
  })
  const {data: {data: cancelled}} = await api.cancelPaymentRequest({...throwing, path: {external_id: request.external_id}})
  return {
    secret: endpoint.secret, userId: user.id, tested: tested.event_id, depositStatus: deposits[0]!.status, net: balances[0]!.net,
    payoutStatus: payout.status, madeOf: parts[0]!.type + ' ' + parts[0]!.amount, refusal: refused.error?.error ?? '', paymentUri: request.payment_uri, cancelled: cancelled.status,
  }
}`,
}

const types = `
interface Given { baseUrl: string; apiKey: string; receiverUrl: string; prefix: string; pay(address: string): Promise<void> }
interface Done {
  secret: string; userId: string; tested: string; depositStatus: string; net: string; payoutStatus: string; madeOf: string; refusal: string; paymentUri: string
  cancelled: string
}
`

let db: TestDatabase
let api: Api
let receiver: Receiver
let worker: Awaited<ReturnType<typeof startWorker>>
let eth: ChainWriter
let folder: string

beforeAll(async () => {
  db = await testDatabase()
  api = await startApi(db)
  await fillPool(db, 20)
  receiver = await startReceiver()
  receiver.response = (_request, response) => response.writeHead(204).end()
  const log = logger('jobs')
  log.level = 'fatal'
  const settings = readSettings({WEBHOOK_ALLOW_PRIVATE: '1'})
  worker = await startWorker({databaseUrl: db.url('sluice_jobs'), settings, log, ends: endsOf(log)})
  eth = await ChainWriter.open(db, 'ETH')
  folder = mkdtempSync(path.join(root, '.sluice-clients-'))
  writeFileSync(path.join(folder, 'openapi.json'), await (await fetch(`${api.url}/openapi.json`)).text())
})
afterAll(async () => {
  rmSync(folder, {recursive: true})
  await eth.close()
  await worker.stop()
  await receiver.close()
  await api.close()
  await db.drop()
})

function run(command: string, ...given: string[]): void {
  const {status, stdout, stderr} = spawnSync(path.join(root, 'node_modules/.bin', command), given, {
    cwd: folder,
    encoding: 'utf8',
  })
  expect([command, status, status === 0 ? '' : stdout + stderr]).toEqual([command, 0, ''])
}

test.each([
  {
    name: 'openapi-typescript',
    generate: (into: string) => run('openapi-typescript', 'openapi.json', '-o', `${into}/generated.ts`),
  },
  {name: 'hey-api', generate: (into: string) => run('openapi-ts', '-i', 'openapi.json', '-o', `${into}/generated`)},
] as const)(
  'a client that $name generates compiles in strict mode and does all that a merchant does',
  async ({name, generate}) => {
    generate(name)
    writeFileSync(path.join(folder, name, 'flow.ts'), types + flows[name])
    const compilerOptions = {
      strict: true,
      noUncheckedIndexedAccess: true,
      target: 'es2024',
      module: 'esnext',
      moduleResolution: 'bundler',
      noEmit: true,
      skipLibCheck: true,
      types: ['node'],
    }
    writeFileSync(path.join(folder, name, 'tsconfig.json'), JSON.stringify({compilerOptions, include: ['flow.ts']}))
    run('tsc', '-p', name)

    const {flow} = (await import(path.join(folder, name, 'flow.ts'))) as {flow(given: Given): Promise<Done>}
    const merchantId = await makeMerchant(db, ['ETH'])
    const [{prefix}] = (await db.rows('select prefix from app.merchant where id = $1', [merchantId])) as [
      {prefix: string},
    ]
    const done = await flow({
      baseUrl: api.url,
      apiKey: (await makeKey(db, merchantId)).secret,
      receiverUrl: `${receiver.url}/${name}`,
      prefix,
      pay: async recipient => {
        await eth.write({add: [[{txid: `0x${name}`, amount: 250_000_000n, recipient}]]})
        await eth.finalise(eth.head.height)
      },
    })
    expect(done).toMatchObject({
      depositStatus: 'final',
      net: '247.5',
      payoutStatus: 'pending',
      madeOf: 'deposit 250',
      refusal: 'payout_failed',
      paymentUri: expect.stringMatching(/^ethereum:/),
      cancelled: 'cancelled',
    })
    const posted = () => receiver.received.filter(({path}) => path === `/${name}`)
    await until(async () => posted().length >= 3, {timeoutMs: 10_000, what: 'a test and two events'})
    const webhook = new Webhook(done.secret)
    const events = posted().map(
      ({body, headers}) => webhook.verify(body, headers as Record<string, string>) as Record<string, unknown>,
    )
    const [test, ...others] = events.toSorted((a, b) => Number(a.sequence) - Number(b.sequence))
    expect(test).toMatchObject({id: done.tested, type: 'payout.failed', test: true})
    expect(others.map(({type, user}) => [type, (user as {id: string}).id])).toEqual([
      ['deposit.pending', done.userId],
      ['deposit.confirmed', done.userId],
    ])
  },
)
