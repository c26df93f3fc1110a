// sluice custody: the seed and the journal, for operators. It is a separate program (cli/custody.ts starts it), because
// no other code may touch keys. Promises: it prints no secret, except the phrase with --show-phrase. Exit code 0 means
// that all is well, 1 that it is not, 2 that the command line was wrong.
import {existsSync, readFileSync} from 'node:fs'
import path from 'node:path'
import {Command, CommanderError} from 'commander'
import pg from 'pg'
import {PermanentError} from '../base/errors.ts'
import {awaitService, type ChainFacts, readService} from '../base/home.ts'
import {formatUnits, parseUnits} from '../base/units.ts'
import {type ChainSettings, hasNode} from '../chains/families.ts'
import {type ChainCode, chains, type Family} from '../chains/registry.ts'
import {loadEnvironmentFile, readSettings, type Settings, settingsFrom} from '../chains/settings.ts'
import {families, familyNames, familyOf} from './families.ts'
import {readBackup, restoreBackup, writeBackup} from './journal/backup.ts'
import {journalFile, readHeads, readKnown} from './journal/file.ts'
import {enterFound} from './journal/found.ts'
import {incompleteMark} from './journal/incomplete.ts'
import type {Known} from './journal/known.ts'
import {reconcile} from './journal/reconcile.ts'
import {foundInWords, unknowable} from './journal/unknowable.ts'
import {mostOf, spentToday} from './judge/budget.ts'
import {deriver} from './keys/addresses.ts'
import {localKeys} from './keys/key-store.ts'
import {type Seal, sealOf} from './keys/seal.ts'
import {
  changePassphrase,
  createSeed,
  decryptPhrase,
  findPassphrase,
  hasSeed,
  isLocal,
  namesPassphrase,
  passphraseFile,
  placeSeed,
  readSeed,
  seedFile,
} from './keys/seed.ts'
import {verifyAddresses} from './keys/verify.ts'
import {phraseIn, readWords} from './keys/words.ts'

const program = new Command('sluice custody')
  .description('The seed, the journal of signed transactions, and the fee budget.')
  .showHelpAfterError('(--help shows how to use it)')
  .exitOverride()

program
  .command('init')
  .description(
    'Makes the seed, encrypted with CUSTODY_PASSPHRASE, the content of CUSTODY_PASSPHRASE_FILE, or what CUSTODY_PASSPHRASE_COMMAND prints.',
  )
  .option('--show-phrase', 'print the 24 words of the seed, to write them down; they give access to all money')
  .option('--from-phrase [file]', 'make it from its 24 words: asks for them, or reads the file or standard input')
  .action(init)

program
  .command('backup')
  .description('Copies the encrypted seed and the journal into one file.')
  .requiredOption('--to <file>', 'a file that does not exist yet')
  .action(({to}: {to: string}) => {
    const entries = writeBackup(readSettings().home, to)
    console.log(
      `${to} has the encrypted seed and ${count(entries, 'entry', 'entries')} of the journal. It cannot be used without the passphrase.`,
    )
  })

program
  .command('restore')
  .description('Restores the seed and the journal from a backup into SLUICE_HOME. Files that are there already stay.')
  .requiredOption('--from <file>', 'a file of sluice custody backup')
  .action(async ({from}: {from: string}) => {
    const {home} = readSettings()
    const put = await restoreBackup(home, from)
    console.log(
      put.length
        ? `The ${put.join(' and the ')} of ${from} ${put.length === 1 ? 'is' : 'are'} in ${path.join(home, 'custody')} now.`
        : `${path.join(home, 'custody')} has a seed and a journal already; they stay as they are.`,
    )
    if (put.includes('journal'))
      console.log(
        'Something may have been signed since the backup was made. Custody signs nothing new on a chain until it knows what, as far as the chain shows it; ' +
          'sluice status says what it waits for. Once the indexers have caught up, run sluice custody reconcile.',
      )
  })

program
  .command('passphrase')
  .description(
    'Encrypts the seed with a new passphrase. Custody keeps running, and needs the new passphrase at its next start.',
  )
  .requiredOption('--new-file <file>', 'a file that holds the new passphrase, of at least 8 characters')
  .action(async ({newFile}: {newFile: string}) => {
    const settings = readSettings()
    await changePassphrase(settings.home, passphraseOf(settings), readPassphrase(newFile))
    console.log(
      `${seedFile(settings.home)} now opens only with the passphrase in ${newFile}. Before custody starts again, set CUSTODY_PASSPHRASE_FILE to ` +
        'that file, or CUSTODY_PASSPHRASE to its content. Backups that were made before keep the old passphrase.',
    )
  })

