// npm run bench: every bench but those that run by name only, in some 20 minutes on two cores, between two measurements
// of the machine's own floor; writes bench/RESULTS.md. Run nothing else on the machine meanwhile.
//
// npm run bench NAME ...: the named ones, which are only printed. BENCH_DEPOSITS=10000000 npm run bench year has
// many times the deposits of a whole run; so does BENCH_DEPOSITS=1000000 npm run bench claim.
//
// npm run bench -- --quick: ratios of small sizes, within 2 minutes; fails if one is missing, or less than half of what
// bench/quick.json has. With --keep, it writes that file instead.
import {parseArgs} from 'node:util'
import {onInterrupt} from '../base/interrupt.ts'
import {findBitcoind} from '../devnet/bitcoin/node.ts'
import {benchAbsence} from './absence.ts'
import {benchApi} from './api.ts'
import {benchBlockScan, scanPaidBy} from './block-scan.ts'
import {benchCatchUp, catchUp} from './catch-up.ts'
import {benchClaim} from './claim.ts'
import {benchCompare} from './compare.ts'
import {benchDashboard} from './dashboard.ts'
import {stopServer} from './database.ts'
import {benchDerive} from './derive.ts'
import {benchElectrum} from './electrum.ts'
import {benchFailover, benchQuorum} from './failover.ts'
import {benchIdle} from './idle.ts'
import {benchLatency} from './latency.ts'
import {benchLoad} from './load.ts'
import {benchMachine} from './machine.ts'
import {benchPayPage} from './pay-page.ts'
import {benchPayoutRate, benchRecovery, benchSweeps} from './payouts.ts'
import {benchProcesses} from './processes.ts'
import {runQuick} from './quick.ts'
import {type Bench, run} from './run.ts'
import {benchScale} from './scale.ts'
import {benchSignBitcoin} from './sign-bitcoin.ts'
import {benchSize} from './size.ts'
import {benchSolana, solanaCatchUp} from './solana.ts'
import {benchTron, tronCatchUp} from './tron.ts'
import {benchWebhooks} from './webhooks.ts'
import {runWhole} from './whole.ts'
import {benchYear} from './year.ts'

/** What a whole run has, by topic. */
const topics: Record<string, Record<string, Bench>> = {
  'Following chains': {
    'catch-up': benchCatchUp,
    'block-scan': benchBlockScan,
    tron: benchTron,
    solana: benchSolana,
    electrum: benchElectrum,
  },
  'Deposits and webhooks': {derive: benchDerive, webhooks: benchWebhooks, latency: benchLatency, size: benchSize},
  'API and pages': {api: benchApi, 'pay-page': benchPayPage, dashboard: benchDashboard},
  'A year of deposits': {year: benchYear},
  Payouts: {claim: benchClaim, payouts: benchPayoutRate, 'sign-bitcoin': benchSignBitcoin, absence: benchAbsence},
  'The service': {idle: benchIdle, processes: benchProcesses, compare: benchCompare},
}

const byNameOnly: Record<string, Bench> = {
  machine: benchMachine,
  load: async report => {
    for (const result of await benchLoad()) report(result)
  },
  sweeps: benchSweeps,
  recovery: benchRecovery,
  failover: benchFailover,
  quorum: benchQuorum,
  scale: benchScale,
}

const quick: Record<string, Bench> = {
  'catch-up': report => catchUp(report, {blocks: 2000, perBlock: 5, addresses: 100_000}),
  ...(findBitcoind() && {'block-scan': report => scanPaidBy(report, 'P2WPKH', 100_000)}),
  tron: report => tronCatchUp(report, {blocks: 300, perBlock: 50, addresses: 100_000}),
  solana: solanaCatchUp,
  derive: report => benchDerive(report, 5000),
  webhooks: report => benchWebhooks(report, 10_000),
  api: report => benchApi(report, 1, 1),
}

const {values: options, positionals: names} = parseArgs({
  options: {quick: {type: 'boolean'}, keep: {type: 'boolean'}},
  allowPositionals: true,
})
const known: Record<string, Bench> = Object.assign({}, ...Object.values(topics), byNameOnly)
const unknown = names.find(name => !known[name])
if (unknown) throw new Error(`no bench ${unknown}; there are ${Object.keys(known).join(', ')}`)

onInterrupt({
  first: () => void stopServer().finally(() => process.exit(130)),
  again: () => process.exit(130),
})

if (options.quick) await runQuick(quick, options.keep)
else if (names.length === 0) await runWhole(topics)
else for (const name of names) await run(name, known[name]!)
await stopServer()
process.exit()
