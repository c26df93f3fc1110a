// docker-compose.yml as a text: what it names is there, and what must not be in it is not. test/containers/ runs it.
import {execFileSync} from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import {createRequire} from 'node:module'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import {expect, test} from 'vitest'
import {parse} from 'yaml'
import {bitcoinSettings} from '../chains/bitcoin/settings.ts'
import {readSettings, settingNames} from '../chains/settings.ts'
import {roleUrl} from '../db/migrate/migrate.ts'
import {chainIds} from '../devnet/evm/constants.ts'
import {tokenSettings} from '../devnet/evm/tokens.ts'
import {composeVariables, readCompose} from '../test/support/compose.ts'
import {wrongEnvironment} from './environment.ts'
import {tooSmall} from './machine.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const setup = fileURLToPath(new URL('setup.ts', import.meta.url))
const compose = readCompose()
const services = Object.entries(compose.services)
const ours = services.filter(([, {image}]) => image === 'sluice')
const read = (name: string) => readFileSync(path.join(root, name), 'utf8')

function inFolder(work: (folder: string) => void): void {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-compose-'))
  try {
    work(folder)
  } finally {
    rmSync(folder, {recursive: true})
  }
}

function runSetup(folder: string, ...options: string[]): string {
  const env = {PATH: process.env.PATH, SLUICE_DEVNET: 'off', SLUICE_HOME: path.join(folder, 'home')}
  mkdirSync(env.SLUICE_HOME, {recursive: true})
  return execFileSync(process.execPath, [setup, folder, ...options], {encoding: 'utf8', env, stdio: 'pipe'})
}

/** How docker compose is called here; undefined where it is not. */
function findCompose(): string[] | undefined {
  const candidates = [[process.env.DOCKER_COMPOSE_BIN || 'docker-compose'], ['docker', 'compose']]
  return candidates.find(([program, ...given]) => {
    try {
      return /^v?([2-9]|\d\d)\./.test(
        execFileSync(program!, [...given, 'version', '--short'], {encoding: 'utf8', stdio: 'pipe'}),
      )
    } catch {
      return false
    }
  })
}

const program = findCompose()

test.skipIf(!program)(
  'docker compose accepts the file with every profile (skipped without docker compose: set DOCKER_COMPOSE_BIN)',
  () =>
    inFolder(folder => {
      for (const name of ['docker-compose.yml', 'docker'])
        cpSync(path.join(root, name), path.join(folder, name), {recursive: true})
      mkdirSync(path.join(folder, 'secrets'))
      runSetup(path.join(folder, 'secrets'), '--no-seed')
      writeFileSync(path.join(folder, '.env'), 'ETH_CHAIN_ID=31337\nBTC_NETWORK=testnet4\n')
      const [command, ...given] = program!
      const profiles = ['nodes', 'tools'].flatMap(name => ['--profile', name])
      const shown = execFileSync(command!, [...given, ...profiles, 'config', '--format', 'json'], {
        cwd: folder,
        encoding: 'utf8',
      })
      const config = JSON.parse(shown) as {services: Record<string, {environment?: object; command?: string[]}>}
      expect(Object.keys(config.services).sort()).toEqual(Object.keys(compose.services).sort())
      expect(config.services.custody?.environment).toMatchObject({ETH_CHAIN_ID: '31337', BTC_NETWORK: 'testnet4'})
      expect(config.services.bitcoind?.command).toContain('-chain=testnet4')
    }),
)

const cluster = parse(read('docker-compose.cluster.yml'), {merge: true, logLevel: 'error'}) // it warns of !override
const ofCluster = Object.entries(cluster.services as Record<string, ClusterService>)
interface ClusterService {
  image?: string
  mem_limit?: string
  extends?: {file: string; service: string}
  volumes?: string[]
  environment?: Record<string, string>
  healthcheck?: object
}

test.skipIf(!program)('docker compose accepts the cluster over the file, and HAProxy is where the one server was', () =>
  inFolder(folder => {
    for (const name of ['docker-compose.yml', 'docker-compose.cluster.yml', 'docker'])
      cpSync(path.join(root, name), path.join(folder, name), {recursive: true})
    mkdirSync(path.join(folder, 'secrets'))
    runSetup(path.join(folder, 'secrets'), '--no-seed')
    const [command, ...given] = program!
    const files = ['-f', 'docker-compose.yml', '-f', 'docker-compose.cluster.yml']
    const shown = execFileSync(command!, [...given, ...files, 'config', '--format', 'json'], {
      cwd: folder,
      encoding: 'utf8',
    })
    const {services} = JSON.parse(shown) as {services: Record<string, Record<string, unknown>>}
    expect(services.postgres).toMatchObject({
      image: expect.stringMatching(/^haproxy:/),
      command: ['haproxy', '-f', expect.any(String)],
    })
    expect(services.postgres).not.toHaveProperty('volumes')
    expect(services.postgres).not.toHaveProperty('secrets')
    expect(services['api-2']?.ports).toMatchObject([{published: '8081', target: 8080}])
  }),
)