program
  .command('verify')
  .description('Checks that every address in the database comes from the seed.')
  .option('--backup <file>', 'check with the seed of this backup')
  .action(verify)

program
  .command('reconcile')
  .description(
    'Imports journal entries that a restored database is missing; rebuilds those of a lost journal from the chains.',
  )
  .action(reconcileAll)

program
  .command('budget')
  .description("Shows how much of today's (UTC) budget for network fees is left, and raises the budget for today.")
  .option('--chain <code>', 'the chain to raise')
  .option('--raise <amount>', 'how much to add for today, in whole coins, such as 0.25')
  .action(budget)

program
  .command('open', {hidden: true})
  .description('Whether the passphrase of the settings opens the seed: sluice drill asks before it does anything.')
  .action(async () => {
    const settings = readSettings()
    await readSeed(settings.home, passphraseOf(settings))
  })

async function reconcileAll(): Promise<void> {
  const settings = readSettings()
  const file = journalFile(settings.home)
  if (!existsSync(file))
    throw new PermanentError(
      `there is no journal in ${settings.home}; start custody first, which writes it from the database`,
    )
  await withDatabase(settings, async client => {
    const done = await reconcile(client, file)
    console.log(
      done.entries
        ? `${count(done.entries, 'entry was', 'entries were')} imported, of ${count(done.payouts, 'payout', 'payouts')}; Sluice follows their transactions and broadcasts them again.`
        : 'The database has every entry of the journal.',
    )
    if (done.without_purpose)
      console.log(
        `${done.without_purpose} of them cancelled a payment that is no longer known; if the cancel was mined, sluice incident list shows it.`,
      )
    const mark = incompleteMark(file)
    if (mark === undefined) return // a complete journal: what it does not have, custody did not sign
    const found = await enterFound(client, () => sealIn(settings))
    for (const line of [...foundInWords(found), ...(await unknowable(client, mark))]) console.log(line)
  })
}

async function sealIn(settings: Settings): Promise<Seal> {
  const {home} = settings
  const phrase = await readSeed(home, passphraseOf(settings))
  if (!phrase) throw new PermanentError(`there is no seed in ${home}; sluice custody init makes one`)
  return await sealOf(await localKeys(phrase, families))
}

async function budget({chain: code, raise}: {chain?: string; raise?: string}): Promise<void> {
  if ((code === undefined) !== (raise === undefined))
    throw new PermanentError('--chain and --raise belong together: sluice custody budget --chain ETH --raise 0.25')
  const settings = readSettings()
  await withDatabase(settings, async client => {
    if (code !== undefined && raise !== undefined) await raiseBudget(client, settings, code, raise)
    const known = readKnown(journalFile(settings.home))
    for (const chain of settings.chains.values()) console.log(await describeBudget(client, known, chain))
  })
}

/** The budget is what limits a thief: a slip of the keyboard must not lift it. */
const mostRaised = 10n

async function raiseBudget(client: pg.Client, {chains}: Settings, code: string, raise: string): Promise<void> {
  const found = [...chains.values()].find(({chain}) => chain.code === code)
  if (!found) throw new PermanentError(`there is no chain ${code}; there are ${[...chains.keys()].join(', ')}`)
  const {decimals, token} = found.chain.assets[0]
  const isAmount = /^\d+(\.\d+)?$/.test(raise) && (raise.split('.')[1] ?? '').length <= decimals
  const amount = isAmount ? parseUnits(raise, decimals) : 0n
  if (amount <= 0n) throw new PermanentError(`--raise ${raise} is not an amount of ${token}, such as 0.25`)
  const most = mostRaised * (found.feeBudget || 10n ** BigInt(decimals))
  if (amount > most)
    throw new PermanentError(
      `--raise ${raise} is more than ${formatUnits(most, decimals)} ${token}: at once, at most ${mostRaised} times ${code}_FEE_BUDGET`,
    )
  await client.query(
    `insert into custody.budget_raise (chain, day, amount) values ($1, (clock_timestamp() at time zone 'UTC')::date, $2)`,
    [code, String(amount)],
  )
}

