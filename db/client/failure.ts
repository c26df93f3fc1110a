// Recognises errors of the database, so that an operator checks the database and not the chain's node. Promises: an
// error that Postgres sends is classified by its SQLSTATE, never by its words; an error of a connection of ours counts
// as one of the database, whatever it is; for any other error the result is undefined.
import pg from 'pg'

export interface Failure {
  /** For programs. */
  reason: 'database_unavailable' | 'disk_full' | 'database_error'
  /** For operators: what happened, why, and what to do. */
  message: string
}

/** Errors of sockets to the database, which look like those of any other socket. */
const ofConnections = new WeakSet<Error>()

/** Notes that an error comes from a connection to the database. */
export function noteOfDatabase(error: Error): void {
  ofConnections.add(error)
}

/** What only the database is asked for. */
export async function fromDatabase<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    noteOfDatabase(error as Error)
    throw error
  }
}

/** What the error says about the database; undefined if it is not the database's. */
export function failureOf(error: unknown): Failure | undefined {
  if (!(error instanceof Error)) return undefined
  const {code = ''} = error as {code?: string}
  const why = `${reasonOf(error)}${code && ` (${code})`}`
  if (code === 'ENOSPC') return diskFull(`a disk of this machine is full: ${why}; free space there`)
  const {driverError} = error as {driverError?: unknown} // an error of typeorm contains the error of pg, and its fields
  if ([error, driverError].some(each => each instanceof pg.DatabaseError || each instanceof NoPrimaryError))
    return byState(code, why)
  if (driverError || ofConnections.has(error) || isOfDriver(error))
    return isRefusal(error) ? refused(why) : unreachable(why)
  return undefined
}

/** A new connection leads to a server that takes no writes. */
export class NoPrimaryError extends Error {
  readonly code = '25006'
}

/**
 * What was written would have taken the final block off its chain (chain.derive): the node's chain has another one. No
 * failure of the database.
 */
export function isForkBelowFinal(error: unknown): boolean {
  return (error as {code?: string} | undefined)?.code === 'SLFRK'
}

/** The server says that it is no primary: it takes no writes, and what it has may be old. */
export function isNoPrimary(code: string | undefined): boolean {
  return code === '25006'
}

/**
 * The database is there and refuses us, or we refuse it: the role, its password, the name of the database or the
 * certificate is wrong. pg itself refuses a missing password and a missing or untrusted TLS, without SQLSTATE.
 */
export function isRefusal(error: unknown): boolean {
  const {code = '', message = ''} = error as {code?: string; message?: string}
  return (
    /^(28|3D)/.test(code) ||
    /CERT|^UNABLE_TO_/.test(code) ||
    /^SASL: |does not support SSL|establishing an SSL/.test(message)
  )
}

/**
 * The database cannot be used now, and may be later without anybody's help; also if that is the cause of the error. A
 * statement that takes too long (57014) and damaged files (58) do not mend themselves.
 */
export function isAway(error: unknown): boolean {
  if (!(error instanceof Error) || isRefusal(error)) return false
  const {code = ''} = error as {code?: string}
  if (failureOf(error)?.reason === 'database_unavailable') return !/^57014$|^58/.test(code)
  return isAway(error.cause)
}

/** The error for people; names the database if that failed. */
export function inWords(error: unknown): string {
  return failureOf(error)?.message ?? (error instanceof Error ? error.message : String(error))
}

function byState(code: string, why: string): Failure {
  if (code === '53100') return diskFull(`the disk of the database is full: ${why}; free space on its machine`)
  if (code === '53300')
    return unavailable(
      `the database has no connection left: ${why}; end what holds them (select application_name, count(*) from pg_stat_activity group by 1), or raise max_connections and run sluice migrate`,
    )
  if (code === '53200') return unavailable(`the database has no memory left: ${why}; check the memory of its machine`)
  if (code.startsWith('53')) return unavailable(`the database has reached one of its limits: ${why}; read its log`)
  if (/^57P|^08/.test(code)) return unreachable(why)
  if (code === '57014')
    return unavailable(
      `the database did not respond in time: ${why}; check its load, and the locks in pg_stat_activity`,
    )
  if (isNoPrimary(code))
    return unavailable(
      `the database accepts no writes: ${why}; DATABASE_URL may name a standby, or the server is set to read only`,
    )
  if (isRefusal({code})) return refused(why)
  if (code.startsWith('58'))
    return unavailable(`the database cannot use its files: ${why}; read its log, and check its disk`)
  return {
    reason: 'database_error',
    message: `the database refused a statement: ${why}; if this continues, find the statement in its log and report it`,
  }
}

const unavailable = (message: string): Failure => ({reason: 'database_unavailable', message})

const unreachable = (why: string) =>
  unavailable(`the database cannot be reached: ${why}; check that it runs, and read its log`)

const refused = (why: string) =>
  unavailable(`the database refuses the connection: ${why}; compare DATABASE_URL with the password of the role`)

const diskFull = (message: string): Failure => ({reason: 'disk_full', message})

// pg gives these no code.
function isOfDriver({message}: Error): boolean {
  return /^(Connection terminated|Query read timeout|timeout exceeded when trying to connect|Client has encountered a connection error|Client was closed and is not queryable)/.test(
    message,
  )
}

/** A name with several addresses gives an error for each. */
function reasonOf(error: Error): string {
  return error.message || ((error as AggregateError).errors?.[0] as Error | undefined)?.message || error.name
}
