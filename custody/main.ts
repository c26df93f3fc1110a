// Custody as a process. Promises: it reports ready once it takes requests and addresses are free, or once another
// custody does so. It refuses to run with a seed that did not make the database's addresses, and never makes a new seed
// for a database with addresses. With an older copy of the database, or a journal that may lack entries, it hands out
// nothing before it has retired the addresses that may have been handed out since. While the database is away at its
// start, it waits. It ends with exit code 70 when it loses the database, also because it was stopped while it held
// locks.
import {existsSync} from 'node:fs'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import type pg from 'pg'
import {measureDisk} from '../base/disk.ts'
import {PermanentError} from '../base/errors.ts'
import {announceReady, endWhenAsked} from '../base/lifecycle.ts'
import {logger} from '../base/log.ts'
import {observe} from '../base/observe.ts'
import {chains} from '../chains/registry.ts'
import {databaseUrlOf, readSettings, type Settings} from '../chains/settings.ts'
import {inWords} from '../db/client/failure.ts'
import {holdConnection} from '../db/client/held-connection.ts'
import {lockConnection} from '../db/client/pool.ts'
import {type Ends, runProcess} from '../db/client/run-process.ts'
import {requireSameAssets} from '../db/migrate/assets.ts'
import {Custody} from './custody.ts'
import {families, familyNames} from './families.ts'
import {journalFile} from './journal/file.ts'
import {markIncomplete} from './journal/incomplete.ts'
import {Journal} from './journal/journal.ts'
import {deriver} from './keys/addresses.ts'
import {localKeys} from './keys/key-store.ts'
import {sealOf} from './keys/seal.ts'
import {
  createSeed,
  findPassphrase,
  hasSeed,
  isLocal,
  isNewSeed,
  namesPassphrase,
  noteUse,
  passphraseFile,
  readSeed,
  seedFile,
} from './keys/seed.ts'
import {active, addressesMade, journalChanged, journalCompared} from './metrics.ts'
import {
  channel,
  checkPool,
  fillPools,
  giveUpUnsure,
  hasAddresses,
  openTreasuries,
  poolStream,
  recoverPool,
  Supply,
  tryLockPool,
} from './pool.ts'
import {openSocket} from './server.ts'

const checkIntervalMs = 1000
/**
 * Custody holds locks from judging an outgoing payment to the journal's commit. If it is stopped meanwhile, what ends
 * that payment waits: the indexer, or an operator's cancel. After this time Postgres ends the connection. Nothing is in
 * the journal then, and custody ends. Signing the largest transaction takes about a second; what waits gives up after
 * half a minute.
 */
const idleInTransactionMs = 10_000

const log = logger('custody')

async function main(ends: Ends): Promise<never> {
  const settings = readSettings()
  measureDisk('custody', path.dirname(seedFile(settings.home)))
  await observe({...settings, log})
  endWhenAsked() // work under way is in a transaction, or already in the journal: there is nothing to finish
  const client = await connect(databaseUrlOf(settings), ends)
  await lock(client)
  await requireSameAssets(client, settings.chains.values())
  active.set(1)
  const keys = await localKeys(await openSeed(settings, client), families)
  const derive = deriver(keys, settings.chains)
  const streams = [...chains.map(({code}) => code), ...familyNames.map(poolStream)]
  if (!existsSync(journalFile(settings.home)) && !isNewSeed(settings.home))
    markIncomplete(journalFile(settings.home), 'it was missing at the start')
  const journal = new Journal(client, journalFile(settings.home), streams, await sealOf(keys))
  await journal.level() // the database knows from here on whether the journal may lack entries
  for (const family of familyNames) {
    await checkPool(client, derive, family)
    const retired = await recoverPool(client, derive, journal, family)
    if (retired !== undefined)
      log.warn(
        {family, retired},
        'the database is an older copy; addresses that it could hand out a second time are retired',
      )
    const unsure = await giveUpUnsure(client, derive, family)
    if (unsure !== undefined)
      log.warn(
        {family, retired: unsure},
        'the journal may lack entries; addresses that may have been handed out are retired',
      )
  }
  for (const {code} of chains) {
    const blocked = journal.whyBlocked(code)
    if (blocked?.code !== 'journal_ahead') continue
    log.error({chain: code, why: blocked.why}, 'custody signs nothing for this chain; the chain is halted')
    await client.query('select custody.halt_chain($1, $2)', [code, blocked.why])
  }
  for (const {code} of chains) {
    const why = journal.whyUnproven(code)
    if (why !== undefined) log.warn({chain: code, why}, 'custody signs nothing new for this chain yet')
  }
  await journal.compareAll()
  journalCompared.setToCurrentTime()
  await tellChanges(client, journal)
  const treasuries = await openTreasuries(client, derive, isNewSeed(settings.home))
  noteUse(settings.home)
  const custody = new Custody({client, keys, journal, chains: settings.chains, treasuries, log})
  const pools = familyNames.map(family => ({family, supply: new Supply(settings.addressPoolSize)}))
  const fill = () =>
    custody.inTurn(async () => {
      const filled = await fillPools(client, derive, journal, pools)
      for (const {family, added} of filled) addressesMade.inc({family}, added)
      return filled.reduce((sum, {added}) => sum + added, 0)
    })
  await fill()
  await openSocket(settings.home, custody, log)
  announceReady()
  return await keepUp(client, {
    fill,
    compare: () =>
      custody.inTurn(async () => {
        await journal.level()
        if (await journal.compareSome()) journalCompared.setToCurrentTime()
        await tellChanges(client, journal)
      }),
  })
}

