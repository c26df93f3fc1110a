// One active indexer per chain. Promises: a separate connection holds the lock, so the lock is free the moment its holder dies. An indexer that
// loses this connection ends at once, because another may already be active.
import {setTimeout as sleep} from 'node:timers/promises'
import type {Logger} from '../base/log.ts'
import {fromDatabase} from '../db/failure.ts'
import {lockConnection} from '../db/pool.ts'

const retryMs = 1000

/** Resolves when this process is the active indexer of the chain. */
export async function becomeActive(databaseUrl: string, chain: string, log: Logger): Promise<void> {
  const client = lockConnection(databaseUrl, `indexer-${chain}-lock`)
  const lost = () => {
    log.error('the connection that holds the lock of this chain was lost; ending, so that only one indexer is active')
    process.exit(70)
  }
  client.on('error', lost)
  client.on('end', lost)
  await fromDatabase(client.connect())
  for (let standingBy = false; ; standingBy = true) {
    const {rows} = await client.query(
      `select pg_try_advisory_lock(hashtextextended('sluice.indexer.' || $1, 0)) as held`,
      [chain],
    )
    if (rows[0].held) return
    if (!standingBy) log.info('another indexer of this chain is active; standing by')
    await sleep(retryMs)
  }
}
