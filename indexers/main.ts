// One indexer: node indexers/main.ts --chain ETH. Promises: one indexer per chain is active, the others stand by. From
// the first start on, the database says that the chain should be followed, and if it is not, why. While the database is
// away at its start, it waits. On any failure the process ends, and the next start continues from what was committed.
// After a fork below the final block it waits for an operator instead of restarting again and again. A head that does
// not move is logged, and the process restarts.
import {parseArgs} from 'node:util'
import {PermanentError} from '../base/errors.ts'
import {announceReady, endWhenAsked} from '../base/lifecycle.ts'
import {logger} from '../base/log.ts'
import {observe} from '../base/observe.ts'
import {familyOf, formsOf, hasNode} from '../chains/families.ts'
import {databaseUrlOf, readSettings} from '../chains/settings.ts'
import {connections} from '../db/client/connections.ts'
import {openPool} from '../db/client/pool.ts'
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
const log = logger(`indexer-${values.chain}`)

async function main(code: string, ends: Ends): Promise<void> {
  const settings = readSettings()
  const chain = [...settings.chains.values()].find(known => known.chain.code === code)
  if (!chain || !hasNode(chain)) {
    const lacking = chain && familyOf(chain).lacking?.(chain)
    throw new PermanentError(
      `--chain must name a chain that has a node in the settings; ${lacking ?? (code ? `${code} has none` : 'no chain is named')}`,
    )
  }
  const url = databaseUrlOf(settings)

  beginCounting(code)
  await observe({...settings, log})
  endWhenAsked()
  const lock = await openLock(url, code, ends)
  announceReady()
  const db = openPool(url, {name: `indexer-${code}-cursor`, max: connections.sluice_indexer.pool, log})
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
  const {mainnet} = settings
  const {startHeight, stallTimeoutMs} = chain
  const refusal = () => otherAssets(db, chain)
  await resume(source, cursor, {network, networkSettings, refusal, mainnet, startHeight, log})
  active.set({chain: code}, 1)
  log.info({from: (await cursor.read())?.headHeight}, 'following the chain')
  const {pollIntervalMs} = chain.chain
  const watching = watch(source, cursor, {pollIntervalMs, stallTimeoutMs, written: database.written, countReorg, log})
  const reason = await Promise.race([reader.read(), watching])
  log.error({reason}, 'starting anew')
  process.exit(tryAgain)
}

runProcess(log, 'the indexer cannot go on', ends => main(values.chain, ends))
