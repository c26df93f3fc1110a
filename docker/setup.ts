// Writes the files that docker-compose.yml mounts as secrets, and makes the seed:
//   node docker/setup.ts FOLDER [--no-seed] [--show-phrase]
// Promises: a file that is there stays as it is, so it can be run again after an upgrade; a
// seed is made only with a new passphrase, in a volume that has none; nothing secret is printed, but for the words with
// --show-phrase; the folder is closed to everybody but its owner. (The files in it are not: each is mounted alone into
// the containers that need it, whose users have other numbers than the owner.) It says what is too small on this
// machine.
import {spawnSync} from 'node:child_process'
import {createHmac, randomBytes} from 'node:crypto'
import {chmodSync, chownSync, existsSync, readFileSync, statSync, writeFileSync} from 'node:fs'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import {parseArgs} from 'node:util'
import {readSettings} from '../chains/settings.ts'
import {type Role, roleUrl} from '../db/migrate/migrate.ts'
import {thisMachine, tooSmall} from './machine.ts'

const usage = 'usage: docker compose run --rm setup [--no-seed | --show-phrase]'
const {folder, noSeed, showPhrase} = options()
const written: string[] = []

/** The content of a file, which is made if it is not there. */
function keep(name: string, make: () => string): string {
  const file = path.join(folder!, name)
  if (!existsSync(file)) {
    writeFileSync(file, `${make()}\n`, {flag: 'wx', mode: 0o644})
    chmodSync(file, 0o644) // whatever the umask is
    const {uid, gid} = statSync(folder!)
    chownSync(file, uid, gid)
    written.push(name)
  }
  return readFileSync(file, 'utf8').trim()
}

const password = () => randomBytes(32).toString('hex')

/** The line of bitcoin.conf that lets a user in, without the password. */
function rpcauth(user: string, secret: string): string {
  const salt = randomBytes(16).toString('hex')
  return `rpcauth=${user}:${salt}$${createHmac('sha256', salt).update(secret).digest('hex')}`
}

const hasSeed = existsSync(path.join(readSettings().home, 'custody', 'seed.json'))

/** A new passphrase would open nothing, and be taken for the one to keep. */
function requirePassphrase(): void {
  if (!hasSeed || existsSync(path.join(folder, 'custody_passphrase'))) return
  console.error(
    'setup: the seed is there, and its passphrase is not: copy the kept file into secrets/custody_passphrase',
  )
  process.exit(1)
}

function writeSecrets(): void {
  chmodSync(folder!, 0o700)
  const ownerPassword = keep('database_password', password)
  const ownerUrl = keep('database_url', () => `postgres://sluice:${ownerPassword}@postgres:5432/sluice`)
  for (const process_ of ['custody', 'jobs', 'api', 'indexer', 'auth', 'dashboard'])
    keep(`database_url_${process_}`, () => roleUrl(ownerUrl, `sluice_${process_}` as Role))
  keep('cluster_password', password) // of Patroni's own roles, for docker-compose.cluster.yml
  keep('dashboard_secret', password)
  keep('custody_passphrase', password)
  // The nodes of docker-compose.yml; others are written in their place.
  keep('eth_rpc_url', () => 'ws://ethereum:8546')
  keep('polygon_rpc_url', () => 'ws://polygon:8546')
  keep('btc_electrum_urls', () => 'tcp://fulcrum:50001')
  const bitcoinPassword = keep('bitcoin_rpc_password', password)
  keep('btc_rpc_url', () => `http://sluice:${bitcoinPassword}@bitcoind:38332`)
  keep('tron_rpc_url', () => 'http://java-tron:8090')
  keep('tron_solidity_url', () => 'http://java-tron:8091')
  for (const name of ['tron_rpc_url_2', 'tron_solidity_url_2', 'tron_api_key']) keep(name, () => '')
  keep('sol_rpc_url', () => 'https://api.devnet.solana.com') // there is no node of Solana to run here
  for (const name of ['sol_rpc_url_2', 'sol_archive_rpc_url', 'sol_ws_url', 'helius_api_key']) keep(name, () => '')
  keep('bitcoin.conf', () => rpcauth('sluice', bitcoinPassword))
  keep('ethereum_jwt', password)
}

/** As the user that custody runs as. The passphrase is in a folder that this user cannot read. */
function makeSeed(): void {
  const {home} = readSettings()
  const {uid, gid} = statSync(home)
  const passphrase = readFileSync(path.join(folder, 'custody_passphrase'), 'utf8').trim()
  const given = [
    fileURLToPath(new URL('../cli/main.ts', import.meta.url)),
    'custody',
    'init',
    ...(showPhrase ? ['--show-phrase'] : []),
  ]
  const env = {...process.env, CUSTODY_PASSPHRASE: passphrase}
  const {status} = spawnSync(process.execPath, given, {uid, gid, env, stdio: 'inherit'})
  if (status !== 0) process.exitCode = 1
}

function options() {
  try {
    const {values, positionals} = parseArgs({
      options: {'no-seed': {type: 'boolean'}, 'show-phrase': {type: 'boolean'}},
      allowPositionals: true,
    })
    const [folder, ...more] = positionals
    if (values['no-seed'] && values['show-phrase']) throw new Error('without a seed there are no words to show')
    if (!folder || !existsSync(folder) || more.length) throw new Error('name one folder that is there, for the secrets')
    return {folder, noSeed: values['no-seed'], showPhrase: values['show-phrase']}
  } catch (error) {
    console.error(`setup: ${(error as Error).message}\n${usage}`)
    process.exit(2)
  }
}

requirePassphrase()
writeSecrets()
console.log(written.length ? `Made in ./secrets: ${written.join(', ')}.` : 'Everything is there already.')
if (written.includes('custody_passphrase') && !noSeed) makeSeed()
else if (hasSeed && showPhrase)
  console.log('The seed is there already. Its words: docker compose run --rm custody-cli init --show-phrase.')
else if (!hasSeed)
  console.log(
    'There is no seed. A lost one is restored: docs/operations/containers.md. docker compose run --rm custody-cli init makes a new one.',
  )
console.log('Keep a copy of custody_passphrase at another place than the seed: without it the coins are lost.')
for (const why of tooSmall(thisMachine())) console.log(`This machine is small for Sluice: ${why}.`)
