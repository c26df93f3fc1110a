// The database of the service: the server that the settings name, or else one that is started here. Promises: a server
// that was started here is started again whenever it ends. What needs the database is done again if it is away
// meanwhile, however long that lasts.
import {setTimeout as sleep} from 'node:timers/promises'
import pg from 'pg'
import {measureDisk} from '../base/disk.ts'
import type {Logger} from '../base/log.ts'
import {inWords, isAway} from '../db/client/failure.ts'
import {holdConnection} from '../db/client/held-connection.ts'
import {Outage} from '../db/client/outage.ts'
import {type EmbeddedPostgres, startPostgres} from '../db/server/embedded.ts'

const againMs = 1000
const longestWaitMs = 30_000
export const connectionName = 'sluice-supervisor'
const noop = () => {}

export interface DatabaseOptions {
  /** The owner's URL of a server that somebody else runs. */
  given: string | undefined
  /** Where a server that is started here keeps its data. */
  directory: string
  log: Logger
  /** A server that was started again has another URL. */
  onMoved(): void
}

export class ServiceDatabase {
  /** The owner's, once start() has resolved. */
  url = ''
  readonly #options: DatabaseOptions
  #server: EmbeddedPostgres | undefined
  #watch: pg.Client | undefined
  #starting: Promise<void> = Promise.resolve()
  readonly #ending = new AbortController()

  constructor(options: DatabaseOptions) {
    this.#options = options
  }

  async start(): Promise<void> {
    const {given} = this.#options
    if (given === undefined) return await this.#startServer()
    this.url = given
  }

  /** Does what may be done twice. Rejects when end() is called, with its reason. */
  async untilDone(work: () => Promise<unknown>): Promise<void> {
    const outage = new Outage(this.#options.log)
    const {signal} = this.#ending
    for (;;) {
      const {promise: lost, resolve, reject} = Promise.withResolvers<'lost'>()
      signal.addEventListener('abort', () => reject(signal.reason), {once: true})
      const onLost = (reason: string) => {
        outage.failed(reason)
        resolve('lost')
      }
      // Beside the work, because a database that is silent never ends a statement.
      const held = await holdConnection({url: this.url, name: connectionName, outage, signal, onLost})
      try {
        if ((await Promise.race([work(), lost])) !== 'lost') return outage.over()
      } catch (error) {
        if (!isAway(error)) throw error
        outage.failed(inWords(error))
      } finally {
        held.release().catch(noop)
      }
      await sleep(againMs, undefined, {signal})
    }
  }

  #startServer(): Promise<void> {
    const starting = this.#start()
    this.#starting = starting.catch(noop)
    return starting
  }

  async #start(): Promise<void> {
    this.#server = await startPostgres({dir: this.#options.directory})
    measureDisk('database', this.#server.dataDirectory)
    this.#ending.signal.throwIfAborted()
    const hasMoved = this.url !== '' && this.url !== this.#server.url
    this.url = this.#server.url
    if (hasMoved) this.#options.onMoved()
    await this.#watchServer()
  }

  /** Holds a connection for as long as the server lives. */
  async #watchServer(): Promise<void> {
    const watch = new pg.Client({connectionString: this.url, application_name: connectionName})
    watch.on('error', noop) // 'end' follows
    await watch.connect()
    this.#watch = watch
    watch.once('end', () => void this.#startAgain())
  }

  async #startAgain(): Promise<void> {
    const {log} = this.#options
    for (let waitMs = 100; !this.#ending.signal.aborted; waitMs = Math.min(waitMs * 2, longestWaitMs)) {
      log.warn('the database ended; it is started again')
      try {
        return await this.#startServer()
      } catch (error) {
        log.error({error: (error as Error).message}, 'the database could not be started')
        await sleep(waitMs)
      }
    }
  }

  /** From now on nothing waits for it, and nothing starts it again. */
  end(reason: Error): void {
    this.#ending.abort(reason)
  }

  /** After end(). */
  async stop(graceMs: number): Promise<void> {
    await this.#watch?.end()
    await this.#starting
    await this.#server?.stop(graceMs)
  }

  async kill(): Promise<void> {
    await this.#server?.kill()
  }
}
