// sluice reindex: final blocks are read once more, and the database is left as the chain is.
import type {Command} from 'commander'
import {PermanentError} from '../base/errors.ts'
import {onInterrupt} from '../base/interrupt.ts'
import {logger} from '../base/log.ts'
import {type ChainSettings, formsOf, hasNode} from '../chains/families.ts'
import type {ChainCode} from '../chains/registry.ts'
import {openPool} from '../db/pool.ts'
import {ChainCursor} from '../indexers/cursor.ts'
import {indexerFamilyOf} from '../indexers/families.ts'
import type {HistorySource} from '../indexers/family.ts'
import type {Reindexed} from '../indexers/reindex/runs.ts'
import {action, chainCode, leaf, requireFollowed, type Sluice, settingsOf, wholeNumber} from './command.ts'
import type {Report} from './output.ts'
import {Progress} from './progress.ts'

interface Options {
  chain: ChainCode
  from?: number
  to?: number
  resume?: boolean
  json?: boolean
}

export function addReindexCommand(program: Command): void {
  leaf(
    program,
    'reindex',
    [
      'Reads final blocks again from the node, beside the live indexer, and leaves the database as the chain is.',
      '',
      'Deposits that were missed appear, with their events. What is stored and the chain does not have becomes an incident; a final',
      'deposit stays until you decide. Everything else is untouched: where nothing is wrong, nothing is written. Ctrl-C stops it after',
      'the blocks that it has in hand; --resume goes on. docs/operations/reindex.md says more.',
    ].join('\n'),
    'sluice reindex --chain ETH --from 7200000\nsluice reindex --chain ETH --resume',
  )
    .requiredOption('--chain <code>', 'the chain', chainCode)
    .option('--from <height>', 'the lowest block to read', wholeNumber)
    .option('--to <height>', 'the highest block to read (default: the final one)', wholeNumber)
    .option('--resume', 'go on with the last run, which was stopped')
    .action(action<Options>(run))
}

async function run(sluice: Sluice, {chain, from, to, resume = false, json = false}: Options): Promise<Report> {
  if (resume === (from !== undefined) || (resume && to !== undefined))
    throw new PermanentError('say with --from where to begin, or with --resume alone to go on with the last run')
  const settings = settingsOf(sluice.service, chain)
  requireFollowed(sluice.service, chain)
  if (!hasNode(settings)) throw new PermanentError(`${chain} has no node; docs/operations.md says how one is named`)
  const log = logger('reindex')
  log.level = 'silent' // the bar has the line; what goes wrong for good is said at the end
  const pool = openPool(sluice.service.database_url, {name: `reindex-${chain}`, max: 2, log})
  try {
    const family = await indexerFamilyOf(settings)
    const source = await family.openHistory(settings, {db: pool, cursor: new ChainCursor(pool, chain), log})
    try {
      return await readAgain({sluice, settings, source, from, to, isQuiet: json})
    } finally {
      await source.close()
    }
  } finally {
    await pool.end()
  }
}

interface Work {
  sluice: Sluice
  settings: ChainSettings
  source: HistorySource
  from: number | undefined
  to: number | undefined
  /** No bar is drawn. */
  isQuiet: boolean
}

async function readAgain({sluice: {db}, settings, source, from, to, isQuiet}: Work): Promise<Report> {
  const {reindex} = await import('../indexers/reindex.ts') // takes longer to load than most commands to run
  const {display} = await formsOf(settings)
  const {code: chain} = settings.chain
  const bars = new Bars(chain, isQuiet)
  const stop = new AbortController()
  onInterrupt({first: () => stop.abort(), again: () => process.exit(130)})
  try {
    const result = await reindex({
      db,
      chain,
      source,
      display,
      signal: stop.signal,
      onProgress: bars.draw,
      ...(from !== undefined && {from}),
      ...(to !== undefined && {to}),
    })
    return {json: {chain, ...result}, text: inWords(chain, result)}
  } catch (error) {
    throw new PermanentError(whyNot(error as Error, chain, bars.hasBegun), {cause: error})
  } finally {
    bars.end()
  }
}

function whyNot(error: Error, chain: string, hasBegun: boolean): string {
  const goOn = `sluice reindex --chain ${chain} --resume goes on from there`
  if (error.name === 'Interrupted') return hasBegun ? `stopped; ${goOn}` : 'stopped before anything was read'
  return hasBegun ? `${error.message}\nWhat was read until then is written; ${goOn}.` : error.message
}

function inWords(chain: string, {from, to, added, removed, changed, incidents}: Reindexed): string {
  const range = `Blocks ${from} to ${to} of ${chain} were read again`
  if (!added && !removed && !changed)
    return `${range}: everything is stored as the chain has it, and nothing was written.`
  const found = `${added} rows were missing, ${removed} are not on the chain, ${changed} were stored otherwise`
  const open = incidents ? `; ${incidents} incidents wait for you (sluice incident list)` : ''
  return `${range}: ${found}${open}. The database is as the chain is.`
}

/** The bar of the step that runs. */
class Bars {
  readonly #chain: string
  readonly #isQuiet: boolean
  #step = ''
  #bar: Progress | undefined

  constructor(chain: string, isQuiet: boolean) {
    this.#chain = chain
    this.#isQuiet = isQuiet
  }

  /** Whether blocks are read, so that there is something to go on with. */
  get hasBegun(): boolean {
    return this.#step === 'reading'
  }

  draw = (step: 'linking' | 'reading', done: number, total: number): void => {
    if (step !== this.#step) {
      this.#bar?.end()
      const what = step === 'linking' ? `headers of ${this.#chain}` : `reading ${this.#chain}`
      this.#bar = this.#isQuiet
        ? undefined
        : new Progress({what, unit: 'blocks', total, doneBefore: step === 'reading' ? done : 0})
      this.#step = step
    }
    this.#bar?.at(done)
  }

  end(): void {
    this.#bar?.end()
    this.#bar = undefined
  }
}
