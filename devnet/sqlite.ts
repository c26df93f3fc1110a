// The file of a journal: SQLite, written with fsync, of one chain. The open file is locked: one process at a time has the chain, and a killed one leaves
// no lock behind.
import path from 'node:path'
import {DatabaseSync, type SQLInputValue, type SQLOutputValue, type StatementSync} from 'node:sqlite'
import {z} from 'zod'

export class JournalInUse extends Error {
  override name = 'JournalInUse'
}

export class JournalFile {
  readonly #database: DatabaseSync
  readonly #statements = new Map<string, StatementSync>()

  /** Throws JournalInUse when another process has it, and another error when it is of another chain than this. */
  constructor(file: string, chain: string, schema: string) {
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
      this.#database.exec(`${schema}; commit`)
    } catch (error) {
      this.#database.close()
      if ((error as {errcode?: number}).errcode === 5) throw new JournalInUse(`another process has ${file}`)
      throw error
    }
  }

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
