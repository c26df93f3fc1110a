// What payment pages cost merchants: milliseconds of GET /v1/balances, one request at a time, while 50 connections ask
// for one page as fast as they get replies, and while 2,000 pages are open, of which 20 a second have news; each over
// the same without them, right before, in the round of three with the median ratio. And what a page weighs, and when a
// slow phone paints it first (Chromium with a slow 4G network and a quarter of the processor), over a page that says
// only that there is no payment.
//
// node bench/pay-page.ts loops URL, and node bench/pay-page.ts pages, which gets its URLs as a message, are the
// programs that ask.
import {type ChildProcess, fork} from 'node:child_process'
import {once} from 'node:events'
import {get} from 'node:http'
import autocannon from 'autocannon'
import type pg from 'pg'
import type {Browser} from 'playwright-core'
import {z} from 'zod'
import {newKey} from '../base/api-key.ts'
import {roleUrl} from '../db/migrate/migrate.ts'
import {hasChromium, launchChromium} from '../test/support/chromium.ts'
import {withDatabase} from './database.ts'
import {median, quantile, type Report} from './result.ts'

const loops = 50
const pages = 2000
const newsPerSecond = 20
const samples = 2000
const rounds = 3

export function benchPayPage(report: Report): Promise<void> {
  return withDatabase(async ({pool, ownerUrl}) => {
    const {secret: key, hash: keyHash} = newKey()
    await pool.query(
      `with m as (select app.create_merchant('Bench', 'bench', '{ETH}', 50) as id) select app.create_api_key(id, $1) from m`,
      [keyHash],
    )
    await pool.query(
      `insert into custody.address (address, family, derivation_index) select '0xb' || lpad(to_hex(n), 39, '0'), 'evm', n from generate_series(1, $1) n`,
      [pages],
    )
    await pool.query(`select chain.anchor(chain, 'bench', 1, '0x', now()) from app.chain`)
    const started: ChildProcess[] = []
    const start = (module: string, args: string[] = [], env: Record<string, string> = {}) => {
      const child = fork(new URL(module, import.meta.url), args, {env: {...process.env, ...env}})
      started.push(child)
      return child
    }
    try {
      const api = start('../api/main.ts', [], {
        DATABASE_URL: roleUrl(ownerUrl, 'sluice_api'),
        PORT: '0',
        RATE_LIMIT_PER_MINUTE: '10000000',
        LOG_LEVEL: 'warn',
      })
      const [{url}] = (await once(api, 'message')) as [{url: string}]
      const urls = await makeRequests(url, key)
      await firstPaints(report, urls[0]!, `${url}/pay/${'x'.repeat(32)}`)
      await times(url, key) // warm
      const beside = async (open: () => Promise<ChildProcess>) => {
        const all: Beside[] = []
        for (let round = 0; round < rounds; round++) {
          const alone = await times(url, key)
          const others = await open()
          all.push({alone, beside: await times(url, key)})
          others.kill('SIGKILL')
          await once(others, 'exit')
        }
        return all
      }
      const besidePages = await beside(async () => {
        const open = start(import.meta.filename, ['pages'])
        open.send(urls)
        await once(open, 'message')
        const happening = setInterval(() => void happen(pool), 1000)
        open.once('exit', () => clearInterval(happening))
        return open
      })
      reportMedians(report, `beside ${pages.toLocaleString('en')} open payment pages`, besidePages, 'at most 1.1')
      const besideLoops = await beside(async () => {
        const loop = start(import.meta.filename, ['loops', urls[0]!])
        await untilUsedUp(urls[0]!)
        return loop
      })
      reportMedians(report, `beside ${loops} loops on a payment page`, besideLoops)
    } finally {
      for (const child of started) child.kill('SIGKILL')
    }
  })
}

interface Beside {
  alone: Times
  beside: Times
}

/** Of the rounds those with the median ratio: a machine has moments of its own. */
function reportMedians(report: Report, what: string, all: Beside[], aim?: string): void {
  for (const name of ['p50', 'p95'] as const) {
    const sorted = all.toSorted((a, b) => a.beside[name] / a.alone[name] - b.beside[name] / b.alone[name])
    const {alone, beside} = sorted[Math.floor(sorted.length / 2)]!
    report({
      what: `GET /v1/balances ${what}, ${name}`,
      value: beside[name],
      floor: alone[name],
      unit: 'ms',
      aim: name === 'p95' ? aim : undefined,
    })
  }
}