/**
 * The connection that custody works with, whose statements may wait for others, and one beside it that notices when the
 * database is away.
 */
async function connect(url: string, {outage, lose}: Ends): Promise<pg.Client> {
  await holdConnection({url, name: 'sluice-custody-watch', outage, onLost: lose})
  const client = lockConnection(url, 'sluice-custody', {idle_in_transaction_session_timeout: idleInTransactionMs})
  client.on('error', error => lose(inWords(error)))
  client.on('end', () => lose('the connection ended'))
  await client.connect()
  return client
}

const logged = new Map<string, string | undefined>()

/** An error in the journal is an incident of its stream until the stream is right again. */
async function tellChanges(client: pg.Client, journal: Journal): Promise<void> {
  for (const stream of journal.streams) {
    const blocked = journal.whyBlocked(stream)
    const why = blocked?.code === 'journal_changed' ? blocked.why : undefined
    journalChanged.set({stream}, why ? 1 : 0)
    const isNews = !logged.has(stream) || logged.get(stream) !== why
    if (isNews && why) log.error({stream, why}, 'custody signs nothing for this stream')
    // Repeated while it is wrong, so that the incident has what is found next, too.
    if (isNews || why) await client.query('select custody.tell_journal($1, $2)', [stream, why])
    logged.set(stream, why)
  }
}

async function lock(client: pg.Client): Promise<void> {
  for (let standingBy = false; !(await tryLockPool(client)); standingBy = true) {
    if (!standingBy) {
      log.info('another custody is active on this database; standing by')
      announceReady() // the other custody makes the addresses
    }
    await sleep(checkIntervalMs)
  }
}

interface Upkeep {
  /** Resolves to the number of added addresses. */
  fill: () => Promise<number>
  compare: () => Promise<void>
}

async function keepUp(client: pg.Client, {fill, compare}: Upkeep): Promise<never> {
  let wake = () => {}
  client.on('notification', () => wake())
  await client.query(`listen ${channel}`)
  let compareAt = 0
  for (;;) {
    const woken = new Promise<void>(resolve => {
      wake = resolve
    })
    const added = await fill()
    if (added) log.info({added}, 'the address pool is filled')
    if (performance.now() >= compareAt) {
      await compare()
      compareAt = performance.now() + checkIntervalMs
    }
    await Promise.race([woken, sleep(checkIntervalMs)])
  }
}

async function openSeed(settings: Settings, client: pg.Client): Promise<string> {
  const {home} = settings
  const mayMake = isLocal(settings)
  if (!hasSeed(home) && (await hasAddresses(client)))
    throw new PermanentError(
      `${seedFile(home)} is missing, and the database has addresses of this seed; restore it from a backup, or make it from its words (sluice custody init --from-phrase); without it, deposits to these addresses cannot be moved`,
    )
  if (!hasSeed(home) && !mayMake)
    throw new PermanentError(
      `there is no seed in ${home} yet; make it with: sluice custody init (npm run -s sluice -- custody init; in containers: docker compose run --rm custody-cli init)`,
    )
  const passphrase = findPassphrase(settings, mayMake)
  if (passphrase === undefined)
    throw new PermanentError(
      'the seed needs a passphrase; set CUSTODY_PASSPHRASE, CUSTODY_PASSPHRASE_FILE to a file that holds it, or CUSTODY_PASSPHRASE_COMMAND to a program that prints it',
    )
  const phrase = await readSeed(home, passphrase)
  if (phrase) return phrase
  const made = await createSeed(home, passphrase)
  const beside = namesPassphrase(settings) ? undefined : passphraseFile(home)
  log.warn(
    {seed: seedFile(home), passphrase: beside},
    beside ? 'made a seed, and a passphrase beside it: for local chains only' : 'made a seed; keep a copy',
  )
  return made
}

runProcess(log, 'custody cannot go on', main)
