// The metrics of each process. Each process starts as in production, and its metrics show what happens. The served
// metrics are those in docs/operations/; alarms and dashboard use no others.
import {type ChildProcess, execFile, fork} from 'node:child_process'
import {once} from 'node:events'
import {readFileSync} from 'node:fs'
import {fileURLToPath} from 'node:url'
import {promisify} from 'node:util'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {parse} from 'yaml'
import '../service/child.ts' // the supervisor's counters are there
import {registry} from '../base/observe.ts'
import {newAddress, WrittenEvm} from './support/evm/written-world.ts'
import {Indexer} from './support/indexer.ts'
import {portsInARow} from './support/ports.ts'
import {until} from './support/until.ts'
import {createEndpoint, type Receiver, startReceiver} from './support/webhooks.ts'
import type {Merchant} from './support/written-world.ts'

type Samples = Map<string, number>

let world: WrittenEvm
let merchant: Merchant
let receiver: Receiver
let indexer: Indexer
const ports = {custody: 0, jobs: 0, api: 0, indexer: 0}
const children: ChildProcess[] = []

beforeAll(async () => {
  const first = await portsInARow(4)
  Object.assign(ports, {custody: first, jobs: first + 1, api: first + 2, indexer: first + 3})
  receiver = await startReceiver()
  world = await WrittenEvm.open({METRICS_PORT: `${ports.custody}`})
  merchant = await world.merchant()
  indexer = Indexer.start({
    db: world.db,
    chain: 'POLYGON',
    settings: {RPC_URL: 'http://127.0.0.1:1'},
    environment: {METRICS_PORT: `${ports.indexer}`, LOG_LEVEL: 'fatal'},
  })
  await Promise.all([
    startProcess('jobs/main.ts', {DATABASE_URL: world.db.url('sluice_jobs'), METRICS_PORT: `${ports.jobs}`}),
    startProcess('api/main.ts', {
      DATABASE_URL: world.db.url('sluice_api'),
      DATABASE_REPLICA_URL: world.db.url('sluice_api'), // not a replica
      METRICS_PORT: `${ports.api}`,
      PORT: '0',
    }),
  ])
})
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL')
  await indexer.stop()
  await receiver.close()
  await world.close()
})

async function startProcess(module: string, environment: Record<string, string>): Promise<void> {
  const child = fork(fileURLToPath(new URL(`../${module}`, import.meta.url)), {
    env: {...process.env, SLUICE_HOME: world.home, WEBHOOK_ALLOW_PRIVATE: '1', LOG_LEVEL: 'fatal', ...environment},
    execArgv: [],
  })
  children.push(child)
  await once(child, 'message', {signal: AbortSignal.timeout(25_000)})
}

async function textOf(name: keyof typeof ports): Promise<string> {
  return await (await fetch(`http://127.0.0.1:${ports[name]}/metrics`)).text()
}

function samplesOf(text: string): Samples {
  const lines = text.split('\n').filter(line => line && !line.startsWith('#'))
  return new Map(lines.map(line => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]))
}

const metrics = async (name: keyof typeof ports) => samplesOf(await textOf(name))

/** Waits until a metric of a process is above 0. */
const rises = (name: keyof typeof ports, sample: string) =>
  until(async () => ((await metrics(name)).get(sample) ?? 0) > 0, {timeoutMs: 10_000, what: `${sample} to rise`})

test('every process reports that it lives', async () => {
  await until(() => fetch(`http://127.0.0.1:${ports.indexer}/livez`).catch(() => false), {
    timeoutMs: 20_000,
    what: 'the indexer to start',
  })
  for (const port of Object.values(ports)) {
    const alive = await fetch(`http://127.0.0.1:${port}/livez`)
    expect([alive.status, await alive.json()]).toEqual([200, {alive: true}])
  }
})

