// Custody as a process. PROVISIONAL: it keeps the address pool filled from a local seed, and signs nothing. Promises: says that it is ready
// once addresses are free, or another custody process sees to that; refuses to run with a seed that did not make the database's addresses, and never makes a new seed beside them;
// ends with exit code 1 when it loses the database.
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import type pg from 'pg'
import {lockConnection} from '../db/pool.ts'
import {PermanentError} from '../service/errors.ts'
import {announceReady, endWhenAsked} from '../service/lifecycle.ts'
import {logger} from '../service/log.ts'
import {databaseUrlOf, readSettings} from '../service/settings.ts'
import {channel, checkPool, fillPool, hasAddresses, tryLockPool} from './pool.ts'
import {createSeed, evmAddresses, readSeed} from './seed.ts'

const checkIntervalMs = 1000

const log = logger('custody')

async function main(): Promise<never> {
  const settings = readSettings()
  const client = lockConnection(databaseUrlOf(settings), 'sluice-custody')
  client.on('error', error => {
    log.fatal({error: error.message}, 'the database connection is lost')
    process.exit(1)
  })
  endWhenAsked() // every insert is a transaction of its own; there is nothing to finish
  await client.connect()
  for (let standingBy = false; !(await tryLockPool(client)); standingBy = true) {
    if (!standingBy) {
      log.info('another custody process fills the pool of this database; standing by')
      announceReady() // addresses are being made, by the other one
    }
    await sleep(checkIntervalMs)
  }
  const derive = await evmAddresses(await openSeed(settings.home, client))
  await checkPool(client, derive)
  let wake = () => {}
  client.on('notification', () => wake())
  await client.query(`listen ${channel}`)
  for (let isFirst = true; ; isFirst = false) {
    const woken = new Promise<void>(resolve => {
      wake = resolve
    })
    const added = await fillPool(client, derive, settings.addressPoolSize)
    if (added) log.info({added}, 'the address pool is filled')
    if (isFirst) announceReady()
    await Promise.race([woken, sleep(checkIntervalMs)])
  }
}

async function openSeed(home: string, client: pg.Client): Promise<string> {
  const phrase = readSeed(home)
  if (phrase) return phrase
  const file = path.join(home, 'seed')
  if (await hasAddresses(client))
    throw new PermanentError(
      `${file} is missing, and the database holds addresses of it; restore it from a backup, or deposits to them cannot be moved`,
    )
  log.warn({file}, 'made a new seed, which is stored unencrypted: for test networks only; keep a copy')
  return createSeed(home)
}

main().catch(error => {
  log.fatal(
    {error: error.message, stack: error instanceof PermanentError ? undefined : error.stack},
    'custody cannot go on',
  )
  process.exit(1)
})