test('the cluster has three databases and three etcd with a volume each, and every process twice but custody, whose journal is a file', () => {
  for (const kind of ['etcd', 'database']) {
    const nodes = ofCluster.filter(([name]) => name.startsWith(`${kind}-`))
    expect(nodes.map(([, {volumes}]) => volumes?.[0]?.split(':')[0])).toEqual([1, 2, 3].map(n => `${kind}-${n}`))
    for (const [name, {environment}] of nodes)
      expect(environment![kind === 'etcd' ? 'ETCD_NAME' : 'PATRONI_NAME']).toBe(name)
  }
  const {LISTEN: _, ...named} = cluster.services.postgres.environment
  expect(Object.values(named)).toEqual(['database-1', 'database-2', 'database-3'])
  const twice = ofCluster.filter(([, service]) => service.extends)
  for (const [name, service] of twice)
    expect(service.extends).toEqual({file: 'docker-compose.yml', service: name.replace(/-2$/, '')})
  const once = ours.filter(([, {restart}]) => restart !== 'no').map(([name]) => name)
  expect(twice.map(([name]) => name.replace(/-2$/, '')).sort()).toEqual(once.filter(name => name !== 'custody').sort())
  for (const [name, {image, mem_limit, healthcheck}] of ofCluster.filter(([, service]) => !service.extends)) {
    expect(image, name).toMatch(/^(sluice-database|[\w./-]+:v?\d+(\.\d+)+)$/)
    expect([name, mem_limit, healthcheck]).toEqual([name, expect.stringMatching(/^\d+[gm]$/), expect.any(Object)])
  }
  expect(read('docker/cluster/Dockerfile')).toContain(`FROM ${compose.services.postgres!.image}\n`)
  for (const {file} of Object.values(cluster.configs as Record<string, {file: string}>))
    expect(existsSync(path.join(root, file))).toBe(true)
  expect(Object.keys(cluster.volumes)).toHaveLength(7)
})

test('every variable in the file is a setting of Sluice', () => {
  const known = new Set(settingNames())
  expect(composeVariables().filter(name => !known.has(name))).toEqual([])
  for (const [name, {environment}] of ours)
    expect(
      Object.keys(environment).filter(each => !known.has(each)),
      name,
    ).toEqual([])
})

test('everything that services name is defined, and everything defined is used', () => {
  const all = (key: 'secrets' | 'networks') => new Set(services.flatMap(([, service]) => service[key]))
  const volumes = services.flatMap(([, service]) => service.volumes.map(volume => volume.split(':')[0]!))
  expect([...all('secrets')].sort()).toEqual(Object.keys(compose.secrets).sort())
  expect([...all('networks')].filter(name => name !== 'default')).toEqual(Object.keys(compose.networks))
  expect(new Set(volumes.filter(name => !name.startsWith('.')))).toEqual(new Set(Object.keys(compose.volumes)))
  expect(services.flatMap(([, {configs}]) => configs.map(({source}) => source))).toEqual(Object.keys(compose.configs))
  for (const {file} of Object.values(compose.configs)) if (file) expect(existsSync(path.join(root, file))).toBe(true)
  for (const [name, {depends_on, profiles}] of services) {
    for (const [on, condition] of depends_on) {
      const needed = compose.services[on]!
      if (condition === 'service_healthy') expect(needed.healthcheck, `${name} waits for ${on}`).toBeDefined()
      for (const profile of needed.profiles.length ? profiles : [])
        expect(needed.profiles, `${name} with profile ${profile} waits for ${on}`).toContain(profile)
    }
  }
})

test('the file holds no secret: each is a file, and a container gets only its own', () => {
  for (const [name, {environment, secrets}] of services) {
    const named = Object.entries(environment).filter(([key]) => key.endsWith('_FILE'))
    for (const [, file] of named) expect(secrets, name).toContain(file.replace('/run/secrets/', ''))
    const inTheOpen = Object.entries(environment).filter(
      ([key, value]) => /(?<!^(PUBLIC|DASHBOARD)_)URL|PASS|SECRET|TOKEN/.test(key) && !key.endsWith('_FILE') && value,
    )
    expect(inTheOpen, name).toEqual([])
  }
  const seeing = (secret: string) => services.filter(([, {secrets}]) => secrets.includes(secret)).map(([name]) => name)
  expect(seeing('custody_passphrase')).toEqual(['custody', 'custody-cli'])
  expect(seeing('database_url')).toEqual(['migrate', 'cli', 'custody-cli'])
  expect(seeing('dashboard_secret')).toEqual(['dashboard-auth'])
  expect(seeing('database_password')).toEqual(['postgres'])
})

