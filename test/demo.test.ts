// npm run demo, as a user runs it in a fresh clone.
import {type ChildProcess, execFile, spawn} from 'node:child_process'
import {mkdtempSync, readdirSync, readFileSync, rmSync} from 'node:fs'
import {createServer} from 'node:net'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {fileURLToPath} from 'node:url'
import {promisify} from 'node:util'
import {afterEach, beforeEach, expect, test} from 'vitest'
import {readService} from '../base/home.ts'
import {openChains} from '../demo/chains.ts'
import {freePort} from '../devnet/listen.ts'
import {newHome, processesOf, removeHome} from './support/processes.ts'
import {until} from './support/until.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const program = fileURLToPath(new URL('../demo/main.ts', import.meta.url))
let home: string

beforeEach(() => {
  home = newHome()
})

afterEach(() => removeHome(home))

/** Every line that a process has logged. */
function linesOfLogs(): {file: string; line: string}[] {
  const folder = path.join(home, 'logs')
  const files = readdirSync(folder)
  expect(files.length).toBe(12)
  return files.flatMap(file =>
    readFileSync(path.join(folder, file), 'utf8')
      .trimEnd()
      .split('\n')
      .map(line => ({file, line})),
  )
}

function isJson(line: string): boolean {
  try {
    return typeof JSON.parse(line) === 'object'
  } catch {
    return false
  }
}

function demo(port = 0, options = ['--once', '--json']) {
  const child = spawn(process.execPath, [program, ...options], {
    cwd: tmpdir(),
    env: {...process.env, SLUICE_HOME: home, PORT: String(port), DASHBOARD_PORT: '0', npm_lifecycle_event: undefined},
  })
  const said = {stdout: '', stderr: ''}
  child.stdout.on('data', chunk => (said.stdout += chunk))
  child.stderr.on('data', chunk => (said.stderr += chunk))
  const ended = new Promise<{code: number | null; json: unknown}>(resolve =>
    child.once('close', code => resolve({code, json: JSON.parse(said.stdout.trimEnd().split('\n').at(-1) ?? '')})),
  )
  return {child, said, ended}
}