test('custody counts signatures, refusals, requests without the token, and the addresses that it makes', async () => {
  const fees = {max_fee_per_gas: '1000', max_priority_fee_per_gas: '10', gas_limit: 21_000}
  const sweep = (address: string) => ({
    intent: 'sweep',
    chain: 'ETH',
    token: 'ETH',
    amount: '50000000',
    nonce: 0,
    address,
    ...fees,
  })
  const ask = async (...addresses: string[]) => {
    const intents = addresses.map(address => ({...sweep(address), outgoing_payment_id: crypto.randomUUID()}))
    for (const intent of intents) await world.forgeOutgoingPayment(intent)
    return await world.custody.ask('/sign', {intents})
  }
  await world.deposit(merchant.address, 10n ** 18n)
  const {body} = await ask(merchant.address, newAddress())
  expect(body.results.map(({ok, code}: {ok: boolean; code?: string}) => code ?? ok)).toEqual([true, 'not_ours'])
  await world.custody.ask('/sign', {intents: []})
  await world.custody.ask('/sign', {intents: []}, 'another token')
  const seen = await metrics('custody')
  expect(seen.get('sluice_custody_active')).toBe(1)
  expect(seen.get('sluice_custody_signatures_total{chain="ETH",kind="sweep"}')).toBe(1)
  expect(seen.get('sluice_custody_refusals_total{code="not_ours"}')).toBe(1)
  expect(seen.get('sluice_custody_rejected_requests_total{reason="no_token"}')).toBe(1)
  expect(seen.get('sluice_custody_rejected_requests_total{reason="unknown_form"}')).toBe(1)
  expect(seen.get('sluice_custody_addresses_made_total{family="evm"}')).toBeGreaterThanOrEqual(40)
  const [free, size] = ['free', 'size'].map(what => seen.get(`sluice_disk_${what}_bytes{disk="custody"}`)!)
  expect(free).toBeGreaterThan(0)
  expect(free).toBeLessThan(size!)
})

test('a worker counts its jobs, the webhooks that it sends, and failures of its own tasks', async () => {
  await createEndpoint(world.db.pool, {id: merchant.id, address: merchant.address}, {url: receiver.url})
  const fine = 'sluice_webhook_attempt_duration_seconds_count{status="2xx"}'
  const broken = 'sluice_webhook_attempt_duration_seconds_count{status="5xx"}'
  expect([(await metrics('jobs')).get(fine), (await metrics('jobs')).get(broken)]).toEqual([0, 0])
  await world.deposit(merchant.address, 7n, {token: 'USDC', final: false})
  await rises('jobs', fine)
  receiver.response = (_request, response) => response.writeHead(503).end()
  await world.deposit(merchant.address, 7n, {token: 'USDC', final: false})
  await rises('jobs', broken)
  await rises('jobs', 'sluice_job_duration_seconds_count{task="sequence_events",outcome="done"}')
  const failures = 'sluice_tick_failures_total{part="fold balances"}'
  expect((await metrics('jobs')).get(failures)).toBe(0)
  await world.db.rows('alter function app.fold_balances rename to fold_nothing')
  await rises('jobs', failures)
  await world.db.rows('alter function app.fold_nothing rename to fold_balances')
})

test('an indexer reports that it does not follow, and counts requests without a response; the head still has an age', async () => {
  await rises('indexer', 'sluice_indexer_node_errors_total{chain="POLYGON"}')
  await rises('indexer', 'sluice_indexer_failed_rounds_total{chain="POLYGON"}')
  expect((await metrics('indexer')).get('sluice_indexer_blocks_total{chain="POLYGON"}')).toBe(0)
  expect((await metrics('indexer')).get('sluice_indexer_active{chain="POLYGON"}')).toBe(0)
  for (const name of ['head_age', 'head_moved_age', 'final_moved_age'])
    await rises('api', `sluice_chain_${name}_seconds{chain="POLYGON"}`)
  await rises('api', 'sluice_chain_waiting_seconds{chain="POLYGON",reason="node_unavailable"}')
})

test('the API serves the same metrics on its own port, with its connections', async () => {
  await metrics('api') // makes the first connection
  const seen = await metrics('api')
  expect(seen.get('sluice_database_up')).toBe(1)
  expect(seen.get('sluice_chain_head_height{chain="ETH"}')).toBeGreaterThan(0)
  expect(seen.get('sluice_api_database_waiting')).toBe(0)
  expect(seen.get('sluice_api_database_connections{state="idle"}')).toBeGreaterThanOrEqual(1)
  expect(seen.get('sluice_replica_serving')).toBe(0)
  expect(seen.get('sluice_replica_lag_seconds')).toBeNaN()
})

