// The real service, in a home of its own with its own PostgreSQL, which follows one chain by the node under check; a
// merchant of it, and what they do.
import {execFile} from 'node:child_process'
import {randomBytes, randomUUID} from 'node:crypto'
import {writeFileSync} from 'node:fs'
import path from 'node:path'
import {promisify} from 'node:util'
import pg from 'pg'
import {formatUnits, parseUnits} from 'viem'
import {z} from 'zod'
import {readProcesses} from '../../../base/home.ts'
import {familyOf} from '../../../chains/families.ts'
import {type ChainCode, chains} from '../../../chains/registry.ts'
import type {BlockRef} from '../../../indexers/cursor.ts'
import {kill, newHome, processesOf, removeHome} from '../../support/processes.ts'
import {sluiceWith, start, withoutDashboard} from '../../support/service.ts'
import {until} from '../../support/until.ts'
import type {Asset, NodeUnderTest, Output, Signed} from './node.ts'

const merchant = 'check'
/** A node that mines at least so often needs no transaction to mine. */
const quietMs = 20_000
const stirMs = 1000
const sendAgainMs = 10_000

const User = z.object({addresses: z.array(z.object({address: z.string()}))})
const Deposit = z.object({
  txid: z.string(),
  address: z.string(),
  token: z.string(),
  amount: z.string(),
  status: z.string(),
})
export type Deposit = z.infer<typeof Deposit>
const Deposits = z.object({deposits: z.array(Deposit)})
const Event = z.looseObject({type: z.string(), txid: z.string().nullish(), payout_id: z.string().optional()})
const Events = z.object({events: z.array(Event)})
const Payout = z.object({
  id: z.string(),
  status: z.string(),
  gross: z.string(),
  net: z.string(),
  txid: z.string().nullable(),
  /** Absent in the response to the request. */
  error: z.unknown().optional(),
})
export type Payout = z.infer<typeof Payout>
const Parts = z.object({deposits: z.array(z.object({amount: z.string()})), has_more: z.literal(false)})

const Shown = z.object({
  status: z.string(),
  waiting: z.object({reason: z.string(), detail: z.string().nullable()}).nullable(),
})
const Audit = z.object({
  complete: z.boolean(),
  checks: z.array(z.object({name: z.string(), right: z.boolean(), found: z.unknown()})),
})

interface Options {
  /** Of each wait. */
  limitMs: number
  environment: NodeJS.ProcessEnv
}

export class World {
  readonly code: ChainCode
  readonly node: NodeUnderTest
  readonly limitMs: number
  readonly #home: string
  readonly #settings: NodeJS.ProcessEnv
  readonly #apiUrl: string
  readonly #db: pg.Pool
  readonly #output: () => string
  #key = ''
  #seen: BlockRef = {height: -1, hash: ''}
  /** When the node had a new head last, and whether it was without our help. */
  #movedAt = Date.now()
  #stirredAt = 0

  private constructor(
    node: NodeUnderTest,
    {limitMs}: Options,
    at: {
      code: ChainCode
      home: string
      settings: NodeJS.ProcessEnv
      apiUrl: string
      db: pg.Pool
      output(): string
    },
  ) {
    this.node = node
    this.limitMs = limitMs
    this.code = at.code
    this.#home = at.home
    this.#settings = at.settings
    this.#apiUrl = at.apiUrl
    this.#db = at.db
    this.#output = at.output
  }

  static async open(code: ChainCode, node: NodeUnderTest, options: Options): Promise<World> {
    const home = newHome()
    process.once('exit', () => killAll(home)) // an interrupted run leaves nothing running
    try {
      const settings = {...options.environment, ...withoutOthers(code), ...node.settings, ...ownSettings()}
      await makeSeed(home, settings)
      const {service, output} = await start(home, settings, withoutDashboard)
      const db = new pg.Pool({connectionString: service.database_url, max: 4})
      db.on('error', () => {})
      const world = new World(node, options, {code, home, settings, apiUrl: service.api_url, db, output})
      await world.#begin()
      return world
    } catch (error) {
      await removeHome(home)
      throw error
    }
  }

