// The samples against the service itself: each is started as its reader starts it, with the client library as it is
// published, gets real deliveries over HTTP, and credits each deposit once.
import {type ChildProcess, execFile, spawn, spawnSync} from 'node:child_process'
import {createHmac, randomBytes} from 'node:crypto'
import {once} from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {DatabaseSync} from 'node:sqlite'
import {promisify} from 'node:util'
import {Webhook} from 'standardwebhooks'
import {getAddress} from 'viem'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {logger} from '../base/log.ts'
import {readSettings} from '../chains/settings.ts'
import {startWorker} from '../jobs/worker.ts'
import {Amount, ApiError, type Delivery, Sluice} from '../sdk/index.ts'
import {type Api, fillPool, makeKey, startApi} from '../test/support/api.ts'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {endsOf} from '../test/support/ends.ts'
import {makeMerchant} from '../test/support/people.ts'
import {portsInARow} from '../test/support/ports.ts'
import {until} from '../test/support/until.ts'

const run = promisify(execFile)
const root = path.resolve(import.meta.dirname, '..')
const php = process.env.PHP_BIN ?? 'php'
const isThere = (program: string) => !spawnSync(program, ['--version']).error
if (process.env.PHP_BIN && !isThere(php)) throw new Error(`PHP_BIN is ${php}, which is no program`)

/** A web server around the route, as Next.js would be. What it saved is read from its database. */
const nextHost = `
import {createServer} from 'node:http'
import {DatabaseSync} from 'node:sqlite'
import {Readable} from 'node:stream'
import {POST} from './route.ts'

const credits = new DatabaseSync('shop.db').prepare('select asset, amount from credit where reference = ?')
createServer(async (request, response) => {
  const {method, headers, url} = request
  if (method === 'GET') {
    const balance = {}
    const reference = decodeURIComponent(url.slice('/balance/'.length))
    for (const {asset, amount} of credits.all(reference)) balance[asset] = [...(balance[asset] ?? []), amount]
    return response.end(JSON.stringify(balance))
  }
  const init = {method, headers, body: Readable.toWeb(request), duplex: 'half'}
  const {status} = await POST(new Request('http://shop.example' + url, init)).catch(() => ({status: 500}))
  response.writeHead(status).end()
}).listen(process.env.PORT, '127.0.0.1')
`

/** A web server that runs the program for each request. */
const commandHost = `
import {execFile} from 'node:child_process'
import {createServer} from 'node:http'
import {buffer} from 'node:stream/consumers'
import {promisify} from 'node:util'

createServer(async (request, response) => {
  const [, route, ...names] = request.url.split('/').map(decodeURIComponent)
  const command = {users: 'user', webhooks: 'webhook', payouts: 'payout', balance: 'balance'}[route]
  const env = {...process.env}
  for (const name of ['id', 'timestamp', 'signature'])
    if (request.headers['webhook-' + name]) env['WEBHOOK_' + name.toUpperCase()] = request.headers['webhook-' + name]
  const body = await buffer(request)
  const running = promisify(execFile)('./shop.sh', [command, ...names], {env})
  running.child.stdin.on('error', () => {}).end(body) // it may have refused it unread
  const {code = 0, stdout, stderr} = await running.catch(error => error)
  process.stderr.write(stderr)
  if (command === 'webhook') response.writeHead({0: 204, 1: 400}[code] ?? 500).end()
  else response.writeHead(code === 0 ? 200 : Number(/error: (\\d+)$/m.exec(stderr)?.[1] ?? 500)).end(stdout)
}).listen(process.env.PORT, '127.0.0.1')
`

interface Sample {
  name: string
  file: string
  /** How its reader starts it, and what it needs. */
  command: (port: number) => [program: string, ...given: string[]]
  needs: string[]
  host?: string
  store: 'shop.db' | 'credits'
  /** It has no route but that of the webhook. */
  isRouteOnly?: true
}

const samples: Sample[] = [
  {name: 'node-express', file: 'shop.ts', command: () => [process.execPath, 'shop.ts'], needs: [], store: 'shop.db'},
  {
    name: 'next-route',
    file: 'route.ts',
    command: () => [process.execPath, 'host.ts'],
    needs: [],
    host: nextHost,
    store: 'shop.db',
    isRouteOnly: true,
  },
  {name: 'python', file: 'shop.py', command: () => ['python3', 'shop.py'], needs: ['python3'], store: 'shop.db'},
  {
    name: 'php',
    file: 'shop.php',
    command: port => [php, '-S', `127.0.0.1:${port}`, 'shop.php'],
    needs: [php],
    store: 'credits',
  },
  {
    name: 'curl',
    file: 'shop.sh',
    command: () => [process.execPath, 'host.ts'],
    needs: ['bash', 'curl', 'jq', 'openssl'],
    host: commandHost,
    store: 'credits',
  },
]
const missing = ({needs}: Sample) => needs.filter(program => !isThere(program))