test('the demo plays deposits, reorganisations, a payment request and payouts, prints them as JSON, and stays up for the ten minutes of docs/api.md', async () => {
  const {child, said, ended} = demo(0, ['--json'])
  const isPlayed = () => said.stdout.includes('\n') || child.exitCode !== null
  const mining = mineOnTron(isPlayed)
  await until(async () => isPlayed(), {timeoutMs: 400_000, what: 'the demo to be played'})
  await mining
  if (child.exitCode !== null) throw new Error(said.stderr)
  await triggers(await tenMinutes())
  child.kill('SIGINT')
  const {code, json} = await ended
  expect({code, stderr: code === 0 ? '' : said.stderr}).toEqual({code: 0, stderr: ''})
  expect(linesOfLogs().filter(({line}) => !isJson(line))).toEqual([])
  const txid = expect.stringMatching(/^0x[0-9a-f]{64}$/)
  const bitcoinTxid = expect.stringMatching(/^[0-9a-f]{64}$/)
  const solanaTxid = expect.stringMatching(/^[1-9A-HJ-NP-Za-km-z]{64,88}$/)
  const address = expect.stringMatching(/^0x[0-9a-fA-F]{40}$/)
  const paid = (payout: object) => ({...payout, status: 'completed', txid, address})
  expect(json).toEqual({
    ok: true,
    deposits: [
      {chain: 'ETH', token: 'ETH', amount: '1.5', status: 'final', txid},
      {chain: 'ETH', token: 'USDC', amount: '250', status: 'final', txid},
      {chain: 'ETH', token: 'USDT', amount: '120.5', status: 'final', txid},
      {chain: 'POLYGON', token: 'POL', amount: '40', status: 'final', txid},
      {chain: 'POLYGON', token: 'JPYC', amount: '30000', status: 'final', txid},
      {chain: 'BTC', token: 'BTC', amount: '0.25', status: 'final', txid: bitcoinTxid},
      {chain: 'TRON', token: 'TRX', amount: '75', status: 'final', txid: bitcoinTxid},
      {chain: 'TRON', token: 'USDT', amount: '80', status: 'final', txid: bitcoinTxid},
      {chain: 'SOL', token: 'SOL', amount: '3', status: 'final', txid: solanaTxid},
      {chain: 'SOL', token: 'USDC', amount: '60', status: 'final', txid: solanaTxid},
      {chain: 'ETH', token: 'ETH', amount: '0.7', status: 'reorged', txid},
      {chain: 'POLYGON', token: 'POL', amount: '12.5', status: 'final', txid},
    ],
    payment: {
      currency: 'BTC',
      amount: '0.05',
      statuses: ['awaiting', 'detected', 'paid'],
      amount_received: '0.05',
      txid: bitcoinTxid,
    },
    webhooks: expect.objectContaining({'deposit.confirmed': 12, 'payout.completed': 10}),
    balances: [
      {chain: 'BTC', token: 'BTC', gross: '0.3', fee: '0.0015', held_back: '0', net: '0.2985', depositCount: 2},
      {chain: 'ETH', token: 'ETH', gross: '1.5', fee: '0.0075', held_back: '0', net: '1.4925', depositCount: 1},
      {chain: 'ETH', token: 'USDC', gross: '250', fee: '1.25', held_back: '0', net: '248.75', depositCount: 1},
      {chain: 'ETH', token: 'USDT', gross: '120.5', fee: '0.6025', held_back: '0', net: '119.8975', depositCount: 1},
      {chain: 'POLYGON', token: 'JPYC', gross: '30000', fee: '150', held_back: '0', net: '29850', depositCount: 1},
      {chain: 'POLYGON', token: 'POL', gross: '52.5', fee: '0.2625', held_back: '0', net: '52.2375', depositCount: 2},
      {chain: 'SOL', token: 'SOL', gross: '3', fee: '0.015', held_back: '0', net: '2.985', depositCount: 1},
      {chain: 'SOL', token: 'USDC', gross: '60', fee: '0.3', held_back: '0', net: '59.7', depositCount: 1},
      {chain: 'TRON', token: 'TRX', gross: '75', fee: '0.375', held_back: '0', net: '74.625', depositCount: 1},
      {chain: 'TRON', token: 'USDT', gross: '80', fee: '0.4', held_back: '0', net: '79.6', depositCount: 1},
    ],
    payouts: [
      {
        ...paid({chain: 'BTC', token: 'BTC', gross: '0.3', fee: '0.0015', net: '0.2985', arrived: '0.2985'}),
        txid: bitcoinTxid,
        address: expect.stringMatching(/^bcrt1q[0-9a-z]{38}$/),
      },
      paid({chain: 'ETH', token: 'ETH', gross: '1.5', fee: '0.0075', net: '1.4925', arrived: '1.4925'}),
      paid({chain: 'ETH', token: 'USDC', gross: '250', fee: '1.25', net: '248.75', arrived: '248.75'}),
      paid({chain: 'ETH', token: 'USDT', gross: '120.5', fee: '0.6025', net: '119.8975', arrived: '119.8975'}),
      paid({chain: 'POLYGON', token: 'JPYC', gross: '30000', fee: '150', net: '29850', arrived: '29850'}),
      paid({chain: 'POLYGON', token: 'POL', gross: '52.5', fee: '0.2625', net: '52.2375', arrived: '52.2375'}),
      {
        ...paid({chain: 'SOL', token: 'SOL', gross: '3', fee: '0.015', net: '2.985', arrived: '2.985'}),
        txid: solanaTxid,
        address: expect.stringMatching(/^[1-9A-HJ-NP-Za-km-z]{32,44}$/),
      },
      {
        ...paid({chain: 'SOL', token: 'USDC', gross: '60', fee: '0.3', net: '59.7', arrived: '59.7'}),
        txid: solanaTxid,
        address: expect.stringMatching(/^[1-9A-HJ-NP-Za-km-z]{32,44}$/),
      },
      {
        ...paid({chain: 'TRON', token: 'TRX', gross: '75', fee: '0.375', net: '74.625', arrived: '74.625'}),
        txid: bitcoinTxid,
        address: expect.stringMatching(/^T[1-9A-HJ-NP-Za-km-z]{33}$/),
      },
      {
        ...paid({chain: 'TRON', token: 'USDT', gross: '80', fee: '0.4', net: '79.6', arrived: '79.6'}),
        txid: bitcoinTxid,
        address: expect.stringMatching(/^T[1-9A-HJ-NP-Za-km-z]{33}$/),
      },
      {
        ...paid({chain: 'POLYGON', token: 'POL', gross: '5', fee: '0.025', net: '4.975', arrived: '0'}),
        status: 'pending', // its address is not whitelisted
        txid: null,
      },
    ],
  })
  const {webhooks} = json as {webhooks: Record<string, number>}
  expect(webhooks['deposit.pending']! - webhooks['deposit.reorged']!).toBe(12) // thirteen seen, one dropped
  expect(said.stdout.trimEnd().split('\n')).toHaveLength(1)
  expect(processesOf(home)).toEqual([])
})

/** Mines until `isOver`: the finality of TRON takes the longest, and the demo waits for it several times. */
async function mineOnTron(isOver: () => boolean): Promise<void> {
  const mine = async () => (await openChains(home, ['TRON'])).TRON.mine()
  for (; !isOver(); await sleep(250)) if (readService(home)?.running) await mine().catch(() => {}) // a demo that ends takes its chains along
}

