// What open pages of the dashboard cost merchants: milliseconds of GET /v1/balances, one request at a time, beside 200
// open live pages, over the same without them. The pages belong to 20 merchants; each second something happens to one
// of these, so its ten pages load their live part again.
//
// node bench/dashboard.ts pages URL COOKIE… is the program that holds the pages open: ten for each cookie.
import {type ChildProcess, fork} from 'node:child_process'
import {hash, randomBytes} from 'node:crypto'
import {once} from 'node:events'
import {mkdtempSync, rmSync} from 'node:fs'
import {get} from 'node:http'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import type pg from 'pg'
import {z} from 'zod'
import {newKey} from '../base/api-key.ts'
import {type Role, roleUrl} from '../db/migrate/migrate.ts'
import {withDatabase} from './database.ts'
import {times} from './pay-page.ts'
import type {Report} from './result.ts'

const merchants = 20
const pagesOfMerchant = 10
const part = '/deposits/part'

export function benchDashboard(report: Report): Promise<void> {
  return withDatabase(async ({pool, ownerUrl}) => {
    const home = mkdtempSync(path.join(tmpdir(), 'sluice-bench-'))
    const started: ChildProcess[] = []
    const start = async (module: string, role: Role): Promise<string> => {
      const own = {DATABASE_URL: roleUrl(ownerUrl, role), SLUICE_HOME: home, PORT: '0', DASHBOARD_PORT: '0'}
      const env = {...process.env, ...own, DASHBOARD_SECRET: 'x'.repeat(32), RATE_LIMIT_PER_MINUTE: '10000000'}
      const child = fork(new URL(module, import.meta.url), {env})
      started.push(child)
      const [message] = await once(child, 'message')
      return z.object({url: z.string().default('')}).parse(message).url
    }
    try {
      const {key, invitations, ids} = await makeMerchants(pool)
      const api = await start('../api/main.ts', 'sluice_api')
      await start('../dashboard/pages/main.ts', 'sluice_dashboard')
      const dashboard = await start('../dashboard/auth/main.ts', 'sluice_auth')
      const cookies: string[] = []
      for (const invitation of invitations) cookies.push(await join(dashboard, invitation))
      await pool.query('update auth.session set "secondFactorAt" = now()')
      await times(api, key)
      const alone = await times(api, key)
      const open = fork(new URL(import.meta.url), ['pages', dashboard, ...cookies])
      started.push(open)
      await once(open, 'message')
      const happening = happen(pool, ids)
      const beside = await times(api, key)
      clearInterval(happening)
      const what = (name: string) =>
        `GET /v1/balances beside ${merchants * pagesOfMerchant} open pages of the dashboard, ${name}`
      report({what: what('p50'), value: beside.p50, floor: alone.p50, unit: 'ms'})
      report({what: what('p95'), value: beside.p95, floor: alone.p95, unit: 'ms', aim: 'at most 1.1'})
    } finally {
      for (const child of started) child.kill('SIGKILL')
      rmSync(home, {recursive: true})
    }
  })
}

interface Made {
  /** An API key of the first merchant. */
  key: string
  /** The secret of an invitation to each. */
  invitations: string[]
  ids: string[]
}

async function makeMerchants(pool: pg.Pool): Promise<Made> {
  const {secret: key, hash: keyHash} = newKey()
  const invitations = Array.from({length: merchants}, () => randomBytes(32).toString('base64url'))
  const ids: string[] = []
  for (const [n, invitation] of invitations.entries()) {
    const {rows} = await pool.query<{id: string}>(`select app.create_merchant('Bench', $1, '{ETH}', 50) as id`, [
      `bench${n}`,
    ])
    ids.push(rows[0]!.id)
    await pool.query('select dashboard.invite($1, $2)', [rows[0]!.id, hash('sha256', invitation, 'buffer')])
  }
  await pool.query('select app.create_api_key($1, $2)', [ids[0], keyHash])
  return {key, invitations, ids}
}

/** Accepts an invitation like a browser; resolves to the cookie of the session. */
async function join(url: string, invitation: string): Promise<string> {
  const email = `${randomBytes(6).toString('hex')}@example.test`
  const password = randomBytes(12).toString('base64url')
  const form = {name: 'Bench', email, password, repeated: password}
  const headers = {origin: url.replace('127.0.0.1', 'localhost')}
  const body = new URLSearchParams(form)
  const reply = await fetch(`${url}/invitation/${invitation}`, {method: 'POST', headers, body, redirect: 'manual'})
  const cookie = reply.headers.getSetCookie().find(text => text.includes('session_token'))
  if (!cookie) throw new Error(`no session: ${reply.status} ${await reply.text()}`)
  return cookie.split(';')[0]!
}

/** Each second a merchant gets an event. */
function happen(pool: pg.Pool, ids: string[]): NodeJS.Timeout {
  let n = 0
  return setInterval(() => {
    void pool.query(
      `insert into app.event (id, sequence, merchant_id, type, subject_id, version, created_at, payload)
       values (uuidv7(), nextval('app.event_sequence'), $1, 'deposit.pending', uuidv7(), 1, now(), '{}')`,
      [ids[n++ % merchants]],
    )
  }, 1000)
}

/**
 * As a browser: a stream, and after news the live part, within a second. Resolves once the first news, which every page
 * gets, is shown.
 */
function openPage(url: string, cookie: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = get(`${url}/live`, {headers: {cookie}}, response => {
      if (response.statusCode !== 200) return reject(new Error(`no stream: ${response.statusCode}`))
      response.on('close', () => reject(new Error('the stream ended before its first news')))
      response.on('data', async chunk => {
        if (!String(chunk).includes('event: news')) return
        await sleep(Math.random() * 1000)
        const reply = await fetch(url + part, {headers: {cookie}, redirect: 'manual'})
        if (!reply.ok) throw new Error(`no part: ${reply.status}`)
        await reply.text()
        resolve()
      })
    })
    request.on('error', reject)
  })
}

if (import.meta.main && process.argv[2] === 'pages') {
  const [url = '', ...cookies] = process.argv.slice(3)
  const pages = cookies.flatMap(cookie => Array.from({length: pagesOfMerchant}, () => openPage(url, cookie)))
  await Promise.all(pages)
  process.send?.('open')
}
