// docker-compose.yml on a real engine, with the local chains of docker-compose.local.yml, on stand-ins for the images
// that it names (base-images).
import {lookup} from 'node:dns/promises'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {z} from 'zod'
import {until} from '../support/until.ts'
import {type Receiver, startReceiver} from '../support/webhooks.ts'
import {Business} from './business.ts'
import {Engine} from './engine.ts'
import {imagesNamed} from './images.ts'
import {Installation, root} from './installation.ts'

const whyNot = Engine.whyNot()
const withEngine = test.skipIf(whyNot !== undefined)
const startTimeoutMs = 900_000
const processes = [
  'custody',
  'jobs',
  'api',
  'dashboard-auth',
  'dashboard-pages',
  ...['eth', 'polygon', 'btc', 'tron', 'sol'].map(name => `indexer-${name}`),
]

let engine: Engine
let sluice: Installation
let receiver: Receiver

beforeAll(async () => {
  if (whyNot) return console.log(`containers: not run: ${whyNot}`)
  engine = await Engine.start()
  await engine.standIns(...imagesNamed(['node']))
  await Promise.all([
    engine.standIns(...imagesNamed(['postgres'])),
    engine.build(root, 'production', 'sluice'),
    engine.build(root, 'local', 'sluice-local'),
  ])
  sluice = await Installation.make(engine, {
    files: ['docker-compose.yml', 'docker-compose.local.yml'],
    settings: {WEBHOOK_ALLOW_PRIVATE: '1', ADDRESS_POOL_SIZE: '5'},
  })
  receiver = await startReceiver('0.0.0.0')
}, startTimeoutMs)

afterAll(async () => {
  await receiver?.close()
  await sluice?.remove()
  await engine?.stop()
})

async function inContainer(service: string, program: string): Promise<string> {
  return (await sluice.compose('exec', '-T', service, 'node', '--input-type=module', '--eval', program)).trim()
}

withEngine(
  'setup makes the secrets and the seed, and up brings every container up, healthy',
  {timeout: startTimeoutMs},
  async () => {
    const said = await sluice.compose('run', '--rm', 'setup')
    expect(said).toMatch(/Made in .\/secrets: .*custody_passphrase/)
    expect(said).toContain('Made a seed')
    for (const name of sluice.secrets) if (/pass|secret|jwt/.test(name)) expect(said).not.toContain(sluice.secret(name))
    const again = await sluice.compose('run', '--rm', 'setup')
    expect(again).toContain('Everything is there already.')
    expect(again).not.toContain('seed.json')

    const began = performance.now()
    await sluice.compose('up', '--detach')
    await sluice.healthy()
    const size = (await engine.docker('image', 'inspect', 'sluice', '--format', '{{.Size}}')).stdout
    console.log(
      `containers: up and healthy after ${((performance.now() - began) / 1000).toFixed(0)} s; the image has ${Math.round(Number(size) / 1e6)} MB`,
    )
    expect((await sluice.containers()).map(({Service}) => Service)).toEqual(
      expect.arrayContaining([...processes, 'postgres', 'chains']),
    )
  },
)

withEngine('the image has no local chains, no tools to build or install, and a list of its packages', async () => {
  const tools = ['npm', 'npx', 'yarn', 'corepack', 'cc', 'gcc', 'make', 'python3', 'git', 'curl', 'node']
  const found = await sluice.tried(
    'exec',
    '-T',
    'api',
    'sh',
    '-c',
    `for tool in ${tools.join(' ')}; do command -v $tool; done`,
  )
  expect(found.stdout).toMatch(/^\/\S+\/node\n$/)
  const listed = await inContainer(
    'api',
    `import {existsSync, readFileSync} from 'node:fs'
     const {components} = JSON.parse(readFileSync('sbom.json'))
     console.log(JSON.stringify({devnet: existsSync('devnet'), anvil: existsSync('node_modules/@foundry-rs/anvil-linux-amd64'), names: components.map(({name}) => name), user: process.getuid()}))`,
  )
  const {devnet, anvil, names, user} = z
    .object({devnet: z.boolean(), anvil: z.boolean(), names: z.array(z.string()), user: z.int()})
    .parse(JSON.parse(listed))
  expect({devnet, anvil, user}).toEqual({devnet: false, anvil: false, user: 1000})
  expect(names).toEqual(expect.arrayContaining(['fastify', 'pg', 'viem']))
  expect((await sluice.tried('exec', '-T', 'api', 'sluice', 'devnet', 'mine')).stderr).toContain('has no local chains')
  expect((await sluice.tried('exec', '-T', 'api', 'touch', '/opt/sluice/x')).stderr).toContain('Read-only')
})