/**
 * Runs the commands of the first part of docs/api.md: those that stay, such as the shop, until they say that they are
 * there, the others until they say what the next one needs. Resolves to the API key.
 */
async function tenMinutes(): Promise<string> {
  const {api_url} = readService(home)!
  const text = readFileSync(path.join(root, 'docs/api.md'), 'utf8')
  const part = text.slice(text.indexOf('## Ten minutes'), text.indexOf('\n## Samples'))
  const shopPort = await freePort()
  const steps = [...part.matchAll(/^ {3}```sh\n([\s\S]*?)^ {3}```/gm)].map(([, commands]) =>
    commands!
      .replaceAll(/^ {3}/gm, '')
      .replace('http://127.0.0.1:8080', api_url)
      .replaceAll('.sluice/', `${home}/`)
      .replaceAll('127.0.0.1:3000', `127.0.0.1:${shopPort}`)
      .replace('PORT=3000', `PORT=${shopPort}`),
  )
  expect(steps).toHaveLength(8)
  const [makeKey, key, listen, shop, pay, balances, payOut, paid] = steps as [string, ...string[]]
  const {PORT: _, ...environment} = process.env
  const env = {...environment, SLUICE_HOME: home, SLUICE_URL: api_url} as NodeJS.ProcessEnv
  const run = promisify(execFile)
  const says = async (commands: string, wanted: RegExp) =>
    await until(
      async () => {
        const {stdout} = await run('bash', ['-euc', commands], {cwd: root, env})
        return wanted.test(stdout) && stdout
      },
      {timeoutMs: 120_000, intervalMs: 1000, what: `${commands} to say ${wanted}`},
    )
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-shop-'))
  const staying: ChildProcess[] = []
  /** Starts what stays; resolves once it is there. */
  const stays = async (commands: string, cwd: string, isThere: (said: () => string) => Promise<boolean>) => {
    const child = spawn('bash', ['-euc', `exec ${commands}`], {cwd, env, detached: true})
    staying.push(child)
    let said = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', chunk => {
        said += chunk
      })
    await until(() => isThere(() => said), {timeoutMs: 60_000, what: commands})
    return () => said
  }
  try {
    await run('bash', ['-euc', makeKey!], {cwd: root, env})
    env.SLUICE_API_KEY = (await says(`${key}\necho $SLUICE_API_KEY`, /sk_/)).trim()
    const heard = await stays(listen!, root, async said => said().includes('Ctrl-C'))
    const withSecret = shop!.replace('whsec_…', /whsec_\S+/.exec(heard())![0]).replace('samples/', `${root}/samples/`)
    await stays(`env ${withSecret}`, folder, async () => (await fetch(`http://127.0.0.1:${shopPort}/balance/x`)).ok)
    await says(pay!, /./)
    await until(async () => /deposit\.confirmed +evt_\w+ {2}204 /.test(heard()), {
      timeoutMs: 120_000,
      what: 'the event',
    })
    await says(balances!, /^\{"ETH USDC": "250"\}[\s\S]*"token":"USDC"/)
    await says(payOut!, /"status": ?"pending"/)
    await says(paid!, /"status":"completed"/)
    return env.SLUICE_API_KEY
  } finally {
    for (const child of staying) process.kill(-child.pid!, 'SIGKILL')
    rmSync(folder, {recursive: true})
  }
}

/** Makes events really happen; those that take minutes, or that the demo shows itself, are left out. */
async function triggers(key: string): Promise<void> {
  const env = {...process.env, SLUICE_HOME: home, SLUICE_API_KEY: key}
  for (const type of [
    'deposit.reorged',
    'payout.failed',
    'payment_request.partially_paid',
    'payment_request.cancelled',
    'payment_request.reopened',
  ]) {
    const {stdout} = await promisify(execFile)(process.execPath, [path.join(root, 'cli/main.ts'), 'trigger', type], {
      env,
    })
    expect(JSON.parse(stdout)).toMatchObject({type, id: expect.stringMatching(/^evt_/)})
  }
}

test('a demo that is interrupted at startup ends everything within 10 seconds', async () => {
  const {child, ended} = demo()
  await until(async () => processesOf(home).length > 3, {timeoutMs: 20_000, what: 'Postgres to run'})
  const before = Date.now()
  child.kill('SIGINT')
  expect(await ended).toEqual({code: 130, json: {ok: false, error: 'the demo was interrupted'}})
  expect(Date.now() - before).toBeLessThan(10_000)
  expect(processesOf(home)).toEqual([])
})

test('with its port in use, the demo fails and names the port', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise(resolve => server.once('listening', resolve))
  const {port} = server.address() as {port: number}
  const {code, json} = await demo(port).ended
  server.close()
  expect(code).not.toBe(0)
  expect(json).toEqual({ok: false, error: expect.stringContaining(`127.0.0.1:${port} (PORT)`)})
})
