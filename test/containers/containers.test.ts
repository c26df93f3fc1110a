// docker-compose.yml on a real engine, with the local chains of docker-compose.local.yml, on stand-ins for the images that it names (base-images).
import {lookup} from 'node:dns/promises'
import {readFileSync} from 'node:fs'
import path from 'node:path'
import {generateKeyPairSigner} from '@solana/kit'
import {Webhook} from 'standardwebhooks'
import {generatePrivateKey, privateKeyToAddress} from 'viem/accounts'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {z} from 'zod'
import {Shop} from '../../demo/shop.ts'
import {until} from '../support/until.ts'
import {type Receiver, startReceiver} from '../support/webhooks.ts'
import {Engine} from './engine.ts'
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
const moved = {ETH: {token: 'USDC', deposit: '25'}, SOL: {token: 'SOL', deposit: '1'}} as const
const moving = Object.keys(moved) as (keyof typeof moved)[]

let engine: Engine
let sluice: Installation
let receiver: Receiver
let shop: Shop

beforeAll(async () => {
  if (whyNot) return console.log(`containers: not run: ${whyNot}`)
  engine = await Engine.start()
  await engine.standIns(...imagesNamed())
  await engine.build(root, 'production', 'sluice')
  await engine.build(root, 'local', 'sluice-local')
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

/** What the image and the database are made from. */
function imagesNamed(): string[] {
  const node = /^FROM (node:\S+)/m.exec(readFileSync(path.join(root, 'Dockerfile'), 'utf8'))![1]!
  const postgres = /image: (postgres:\S+)/.exec(readFileSync(path.join(root, 'docker-compose.yml'), 'utf8'))![1]!
  return [node, postgres]
}

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
  const has = async (name: string) =>
    (await sluice.tried('exec', '-T', 'api', 'sh', '-c', `command -v ${name}`)).code === 0
  for (const tool of ['npm', 'npx', 'yarn', 'corepack', 'cc', 'gcc', 'make', 'python3', 'git', 'curl'])
    expect([tool, await has(tool)]).toEqual([tool, false])
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
         const socket = connect({host, port, timeout: 1500})
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
  'deposits, payouts and webhooks on two families are right, though every container is killed while money moves',
  {timeout: startTimeoutMs},
  async () => {
    await sluice.compose(
      'run',
      '--rm',
      'cli',
      'merchant',
      'create',
      '--name',
      'Acme',
      '--prefix',
      'acme',
      '--chains',
      'ETH,POLYGON,BTC,TRON,SOL',
    )
    const {secret} = z.object({secret: z.string()}).parse(await sluice.cli('key', 'create', '--merchant', 'acme'))
    shop = new Shop(sluice.apiUrl, secret)
    const receiving = await shop.receiveWebhooks(
      `http://${await sluice.gateway('default')}:${new URL(receiver.url).port}/`,
    )
    const {addresses} = await shop.user('alice')
    const addressOn = (chain: string) => addresses.find(each => each.chain === chain)!.address
    const send = (chain: string, token: string, to: string, amount: string) =>
      sluice.compose(
        'exec',
        '-T',
        'chains',
        'sluice',
        'devnet',
        'send',
        '--chain',
        chain,
        '--token',
        token,
        '--to',
        to,
        '--amount',
        amount,
      )
    const {treasuries} = z
      .object({treasuries: z.array(z.object({chain: z.string(), address: z.string()}))})
      .parse(await sluice.cli('treasury', 'show'))
    for (const chain of moving) {
      await send(chain, chain, treasuries.find(each => each.chain === chain)!.address, '5')
      const to = chain === 'ETH' ? privateKeyToAddress(generatePrivateKey()) : (await generateKeyPairSigner()).address
      await sluice.compose(
        'run',
        '--rm',
        'cli',
        'whitelist',
        'add',
        '--merchant',
        'acme',
        '--chain',
        chain,
        '--address',
        to,
      )
      await shop.payTo(chain, to)
    }
    const deposit = () =>
      Promise.all(moving.map(chain => send(chain, moved[chain].token, addressOn(chain), moved[chain].deposit)))
    const payable = async () =>
      (await shop.balances()).filter(
        ({chain, token, net}) => moved[chain as keyof typeof moved]?.token === token && Number(net) > 0,
      )
    const payOut = async () => {
      await until(async () => (await payable()).length === moving.length, {
        timeoutMs: 120_000,
        intervalMs: 500,
        what: 'balances on both chains',
      })
      for (const chain of moving) await shop.payOut({chain, token: moved[chain].token, sweep_first: true})
    }
    await deposit()
    await payOut()

    // Killed by an operator, a container stays as it is; what crashes is started again.
    const nameOf = new Map((await sluice.containers()).map(({Service, Name}) => [Service, Name]))
    for (const service of ['chains', 'postgres', ...processes]) {
      for (const command of ['kill', 'start'])
        expect(await engine.docker(command, nameOf.get(service)!)).toMatchObject({code: 0})
      if (service === 'custody' || service === 'indexer-eth')
        await until(() => deposit().then(() => true), {
          timeoutMs: 60_000,
          intervalMs: 500,
          what: 'deposits after a kill',
        })
    }
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

    await payOut()
    const what = 'all payouts to be completed'
    const payouts = await until(
      async () => {
        const all = await shop.payouts()
        return all.every(({status}) => status === 'completed' || status === 'failed') && all
      },
      {timeoutMs: 240_000, intervalMs: 1000, what},
    )
    expect(payouts.map(({status}) => status)).toEqual(Array(4).fill('completed'))
    expect(new Set(payouts.map(({txid}) => txid)).size).toBe(4)
    const deposits = await shop.deposits()
    for (const chain of moving) {
      const of = deposits.filter(each => each.chain === chain)
      expect(of.map(({status, amount}) => [status, amount])).toEqual(
        Array(of.length).fill(['final', moved[chain].deposit]),
      )
      const gross = payouts.filter(each => each.chain === chain).reduce((sum, each) => sum + Number(each.gross), 0)
      expect(gross, 'each deposit was paid out once').toBe(of.length * Number(moved[chain].deposit))
    }

    const wanted = {'deposit.confirmed': deposits.length, 'payout.completed': 4}
    const counted = () => {
      const events = new Map(receiver.received.map(({event}) => [event.id, event.type]))
      return Object.fromEntries(
        Object.keys(wanted).map(type => [type, [...events.values()].filter(each => each === type).length]),
      )
    }
    await until(async () => JSON.stringify(counted()) === JSON.stringify(wanted), {
      timeoutMs: 60_000,
      what: 'every webhook',
    })
    for (const {headers, body} of receiver.received)
      new Webhook(receiving).verify(body, headers as Record<string, string>)
  },
)

withEngine('the dashboard shows its sign-in page', async () => {
  const page = await fetch(sluice.dashboardUrl)
  expect(page.status).toBe(200)
  expect(await page.text()).toContain('Sign in')
})

withEngine(
  'every container ends by itself within ten seconds, and goes on where it was',
  {timeout: startTimeoutMs},
  async () => {
    await sluice.compose('stop', '--timeout', '10')
    const ends = (await sluice.containers()).map(({Service, ExitCode}) => [Service, ExitCode])
    expect(ends.filter(([, code]) => code !== 0)).toEqual([]) // 137: killed
    await sluice.compose('start')
    await sluice.healthy()
    expect(await sluice.cli('status')).toMatchObject({
      chains: expect.arrayContaining([expect.objectContaining({chain: 'ETH', halted: false})]),
    })
    expect((await shop.payouts()).every(({status}) => status === 'completed')).toBe(true)
  },
)