  async #begin(): Promise<void> {
    await this.sluice(
      'merchant',
      'create',
      '--name',
      'Check',
      '--prefix',
      merchant,
      '--chains',
      this.code,
      '--fee-bps',
      '50',
    )
    this.#key = z.object({secret: z.string()}).parse(await this.sluice('key', 'create', '--merchant', merchant)).secret
  }

  /** Ends everything. Resolves to the folder with its data and logs, if that is to be kept. */
  async close({keep}: {keep: boolean}): Promise<string | undefined> {
    await this.#db.end()
    return await end(this.#home, this.#output(), keep)
  }

  // --- the operator ---

  sluice = (...words: string[]): Promise<unknown> => sluiceWith(this.#settings, this.#home, ...words)

  async query<R extends pg.QueryResultRow>(sql: string, values?: unknown[]): Promise<R[]> {
    return (await this.#db.query<R>(sql, values)).rows
  }

  /** What sluice audit finds, in words; empty if everything is right. */
  async audit(): Promise<string[]> {
    try {
      await this.sluice('audit')
      return []
    } catch (error) {
      const [, json] = /^sluice audit: (\{.*\})$/m.exec((error as Error).message) ?? []
      if (json === undefined) throw error
      const {checks, complete} = Audit.parse(JSON.parse(json))
      const wrong = checks.filter(({right}) => !right)
      return [
        ...wrong.map(({name, found}) => `${name}: ${JSON.stringify(found)}`),
        ...(complete ? [] : ['something could not be compared']),
      ]
    }
  }

  get db(): pg.Pool {
    return this.#db
  }

  async treasury(): Promise<string> {
    const [row] = await this.query<{address: string}>('select app.treasury_address($1) as address', [this.code])
    return row!.address
  }

  /** Kills the process that reads the chain, if it runs now. The supervisor starts it again. */
  killIndexer(): boolean {
    const name = `indexer-${this.code.toLowerCase()}`
    const runs = ['starting', 'running']
    const pid = readProcesses(this.#home).find(process => process.name === name && runs.includes(process.state))?.pid
    if (pid) kill(pid, 'SIGKILL')
    return pid !== undefined
  }

  // --- the merchant ---

  /** The address of a new user. */
  async newUser(): Promise<string> {
    const user = await this.#call(User, 'POST', '/v1/users', {external_ref: randomUUID(), chains: [this.code]})
    return user.addresses[0]!.address
  }

  async depositsOf(signed: Signed): Promise<Deposit[]> {
    return (await this.#call(Deposits, 'GET', `/v1/deposits?limit=100&txid=${signed.txid}`)).deposits
  }

  /** The types of the events about a transaction or a payout, oldest first. */
  async eventsOf(field: 'txid' | 'payout_id', value: string): Promise<string[]> {
    const {events} = await this.#call(Events, 'GET', '/v1/events?limit=100')
    return events
      .filter(event => event[field] === value)
      .map(({type}) => type)
      .reverse()
  }

  /** Makes an address of nobody the merchant's payout address. */
  async payOutTo(address: string): Promise<void> {
    await this.sluice('whitelist', 'add', '--merchant', merchant, '--chain', this.code, '--address', address)
    await this.#call(z.unknown(), 'PUT', '/v1/payout-address', {chain: this.code, address})
  }

  async payOut({token}: Asset): Promise<Payout> {
    return await this.#call(Payout, 'POST', '/v1/payouts', {chain: this.code, token, sweep_first: true})
  }

  async payout(id: string): Promise<Payout> {
    return await this.#call(Payout, 'GET', `/v1/payouts/${id}`)
  }

  /** The sum of what a payout is made of. */
  async sumOf(id: string, {decimals}: Asset): Promise<bigint> {
    const {deposits} = await this.#call(Parts, 'GET', `/v1/payouts/${id}/deposits?limit=200`)
    return deposits.reduce((sum, {amount}) => sum + parseUnits(amount, decimals), 0n)
  }

  /** Where a payout is, and what it waits for, in words. */
  async standingOf(id: string): Promise<string> {
    const {status, waiting} = Shown.parse(await this.sluice('payout', 'show', id))
    return waiting ? `${status}, and waits: ${waiting.reason}${waiting.detail ? `, ${waiting.detail}` : ''}` : status
  }

  async hasOpenPayouts(): Promise<boolean> {
    const open = await this.query(`select from app.payout where status not in ('completed', 'failed')`)
    return open.length > 0
  }

  async #call<T>(schema: z.ZodType<T>, method: string, path: string, body?: object): Promise<T> {
    const response = await fetch(this.#apiUrl + path, {
      method,
      headers: {
        authorization: `Bearer ${this.#key}`,
        ...(body && {'content-type': 'application/json', 'idempotency-key': randomUUID()}),
      },
      body: body && JSON.stringify(body),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path} returned ${response.status}: ${text.slice(0, 300)}`)
    return schema.parse(text ? JSON.parse(text) : undefined)
  }

  // --- the chain ---

  /** Waits for something that takes blocks, within the limit, and makes the node mine if it does not by itself. */
  async until<T>(what: string, condition: () => Promise<T | undefined | false>): Promise<T> {
    return await until(
      async () => {
        await this.#keepMining()
        return await condition()
      },
      {timeoutMs: this.limitMs, intervalMs: 250, what},
    )
  }

  async #keepMining(): Promise<void> {
    const head = await this.node.head()
    const now = Date.now()
    if (head.hash !== this.#seen.hash) {
      this.#seen = head
      this.#movedAt = now
    }
    const waitMs = this.#stirredAt ? stirMs : quietMs
    if (now - Math.max(this.#movedAt, this.#stirredAt) < waitMs) return
    this.#stirredAt = now
    await this.node.stir()
  }

  async pay(output: Output, asset: Asset = this.node.coin): Promise<Signed> {
    return await this.send(await this.node.pay(output, asset))
  }

  /** Sends it. */
  async send(signed: Signed): Promise<Signed> {
    await this.node.submit(signed)
    return signed
  }

  /** Waits until a block has it. It is sent again meanwhile, since a network may lose it. */
  async mined(signed: Signed): Promise<BlockRef> {
    let sentAt = Date.now()
    return await this.until(`a block with ${signed.txid}`, async () => {
      const place = await this.node.placeOf(signed)
      if (!place && Date.now() - sentAt > sendAgainMs) {
        sentAt = Date.now()
        await this.node.submit(signed)
      }
      return place
    })
  }

  /** Waits until the service has this height, or, if `isFinal`, holds it for final. */
  async reads(height: number, {isFinal = false} = {}): Promise<void> {
    const column = isFinal ? 'final_height' : 'head_height'
    const sql = `select from chain.cursor where chain = $1 and ${column} >= $2`
    const what = `block ${height} to be ${isFinal ? 'final' : 'read'}`
    try {
      await this.until(what, async () => (await this.query(sql, [this.code, height])).length > 0)
    } catch (error) {
      const waits =
        'select waiting_message as why from chain.configured where chain = $1 and waiting_message is not null'
      const [row] = await this.query<{why: string}>(waits, [this.code])
      throw row ? new Error(`the service waits: ${row.why}`, {cause: error}) : error
    }
  }

  /** An amount in whole coins. */
  coins(amount: bigint, {decimals}: Asset): string {
    return formatUnits(amount, decimals)
  }
}

function killAll(home: string): void {
  for (const pid of processesOf(home)) kill(pid, 'SIGKILL')
}

/** Ends what runs there. */
async function end(home: string, output: string, keep: boolean): Promise<string | undefined> {
  if (!keep) {
    await removeHome(home)
    return
  }
  killAll(home)
  writeFileSync(path.join(home, 'service.log'), output)
  return home
}

/** Only this chain is followed. */
function withoutOthers(code: ChainCode): Record<string, string> {
  const others = chains.filter(chain => chain.code !== code)
  const named = (chain: (typeof chains)[number]) => /^\w+/.exec(familyOf(chain).endpointVariable(chain))![0] // words may follow
  return Object.fromEntries(others.map(chain => [named(chain), '']))
}

const ownSettings = () => ({
  SLUICE_DEVNET: 'off',
  DATABASE_URL: '',
  CUSTODY_PASSPHRASE: randomBytes(16).toString('hex'),
  CUSTODY_PASSPHRASE_FILE: '',
  RATE_LIMIT_PER_MINUTE: '1000000',
})

async function makeSeed(home: string, settings: NodeJS.ProcessEnv): Promise<void> {
  const program = new URL('../../../cli/main.ts', import.meta.url).pathname
  const env = {...settings, SLUICE_HOME: home}
  await promisify(execFile)(process.execPath, [program, 'custody', 'init'], {env, cwd: home})
}
