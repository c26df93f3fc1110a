// The comparison of every address with its chain, as in sluice audit: addresses/s, each for the coin and for USDC on a
// local EVM chain, and over a local Electrum server, without differences. The floor: the same requests to the same node
// or server, from a bare client that does not read the ledger and writes nothing. (A worker is slower on purpose: it
// takes one batch a minute.)
import {mkdtempSync, rmSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import pg from 'pg'
import {pino} from 'pino'
import {numberToHex} from 'viem'
import {z} from 'zod'
import {Electrum} from '../chains/bitcoin/electrum.ts'
import {addressOfScript, scripthashOf, scriptOfAddress} from '../chains/bitcoin/script.ts'
import {bitcoinSettings} from '../chains/bitcoin/settings.ts'
import type {ChainSettings} from '../chains/families.ts'
import {readSettings} from '../chains/settings.ts'
import {roleUrl} from '../db/migrate/migrate.ts'
import {families} from '../devnet/families.ts'
import {startDevnet} from '../devnet/start.ts'
import {compareAll} from '../jobs/audit/compare.ts'
import {addressesMax, heldCode, readHeld} from '../jobs/audit/evm/held-code.ts'
import {Anvil} from '../test/support/evm/anvil.ts'
import {type Bench, provision, withDatabase} from './database.ts'
import type {Report} from './result.ts'

const Listed = z.array(z.unknown())

export async function benchCompare(report: Report, evmCount = 50_000, electrumCount = 20_000): Promise<void> {
  await withDatabase(bench => onEvm(report, bench, evmCount))
  await withDatabase(bench => onElectrum(report, bench, electrumCount))
}

async function onEvm(report: Report, bench: Bench, count: number): Promise<void> {
  const anvil = await Anvil.start()
  try {
    const addresses = Array.from({length: count}, (_, n) => numberToHex(n, {size: 20}))
    await provision(bench.pool, 'ETH', count, `'0x' || lpad(to_hex(n), 40, '0')`)
    const {height} = await anvil.block()
    await bench.pool.query(`select chain.anchor('ETH', 'bench', $1, '0x', now())`, [height])
    const settings = readSettings({ETH_RPC_URL: anvil.wsUrl, ETH_USDC_CONTRACT: anvil.usdc}).chains.get('ETH')!
    const value = await rate(count, () => compare(bench, settings))
    const floor = await rate(count, async () => {
      for (const contract of [undefined, anvil.usdc])
        for (let at = 0; at < count; at += addressesMax) {
          const some = addresses.slice(at, at + addressesMax)
          const response = await anvil.call('eth_call', [{data: heldCode(contract, some)}, numberToHex(height)])
          readHeld(response, {height, count: some.length})
        }
    })
    const what = `audit, ${count.toLocaleString('en')} addresses of ETH and USDC compared with anvil`
    report({what, value, floor, unit: 'addresses/s'})
  } finally {
    await anvil.stop()
  }
}

async function onElectrum(report: Report, bench: Bench, count: number): Promise<void> {
  const dir = mkdtempSync(path.join(tmpdir(), 'sluice-bench-'))
  const {devnet, client, stop} = await startDevnet(await families.bitcoin(), {chain: 'BTC', dir})
  const settings = readSettings({...devnet.identity, ...devnet.source}).chains.get('BTC')!
  const {chain, network} = bitcoinSettings(settings)
  const format = chain.networks[network]
  const server = new Electrum({urls: [devnet.url], genesis: format.genesis, log: pino({enabled: false})})
  try {
    const addresses = Array.from({length: count}, (_, n) => {
      return addressOfScript(Buffer.from(`0014${n.toString(16).padStart(40, '0')}`, 'hex'), format)!
    })
    const {merchantId} = await provision(bench.pool, 'BTC', 0, `''`)
    await bench.pool.query(
      `insert into app.address (chain, match_key, address, user_id, merchant_id, is_provisioned)
       select 'BTC', a, a, (select id from app.user), $1, true from unnest($2::text[]) a`,
      [merchantId, addresses],
    )
    await bench.pool.query('vacuum analyze app.address')
    await bench.pool.query(`select chain.anchor('BTC', 'bench', $1, '0x', now())`, [(await client.head()).height])
    const value = await rate(count, () => compare(bench, settings))
    const floor = await rate(count, async () => {
      const method = 'blockchain.scripthash.listunspent'
      await Promise.all(
        addresses.map(address => server.request(method, [scripthashOf(scriptOfAddress(address, format))], Listed)),
      )
    })
    const what = `audit, ${count.toLocaleString('en')} addresses compared over Electrum`
    report({what, value, floor, unit: 'addresses/s'})
  } finally {
    server.close()
    await stop()
    rmSync(dir, {recursive: true})
  }
}

async function compare({ownerUrl}: Bench, settings: ChainSettings): Promise<void> {
  const jobs = new pg.Client({connectionString: roleUrl(ownerUrl, 'sluice_jobs')})
  await jobs.connect()
  try {
    const why = await compareAll(jobs, settings, () => {})
    const {rows} = await jobs.query('select unread from app.comparison')
    if (why ?? rows[0]!.unread) throw new Error(`not everything was compared: ${why ?? rows[0]!.unread}`)
  } finally {
    await jobs.end()
  }
}

async function rate(count: number, work: () => Promise<void>): Promise<number> {
  const began = performance.now()
  await work()
  return (count / (performance.now() - began)) * 1000
}
