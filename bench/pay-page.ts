// What loops on payment pages cost merchants: milliseconds of GET /v1/balances, one request at a time, while 50
// connections ask for one payment page as fast as they get replies, over the same without them.
//
// node bench/pay-page.ts loops URL is the program that asks.
import {fork} from 'node:child_process'
import {once} from 'node:events'
import {setTimeout as sleep} from 'node:timers/promises'
import autocannon from 'autocannon'
import {z} from 'zod'
import {newKey} from '../base/api-key.ts'
import {roleUrl} from '../db/migrate/migrate.ts'
import {withDatabase} from './database.ts'
import type {Result} from './result.ts'

const loops = 50
const samples = 10_000
/** Until the allowance of the page is used up, as it is after the first second of any loop. */
const warmUpMs = 3000

export function benchPayPage(): Promise<Result[]> {
  return withDatabase(async ({pool, ownerUrl}) => {
    const {secret: key, hash: keyHash} = newKey()
    await pool.query(
      `with m as (select app.create_merchant('Bench', 'bench', '{ETH}', 50) as id) select app.create_api_key(id, $1) from m`,
      [keyHash],
    )
    await pool.query(
      `insert into custody.address (address, family, derivation_index) values ('0x${'a'.repeat(40)}', 'evm', 0)`,
    )
    await pool.query(`select chain.anchor(chain, 'bench', 1, '0x', now()) from app.chain`)
    const api = fork(new URL('../api/main.ts', import.meta.url), {
      env: {
        ...process.env,
        DATABASE_URL: roleUrl(ownerUrl, 'sluice_api'),
        PORT: '0',
        RATE_LIMIT_PER_MINUTE: '10000000',
      },
    })
    try {
      const [{url}] = (await once(api, 'message')) as [{url: string}]
      const headers = {authorization: `Bearer ${key}`, 'content-type': 'application/json'}
      const body = JSON.stringify({external_id: 'bench-1', amount: '1'})
      const made = await fetch(`${url}/v1/ETH/payment-request`, {method: 'POST', headers, body})
      const {data} = z.object({data: z.object({payment_url: z.string()})}).parse(await made.json())
      await times(url, key)
      const alone = await times(url, key)
      const asking = fork(new URL(import.meta.url), ['loops', data.payment_url])
      await sleep(warmUpMs)
      const beside = await times(url, key)
      asking.kill('SIGKILL')
      const what = (name: string) => `GET /v1/balances beside ${loops} loops on a payment page, ${name}`
      return [
        {what: what('p50'), value: beside.p50, floor: alone.p50, unit: 'ms'},
        {what: what('p95'), value: beside.p95, floor: alone.p95, unit: 'ms'},
      ]
    } finally {
      api.kill('SIGKILL')
    }
  })
}

/** Milliseconds of GET /v1/balances, one request at a time. */
export async function times(url: string, key: string): Promise<{p50: number; p95: number}> {
  const measured: number[] = []
  for (let n = 0; n < samples; n++) {
    const began = performance.now()
    const response = await fetch(`${url}/v1/balances`, {headers: {authorization: `Bearer ${key}`}})
    if (!response.ok) throw new Error(`balances: ${response.status} ${await response.text()}`)
    await response.text()
    measured.push(performance.now() - began)
  }
  measured.sort((a, b) => a - b)
  return {p50: measured[samples / 2]!, p95: measured[samples * 0.95]!}
}

if (process.argv[2] === 'loops')
  await autocannon({url: process.argv[3]!, connections: loops, duration: 600, setupClient() {}})