/** Uses the settings and the journal of this command line. They should be the same as custody's. */
async function describeBudget(client: pg.Client, known: Known, settings: ChainSettings): Promise<string> {
  const {code, assets} = settings.chain
  const spent = await spentToday(client, known, settings)
  const coins = (units: bigint) => `${formatUnits(units > 0n ? units : 0n, assets[0].decimals)} ${assets[0].token}`
  const raised = spent.raised ? `, and ${coins(spent.raised)} for today` : ''
  return [
    `${code.padEnd(8)} ${coins(spent.used)} of ${coins(spent.budget)} a day (${code}_FEE_BUDGET)${raised} may be used by today's signatures`,
    `left: ${coins(mostOf(spent, false) - spent.used)}, or ${coins(mostOf(spent, true) - spent.used)} for payments under way`,
  ].join('; ')
}

async function init({showPhrase, fromPhrase}: {showPhrase?: boolean; fromPhrase?: string | true}): Promise<void> {
  const mayMakePassphrase = isLocal(readSettings())
  const settings = await settingsOfService()
  const {home} = settings
  const existed = hasSeed(home)
  const passphrase = findPassphrase(settings, mayMakePassphrase)
  if (passphrase === undefined)
    throw new PermanentError(
      'set CUSTODY_PASSPHRASE, CUSTODY_PASSPHRASE_FILE to a file that holds the passphrase, or CUSTODY_PASSPHRASE_COMMAND to a program that prints it; do not keep it in the same place as the seed',
    )
  const phrase = fromPhrase
    ? await enterSeed(settings, passphrase, fromPhrase === true ? undefined : fromPhrase)
    : ((await readSeed(home, passphrase)) ?? (await createSeed(home, passphrase)))
  if (!fromPhrase)
    console.log(existed ? `There is a seed in ${seedFile(home)} already.` : `Made a seed: ${seedFile(home)}`)
  const derive = deriver(await localKeys(phrase, families), settings.chains)
  for (const family of familyNames) {
    const treasury = (await isNetworkKnown(settings, family))
      ? await derive({family, purpose: 'treasury', index: 0})
      : 'depends on the network: sluice treasury show prints it once the service runs'
    console.log(`treasury  ${treasury}  ${chainsOf(family)}`)
  }
  if (!namesPassphrase(settings))
    console.log(`Its passphrase is in ${passphraseFile(home)}, beside the seed. Do this for local chains only.`)
  if (showPhrase) console.log(`phrase    ${phrase}`)
  console.log(
    'Keep a copy in another place: sluice custody backup --to FILE. Seed and passphrase together give access to all money.',
  )
}

/**
 * Whether the addresses of a family are sure: where they differ by network, one without a node may be a local chain
 * with a network of its own.
 */
async function isNetworkKnown(settings: Settings, family: Family): Promise<boolean> {
  if (!familyOf({family}).otherNetwork) return true
  const followed = (await findService(settings))?.chains ?? {}
  const ofFamily = [...settings.chains.values()].filter(of => of.family === family)
  return ofFamily.some(
    of => hasNode(of) || !settings.localChains.includes(of.chain.code) || followed[of.chain.code] !== undefined,
  )
}

/**
 * The seed of words that somebody enters. Nothing is written if the addresses of the database, where there is one, are
 * others.
 */
async function enterSeed(settings: Settings, passphrase: string, file: string | undefined): Promise<string> {
  const {home} = settings
  const before = await readSeed(home, passphrase)
  const phrase = phraseIn(await readWords(file))
  if (before !== undefined && before !== phrase)
    throw new PermanentError(
      `${seedFile(home)} is another seed than these words, and stays as it is; to use the words, move it away or set another SLUICE_HOME`,
    )
  const compared = await compareWithDatabase(settings, phrase)
  if (before === undefined) await placeSeed(home, phrase, passphrase)
  console.log(
    before === undefined
      ? `Made the seed of these words: ${seedFile(home)}`
      : `${seedFile(home)} has the seed of these words already.`,
  )
  console.log(compared)
  return phrase
}

/** What came of it, in words. */
async function compareWithDatabase(settings: Settings, phrase: string): Promise<string> {
  if (!(await databaseUrlOf(settings)))
    return (
      `No service runs in ${settings.home}, and DATABASE_URL is not set: the addresses of no database were compared. ` +
      'Custody does not start with a database of another seed; sluice custody verify compares all of its addresses.'
    )
  const derive = deriver(await localKeys(phrase, families), settings.chains)
  const {addresses, differences, examples} = await withDatabase(settings, client => verifyAddresses(client, derive))
  const [first] = examples
  if (first)
    throw new PermanentError(
      familyOf(first).otherNetwork?.(first.seed, first.database) ??
        `these words are of another service: ${differences} of ${count(addresses, 'address', 'addresses')} of the database do not come from them ` +
          `(${first.family} ${first.purpose} ${first.index} is ${first.database} there, and ${first.seed} by the words); no seed was made`,
    )
  return addresses
    ? `All ${addresses} addresses of the database come from these words. What was signed since the database was copied is known only to the chains: ` +
        'docs/operations/from-the-words.md.'
    : 'The database has no addresses yet, so there was nothing to compare.'
}

