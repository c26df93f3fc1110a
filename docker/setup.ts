// Writes the files that docker-compose.yml mounts as secrets: node docker/setup.ts FOLDER. Promises: a file that is there stays as it is, so
// it can be run again after an upgrade; nothing secret is printed; the folder is closed to everybody but its owner. (The files in it are
// not: each is mounted alone into the containers that need it, whose users have other numbers than the owner.)
import {createHmac, randomBytes} from 'node:crypto'
import {chmodSync, chownSync, existsSync, readFileSync, statSync, writeFileSync} from 'node:fs'
import path from 'node:path'
import {type Role, roleUrl} from '../db/migrate.ts'

const folder = process.argv[2]
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

if (folder === undefined || !existsSync(folder)) {
  console.error(`setup: ${folder ?? 'no folder is given'}: name a folder that is there, for the secrets`)
  process.exitCode = 1
} else {
  writeSecrets()
  console.log(written.length ? `Made in ./secrets: ${written.join(', ')}.` : 'Everything is there already.')
  console.log('Keep a copy of custody_passphrase at another place than the seed: without it the coins are lost.')
}