test('keys are isolated: custody reaches only the database, and other services share none of its volumes but the socket for jobs', () => {
  const inNetwork = (network: string) =>
    services.filter(([, {networks}]) => networks.includes(network)).map(([name]) => name)
  expect(inNetwork('custody')).toEqual(['postgres', 'custody', 'custody-cli'])
  for (const name of ['custody', 'custody-cli']) expect(compose.services[name]?.networks).toEqual(['custody'])
  expect(compose.networks).toMatchObject({database: {internal: true}, custody: {internal: true}})
  const mounting = (volume: string) =>
    services.filter(([, {volumes}]) => volumes.some(each => each.startsWith(`${volume}:`))).map(([name]) => name)
  expect(mounting('custody')).toEqual(['custody', 'custody-cli', 'setup'])
  expect(read('docker-compose.yml')).toMatch(/\n {2}setup:\n(.+\n)+? {4}network_mode: none\n/)
  expect(mounting('socket')).toEqual(['custody', 'jobs'])
})

test('only what follows or sends to chains reaches the internet', () => {
  const outgoing = ours.filter(([, {networks}]) => networks.includes('default')).map(([name]) => name)
  expect(outgoing).toEqual(['jobs', ...ours.map(([name]) => name).filter(name => name.startsWith('indexer-')), 'cli'])
  expect(compose.networks.front).toEqual({driver_opts: {'com.docker.network.bridge.enable_ip_masquerade': 'false'}})
})

test('the pages of the dashboard reach only the database, and only its sign-in reaches them', () => {
  const pages = compose.services['dashboard-pages']!
  expect(pages.networks).toEqual(['database'])
  expect(pages.ports).toEqual([])
  expect(pages.volumes).toEqual(['dashboard:/var/lib/sluice/dashboard'])
  const mounting = services.filter(([, {volumes}]) => volumes.some(each => each.startsWith('dashboard:')))
  expect(mounting.map(([name]) => name)).toEqual(['dashboard-auth', 'dashboard-pages'])
})

test('ports are published for this machine only, except the peer-to-peer ports of nodes', () => {
  const peers = [
    '30303:30303/tcp',
    '30303:30303/udp',
    '30304:30304/tcp',
    '30304:30304/udp',
    '9000:9000/tcp',
    '9000:9000/udp',
    '26656:26656',
    '18888:18888/tcp',
    '18888:18888/udp',
  ]
  const published = services.flatMap(([, {ports}]) => ports).filter(port => !port.startsWith('127.0.0.1:'))
  expect(published.sort()).toEqual(peers.sort())
})

test('our processes run as an unprivileged user, cannot write to their image, and get time to end before they are killed', () => {
  for (const [name, service] of ours) {
    expect(service, name).toMatchObject({read_only: true, init: true, build: '.'})
    expect(service.user === undefined || name === 'setup', name).toBe(true)
    expect(service.healthcheck !== undefined || service.restart === 'no', name).toBe(true)
  }
  const images = services.map(([, {image}]) => image).filter(image => image !== 'sluice')
  for (const image of images) expect(image, 'an exact version').toMatch(/^[\w./-]+:(GreatVoyage-)?v?\d+(\.\d+)+$/)
  expect(read('Dockerfile')).toMatch(/^USER node\n$/m)
})

test('every service has a share of the CPUs, which no engine refuses, all but the database a limit of memory, and each long-running one a healthcheck', () => {
  for (const [name, {mem_limit, cpu_shares, restart, healthcheck}] of services) {
    expect({name, cpu_shares}).toEqual({name, cpu_shares: expect.any(Number)})
    if (name !== 'postgres') expect({name, mem_limit}).toEqual({name, mem_limit: expect.stringMatching(/^\d+[gm]$/)})
    expect(healthcheck !== undefined || restart === 'no', name).toBe(true)
  }
})

test('bitcoind and Fulcrum accept every address range that Docker gives networks, on the default network', () => {
  const ranges = ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16']
  const {command} = compose.services.bitcoind!
  expect(command.flatMap(option => option.match(/^-rpcallowip=(.*)/)?.[1] ?? [])).toEqual(ranges)
  for (const range of ranges) expect(compose.configs.fulcrum!.content).toContain(range)
  const {network} = bitcoinSettings(readSettings({}).chains.get('BTC'))
  expect(command).toContain(`-chain=${network}`)
})

