// The indexer of one chain, or of several that share its process: node indexers/main.ts --chain ETH,BTC. Promises: one
// indexer per chain is active, the others stand by. From the first start on, the database says that the chain should be
// followed, and if it is not, why. While the database is away at its start, it waits. On any failure of one of the
// chains the process ends, and the next start continues from what was committed. After a fork below the final block it
// waits for an operator instead of restarting again and again. A head that does not move is logged, and the process
// restarts.
import {parseArgs} from 'node:util'
import type pg from 'pg'
import {PermanentError} from '../base/errors.ts'
import {announceReady, endWhenAsked} from '../base/lifecycle.ts'
import {logger} from '../base/log.ts'
import {observe} from '../base/observe.ts'
import {type ChainSettings, familyOf, formsOf, hasNode} from '../chains/families.ts'
import {databaseUrlOf, readSettings, type Settings} from '../chains/settings.ts'
import {connections} from '../db/client/connections.ts'
import {openPool, type Pool} from '../db/client/pool.ts'
import {type Ends, runProcess} from '../db/client/run-process.ts'
import {otherAssets} from '../db/migrate/assets.ts'
import {ChainCursor} from './cursor.ts'
import {indexerFamilyOf} from './families.ts'
import {writeBlocks} from './match.ts'
import {active, beginCounting, reorgCounter} from './metrics.ts'
import {resume} from './resume.ts'
import {becomeActive, openLock} from './standby.ts'
import {ChainDatabase} from './subsquid/store.ts'
import {watch} from './watch.ts'

/** Exit code that asks the supervisor for a restart. */
const tryAgain = 75

const {values} = parseArgs({options: {chain: {type: 'string', default: ''}}})
const codes = values.chain.split(',')
const processName = codes.length === 1 ? `indexer-${values.chain}` : 'indexers'
const log = logger(processName)

async function main(ends: Ends): Promise<void> {
  const settings = readSettings()
  const chains = codes.map(code => chainOf(settings, code))
  const url = databaseUrlOf(settings)
  for (const code of codes) beginCounting(code)
  await observe({...settings, log})
  endWhenAsked()
  const lock = await openLock(url, processName, ends)
  announceReady()
  const max = codes.length * connections.sluice_indexer.pool // open while they are used at the same time
  const db = openPool(url, {name: `${processName}-cursor`, max, log})
  await Promise.all(chains.map(chain => followChain(chain, {url, lock, db, mainnet: settings.mainnet})))
}

function chainOf(settings: Settings, code: string): ChainSettings {
  const chain = [...settings.chains.values()].find(known => known.chain.code === code)
  if (chain && hasNode(chain)) return chain
  const lacking = chain && familyOf(chain).lacking?.(chain)
  throw new PermanentError(
    `--chain must name a chain that has a node in the settings; ${lacking ?? (code ? `${code} has none` : 'no chain is named')}`,
  )
}

interface Shared {
  url: string
  /** The connection that holds the locks of all chains. */
  lock: pg.Client
  db: Pool
  mainnet: boolean
}

/** Ends the process when the chain must be judged again. */
async function followChain(chain: ChainSettings, {url, lock, db, mainnet}: Shared): Promise<never> {
  const {code, pollIntervalMs} = chain.chain
  const log = logger(`indexer-${code}`)
  const cursor = new ChainCursor(db, code)
  await cursor.configure()
  await becomeActive(lock, code, log)
  const countReorg = reorgCounter(code)
  countReorg(await cursor.read())
  const {display} = await formsOf(chain)
  const database = new ChainDatabase(url, code)
  const reader = (await indexerFamilyOf(chain)).openReader(chain, {
    url,
    db,
    cursor,
    database,
    write: (store, blocks) => writeBlocks(store, blocks, {chain: code, display}),
    log,
  })
  const {source, network, networkSettings} = reader
  const {startHeight, stallTimeoutMs} = chain
  const refusal = () => otherAssets(db, chain)
  await resume(source, cursor, {network, networkSettings, refusal, mainnet, startHeight, log})
  active.set({chain: code}, 1)
  log.info({from: (await cursor.read())?.headHeight}, 'following the chain')
  const watching = watch(source, cursor, {
    pollIntervalMs,
    stallTimeoutMs,
    written: database.written,
    countReorg,
    log,
  })
  const reason = await Promise.race([reader.read(), watching])
  log.error({reason}, 'starting anew')
  process.exit(tryAgain)
}

runProcess(log, 'the indexer cannot go on', main)
