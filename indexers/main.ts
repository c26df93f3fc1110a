// One indexer: node indexers/main.ts --chain ETH. Promises: one indexer per chain is active, the others stand by; whatever goes wrong,
// the process ends, and the next start goes on from what was committed; after a fork below the final block it waits for an operator
// instead of starting again and again; a head that does not move is noticed, logged, and answered by a new start.
import {parseArgs} from 'node:util'
import {openPool} from '../db/pool.ts'
import {PermanentError} from '../service/errors.ts'
import {announceReady, endWhenAsked} from '../service/lifecycle.ts'
import {logger} from '../service/log.ts'
import {databaseUrlOf, readSettings} from '../service/settings.ts'
import {ChainCursor} from './cursor.ts'
import {finalityOf} from './evm/finality.ts'
import {Node} from './evm/node.ts'
import {runProcessor} from './evm/processor.ts'
import {resume} from './evm/resume.ts'
import {becomeActive} from './standby.ts'
import {ChainDatabase} from './store.ts'
import {watch} from './watch.ts'

/** Exit code that asks the supervisor for a new start. */
const tryAgain = 75

const {values} = parseArgs({options: {chain: {type: 'string', default: ''}}})
const log = logger(`indexer-${values.chain}`)

async function main(code: string): Promise<void> {
  const settings = readSettings()
  const chain = [...settings.chains.values()].find(known => known.chain.code === code)
  if (chain?.family !== 'evm' || !chain.rpcUrl)
    throw new PermanentError(`--chain must name a chain that has a node: ${code}_RPC_URL is not set`)
  const url = databaseUrlOf(settings)

  endWhenAsked()
  announceReady()
  await becomeActive(url, code, log)
  const node = new Node(chain.rpcUrl)
  const cursor = new ChainCursor(openPool(url, {name: `indexer-${code}-cursor`, max: 2, log}), code)
  await resume(node, cursor, chain, log)
  if (chain.traces !== 'off') await cursor.pinTracer(chain.traces)
  log.info({from: (await cursor.read())?.headHeight}, 'following the chain')
  runProcessor(chain, chain.rpcUrl, new ChainDatabase(url, code), log)
  const {pollIntervalMs} = chain.chain
  const reason = await watch(finalityOf(node, chain), cursor, {
    pollIntervalMs,
    stallTimeoutMs: chain.stallTimeoutMs,
    log,
  })
  log.error({reason}, 'starting anew')
  process.exit(tryAgain)
}

main(values.chain).catch((error: Error) => {
  log.fatal({error: error.message}, 'the indexer cannot go on')
  process.exit(error instanceof PermanentError ? 78 : tryAgain)
})
