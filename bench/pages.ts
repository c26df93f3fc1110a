// The API's list of deposits of one merchant: milliseconds of a page for each kind of filter, requested one at a time.
import {newKey} from '../base/api-key.ts'
import {roleUrl} from '../db/migrate/migrate.ts'
import {startApi} from './api.ts'
import type {Bench} from './database.ts'
import {median, type Report} from './result.ts'

const requests = 300
const warmUp = 100

/** In a year of deposits (year.ts). */
export async function benchPages({pool, ownerUrl}: Bench, merchant: string, report: Report): Promise<void> {
  const {secret: key, hash} = newKey()
  await pool.query('select app.create_api_key($1, $2)', [merchant, hash])
  const api = await startApi(roleUrl(ownerUrl, 'sluice_api'))
  try {
    for (const [name, path] of Object.entries(await pagesOf(api.url, key)))
      report({what: `deposits, ${name}`, value: await msOf(api.url + path, key), unit: 'ms', aim: '1.3'})
  } finally {
    api.child.kill('SIGKILL')
  }
}

async function msOf(url: string, key: string): Promise<number> {
  const samples: number[] = []
  for (let n = 0; n < warmUp + requests; n++) {
    const began = performance.now()
    const response = await fetch(url, {headers: {authorization: `Bearer ${key}`}})
    const body = await response.text()
    if (!response.ok) throw new Error(`${url}: ${response.status} ${body}`)
    if (n >= warmUp) samples.push(performance.now() - began)
  }
  return median(samples)
}

/** A page for each kind of filter, of the first merchant. */
async function pagesOf(apiUrl: string, key: string): Promise<Record<string, string>> {
  const response = await fetch(`${apiUrl}/v1/deposits?limit=200`, {headers: {authorization: `Bearer ${key}`}})
  const {deposits} = (await response.json()) as {deposits: Record<string, string>[]}
  const {user_id, txid, created_at} = deposits.at(-1)!
  const filters = {
    'newest page': '',
    'deep page': `cursor=${await deepCursor(apiUrl, key)}`,
    'rare filter': 'chain=POLYGON&status=reorged',
    'one token': 'token=USDC',
    'everything that is final': 'status=final',
    'one user': `user_id=${user_id}`,
    'one transaction': `txid=${txid}`,
    'up to a time': `created_to=${created_at}`,
    'up to a time, one chain': `created_to=${created_at}&chain=ETH`,
  }
  return Object.fromEntries(Object.entries(filters).map(([name, filter]) => [name, `/v1/deposits?limit=50&${filter}`]))
}

/** The cursor of the page after the first 4000 deposits. */
async function deepCursor(apiUrl: string, key: string): Promise<string> {
  let cursor = ''
  for (let n = 0; n < 20; n++) {
    const response = await fetch(`${apiUrl}/v1/deposits?limit=200${cursor && `&cursor=${cursor}`}`, {
      headers: {authorization: `Bearer ${key}`},
    })
    cursor = ((await response.json()) as {next_cursor: string}).next_cursor
  }
  return cursor
}
