// A worker's proof of life: advisory locks on one separate connection. Promises: a worker holds its jobs and webhook
// endpoints exactly as long as its process lives and reaches the database. A worker that loses this connection must end
// at once, because others take over what it held Postgres notices a vanished machine within 25 seconds, the worker a
// vanished Postgres within 10 (db/client/held-connection.ts).
import type pg from 'pg'

import type {Logger} from '../base/log.ts'
import {holdConnection} from '../db/client/held-connection.ts'
import type {Ends} from '../db/client/run-process.ts'

// app.recover_dead_pools knows the connection by this name.
const applicationName = 'sluice-jobs-liveness'

export interface Liveness {
  /** For locks that must not outlive the process. */
  client: pg.Client
  /** For graphile-worker: no pool takes jobs before its lock is held. */
  plugin: GraphileConfig.Plugin
  /** Shows that this worker is alive, and frees what dead workers held. Runs each second. */
  beat(): Promise<void>
  /** Releases everything; its loss ends nothing any more. */
  release(): Promise<void>
}

/** Loses the process when the connection is gone. */
export async function holdLiveness(to: {url: string; log: Logger; ends: Ends}): Promise<Liveness> {
  const {url, log, ends} = to
  const held = await holdConnection({url, name: applicationName, outage: ends.outage, onLost: ends.lose})
  const {client} = held
  const locked = new Map<string, Promise<void>>()
  const lock = (poolId: string) => {
    const taken = locked.get(poolId) ?? lockPool(client, poolId)
    locked.set(poolId, taken)
    return taken
  }

  return {
    client,
    plugin: {
      name: 'SluiceLiveness',
      version: '0.0.0',
      worker: {
        hooks: {
          startWorker: async (_context, {worker}) => {
            await lock(worker.workerPool.id)
          },
        },
      },
    },
    beat: async () => {
      const {rows} = await client.query<{recovered: number}>('select app.recover_dead_pools() as recovered')
      if (rows[0]?.recovered) log.warn({jobs: rows[0].recovered}, 'the jobs of a dead worker run again')
    },
    release: () => held.release(),
  }
}

async function lockPool(client: pg.Client, poolId: string): Promise<void> {
  const {rows} = await client.query<{held: boolean | null}>('select app.lock_worker($1) as held', [poolId])
  if (!rows[0]!.held) throw new Error(`the lock of the pool ${poolId} cannot be taken`)
}
