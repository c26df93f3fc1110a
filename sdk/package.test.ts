// The package as merchants install it: small, and usable by its built files alone, wherever JavaScript runs.
import {execFile, spawn} from 'node:child_process'
import {cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {promisify} from 'node:util'
import {rolldown} from 'rolldown'
import {Webhook} from 'standardwebhooks'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {z} from 'zod'
import {freePort} from '../devnet/listen.ts'
import {type Api, fillPool, makeKey, startApi} from '../test/support/api.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {makeMerchant} from '../test/support/people.ts'
import {until} from '../test/support/until.ts'

const run = promisify(execFile)
const root = path.resolve(import.meta.dirname, '..')
/** Where test/install-runtimes put the runtimes. */
const runtimes = process.env.SDK_RUNTIMES && path.resolve(process.env.SDK_RUNTIMES, 'node_modules')
const mostBytes = 30_000
const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
const Packed = z.tuple([z.object({filename: z.string(), size: z.int(), files: z.array(z.object({path: z.string()}))})])

/** A shop in JavaScript that imports nothing but the package. */
const shop = `import {Amount, Sluice, verify} from '@sluice/client'
export async function shop({apiKey, baseUrl, name, webhook}) {
  const sluice = new Sluice({apiKey, baseUrl})
  const user = await sluice.users.create({external_ref: name})
  const found = []
  for await (const {id} of sluice.users.list({external_ref: name, limit: 1})) found.push(id)
  const lost = await sluice.payouts.get('pay_lost').catch(error => error)
  let refusal
  try { verify('{}', {}, '${secret}') } catch (error) { refusal = error.reason }
  return JSON.stringify({
    isFound: found.join() === user.id, lost: [lost.name, lost.code], refusal, sum: Amount.add('0.1', '0.2'),
    verified: verify(webhook.body, new Headers(webhook.headers), '${secret}').type,
  })
}
`
const expected = {
  isFound: true,
  lost: ['NotFoundError', 'payout_not_found'],
  refusal: 'missing_headers',
  sum: '0.3',
  verified: 'deposit.confirmed',
}

let db: TestDatabase
let api: Api
let apiKey: string
let folder: string
let packed: z.infer<typeof Packed>[0]

beforeAll(async () => {
  db = await testDatabase()
  api = await startApi(db)
  await fillPool(db, 20)
  apiKey = (await makeKey(db, await makeMerchant(db))).secret
  folder = mkdtempSync(path.join(tmpdir(), 'sluice-client-'))
  const {stdout} = await run('npm', ['pack', '--json', '--silent', '--pack-destination', folder], {
    cwd: import.meta.dirname,
    env: {...process.env, PATH: `${path.join(root, 'node_modules/.bin')}:${process.env.PATH}`},
  })
  rmSync(path.join(import.meta.dirname, 'dist'), {recursive: true})
  packed = Packed.parse(JSON.parse(stdout.slice(stdout.indexOf('['))))[0]
  const modules = path.join(folder, 'node_modules')
  const installed = path.join(modules, '@sluice/client')
  mkdirSync(installed, {recursive: true})
  await run('tar', ['-xzf', path.join(folder, packed.filename), '-C', installed, '--strip-components=1'])
  for (const name of ['standardwebhooks', '@stablelib/base64', 'fast-sha256'])
    cpSync(path.join(root, 'node_modules', name), path.join(modules, name), {recursive: true})
  writeFileSync(path.join(folder, 'package.json'), JSON.stringify({dependencies: {'@sluice/client': packed.filename}}))
  writeFileSync(path.join(folder, 'shop.mjs'), shop)
})
afterAll(async () => {
  rmSync(folder, {recursive: true, force: true})
  await api.close()
  await db.drop()
})

/** What the shop is given. */
function given(name: string): string {
  const body = JSON.stringify({type: 'deposit.confirmed'})
  const now = new Date()
  const headers = {
    'webhook-id': 'evt_1',
    'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
    'webhook-signature': new Webhook(secret).sign('evt_1', now, body),
  }
  return JSON.stringify({apiKey, baseUrl: api.url, name, webhook: {body, headers}})
}

test('the package has fewer than 30 kB, and no file but its own', () => {
  expect(packed.size).toBeLessThan(mostBytes)
  const own = /^(package\.json|dist\/(command\/)?[\w.-]+\.(js|d\.ts)|README\.md|LICENSE)$/
  expect(packed.files.map(file => file.path).filter(file => !own.test(file))).toEqual([])
  expect(readFileSync(path.join(folder, 'node_modules/@sluice/client/LICENSE'), 'utf8')).toMatch(/^MIT License\n/)
})

const here = {name: 'node24', program: process.execPath, options: []}
const others = [
  {name: 'node20', program: 'node20/bin/node', options: []},
  {name: 'node22', program: 'node22/bin/node', options: []},
  {name: 'bun', program: 'bun/bin/bun', options: []},
  {name: 'deno', program: 'deno/deno', options: ['run', '-A']},
].map(({program, ...rest}) => ({...rest, program: path.resolve(runtimes || '.', program)}))

for (const {name, program, options} of [here, ...others])
  test.skipIf(!runtimes && name !== here.name)(`it works on ${name}, and so does its command`, async () => {
    const main = path.join(folder, `${name}.mjs`)
    writeFileSync(main, `import {shop} from './shop.mjs'\nconsole.log(await shop(${given(name)}))`)
    const env = {...process.env, NODE_OPTIONS: ''}
    const {stdout} = await run(program, [...options, main], {cwd: folder, env})
    expect(JSON.parse(stdout)).toEqual(expected)
    const command = path.join(folder, 'node_modules/@sluice/client/dist/command/main.js')
    const asked = [...options, command, 'listen', '--forward-to', `${api.url}/livez`, '--replay', 'evt_lost']
    const key = {SLUICE_API_KEY: apiKey, SLUICE_URL: api.url}
    await expect(run(program, asked, {cwd: folder, env: {...env, ...key}})).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringContaining('404 event_not_found'),
    })
  })

test.skipIf(!runtimes)('it works on workerd, bundled as for Cloudflare Workers', async () => {
  const entry = path.join(folder, 'worker.mjs')
  writeFileSync(
    entry,
    `import {shop} from './shop.mjs'\nexport default {fetch: async () => new Response(await shop(${given('workerd')}))}`,
  )
  const bundle = await rolldown({input: entry, platform: 'browser', cwd: folder})
  await bundle.write({file: path.join(folder, 'bundle.mjs'), format: 'esm'})
  writeFileSync(
    path.join(folder, 'config.capnp'),
    `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = (modules = [(name = "main", esModule = embed "bundle.mjs")], compatibilityDate = "2026-01-01")),
    (name = "internet", network = (allow = ["private"])),
  ],
  sockets = [(name = "http", address = "*", http = (), service = "main")],
);`,
  )
  const port = await freePort()
  const socket = `--socket-addr=http=127.0.0.1:${port}`
  const workerd = spawn(path.resolve(runtimes!, 'workerd/bin/workerd'), ['serve', socket, 'config.capnp'], {
    cwd: folder,
  })
  let said = ''
  workerd.stderr.on('data', chunk => {
    said += chunk
  })
  try {
    const answer = await until(async () => await (await fetch(`http://127.0.0.1:${port}`)).text(), {
      timeoutMs: 20_000,
      what: `workerd answers; it said ${said}`,
    })
    expect([answer, said]).toEqual([expect.stringContaining('{'), ''])
    expect(JSON.parse(answer)).toEqual(expected)
  } finally {
    workerd.kill('SIGKILL')
  }
})
