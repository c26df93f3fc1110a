// The service of the load test (load.ts) as npm start runs it, with merchants, their endpoints and keys, and their
// users, who have addresses that custody made.
import {execFile} from 'node:child_process'
import {chmodSync, mkdtempSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import {promisify} from 'node:util'
import pg from 'pg'
import {z} from 'zod'
import {newKey} from '../base/api-key.ts'
import {type ChainCode, chainCodes} from '../chains/registry.ts'
import {removeHome} from '../test/support/processes.ts'
import {ended, type Started, start} from '../test/support/service.ts'
import {until} from '../test/support/until.ts'
import {createEndpoint} from '../test/support/webhooks.ts'
import {Book} from './load-book.ts'
import {Asker, type Receiver, startReceiver} from './load-merchants.ts'
import {LocalSource, type Source, WrittenSource} from './load-sources.ts'

const merchantCount = 50
const usersEach = 6
const timeoutMs = 60_000

export interface User {
  /** The number of its merchant. */
  merchant: number
  addresses: Map<ChainCode, string>
}

export interface World {
  home: string
  url: string
  supervisor: number
  pool: pg.Pool
  keys: string[]
  users: User[]
  book: Book
  asker: Asker
  source: Source
  close(): Promise<void>
}

/** With `isLocal`, on five local chains; without, nothing follows a chain, and its blocks are written as rows. */
export async function openWorld(isLocal: boolean): Promise<World> {
  const home = mkdtempSync(path.join(tmpdir(), 'sluice-bench-'))
  chmodSync(home, 0o755)
  const environment = {
    WEBHOOK_ALLOW_PRIVATE: '1',
    ADDRESS_POOL_SIZE: String(merchantCount * usersEach + 100),
    ...(!isLocal && {SLUICE_DEVNET: 'off', CUSTODY_PASSPHRASE: 'correct horse'}),
  }
  const book = new Book()
  const receiver = await startReceiver(arrivals => book.note(arrivals))
  const asker = new Asker()
  let started: Started | undefined
  const close = async () => {
    receiver.child.kill()
    asker.child.kill()
    started?.child.kill('SIGTERM')
    if (started) await ended(started.child)
    await removeHome(home)
  }
  try {
    if (!isLocal) await initCustody(home, environment)
    const {child, output, service} = await start(home, environment)
    started = {child, output}
    const pool = new pg.Pool({connectionString: service.database_url, max: 3})
    const keys = await makeMerchants(pool, receiver)
    const users = await makeUsers(service.api_url, keys)
    const open = () =>
      isLocal ? LocalSource.open(home, chainCodes) : WrittenSource.open(service.database_url, chainCodes)
    const source = await open()
    asker.begin(service.api_url, keys)
    const closeAll = async () => {
      await source.close()
      await pool.end()
      await close()
    }
    const facts = {home, url: service.api_url, supervisor: child.pid!, pool, keys, users}
    return {...facts, book, asker, source, close: closeAll}
  } catch (error) {
    await close()
    throw error
  }
}

/** With local chains the first start makes the seed. */
async function initCustody(home: string, environment: Record<string, string>): Promise<void> {
  const program = fileURLToPath(new URL('../cli/main.ts', import.meta.url))
  const env = {...process.env, ...environment, SLUICE_HOME: home}
  await promisify(execFile)(process.execPath, [program, 'custody', 'init'], {env, cwd: tmpdir()})
}

/** Resolves to their keys. */
async function makeMerchants(pool: pg.Pool, {url}: Receiver): Promise<string[]> {
  const keys: string[] = []
  for (let n = 0; n < merchantCount; n++) {
    const {secret, hash} = newKey()
    const {rows} = await pool.query<{id: string}>('select app.create_merchant($1, $1, $2, 50) as id', [
      `shop${n}`,
      chainCodes,
    ])
    const [merchant] = rows
    await pool.query('select app.create_api_key($1, $2)', [merchant!.id, hash])
    await createEndpoint(pool, {id: merchant!.id, address: ''}, {url: `${url}/${n}`})
    keys.push(secret)
  }
  return keys
}

const Made = z.object({addresses: z.array(z.object({chain: z.enum(chainCodes), address: z.string()}))})

async function makeUsers(url: string, keys: string[]): Promise<User[]> {
  const all = keys.flatMap((key, merchant) => Array.from({length: usersEach}, (_, n) => ({key, merchant, n})))
  const users: User[] = []
  for (const {key, merchant, n} of all) {
    const addresses = await until(() => makeUser(url, key, `user-${n}`), {timeoutMs, what: 'an address of the pool'})
    users.push({merchant, addresses})
  }
  return users
}

/** Rejects while the pool is empty. */
async function makeUser(url: string, key: string, reference: string): Promise<Map<ChainCode, string>> {
  const response = await fetch(`${url}/v1/users`, {
    method: 'POST',
    headers: {authorization: `Bearer ${key}`, 'content-type': 'application/json'},
    body: JSON.stringify({external_ref: reference}),
  })
  if (!response.ok) throw new Error(`POST /v1/users: ${response.status} ${await response.text()}`)
  const {addresses} = Made.parse(await response.json())
  return new Map(addresses.map(({chain, address}) => [chain, address]))
}
