// npm run containers: what containers.test.ts leaves out, because it takes long. Each test has an installation of its
// own.
import {execFileSync} from 'node:child_process'
import {cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import {get} from 'node:https'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {freePort} from '../../devnet/listen.ts'
import {until} from '../support/until.ts'
import {type Receiver, startReceiver} from '../support/webhooks.ts'
import {Business} from './business.ts'
import {Engine} from './engine.ts'
import {imagesNamed} from './images.ts'
import {Installation, root} from './installation.ts'

/** The first version whose containers were run, by its commit: what an upgrade begins with. */
const older = process.env.OLDER_COMMIT || 'f62e3fe'
const local = ['docker-compose.yml', 'docker-compose.local.yml']
const second = 'docker-compose.second-local.yml'
const settings = {WEBHOOK_ALLOW_PRIVATE: '1', ADDRESS_POOL_SIZE: '5'}
const timeout = 1_800_000

let engine: Engine
let sluice: Installation | undefined
let receiver: Receiver

beforeAll(async () => {
  const whyNot = Engine.whyNot()
  if (whyNot) throw new Error(`the containers cannot run: ${whyNot}`)
  engine = await Engine.start()
  await engine.standIns(...imagesNamed(['node', 'postgres']))
}, timeout)
afterAll(async () => {
  await engine?.stop()
})
afterEach(async () => {
  await receiver?.close()
  await sluice?.remove()
  sluice = undefined
}, timeout)

async function build(tree = root): Promise<void> {
  await engine.build(tree, 'production', 'sluice')
  await engine.build(tree, 'local', 'sluice-local')
}

async function install(files = local, more: Record<string, string> = {}, tree = root): Promise<Installation> {
  receiver = await startReceiver('0.0.0.0')
  const made = await Installation.make(engine, {files, tree, settings: {...settings, ...more}})
  sluice = made
  await made.compose('run', '--rm', 'setup')
  await made.up()
  return made
}

test('on every chain, what is paid in is paid out, and told', {timeout}, async () => {
  await build()
  const business = await Business.open(await install(), receiver, ['ETH', 'POLYGON', 'BTC', 'TRON', 'SOL'])
  await business.deposit()
  await business.payOut()
  await business.isRight(5)
})

test('a filled database of an older image is upgraded while money is under way', {timeout}, async () => {
  const tree = mkdtempSync(path.join(tmpdir(), 'sluice-older-'))
  execFileSync('sh', ['-c', `git -C ${root} archive ${older} | tar -x -C ${tree}`])
  await build(tree)
  const made = await install(local, {}, tree)
  const business = await Business.open(made, receiver, ['ETH', 'SOL'])
  await business.deposit()
  await business.payOut()
  await business.isRight(2)
  await business.deposit()
  await business.payOut() // under way
  await build()
  made.take(root)
  await made.compose('run', '--rm', 'setup')
  await made.up()
  await business.isRight(4)
  await business.deposit()
  await business.payOut()
  await business.isRight(6)
  rmSync(tree, {recursive: true})
})

test('a backup of docker/backup.sh, restored into empty volumes by the guide, has everything, and goes on', {
  timeout,
}, async () => {
  await build()
  const made = await install()
  const business = await Business.open(made, receiver, ['ETH', 'SOL'])
  await business.deposit()
  await business.payOut()
  await business.isRight(2)
  const kept = mkdtempSync(path.join(tmpdir(), 'sluice-kept-'))
  await made.program('docker/backup.sh', kept)
  const backup = await made.program('docker/backup.sh', kept, '1')
  expect(readdirSync(kept)).toEqual([path.basename(backup)])
  expect(readdirSync(backup).sort()).toEqual(['custody', 'sluice.dump'])
  for (const name of ['custody_passphrase', 'dashboard_secret'])
    cpSync(path.join(made.folder, 'secrets', name), path.join(kept, name))

  // The machine is lost; the chains are not of it.
  await made.compose('rm', '--stop', '--force') // not the networks, in which the receiver of webhooks has its address
  for (const volume of ['postgres', 'custody', 'socket', 'dashboard'])
    expect(await engine.docker('volume', 'rm', `sluice_${volume}`)).toMatchObject({code: 0})
  rmSync(path.join(made.folder, 'secrets'), {recursive: true})
  mkdirSync(path.join(made.folder, 'secrets'))
  for (const name of ['custody_passphrase', 'dashboard_secret'])
    cpSync(path.join(kept, name), path.join(made.folder, 'secrets', name))
  cpSync(path.join(backup, 'sluice.dump'), path.join(made.folder, 'sluice.dump'))
  cpSync(path.join(backup, 'custody'), path.join(made.folder, 'backup-1'))
  const lines = restoreOf(readFileSync(path.join(root, 'docs/operations/containers.md'), 'utf8'))
  expect(lines.length).toBeGreaterThan(10)
  await made.program('bash', '-euxc', lines.join('\n'))
  await made.healthy()
  await business.isRight(2)
  await business.deposit()
  await business.payOut()
  await business.isRight(4)
  rmSync(kept, {recursive: true})
})

/** The commands of the guide from `setup` on. */
function restoreOf(guide: string): string[] {
  const block = guide.slice(guide.indexOf('### Restore')).match(/```\n([\s\S]*?)```/)![1]!
  return block
    .split('\n')
    .filter(line => line.startsWith('docker'))
    .map(line => line.replace(/^docker compose (run|exec)/, 'docker compose $1 -T'))
}

test('Caddy and nginx by the files of the guide pass on what merchants, customers and the dashboard need, and no more', {
  timeout,
}, async () => {
  await engine.standIns('sluice-test/proxies')
  await build()
  const made = await install(local, {DASHBOARD_URL: 'https://dashboard.example', PUBLIC_URL: 'https://api.example'})
  const business = await Business.open(made, receiver, ['ETH'])
  const {payment_url} = await business.shop.paymentRequests.create('ETH-USDC', {external_id: 'acme-1', amount: '25'})
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-proxy-'))
  const given = [
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:prime256v1',
    '-nodes',
    '-days',
    '2',
    '-subj',
    '/CN=api.example',
  ]
  execFileSync(
    'openssl',
    [...given, '-keyout', path.join(folder, 'sluice.key'), '-out', path.join(folder, 'sluice.pem')],
    {stdio: 'pipe'},
  )
  for (const [name, command] of [
    [
      'nginx.conf',
      'cp /proxy/sluice.* /etc/ssl/ && rm -f /etc/nginx/sites-enabled/* && cp /proxy/config /etc/nginx/conf.d/sluice.conf && exec nginx -g "daemon off;"',
    ],
    ['Caddyfile', 'exec caddy run --config /proxy/config --adapter caddyfile'],
  ] as const) {
    const [https, http] = [await freePort(), await freePort()]
    const config = readFileSync(path.join(root, 'docs/operations/proxy', name), 'utf8')
      .replaceAll('127.0.0.1:8080', made.apiUrl.slice('http://'.length))
      .replaceAll('127.0.0.1:8088', made.dashboardUrl.slice('http://'.length))
      .replace(/listen 443/g, `listen ${https}`)
      .replace(/listen 80;/g, `listen ${http};`)
    const certificates = `{\n\thttp_port ${http}\n\thttps_port ${https}\n\tlocal_certs\n\tskip_install_trust\n}\n`
    writeFileSync(path.join(folder, 'config'), name === 'Caddyfile' ? certificates + config : config)
    const run = [
      'run',
      '--detach',
      '--rm',
      '--name',
      'proxy',
      '--network',
      'host',
      '--volume',
      `${folder}:/proxy:ro`,
      'sluice-test/proxies',
      'sh',
      '-c',
      command,
    ]
    expect(await engine.docker(...run)).toMatchObject({code: 0})
    const ask = (host: string, path: string) => asked(https, host, path)
    await until(() => ask('api.example', '/v1/balances').then(({status}) => status === 401), {
      timeoutMs: 30_000,
      what: `${name} to serve`,
    })
    expect((await ask('api.example', new URL(payment_url).pathname)).status).toBe(200)
    for (const path of ['/docs', '/openapi.json'])
      expect([name, path, (await ask('api.example', path)).status]).toEqual([name, path, 200])
    for (const path of ['/readyz', '/metrics', '/'])
      expect([name, path, (await ask('api.example', path)).status]).toEqual([name, path, 404])
    const signIn = await ask('dashboard.example', '/')
    expect([name, signIn.status, signIn.location]).toEqual([name, 303, expect.stringMatching(/sign-in/)])
    await engine.docker('kill', 'proxy')
    await until(async () => (await engine.docker('inspect', 'proxy')).code !== 0, {
      timeoutMs: 30_000,
      what: 'the proxy to end',
    })
  }
  rmSync(folder, {recursive: true})
})

/** What a server of this machine answers for a name. */
function asked(port: number, host: string, path: string): Promise<{status: number; location: string | undefined}> {
  return new Promise((resolve, reject) => {
    get({host: '127.0.0.1', port, path, servername: host, headers: {host}, rejectUnauthorized: false}, response => {
      response.resume()
      resolve({status: response.statusCode!, location: response.headers.location})
    }).on('error', reject)
  })
}

test('with --profile bitcoin the bitcoind of the file is followed', {timeout}, async () => {
  await engine.standIns(...imagesNamed(['bitcoin/bitcoin', 'cculianu/fulcrum']))
  await build()
  receiver = await startReceiver('0.0.0.0')
  const made = await Installation.make(engine, {
    files: ['docker-compose.yml'],
    settings: {BTC_NETWORK: 'regtest', BTC_SOURCE: 'node', BTC_START_HEIGHT: '1', COMPOSE_PROFILES: 'bitcoin'},
  })
  sluice = made
  await made.compose('run', '--rm', 'setup')
  await made.start('bitcoind', 'fulcrum', 'jobs', 'api', 'indexer-btc')
  const bitcoin = (...given: string[]) =>
    made.compose(
      'exec',
      '-T',
      'bitcoind',
      'bitcoin-cli',
      '-rpcport=38332',
      '-rpccookiefile=/home/bitcoin/.bitcoin/cookie',
      ...given,
    )
  await until(() => bitcoin('createwallet', 'w').then(() => true), {timeoutMs: 60_000, what: 'bitcoind'})
  await bitcoin('-generate', '110')
  await made.cli('merchant', 'create', '--name', 'Acme', '--prefix', 'acme', '--chains', 'BTC')
  await until(
    async () => {
      const {chains} = (await made.cli('status')) as {chains: {chain: string; head: number | null}[]}
      return chains.some(({chain, head}) => chain === 'BTC' && head !== null && head >= 110)
    },
    {timeoutMs: 180_000, intervalMs: 1000, what: 'the chain to be followed'},
  )
})

test('with the cluster file, the end of the primary loses nothing, and payouts go on', {timeout}, async () => {
  await engine.standIns(...imagesNamed(['haproxy', 'quay.io/coreos/etcd']))
  await build()
  const made = await install([...local, 'docker-compose.cluster.yml', second])
  const business = await Business.open(made, receiver, ['ETH', 'SOL'])
  await business.deposit()
  await business.payOut()
  await business.deposit()
  const listed = await made.compose(
    'exec',
    '-T',
    'database-1',
    'patronictl',
    '-c',
    '/etc/patroni/patroni.yml',
    'list',
    '--format',
    'json',
  )
  const leader = (JSON.parse(listed) as {Member: string; Role: string}[]).find(({Role}) => Role === 'Leader')!.Member
  await made.compose('kill', '--signal', 'SIGKILL', leader)
  await business.deposit()
  await made.compose('start', leader)
  await made.healthy(300_000)
  await business.payOut()
  await business.isRight(4)
})