test('no label is a name, an address or an id of a merchant', async () => {
  const known = [merchant.id, merchant.address, merchant.payoutAddress, merchant.bitcoin, world.treasury, receiver.url]
  for (const name of Object.keys(ports) as (keyof typeof ports)[]) {
    const text = await textOf(name)
    for (const [, value] of text.matchAll(/="([^"]*)"/g)) {
      expect(value!).not.toMatch(
        /0x[0-9a-f]{8}|[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}|_[0-9a-f]{32}|(bc|tb|bcrt)1[0-9a-z]{8}|:\/\//i,
      )
      for (const secret of known) expect(value!.toLowerCase()).not.toContain(secret.toLowerCase())
    }
  }
})

// --- docs, alarms and dashboard ---

const file = (name: string) => readFileSync(new URL(`../docs/operations/${name}`, import.meta.url), 'utf8')
/**
 * Metrics of Prometheus, node_exporter and Node that our pages do not list, with the labels that a rule or a case uses.
 */
const foreign: Record<string, string[]> = {
  up: [],
  process_start_time_seconds: [],
  process_resident_memory_bytes: [],
  node_filesystem_avail_bytes: ['device', 'mountpoint', 'fstype'],
  node_filesystem_size_bytes: ['device', 'mountpoint', 'fstype'],
  // Of a cluster: Patroni 4.1, HAProxy 2.6 and etcd 3.4.
  patroni_primary: ['scope', 'name'],
  patroni_quorum_standby: ['scope', 'name'],
  patroni_is_paused: ['scope', 'name'],
  patroni_postgres_timeline: ['scope', 'name'],
  patroni_xlog_location: ['scope', 'name'],
  patroni_xlog_replayed_location: ['scope', 'name'],
  haproxy_backend_active_servers: ['proxy'],
  etcd_server_has_leader: [],
}
/** Labels that Prometheus adds (docs/operations/prometheus.yml), and the bounds of a histogram. */
const added = ['job', 'instance', 'process', 'le']

