// The rehearsal of a loss: restores a backup into its own directory and its own database server, lets it catch up with
// the chains, and audits it. Promises: only indexers run on the copy, so nothing is signed, sent or delivered; the
// running service is only read; end() removes everything that was made, whatever happened.
import {type ChildProcess, execFile, fork} from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {fileURLToPath} from 'node:url'
import type pg from 'pg'
import {PermanentError} from '../base/errors.ts'
import {writeService} from '../base/home.ts'
import {withClient} from '../db/client/pool.ts'
import {roleUrl} from '../db/migrate/migrate.ts'
import {type EmbeddedPostgres, startPostgres} from '../db/server/embedded.ts'
import {custody, makeBackup, restoreBackup, settleIn, takeWhitelist} from './backup-files.ts'
import type {Sluice} from './command.ts'
import {Progress} from './progress.ts'

const pollMs = 500
/** If no chain moved for so long, the nodes, or the copy, stand still. */
const stallMs = 10 * 60_000
/** The exit code of an indexer if only an operator can help. */
const permanent = 78

const program = fileURLToPath(new URL('main.ts', import.meta.url))
const indexer = fileURLToPath(new URL('../indexers/main.ts', import.meta.url))

/** What is restored; a new backup if neither is given. */
export interface Source {
  from?: string
  database?: string
}

interface Heights {
  chain: string
  head: number
  final: number
  halted: boolean
}

export class Rehearsal {
  readonly #sluice: Sluice
  readonly #source: Source
  readonly #home = mkdtempSync(path.join(tmpdir(), 'sluice-drill-'))
  readonly #indexers = new Set<ChildProcess>()
  #postgres: EmbeddedPostgres | undefined
  #url = ''
  #journalSize = 0
  #isOver = false