/** The median of five of each. */
async function firstPaints(report: Report, page: string, empty: string): Promise<void> {
  if (!hasChromium) return
  const bytes = async (url: string) => (await (await fetch(url)).text()).length
  const browser = await launchChromium()
  try {
    report({
      what: 'a payment page, without its QR code',
      value: await bytes(page),
      floor: await bytes(empty),
      unit: 'bytes',
      aim: '60,000 bytes',
    })
    report({
      what: 'first paint of a payment page on a slow phone',
      value: await firstPaint(browser, page),
      floor: await firstPaint(browser, empty),
      unit: 'ms',
      aim: '1,000 ms',
    })
  } finally {
    await browser.close()
  }
}

async function firstPaint(browser: Browser, url: string): Promise<number> {
  const all: number[] = []
  for (let round = 0; round < 5; round++) {
    const page = await browser.newPage({viewport: {width: 390, height: 664}})
    const session = await page.context().newCDPSession(page)
    const bitsPerSecond = 1_600_000
    await session.send('Network.emulateNetworkConditions', {
      ...{offline: false, latency: 150, downloadThroughput: bitsPerSecond / 8, uploadThroughput: bitsPerSecond / 16},
    })
    await session.send('Emulation.setCPUThrottlingRate', {rate: 4})
    await page.goto(url)
    all.push((await page.evaluate(paintedAt)) as number)
    await page.close()
  }
  return median(all)
}
const paintedAt = `new Promise(resolve => new PerformanceObserver(list => {
  for (const {name, startTime} of list.getEntries()) if (name === 'first-contentful-paint') resolve(startTime)
}).observe({type: 'paint', buffered: true}))`

/** The URLs of the pages of as many payment requests. */
async function makeRequests(url: string, key: string): Promise<string[]> {
  const urls: string[] = []
  const headers = {authorization: `Bearer ${key}`, 'content-type': 'application/json'}
  for (let n = 0; n < pages; n++) {
    const body = JSON.stringify({external_id: `bench-${n}`, amount: '1'})
    const made = await fetch(`${url}/v1/ETH/payment-request`, {method: 'POST', headers, body})
    const {data} = z.object({data: z.object({payment_url: z.string()})}).parse(await made.json())
    urls.push(data.payment_url)
  }
  return urls
}

/** Some pages have something new to show. */
async function happen(pool: pg.Pool): Promise<void> {
  await pool.query(
    `update app.payment_request set decide_at = clock_timestamp() + interval '1 day'
     where id in (select id from app.payment_request order by random() limit $1)`,
    [newsPerSecond],
  )
}

interface Times {
  p50: number
  p95: number
}

/** Milliseconds of GET /v1/balances, one request at a time. */
export async function times(url: string, key: string): Promise<Times> {
  const measured: number[] = []
  for (let n = 0; n < samples; n++) {
    const began = performance.now()
    const response = await fetch(`${url}/v1/balances`, {headers: {authorization: `Bearer ${key}`}})
    if (!response.ok) throw new Error(`balances: ${response.status} ${await response.text()}`)
    await response.text()
    measured.push(performance.now() - began)
  }
  return {p50: quantile(measured, 0.5), p95: quantile(measured, 0.95)}
}

/** Until the allowance of a page is used up: a request beyond it waits for a second. */
async function untilUsedUp(url: string): Promise<void> {
  for (let tookMs = 0; tookMs < 500; ) {
    const began = performance.now()
    await (await fetch(url)).text()
    tookMs = performance.now() - began
  }
}

/** As a browser: a stream that says what is new. Resolves once it is open; every page gets some first news. */
async function openPage(url: string): Promise<{news: Promise<void>}> {
  const [reply] = await once(get(`${url}/events`), 'response')
  const news = new Promise<void>(resolve =>
    reply.on('data', (chunk: Buffer) => {
      if (String(chunk).includes('event: news')) resolve()
    }),
  )
  return {news}
}

if (import.meta.main && process.argv[2] === 'loops')
  await autocannon({url: process.argv[3]!, connections: loops, duration: 600, setupClient() {}})
if (import.meta.main && process.argv[2] === 'pages') {
  const [urls] = (await once(process, 'message')) as [string[]]
  const open: {news: Promise<void>}[] = []
  for (const url of urls) open.push(await openPage(url))
  await Promise.all(open.map(({news}) => news))
  process.send!('open')
}
