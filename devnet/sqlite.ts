// The journal file of one chain: SQLite, written with fsync. The data common to all families is here; a family adds its
// tables, and its columns of blocks. The open file is locked: one process at a time has the chain, and a killed one
// leaves no lock behind.
import path from 'node:path'
import {DatabaseSync, type SQLInputValue, type SQLOutputValue, type StatementSync} from 'node:sqlite'
import {z} from 'zod'

export class JournalInUse extends Error {
  override name = 'JournalInUse'
}

/** The end of the chain; the time in seconds. */
const HeadRow = z.object({height: z.int(), hash: z.string(), timestamp: z.int()})
export type Head = z.infer<typeof HeadRow>

/** A signed unconfirmed transaction, in hex. */
const WaitingRow = z.object({txid: z.string(), raw: z.string()})
export type Waiting = z.infer<typeof WaitingRow>

interface Tables {
  /** Columns that a block has besides height, hash and timestamp; every one is not null. */
  block: string[]
  /** Columns for the position of a transaction in its block. */
  included: string[]
  more?: string
}

export class JournalFile {
  readonly #database: DatabaseSync
  readonly #statements = new Map<string, StatementSync>()
  #head: Head | undefined

  /** Throws JournalInUse if another process has it, and another error if it belongs to another chain. */
  constructor(file: string, chain: string, {block, included, more = ''}: Tables) {
    this.#database = new DatabaseSync(file, {timeout: 0})
    try {
      this.#database.exec(`
        pragma locking_mode = exclusive;
        pragma journal_mode = wal;
        pragma synchronous = full;
        begin immediate;
        create table if not exists meta (name text primary key, value text not null) strict;
      `)
      const has = this.meta('chain') ?? chain
      if (has !== chain) throw new Error(`${path.dirname(file)} holds the local chain of ${has}, not of ${chain}`)
      this.setMeta('chain', chain)
      this.#database.exec(`
        create table if not exists block (
          height integer primary key, hash text not null unique, timestamp integer not null${listed(block)}
        ) strict;
        create table if not exists included (txid text primary key, height integer not null${listed(included)}) strict;
        create index if not exists included_height on included (height);
        create table if not exists pool (seq integer primary key, txid text not null unique, raw text not null) strict;
        ${more}
        commit`)
    } catch (error) {
      this.#database.close()
      if ((error as {errcode?: number}).errcode === 5) throw new JournalInUse(`another process has ${file}`)
      throw error
    }
    this.readHead()
  }

  /** Must be called after blocks were written. */
  protected readHead(): void {
    const row = this.get('select height, hash, timestamp from block order by height desc limit 1')
    this.#head = row && HeadRow.parse(row)
  }

  /** The last block of the chain; undefined before the first commit. */
  get head(): Head | undefined {
    return this.#head
  }

  /** A block of the chain by height or hash. */
  find(key: number | string): Head | undefined {
    const row = this.get(`select height, hash, timestamp from block where ${columnOf(key)} = ?`, key)
    return row && HeadRow.parse(row)
  }

  /**
   * The height of the block that stays when the newest `depth` are replaced. Throws RangeError unless 1 <= depth <=
   * height of the head.
   */
  below(depth: number): number {
    const height = this.#head?.height ?? 0
    if (depth < 1 || depth > height)
      throw new RangeError(`cannot replace ${depth} blocks: there are ${height} blocks above genesis`)
    return height - depth
  }

  /** How often blocks were replaced. It makes an empty block differ from the empty block that it replaces. */
  get forks(): number {
    return Number(this.meta('forks') ?? 0)
  }

  countFork(): void {
    this.onChange()
    this.setMeta('forks', String(this.forks + 1))
  }

  // --- unconfirmed transactions ---

  /** Called when a transaction begins to wait for a block, or is forgotten, and when blocks are replaced. */
  onChange: () => void = () => {}

  /** In an order in which they can be mined. */
  pool(): Waiting[] {
    return z.array(WaitingRow).parse(this.statement('select txid, raw from pool order by seq').all())
  }

  addToPool({txid, raw}: Waiting): void {
    this.onChange()
    this.run('insert into pool (txid, raw) values (?, ?) on conflict do nothing', txid, raw)
  }

  removeFromPool(txids: string[]): void {
    if (txids.length) this.onChange()
    this.transaction(() => {
      for (const txid of txids) this.run('delete from pool where txid = ?', txid)
    })
  }

  // --- blocks, for the transaction that writes them ---

  /** Removes the blocks above a height. */
  protected cut(height: number): void {
    for (const table of ['block', 'included']) this.run(`delete from ${table} where height > ?`, height)
  }

  protected insertBlock(height: number, hash: string, timestamp: number, ...more: SQLInputValue[]): void {
    this.run(`insert into block values (?, ?, ?${', ?'.repeat(more.length)})`, height, hash, timestamp, ...more)
  }

  /** A transaction in a block is no longer unconfirmed. */
  protected insertIncluded(txid: string, height: number, ...where: number[]): void {
    this.run(`insert into included values (?, ?${', ?'.repeat(where.length)})`, txid, height, ...where)
    this.run('delete from pool where txid = ?', txid)
  }

  // --- the file ---

  close(): void {
    this.#database.close()
  }

  meta(name: string): string | undefined {
    const row = this.get('select value from meta where name = ?', name)
    return row && z.string().parse(row.value)
  }

  setMeta(name: string, value: string): void {
    this.run('insert into meta values (?, ?) on conflict (name) do update set value = excluded.value', name, value)
  }

  protected transaction(work: () => void): void {
    this.#database.exec('begin immediate')
    try {
      work()
      this.#database.exec('commit')
    } catch (error) {
      this.#database.exec('rollback')
      throw error
    }
  }

  protected run(sql: string, ...values: SQLInputValue[]): void {
    this.statement(sql).run(...values)
  }

  protected get(sql: string, ...values: SQLInputValue[]): Record<string, SQLOutputValue> | undefined {
    return this.statement(sql).get(...values)
  }

  protected statement(sql: string): StatementSync {
    let statement = this.#statements.get(sql)
    if (!statement) {
      statement = this.#database.prepare(sql)
      this.#statements.set(sql, statement)
    }
    return statement
  }
}

function listed(columns: string[]): string {
  return columns.map(column => `, ${column}`).join('')
}

export function columnOf(key: number | string): 'height' | 'hash' {
  return typeof key === 'number' ? 'height' : 'hash'
}
