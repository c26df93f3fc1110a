// sluice reindex: reads final blocks again, and makes the database agree with the chain.
import type {Command} from 'commander'
import {PermanentError} from '../base/errors.ts'
import {onInterrupt} from '../base/interrupt.ts'
import {logger} from '../base/log.ts'
import {type ChainSettings, formsOf, hasNode} from '../chains/families.ts'
import type {ChainCode} from '../chains/registry.ts'
import {openPool} from '../db/client/pool.ts'
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
      'Reads final blocks again from the node, beside the live indexer, and makes the database agree with the chain.',
      '',
      'Missed deposits appear, with their events. An incident opens for what is stored but not on the chain; a final deposit stays until you decide.',
      'Everything else stays untouched: if nothing is wrong, nothing is written. Ctrl-C stops it after the blocks that it is reading; --resume',
      'continues. docs/operations/reindex.md says more.',
    ].join('\n'),
    'sluice reindex --chain ETH --from 7200000\nsluice reindex --chain ETH --resume',
  )
    .requiredOption('--chain <code>', 'the chain', chainCode)
    .option('--from <height>', 'the lowest block to read', wholeNumber)
    .option('--to <height>', 'the highest block to read (default: the final one)', wholeNumber)
    .option('--resume', 'continue the last run, which was stopped')
    .action(action<Options>(run))
}

async function run(sluice: Sluice, {chain, from, to, resume = false, json = false}: Options): Promise<Report> {
  if (resume === (from !== undefined) || (resume && to !== undefined))
    throw new PermanentError('give --from with the first block to read, or --resume alone to continue the last run')
  const settings = settingsOf(sluice.service, chain)
  requireFollowed(sluice.service, chain)
  if (!hasNode(settings)) throw new PermanentError(`${chain} has no node; docs/operations.md says how to set one`)
  const log = logger('reindex')
  log.level = 'silent' // the progress bar uses the terminal; a permanent error is shown at the end
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
  const goOn = `sluice reindex --chain ${chain} --resume continues from there`
  if (error.name === 'Interrupted') return hasBegun ? `stopped; ${goOn}` : 'stopped before anything was read'
  return hasBegun ? `${error.message}\nWhat was read until then is written; ${goOn}.` : error.message
}

function inWords(chain: string, {from, to, added, removed, changed, incidents}: Reindexed): string {
  const range = `Blocks ${from} to ${to} of ${chain} were read again`
  if (!added && !removed && !changed) return `${range}: the database agreed with the chain, and nothing was written.`
  const found = `${added} rows were missing, ${removed} are not on the chain, ${changed} were different`
  const open = incidents ? `; ${incidents} incidents wait for you (sluice incident list)` : ''
  return `${range}: ${found}${open}. The database agrees with the chain now.`
}

/** The progress bar of the running step. */
class Bars {
  readonly #chain: string
  readonly #isQuiet: boolean
  #step = ''
  #bar: Progress | undefined

  constructor(chain: string, isQuiet: boolean) {
    this.#chain = chain
    this.#isQuiet = isQuiet
  }

  /** Whether blocks are being read, so that --resume has something to continue. */
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