withEngine('secrets are files: no container, image or process shows one, and each sees only its own', async () => {
  const values = sluice.secrets
    .filter(name => name !== 'bitcoin.conf')
    .map(name => sluice.secret(name))
    .filter(value => value.length > 20)
  const containers = await sluice.containers()
  const inspected = await engine.docker('inspect', ...containers.map(({Name}) => Name), 'sluice')
  expect(inspected.code).toBe(0)
  for (const value of values) expect(inspected.stdout).not.toContain(value)
  for (const name of processes) {
    const shown = await inContainer(
      name,
      `import {readdirSync, readFileSync} from 'node:fs'
       const of = file => readdirSync('/proc').filter(pid => /^[0-9]+$/.test(pid)).map(pid => { try { return readFileSync('/proc/' + pid + '/' + file, 'utf8') } catch { return '' } })
       console.log(JSON.stringify([...of('environ'), ...of('cmdline')]))`,
    )
    for (const value of values) expect(shown, name).not.toContain(value)
  }
  const seen = async (name: string) =>
    JSON.parse(
      await inContainer(
        name,
        `import {readdirSync} from 'node:fs'; console.log(JSON.stringify(readdirSync('/run/secrets')))`,
      ),
    )
  expect(await seen('api')).toEqual(['database_url_api'])
  expect((await seen('custody')).sort()).toEqual(['custody_passphrase', 'database_url_custody'])
})

withEngine(
  'custody reaches the database alone and nobody reaches it; only what follows or sends to chains reaches these and the internet',
  async () => {
    const elsewhere = await lookup('registry.npmjs.org') // the build of the image needs it
    const targets = {
      postgres: 'postgres:5432',
      custody: 'custody:9464',
      chains: 'chains:8545',
      internet: `${elsewhere.address}:443`,
    }
    const reached = async (service: string) => {
      const answers = await inContainer(
        service,
        `import {connect} from 'node:net'
       const tried = ([name, at]) => new Promise(resolve => {
         const [host, port] = at.split(':')
         const socket = connect({host, port, timeout: 10000}) // a busy machine's engine is slow
         const end = is => { socket.destroy(); resolve(is ? name : []) }
         socket.once('connect', () => end(true)).once('error', () => end(false)).once('timeout', () => end(false))
       })
       console.log(JSON.stringify((await Promise.all(Object.entries(${JSON.stringify(targets)}).map(tried))).flat()))`,
      )
      return [service, JSON.parse(answers)] as const
    }
    const all = Object.fromEntries(await Promise.all(processes.map(reached)))
    const outgoing = ['postgres', 'chains', 'internet']
    expect(all).toEqual({
      ...Object.fromEntries(processes.map(name => [name, outgoing])),
      custody: ['postgres', 'custody'], // itself
      api: ['postgres'],
      'dashboard-auth': ['postgres'],
      'dashboard-pages': ['postgres'],
    })
  },
)

withEngine(
  'deposits, payouts and webhooks on two families are right, though every container is first killed and later stopped, within ten seconds, while money moves',
  {timeout: startTimeoutMs},
  async () => {
    const business = await Business.open(sluice, receiver, ['ETH', 'SOL'])
    await business.deposit()
    await business.payOut()

    // Killed by an operator, a container stays as it is; what crashes is started again.
    const nameOf = new Map((await sluice.containers()).map(({Service, Name}) => [Service, Name]))
    const all = ['chains', 'postgres', ...processes].map(service => nameOf.get(service)!)
    for (const command of ['kill', 'start']) expect(await engine.docker(command, ...all)).toMatchObject({code: 0})
    await business.deposit()
    const crashed = nameOf.get('jobs')!
    const inspect = async (field: string) =>
      (await engine.docker('inspect', crashed, '--format', `{{.${field}}}`)).stdout.trim()
    process.kill(Number(await inspect('State.Pid')), 'SIGKILL')
    await until(async () => (await inspect('RestartCount')) === '1', {
      timeoutMs: 60_000,
      intervalMs: 200,
      what: 'jobs to be started again',
    })
    await sluice.healthy()

    await business.payOut()
    const {items: payouts} = await business.shop.payouts.list({limit: 200}).page()
    expect(payouts.map(({status}) => status)).not.toEqual(Array(4).fill('completed'))
    await sluice.compose('stop', '--timeout', '10')
    const ends = (await sluice.containers()).map(({Service, ExitCode}) => [Service, ExitCode])
    expect(ends.filter(([, code]) => code !== 0)).toEqual([]) // 137: killed
    await sluice.compose('start')
    await sluice.healthy()
    expect(await sluice.cli('status')).toMatchObject({
      chains: expect.arrayContaining([expect.objectContaining({chain: 'ETH', halted: false})]),
    })
    await business.isRight(4)
  },
)

withEngine('the dashboard shows its sign-in page', async () => {
  const page = await fetch(sluice.dashboardUrl)
  expect(page.status).toBe(200)
  expect(await page.text()).toContain('Sign in')
})
