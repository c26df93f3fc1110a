// One active indexer per chain. Promises: a separate connection holds the locks of a process, so they are free the
// moment it dies. A process that loses this connection ends at once, because another may already be active.
import {setTimeout as sleep} from 'node:timers/promises'
import type pg from 'pg'
import type {Logger} from '../base/log.ts'
import {holdConnection} from '../db/client/held-connection.ts'
import type {Ends} from '../db/client/run-process.ts'

const retryMs = 1000

/**
 * Opens the connection for the locks of chains, which ends the process when it is lost. Resolves once the database
 * takes writes.
 */
export async function openLock(url: string, processName: string, {outage, lose}: Ends): Promise<pg.Client> {
  const held = await holdConnection({url, name: `${processName}-lock`, outage, onLost: lose})
  return held.client
}

/** Resolves when this process is the active indexer of the chain. */
export async function becomeActive(client: pg.Client, chain: string, log: Logger): Promise<void> {
  for (let standingBy = false; ; standingBy = true) {
    const {rows} = await client.query('select chain.try_lock($1) as held', [chain])
    if (rows[0].held) return
    if (!standingBy) log.info('another indexer of this chain is active; standing by')
    await sleep(retryMs)
  }
}