test('the image has the Node version of package.json, each folder that the import rules name, and only files that .dockerignore lets through', () => {
  const {dependencies} = JSON.parse(read('package.json')) as {dependencies: Record<string, string>}
  expect(read('Dockerfile')).toContain(`FROM node:${dependencies.node}-slim AS packages\n`)
  const {forbidden} = createRequire(import.meta.url)('../.dependency-cruiser.cjs') as {forbidden: {name: string}[]}
  const folders = forbidden.flatMap(({name}) => name.match(/^(.*)-looks-down$/)?.[1] ?? [])
  expect(folders).toContain('api')
  const [first, ...rest] = read('.dockerignore')
    .split('\n')
    .filter(line => line && !line.startsWith('#'))
  expect(first).toBe('*')
  const passing = rest.filter(line => line.startsWith('!')).map(line => line.slice(1))
  expect(passing.filter(name => !existsSync(path.join(root, name)))).toEqual([])
  expect(passing).toEqual(expect.arrayContaining(folders))
  expect(passing.filter(name => /env|secret|\.sluice|node_modules|\.git/.test(name))).toEqual([])
})

test('setup writes each secret once, for its role, and restricts the folder', () =>
  inFolder(folder => {
    const said = runSetup(folder, '--no-seed')
    const secret = (name: string) => readFileSync(path.join(folder, name), 'utf8').trim()
    expect(readdirSync(folder)).toEqual(
      expect.arrayContaining(Object.values(compose.secrets).map(({file}) => path.basename(file))),
    )
    expect(statSync(folder).mode & 0o777).toBe(0o700)
    expect(secret('database_url')).toBe(`postgres://sluice:${secret('database_password')}@postgres:5432/sluice`)
    expect(secret('database_url_jobs')).toBe(roleUrl(secret('database_url'), 'sluice_jobs'))
    expect(secret('bitcoin.conf')).toMatch(/^rpcauth=sluice:[0-9a-f]{32}\$[0-9a-f]{64}$/)
    expect(secret('ethereum_jwt')).toMatch(/^[0-9a-f]{64}$/)
    for (const name of [
      'database_password',
      'custody_passphrase',
      'dashboard_secret',
      'bitcoin_rpc_password',
      'ethereum_jwt',
    ])
      expect(said).not.toContain(secret(name))

    writeFileSync(path.join(folder, 'eth_rpc_url'), 'wss://node.example\n')
    rmSync(path.join(folder, 'database_url_api'))
    const before = readdirSync(folder).flatMap(name => (name === 'home' ? [] : [[name, secret(name)]]))
    expect(runSetup(folder)).toContain('Made in ./secrets: database_url_api.')
    expect(before).toEqual(before.map(([name]) => [name, secret(name!)]))
    expect(secret('database_url_api')).toBe(roleUrl(secret('database_url'), 'sluice_api'))
  }))

test('setup makes a seed with a new passphrase, and no other: not where one of the two is there already, nor with --no-seed', () => {
  inFolder(folder => {
    const seed = path.join(folder, 'home', 'custody', 'seed.json')
    const phrase = /^phrase +((\w+ ){23}\w+)$/m
    const said = runSetup(folder, '--show-phrase')
    expect(said).toMatch(/^treasury +bc1|^treasury +tb1/m)
    expect(said).toMatch(phrase)
    const made = readFileSync(seed, 'utf8')
    expect(runSetup(folder)).not.toMatch(/^phrase|^treasury/m)
    expect(runSetup(folder, '--show-phrase')).toContain('The seed is there already. Its words: docker compose run')
    const file = path.join(folder, 'custody_passphrase')
    const passphrase = readFileSync(file)
    rmSync(file)
    expect(() => runSetup(folder)).toThrow('the seed is there, and its passphrase is not: copy the kept file')
    expect(existsSync(file), 'another one would be taken for the one to keep').toBe(false)
    expect(readFileSync(seed, 'utf8')).toBe(made)
    writeFileSync(file, passphrase)
    rmSync(seed)
    expect(runSetup(folder)).toContain('There is no seed. A lost one is restored: docs/operations/containers.md')
    expect(existsSync(seed), 'lost, it is not made anew: that would be another').toBe(false)
  })
  inFolder(folder => {
    expect(runSetup(folder, '--no-seed')).not.toContain('Made a seed')
    expect(existsSync(path.join(folder, 'home', 'custody'))).toBe(false)
  })
})