async function verify({backup: file}: {backup?: string}): Promise<void> {
  const settings = await settingsOfService()
  const {home} = settings
  const passphrase = passphraseOf(settings)
  const backup = file === undefined ? undefined : await readBackup(file)
  const phrase = backup ? await decryptPhrase(backup.seed, passphrase, file!) : await readSeed(home, passphrase)
  if (!phrase) throw new PermanentError(`there is no seed in ${home}; sluice custody init makes one`)
  const derive = deriver(await localKeys(phrase, families), settings.chains)
  const found = await withDatabase(settings, client => verifyAddresses(client, derive))
  const source = file ?? seedFile(home)
  for (const {family, purpose, index, database, seed} of found.examples)
    console.log(`${family} ${purpose} ${index}: the database has ${database}, the seed gives ${seed}`)
  console.log(
    found.differences
      ? `${found.differences} of ${count(found.addresses, 'address', 'addresses')} do not come from ${source}`
      : `${count(found.addresses, 'address comes', 'addresses come')} from ${source}, each as it is in the database.`,
  )
  if (found.differences) process.exitCode = 1
  for (const [stream, {seq}] of readHeads(journalFile(home))) {
    const behind = backup && seq - (backup.heads.get(stream)?.seq ?? 0)
    const lacking = behind ? `; the backup lacks the newest ${behind}` : ''
    console.log(`journal ${stream}: ${count(seq, 'entry', 'entries')}, whole${lacking}`)
  }
}

function passphraseOf(settings: Settings): string {
  const passphrase = findPassphrase(settings, false)
  if (passphrase === undefined)
    throw new PermanentError('set CUSTODY_PASSPHRASE, CUSTODY_PASSPHRASE_FILE or CUSTODY_PASSPHRASE_COMMAND')
  return passphrase
}

function readPassphrase(file: string): string {
  let passphrase: string
  try {
    passphrase = readFileSync(file, 'utf8').trim()
  } catch (error) {
    throw new PermanentError(`${file} cannot be read (${(error as NodeJS.ErrnoException).code}); nothing was changed`)
  }
  if (passphrase.length < 8) throw new PermanentError(`${file} must hold at least 8 characters; nothing was changed`)
  return passphrase
}

/**
 * The settings of the service that runs here: a local chain has a network of its own, and addresses differ by network.
 */
async function settingsOfService(): Promise<Settings> {
  const settings = readSettings()
  const followed = (await findService(settings))?.chains ?? {}
  for (const [code, facts] of Object.entries(followed) as [ChainCode, ChainFacts][])
    settings.chains.set(code, settingsFrom(code, facts.settings))
  return settings
}

async function databaseUrlOf(settings: Settings): Promise<string | undefined> {
  return settings.databaseUrl ?? (await findService(settings))?.database_url
}

/** Also one that starts at this moment, or that was killed: its database may be there. */
async function findService({home}: Settings) {
  return (await awaitService(path.resolve(home))) ?? readService(path.resolve(home))
}

async function withDatabase<T>(settings: Settings, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const home = path.resolve(settings.home)
  const url = await databaseUrlOf(settings)
  if (!url)
    throw new PermanentError(
      `no service runs in ${home}; start it with npm start, or set DATABASE_URL to the owner's URL`,
    )
  const client = new pg.Client({connectionString: url, application_name: 'sluice-custody-cli'})
  await client.connect().catch(cause => {
    throw new PermanentError(`the database of ${home} cannot be reached (${cause.message})`, {cause})
  })
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

function chainsOf(family: Family): string {
  const codes = chains.filter(chain => chain.family === family).map(({code}) => code)
  return codes.join(', ')
}

function count(number: number, one: string, many: string): string {
  return `${number} ${number === 1 ? one : many}`
}

try {
  loadEnvironmentFile()
  await program.parseAsync()
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2
  else {
    console.error(`sluice: ${(error as Error).message}`)
    process.exitCode = 1
  }
}