/** A sample that runs, and the account of its merchant. */
class Shop {
  readonly sample: Sample
  readonly #port: number
  /** The shop's own, which may do no more than the README says. */
  readonly #apiKey: string
  /** With a key that may do all. */
  readonly sluice: Sluice
  readonly reference: string
  endpoint!: {id: string; secret: string}
  address!: string
  /** All that it printed. */
  printed = ''
  #process: ChildProcess | undefined

  private constructor(sample: Sample, port: number, apiKey: string, sluice: Sluice) {
    this.sample = sample
    this.#port = port
    this.#apiKey = apiKey
    this.sluice = sluice
    this.reference = `Zoë & Söhne / ${sample.name}`
  }

  static async open(sample: Sample): Promise<Shop> {
    const merchantId = await makeMerchant(db, ['ETH'])
    const sluice = new Sluice({apiKey: (await makeKey(db, merchantId)).secret, baseUrl: api.url})
    const own = await makeKey(db, merchantId, ['users', 'payouts'])
    const shop = new Shop(sample, await portsInARow(1), own.secret, sluice)
    cpSync(path.join(import.meta.dirname, sample.name), shop.#folder, {recursive: true})
    if (sample.host) writeFileSync(path.join(shop.#folder, 'host.ts'), sample.host)
    shop.endpoint = await shop.sluice.webhookEndpoints.create({url: `${shop.#url}/webhooks`})
    return shop
  }

  get secrets(): string[] {
    return [this.#apiKey, this.endpoint.secret]
  }
  get #url(): string {
    return `http://127.0.0.1:${this.#port}`
  }
  get #folder(): string {
    return path.join(folder, this.sample.name)
  }

  async start(): Promise<void> {
    this.begin(this.endpoint.secret)
    await until(() => this.balance(), {timeoutMs: 60_000, what: `${this.sample.name} to start`})
  }

  /** Starts it with this secret. It may end by itself. */
  begin(secret: string): ChildProcess {
    const [program, ...given] = this.sample.command(this.#port)
    const env = {
      PATH: process.env.PATH,
      SLUICE_URL: api.url,
      SLUICE_API_KEY: this.#apiKey,
      SLUICE_WEBHOOK_SECRET: secret,
      PORT: String(this.#port),
    }
    const child = spawn(program, given, {cwd: this.#folder, env, stdio: ['ignore', 'pipe', 'pipe']})
    this.#process = child
    for (const stream of [child.stdout, child.stderr]) stream.on('data', data => (this.printed += data))
    return child
  }

  async kill(): Promise<void> {
    const child = this.#process
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }

  /** What it answers. The status is 0 if it gives up the connection. */
  async ask(method: string, route: string, message?: Message): Promise<Answer> {
    const response = await fetch(this.#url + route, {method, ...message}).catch(() => undefined)
    const text = (await response?.text()) ?? ''
    return {status: response?.status ?? 0, body: text.startsWith('{') ? JSON.parse(text) : {}}
  }

  /** What was credited. A sample that cannot add lists the amounts. */
  async balance(reference = this.reference): Promise<Record<string, string>> {
    const {status, body} = await this.ask('GET', `/balance/${encodeURIComponent(reference)}`)
    expect(status).toBe(200)
    const credited = Object.entries(body as Record<string, string | string[]>)
    return Object.fromEntries(credited.map(([asset, amount]) => [asset, [amount].flat().reduce(Amount.add)]))
  }

  /** Sends again what it has taken. */
  async again(delivery: Delivery): Promise<void> {
    await this.sluice.webhookEndpoints.redeliver(this.endpoint.id, delivery.id)
    const {attempts} = (await this.taken()).find(({id}) => id === delivery.id)!
    expect(attempts.map(attempt => attempt.response_status)).toEqual([204, ...delivery.attempts.map(() => 204)])
  }

  async post(message: Message): Promise<number> {
    return (await this.ask('POST', '/webhooks', message)).status
  }

  /** As Sluice would send it. */
  message(event: object, {secret = this.endpoint.secret, at = new Date()} = {}): Message {
    const id = `evt_${randomBytes(16).toString('hex')}`
    const body = JSON.stringify({...event, id})
    return {
      body,
      headers: {
        'content-type': 'application/json',
        'webhook-id': id,
        'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
        'webhook-signature': new Webhook(secret).sign(id, at, body),
      },
    }
  }

  /** One that would credit, of a deposit that was not credited yet. */
  event(amount: string): object {
    return {
      type: 'deposit.confirmed',
      deposit_id: `dep_${randomBytes(16).toString('hex')}`,
      user: {id: 'usr_1', external_ref: this.reference, metadata: {}},
      chain: 'ETH',
      token: 'DAI',
      amount,
    }
  }

  /** Its deliveries, the newest first, once it has taken each of them. */
  async taken(): Promise<Delivery[]> {
    return await until(
      async () => {
        const {items} = await this.sluice.webhookEndpoints.deliveries(this.endpoint.id).page()
        return items.every(({status}) => status === 'delivered') && items
      },
      {timeoutMs: 60_000, what: `${this.sample.name} to take its deliveries`},
    )
  }

  /** Makes it impossible to save anything, until the result is called. */
  breakStore(): () => void {
    const store = path.join(this.#folder, this.sample.store)
    if (this.sample.store === 'shop.db') {
      const other = new DatabaseSync(store)
      other.exec('begin immediate')
      return () => other.close()
    }
    renameSync(store, `${store}.away`)
    writeFileSync(store, '')
    return () => {
      rmSync(store)
      renameSync(`${store}.away`, store)
    }
  }
}

interface Message {
  body: string
  headers: Record<string, string>
}
interface Answer {
  status: number
  body: Record<string, string>
}

let db: TestDatabase
let api: Api
let worker: Awaited<ReturnType<typeof startWorker>>
let eth: ChainWriter
let folder: string
const shops = new Map<Sample, Shop>()

beforeAll(async () => {
  db = await testDatabase()
  api = await startApi(db)
  await fillPool(db, samples.length)
  const log = logger('jobs')
  log.level = 'fatal'
  const settings = readSettings({WEBHOOK_ALLOW_PRIVATE: '1'})
  worker = await startWorker({databaseUrl: db.url('sluice_jobs'), settings, log, ends: endsOf(log)})
  eth = await ChainWriter.open(db, 'ETH')
  folder = mkdtempSync(path.join(tmpdir(), 'sluice-samples-'))
  writeFileSync(path.join(folder, 'package.json'), '{"type": "module"}')
  await installPackages(path.join(folder, 'node_modules'))
  for (const sample of samples) if (missing(sample).length === 0) shops.set(sample, await Shop.open(sample))
  for (const shop of shops.values()) await shop.start()
})
afterAll(async () => {
  for (const shop of shops.values()) await shop.kill()
  rmSync(folder, {recursive: true})
  await eth.close()
  await worker.stop()
  await api.close()
  await db.drop()
})

/** The client library as it is published, and what a merchant's npm would put beside it. */
async function installPackages(modules: string): Promise<void> {
  // It is built in a copy, since another test may be building it in its own place.
  const copy = path.join(folder, 'copy')
  const ours = path.join(root, 'node_modules')
  const isSource = (file: string) => path.basename(file) !== 'dist'
  cpSync(path.join(root, 'sdk'), path.join(copy, 'sdk'), {recursive: true, filter: isSource})
  cpSync(path.join(root, 'tsconfig.json'), path.join(copy, 'tsconfig.json'))
  symlinkSync(ours, path.join(copy, 'node_modules'))
  const env = {...process.env, PATH: `${path.join(ours, '.bin')}:${process.env.PATH}`}
  const {stdout} = await run('npm', ['pack', '--silent'], {cwd: path.join(copy, 'sdk'), env})
  const packed = path.join(copy, 'sdk', stdout.trim().split('\n').at(-1)!)
  const installed = path.join(modules, '@sluice/client')
  mkdirSync(installed, {recursive: true})
  await run('tar', ['-xzf', packed, '-C', installed, '--strip-components=1'])
  for (const name of ['standardwebhooks', '@stablelib', 'fast-sha256', 'express'])
    symlinkSync(path.join(ours, name), path.join(modules, name))
}

/** A deposit to the address of a shop's customer, in a block that is not final yet. */
async function pay({address}: Shop, token: string, amount: bigint): Promise<void> {
  await eth.write({add: [[{txid: `0x${randomBytes(32).toString('hex')}`, token, amount, recipient: address}]]})
}
const finalise = () => eth.finalise(eth.head.height)

const each = test.for(samples)
/** The shop of a sample; without what the sample needs, its tests are skipped. */
function shopOf(sample: Sample, {skip}: {skip(note: string): void}): Shop {
  const shop = shops.get(sample)
  if (!shop) skip(`not there: ${missing(sample)}${sample.name === 'php' ? ' (PHP_BIN names another)' : ''}`)
  return shop!
}

each('$name gives a customer addresses, and credits what is final, to the last digit', async (sample, context) => {
  const shop = shopOf(sample, context)
  if (sample.isRouteOnly) {
    shop.address = (await shop.sluice.users.create({external_ref: shop.reference})).addresses[0]!.address
  } else {
    const made = await shop.ask('POST', `/users/${encodeURIComponent(shop.reference)}`)
    expect(made).toEqual({status: expect.any(Number), body: {ETH: expect.stringMatching(/^0x[0-9a-fA-F]{40}$/)}})
    const [user, ...others] = (await shop.sluice.users.list().page()).items
    expect([user!.external_ref, others]).toEqual([shop.reference, []])
    shop.address = made.body.ETH!
  }
  await pay(shop, 'USDC', 100_000n)
  await shop.taken()
  expect(await shop.balance()).toEqual({})
  await finalise()
  await shop.taken()
  expect(await shop.balance()).toEqual({'ETH USDC': '0.1'})
  await pay(shop, 'USDC', 200_000n)
  await pay(shop, 'ETH', 12_345_678_900_900000000000000001n)
  await pay(shop, 'ETH', 300000000000000000n)
  await finalise()
  await shop.taken()
  expect(await shop.balance()).toEqual({'ETH USDC': '0.3', 'ETH ETH': '12345678901.200000000000000001'})
  expect(await shop.balance('nobody')).toEqual({})
})

each(
  '$name credits nothing more for a delivery that comes again, its deposit under another id, or an example',
  async (sample, context) => {
    const shop = shopOf(sample, context)
    const before = await shop.balance()
    const newest = (await shop.taken()).find(({event_type}) => event_type === 'deposit.confirmed')!
    await shop.again(newest)
    const {items} = await shop.sluice.events.list({type: 'deposit.confirmed'}).page()
    expect(await shop.post(shop.message(items.find(({id}) => id === newest.event_id)!))).toBe(204)
    await shop.sluice.webhookEndpoints.test(shop.endpoint.id, 'deposit.confirmed')
    await shop.taken()
    expect(await shop.balance()).toEqual(before)
    expect(await shop.balance('test event, no user')).toEqual({})
  },
)

each('$name refuses what Sluice did not send just now, and credits once what it did', async (sample, context) => {
  const shop = shopOf(sample, context)
  const before = await shop.balance()
  const event = shop.event('7')
  const genuine = shop.message(event)
  const {'webhook-signature': _signature, ...unsigned} = genuine.headers
  const hourMs = 3_600_000
  const refused: Record<string, Message> = {
    'one byte is changed': {...genuine, body: genuine.body.replace('"7"', '"9"')},
    'a line break is added': {...genuine, body: `${genuine.body}\n`},
    'an hour old': shop.message(event, {at: new Date(Date.now() - hourMs)}),
    'an hour ahead': shop.message(event, {at: new Date(Date.now() + hourMs)}),
    'of another secret': shop.message(event, {secret: `whsec_${randomBytes(24).toString('base64')}`}),
    'not signed': {...genuine, headers: unsigned},
    'without a time': {...genuine, headers: {...genuine.headers, 'webhook-timestamp': 'now'}},
    'without headers': {...genuine, headers: {'content-type': 'application/json'}},
  }
  for (const [what, message] of Object.entries(refused)) expect([what, await shop.post(message)]).toEqual([what, 400])
  expect(await shop.balance()).toEqual(before)
  const atOnce = Array.from({length: 4}, () => shop.post(genuine))
  expect(await Promise.all(atOnce)).toEqual([204, 204, 204, 204])
  expect(await shop.balance()).toEqual({...before, 'ETH DAI': '7'})
})

each(
  '$name does not answer 204 before it has saved, and credits when the event comes again',
  async (sample, context) => {
    const shop = shopOf(sample, context)
    const before = await shop.balance()
    const message = shop.message(shop.event('1'))
    const repair = shop.breakStore()
    const status = await shop.post(message)
    repair()
    expect(status < 200 || status >= 300).toBe(true)
    expect(await shop.balance()).toEqual(before)
    expect(await shop.post(message)).toBe(204)
    expect(await shop.balance()).toEqual({...before, 'ETH DAI': Amount.add(before['ETH DAI']!, '1')})
  },
)

each('$name credits nothing more after it was killed and started again', async (sample, context) => {
  const shop = shopOf(sample, context)
  const before = await shop.balance()
  await shop.kill()
  await shop.start()
  for (const delivery of await shop.taken()) await shop.again(delivery)
  expect(await shop.balance()).toEqual(before)
})

each('$name takes nothing while a placeholder stands where its secret should be', async (sample, context) => {
  const shop = shopOf(sample, context)
  const before = await shop.balance()
  for (const placeholder of ['whsec_', 'whsec_...', 'whsec_…']) {
    await shop.kill()
    const child = shop.begin(placeholder)
    const {body, headers} = shop.message(shop.event('1000'))
    const signed = createHmac('sha256', '').update(`${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`)
    const forged = {...headers, 'webhook-signature': `v1,${signed.digest('base64')}`}
    const status = await until(
      async () => {
        const {status} = await shop.ask('POST', '/webhooks', {body, headers: forged})
        return status || (child.exitCode !== null && 'it does not run')
      },
      {timeoutMs: 30_000, what: `${sample.name} to answer, or to end`},
    )
    expect([placeholder, status === 'it does not run' || status >= 400]).toEqual([placeholder, true])
  }
  await shop.kill()
  await shop.start()
  expect(await shop.balance()).toEqual(before)
})

each('$name makes no file that a message names', async (sample, context) => {
  const shop = shopOf(sample, context)
  for (const deposit_id of ['../break-out', 'dep_../../break-out', '/tmp/sluice-break-out']) {
    const status = await shop.post(shop.message({...shop.event('1'), deposit_id}))
    if (sample.store === 'credits') expect([deposit_id, status >= 400]).toEqual([deposit_id, true])
  }
  const all = readdirSync(folder, {recursive: true}).map(String)
  expect([...all.filter(name => name.includes('break-out')), existsSync('/tmp/sluice-break-out')]).toEqual([false])
})

each('$name goes on crediting when the secret was just rotated', async (sample, context) => {
  const shop = shopOf(sample, context)
  const before = await shop.balance()
  await shop.sluice.webhookEndpoints.rotateSecret(shop.endpoint.id)
  await pay(shop, 'USDC', 700_000n)
  await finalise()
  await shop.taken()
  expect(await shop.balance()).toEqual({...before, 'ETH USDC': '1'})
})

test.for(samples.filter(({isRouteOnly}) => !isRouteOnly))(
  '$name pays a whole balance out, once however often it is asked, and passes a refusal on',
  async (sample, context) => {
    const shop = shopOf(sample, context)
    const refusal = await shop.sluice.payouts.create({chain: 'BTC', token: 'BTC'}).catch(error => error)
    expect(refusal).toBeInstanceOf(ApiError)
    const {status, body} = await shop.ask('POST', '/payouts/BTC/BTC')
    expect([status, body.error]).toEqual([refusal.status, refusal.code])
    const address = getAddress(`0x${randomBytes(20).toString('hex')}`)
    await shop.sluice.payoutAddresses.set({chain: 'ETH', address})
    const {gross} = (await shop.sluice.balances.get()).balances.find(({token}) => token === 'USDC')!
    const paid = await shop.ask('POST', '/payouts/ETH/USDC')
    expect(paid.body).toMatchObject({gross, status: 'pending'})
    expect((await shop.ask('POST', '/payouts/ETH/USDC')).body).toEqual(paid.body)
    const {items} = await shop.sluice.payouts.list().page()
    expect(items.map(({id}) => id)).toEqual([paid.body.id])
  },
)

each('$name never prints a secret', (sample, context) => {
  const {printed, secrets} = shopOf(sample, context)
  for (const secret of secrets) expect(printed).not.toContain(secret)
})

test('each sample fits on a page, and the README names it', () => {
  const readme = readFileSync(path.join(import.meta.dirname, 'README.md'), 'utf8')
  for (const {name, file} of samples) {
    expect(readFileSync(path.join(import.meta.dirname, name, file), 'utf8').split('\n').length).toBeLessThanOrEqual(80)
    expect(readme).toContain(`${name}/${file}`)
  }
})