  constructor(sluice: Sluice, source: Source) {
    this.#sluice = sluice
    this.#source = source
    chmodSync(this.#home, 0o755) // as root, the database server runs as another user
  }

  /** In order; each resolves to what it found, or rejects. */
  get steps(): [name: string, work: () => Promise<string>][] {
    const {from, database} = this.#source
    return [
      ...(from || database ? [] : [['back up', () => this.#backUp()] as [string, () => Promise<string>]]),
      ['restore', () => (database ? this.#take(database) : this.#restore(from ?? this.#backup))],
      ['custody verify', () => this.#custody('verify')],
      ['custody reconcile', () => this.#custody('reconcile')],
      ['catch up', () => this.#catchUp()],
      ['audit', () => this.#audit()],
    ]
  }

  /** Ends and removes all of it. */
  async end(): Promise<void> {
    this.#isOver = true
    await this.#endIndexers()
    await this.#postgres?.stop()
    const data = this.#postgres?.dataDirectory
    if (data && !data.startsWith(this.#home)) rmSync(path.dirname(data), {recursive: true, force: true})
    rmSync(this.#home, {recursive: true, force: true})
  }

  get #backup(): string {
    return path.join(this.#home, 'backup')
  }

  async #backUp(): Promise<string> {
    const {home, service} = this.#sluice
    const {database_bytes} = await makeBackup(home, service.database_url, this.#backup)
    return `${(database_bytes / 1e6).toFixed(0)} MB`
  }

  async #restore(from: string): Promise<string> {
    this.#copyCustody()
    await restoreBackup(path.resolve(from), this.#home)
    const postgres = await startPostgres({dir: path.join(this.#home, 'postgres')})
    this.#postgres = postgres
    this.#use(postgres.url)
    return `a database server of its own, on port ${new URL(postgres.url).port}`
  }

  /** A database that an operator restored. No service may use it: the drill would disturb that service. */
  async #take(url: string): Promise<string> {
    if (!/^postgres(ql)?:\/\//.test(url))
      throw new PermanentError(`"${url}" is not a database URL; write it like postgres://owner:password@host:5432/name`)
    const {rows} = await query<{application_name: string}>(
      url,
      `select distinct application_name from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid() and application_name ~ '^(sluice|indexer)-'`,
    )
    if (rows.length)
      throw new PermanentError(
        `a service uses that database (${rows.map(row => row.application_name).join(', ')}); give a copy that no service uses`,
      )
    this.#copyCustody()
    await settleIn(url)
    this.#use(url)
    return 'the database that was named'
  }

  #use(url: string): void {
    this.#url = url
    const {service} = this.#sluice
    writeService(this.#home, {
      ...service,
      pid: process.pid,
      started_at: new Date().toISOString(),
      running: true,
      database_url: url,
    })
  }

  /** The newest files of custody: they stand for what survives a loss. */
  #copyCustody(): void {
    const [from, to] = [this.#sluice.home, this.#home].map(home => path.join(home, 'custody')) as [string, string]
    mkdirSync(to, {recursive: true, mode: 0o700})
    for (const name of ['seed.json', 'passphrase', 'journal.jsonl'])
      if (existsSync(path.join(from, name))) copyFileSync(path.join(from, name), path.join(to, name))
    this.#journalSize = sizeOf(path.join(to, 'journal.jsonl'))
  }

  async #custody(command: string): Promise<string> {
    const said = await custody(this.#home, [command], this.#environment())
    return said.split('\n')[0]!
  }

  /** The environment of processes on the copy, which must not find the service's database instead. */
  #environment(): Record<string, string> {
    return {SLUICE_HOME: this.#home, DATABASE_URL: this.#url, DATABASE_URL_FILE: '', METRICS_PORT: ''}
  }

  // --- the chains ---

  async #catchUp(): Promise<string> {
    const followed = Object.keys(this.#sluice.service.chains)
    const targets = (await heightsOf(this.#sluice.service.database_url)).filter(({chain}) => followed.includes(chain))
    const start = await heightsOf(this.#url)
    const blocks = targets.reduce((sum, {chain, head}) => sum + Math.max(0, head - of(start, chain).head), 0)
    const progress = new Progress({what: 'reading the chains', unit: 'blocks', total: blocks})
    for (const {chain} of targets) this.#startIndexer(chain)
    let movedAt = performance.now()
    for (let left = blocks; ; await sleep(pollMs)) {
      if (this.#isOver) throw new PermanentError('it was interrupted')
      await this.#followJournal()
      const now = await heightsOf(this.#url)
      await this.#requireGoing(now)
      const before = left
      left = targets.reduce((sum, {chain, head}) => sum + Math.max(0, head - of(now, chain).head), 0)
      progress.at(blocks - left)
      if (targets.every(({chain, head, final}) => of(now, chain).head >= head && of(now, chain).final >= final)) break
      if (left !== before) movedAt = performance.now()
      if (performance.now() - movedAt > stallMs)
        throw new PermanentError('no chain has moved for 10 minutes; sluice status says whether the nodes do')
    }
    progress.end()
    return `${blocks} blocks of ${targets.map(({chain}) => chain).join(', ')}`
  }

  /**
   * Imports what is signed meanwhile before the indexers see it on a chain; else it would be taken for a foreign
   * transaction.
   */
  async #followJournal(): Promise<void> {
    if (sizeOf(path.join(this.#sluice.home, 'custody', 'journal.jsonl')) === this.#journalSize) return
    this.#copyCustody()
    await this.#custody('reconcile')
  }

  async #requireGoing(now: Heights[]): Promise<void> {
    const halted = now.filter(row => row.halted).map(({chain}) => chain)
    if (!halted.length) return
    const {rows} = await query<{chain: string; message: string}>(
      this.#url,
      'select chain, message from app.standstill where chain = any($1)',
      [halted],
    )
    const why = rows.map(({chain, message}) => `${chain}: ${message}`).join('; ')
    throw new PermanentError(`the copy stands still and cannot catch up with the chains (${why})`)
  }

  #startIndexer(chain: string): void {
    const log = path.join(this.#home, `indexer-${chain.toLowerCase()}.log`)
    const output = openSync(log, 'a', 0o600)
    const child = fork(indexer, ['--chain', chain], {
      env: {
        ...withoutPassphrase(process.env),
        ...this.#nodeOf(chain),
        ...this.#environment(),
        DATABASE_URL: roleUrl(this.#url, 'sluice_indexer'),
      },
      execArgv: [],
      stdio: ['ignore', output, output, 'ipc'],
    })
    this.#indexers.add(child)
    child.once('exit', code => {
      this.#indexers.delete(child)
      if (this.#isOver) return
      if (code === permanent) console.error(`the indexer of ${chain} ended:\n${readFileSync(log, 'utf8').slice(-1000)}`)
      else this.#startIndexer(chain) // it continues from the last commit
    })
  }

  /** Where the service reads a chain; the rest of its settings are in the environment, as for every command. */
  #nodeOf(chain: string): Record<string, string> {
    const {local, settings} = this.#sluice.service.chains[chain]!
    return {...settings, ...(local && {[`${chain}_START_HEIGHT`]: '1'})}
  }

  async #endIndexers(): Promise<void> {
    const ended = [...this.#indexers].map(child => {
      const exited = new Promise(resolve => child.once('exit', resolve))
      child.removeAllListeners('exit')
      child.once('exit', () => this.#indexers.delete(child))
      child.kill('SIGTERM')
      return Promise.race([exited, sleep(5000).then(() => child.kill('SIGKILL'))])
    })
    await Promise.all(ended)
  }

  // --- the end ---

  /**
   * The indexers run meanwhile: some nodes keep no balances of the past, and are compared at the newest final block.
   */
  async #audit(): Promise<string> {
    const over = new AbortController()
    const following = this.#keepUp(over.signal)
    following.catch(() => {}) // it is awaited below
    try {
      return await this.#auditCopy()
    } finally {
      over.abort()
      await following
    }
  }

  async #keepUp(signal: AbortSignal): Promise<void> {
    for (; !signal.aborted; await sleep(pollMs)) await this.#followJournal()
  }

  async #auditCopy(): Promise<string> {
    const entries = await takeWhitelist(this.#sluice.service.database_url, this.#url)
    const environment = {...process.env, ...this.#environment()}
    const {code, stdout, stderr} = await new Promise<{code: number; stdout: string; stderr: string}>(resolve => {
      const given = [program, 'audit', '--json']
      execFile(process.execPath, given, {env: environment, maxBuffer: 2 ** 26}, (error, stdout, stderr) =>
        resolve({code: error ? 1 : 0, stdout, stderr}),
      )
    })
    if (!stdout) throw new PermanentError(stderr.replace(/^sluice: /, '').trim())
    const {checks} = JSON.parse(stdout) as {
      checks: {name: string; right: boolean | null; found?: unknown[]; why?: string}[]
    }
    const wrong = checks.filter(check => !check.right)
    if (code || wrong.length)
      throw new PermanentError(wrong.map(({name, found, why}) => `${name}: ${why ?? JSON.stringify(found)}`).join('; '))
    const made = `; the copy is missing ${entries} whitelist entries of the service: after a real loss, add them again`
    return `${checks.length} checks${entries ? made : ''}`
  }
}

const query = <T extends pg.QueryResultRow>(url: string, sql: string, values?: unknown[]) =>
  withClient(url, 'sluice-drill', client => client.query<T>(sql, values))

async function heightsOf(url: string): Promise<Heights[]> {
  const sql = `select chain, coalesce(head_height, 0) as head, coalesce(final_height, 0) as final, halted_at is not null as halted from chain.cursor`
  return (await query<Heights>(url, sql)).rows
}

function of(heights: Heights[], chain: string): Heights {
  return heights.find(row => row.chain === chain) ?? {chain, head: 0, final: 0, halted: false}
}

function sizeOf(file: string): number {
  return statSync(file, {throwIfNoEntry: false})?.size ?? 0
}

function withoutPassphrase(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !name.startsWith('CUSTODY_PASSPHRASE')))
}