test('setup that is called wrongly says how, and makes nothing', () =>
  inFolder(folder => {
    for (const wrong of [['--seed'], ['more'], ['--no-seed', '--show-phrase']])
      expect(() => runSetup(folder, ...wrong), wrong.join(' ')).toThrow(/usage: docker compose run --rm setup/)
    expect(readdirSync(folder)).toEqual(['home'])
  }))

test('what is too small on a machine is said with what to do', () => {
  const gib = 2 ** 30
  expect(tooSmall({cpus: 2, memory: 3.8 * gib, disk: 40 * gib})).toEqual([])
  const [cpus, memory, disk] = tooSmall({cpus: 1, memory: 1.9 * gib, disk: 3 * gib})
  expect(cpus).toMatch(/^it has 1 CPU, and 2 are advised: .*give it another$/)
  expect(memory).toMatch(/^it has 1\.9 GiB of memory, and 4 are needed: .*leave chains out$/)
  expect(disk).toMatch(/^its disk has 3\.0 GiB left, .*use a larger disk$/)
})

test('a name in .env that is no setting is refused, and so is what belongs in a file of secrets; no value is shown', () => {
  const ofImage = {
    PATH: '/bin',
    HOSTNAME: 'a1b2',
    HOME: '/home/node',
    NODE_VERSION: '24',
    SLUICE_HOME: '/var/lib/sluice',
  }
  const right = {...ofImage, COMPOSE_FILE: 'a.yml', ETH_CHAIN_ID: '1', DATABASE_URL_FILE: '/run/secrets/database_url'}
  expect(
    wrongEnvironment({...right, CUSTODY_PASSPHRASE: '', DATABASE_REPLICA_URL: 'postgres://replica', ETH_TOKENS: '[]'}),
  ).toEqual([])
  const wrong = {
    ...right,
    ETH_CHAINID: '1',
    PUBLICURL: 'hush',
    FOO: 'hush',
    ETH_RPC_URL: 'https://hush.example',
  }
  expect(wrongEnvironment(wrong)).toEqual([
    '  ETH_CHAINID (did you mean ETH_CHAIN_ID?): is no setting; .env.example lists all of them',
    '  PUBLICURL (did you mean PUBLIC_URL?): is no setting; .env.example lists all of them',
    '  FOO: is no setting; .env.example lists all of them',
    '  ETH_RPC_URL: every container would see it; write it into secrets/eth_rpc_url, and remove it from .env',
  ])
})

test('each setting that a container would expose has a file in ./secrets', () => {
  const exposed = wrongEnvironment(Object.fromEntries(settingNames().map(name => [name, 'value'])))
  const files = exposed.map(line => /secrets\/(\w+),/.exec(line)?.[1])
  expect(files.length).toBeGreaterThan(10)
  expect(files.filter(name => !(name! in compose.secrets))).toEqual([])
})

const local = parse(read('docker-compose.local.yml')) as {
  services: Record<string, {env_file?: string[]; networks?: string[]}>
  secrets: Record<string, {file: string}>
}

test('on local chains every process has their settings, those that ask nodes reach them, and the files that name nodes name them', () => {
  const withChains = ours.filter(([, {networks}]) => networks.includes('default')).map(([name]) => name)
  for (const [name] of ours)
    expect([name, local.services[name]]).toEqual([
      name,
      {env_file: ['docker/local/settings.env'], ...(withChains.includes(name) && {networks: ['chains']})},
    ])
  for (const [name, {file}] of Object.entries(local.secrets)) {
    expect(Object.keys(compose.secrets)).toContain(name)
    expect(read(file)).toMatch(/^((ws|http|tcp):\/\/chains:\d+\n)?$/)
  }
})

test('the settings of the local chains in containers are those that the chains have', () => {
  const lines = read('docker/local/settings.env')
    .split('\n')
    .filter(line => line && !line.startsWith('#'))
  const settings = Object.fromEntries(
    lines.map(line =>
      line
        .split(/=(.*)/s)
        .slice(0, 2)
        .map(text => text.replace(/^'|'$/g, '')),
    ),
  )
  for (const code of ['ETH', 'POLYGON'] as const) {
    const {[`${code}_TOKENS_FILE`]: _, ...tokens} = tokenSettings(code, () => true)
    expect(settings).toMatchObject({[`${code}_CHAIN_ID`]: String(chainIds[code]), ...tokens})
  }
  const {chains} = readSettings(settings)
  expect([...chains.values()].map(({startHeight}) => startHeight)).toEqual(Array(5).fill(1))
  expect(bitcoinSettings(chains.get('BTC')).network).toBe('regtest')
})