/** Name, type and labels of all metrics in the text, except Node's own. */
function familiesOf(text: string): Map<string, {type: string; labels: string}> {
  const types = [...text.matchAll(/^# TYPE (\S+) (\w+)$/gm)].filter(
    ([, name]) => !/^(process|nodejs)_(?!up|restarts)/.test(name!),
  )
  return new Map(
    types.map(([, name, type]) => {
      const sample = new RegExp(`^${name}(?:_count|_sum)?\\{(.*)\\} \\S+$`, 'm').exec(text)?.[1] ?? ''
      return [name!, {type: type!, labels: [...sample.matchAll(/(\w+)="/g)].map(([, label]) => label).join(', ')}]
    }),
  )
}

async function served(): Promise<Map<string, {type: string; labels: string}>> {
  const texts = await Promise.all((Object.keys(ports) as (keyof typeof ports)[]).map(textOf))
  return new Map([...texts, await registry.metrics()].flatMap(text => [...familiesOf(text)]))
}

/** Rows of the tables of monitoring.md: metric, type, labels, meaning. */
function listed(): Map<string, {type: string; labels: string}> {
  const rows = [...file('monitoring.md').matchAll(/^\| `(\w+)` \| (\w+) \|([^|]*)\| [^|]+ \|$/gm)]
  return new Map(
    rows.map(([, name, type, labels]) => [name!, {type: type!, labels: labels!.replaceAll('`', '').trim()}]),
  )
}

test('docs/operations/monitoring.md lists every metric with its type and labels, and no other', async () => {
  const [real, told] = [await served(), listed()]
  expect([...told.keys()].sort()).toEqual([...real.keys()].sort())
  for (const [name, {type, labels}] of real) {
    expect(told.get(name)!.type, name).toBe(type)
    if (labels) expect(told.get(name)!.labels, name).toBe(labels)
  }
})

/** Names of metrics in an expression of PromQL. */
function namesIn(expression: string): string[] {
  return [
    ...expression
      .replace(/\{[^}]*\}|\b(by|without|on|ignoring|group_left|group_right) ?\([^)]*\)/g, '')
      .matchAll(/\b(?:(?:sluice|http|process|nodejs|node|patroni|haproxy|etcd)_\w+|up\b)/g),
  ].map(([name]) => familyOf(name))
}

const familyOf = (series: string) => series.replace(/_(bucket|count|sum)$/, '')

interface Rule {
  alert: string
  expr: string
  labels: {severity: string}
  annotations: {summary: string; description: string; action: string}
}

const rules = (): Rule[] => parse(file('alerts.yml')).groups.flatMap(({rules}: {rules: Rule[]}) => rules)
const panels = (): {title: string; targets: {expr: string}[]}[] =>
  JSON.parse(file('grafana.json')).panels.filter(({type}: {type: string}) => type !== 'row')

/** A case of test/alerts.test.yml. */
interface Case {
  name: string
  input_series: {series: string}[]
  alert_rule_test: {alertname: string; exp_alerts: object[]}[]
}

const cases = (): Case[] => parse(readFileSync(new URL('alerts.test.yml', import.meta.url), 'utf8')).tests

test('alarms and dashboard use only metrics that are served, and every alarm says what to do', async () => {
  const real = new Set([...Object.keys(foreign), ...(await served()).keys()])
  for (const {alert, expr, labels, annotations} of rules()) {
    for (const name of namesIn(expr)) expect(real.has(name), `${alert}: ${name}`).toBe(true)
    expect(['page', 'ticket', 'info'], alert).toContain(labels.severity)
    for (const part of ['summary', 'description', 'action'] as const)
      expect(annotations[part]?.length, `${alert}: ${part}`).toBeGreaterThan(20)
  }
  for (const {title, targets} of panels())
    for (const {expr} of targets)
      for (const name of namesIn(expr)) expect(real.has(name), `${title}: ${name}`).toBe(true)
})

test('every alarm has a case that raises it, and one that does not', () => {
  const checks = cases().flatMap(({alert_rule_test}) => alert_rule_test)
  const named = (isRaised: boolean) =>
    [
      ...new Set(checks.filter(({exp_alerts}) => exp_alerts.length > 0 === isRaised).map(({alertname}) => alertname)),
    ].sort()
  const all = rules()
    .map(({alert}) => alert)
    .sort()
  expect(named(true)).toEqual(all)
  expect(named(false)).toEqual(all)
})

test('the cases of the alarms have only series and labels that are served', async () => {
  const [real, told] = [await served(), listed()]
  for (const {name, input_series} of cases())
    for (const {series} of input_series) {
      const metric = familyOf(/^\w+/.exec(series)![0])
      expect(metric in foreign || real.has(metric), `${name}: ${series}`).toBe(true)
      const known = [...added, ...(foreign[metric] ?? told.get(metric)!.labels.split(', '))]
      for (const [, label] of series.matchAll(/(\w+)="/g)) expect(known, `${name}: ${series}`).toContain(label)
    }
})

test('the reasons for which payouts may wait without an alarm are one list, and the payouts page says for each what to do', () => {
  const reasonsOf = (alert: string) =>
    /reason[!=]~"([^"]*)"/.exec(rules().find(rule => rule.alert === alert)!.expr)![1]!.split('|')
  const held = reasonsOf('SluicePayoutsHeld')
  expect(reasonsOf('SluicePayoutsWait')).toEqual(held)
  const page = readFileSync(new URL('../docs/operations.md', import.meta.url), 'utf8')
  const reasons = [...page.matchAll(/^\| ((?:`\w+`(?:, )?)+) \|/gm)].flatMap(([, names]) => names!.match(/\w+/g)!)
  for (const reason of held) expect(reasons).toContain(reason)
})

test('the alarms are valid for promtool, and are raised in their cases', async context => {
  const promtool = process.env.PROMTOOL_BIN ?? 'promtool'
  const run = (...given: string[]) =>
    promisify(execFile)(promtool, given, {cwd: fileURLToPath(new URL('..', import.meta.url))})
  const isThere = await run('--version').catch(error => (error.code === 'ENOENT' ? undefined : error))
  if (!isThere) return context.skip('promtool is not there; put it on the PATH, or name it in PROMTOOL_BIN')
  await run('check', 'rules', 'docs/operations/alerts.yml')
  await run('check', 'config', 'docs/operations/prometheus.yml')
  await run('test', 'rules', 'test/alerts.test.yml')
})
