// npm run bench: what is not by name only, within 20 minutes on two cores, between two measurements of the machine's
// own floor; writes bench/RESULTS.md. Run nothing else on the machine meanwhile.
//
// npm run bench NAME ...: the named ones, which are only printed. BENCH_DEPOSITS=10000000 npm run bench year has ten
// times the deposits of a whole run.
import {benchAbsence} from './absence.ts'
import {benchApi} from './api.ts'
import {benchBlockScan} from './block-scan.ts'
import {benchCatchUp} from './catch-up.ts'
import {benchClaim} from './claim.ts'
import {benchCompare} from './compare.ts'
import {benchDashboard} from './dashboard.ts'
import {benchDerive} from './derive.ts'
import {benchElectrum} from './electrum.ts'
import {benchFailover, benchQuorum} from './failover.ts'
import {benchLatency} from './latency.ts'
import {benchMachine} from './machine.ts'
import {benchPayPage} from './pay-page.ts'
import {benchPayoutRate, benchRecovery, benchSweeps} from './payouts.ts'
import {benchProcesses} from './processes.ts'
import {type Bench, run} from './run.ts'
import {benchScale} from './scale.ts'
import {benchSignBitcoin} from './sign-bitcoin.ts'
import {benchSize} from './size.ts'
import {benchSolana} from './solana.ts'
import {benchTron} from './tron.ts'
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
  'The service': {processes: benchProcesses, compare: benchCompare},
}

const byNameOnly: Record<string, Bench> = {
  machine: benchMachine,
  sweeps: benchSweeps,
  recovery: benchRecovery,
  failover: benchFailover,
  quorum: benchQuorum,
  scale: benchScale,
}

const names = process.argv.slice(2)
const known: Record<string, Bench> = Object.assign({}, ...Object.values(topics), byNameOnly)
const unknown = names.find(name => !known[name])
if (unknown) throw new Error(`no bench ${unknown}; there are ${Object.keys(known).join(', ')}`)

if (names.length === 0) await runWhole(topics)
else for (const name of names) await run(name, known[name]!)
process.exit()
