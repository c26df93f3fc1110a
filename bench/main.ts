// npm run bench [name ...]: runs all benches, or the named ones, and writes bench/RESULTS.md. Every number is a ratio
// to a floor that was measured in the same run on the same machine. Run nothing else on the machine meanwhile.
import {execFileSync} from 'node:child_process'
import {writeFileSync} from 'node:fs'
import {cpus, totalmem} from 'node:os'
import {clusterPrograms} from '../test/support/cluster.ts'
import {benchAbsence} from './absence.ts'
import {benchAnalytics} from './analytics.ts'
import {benchApi} from './api.ts'
import {benchBlockScan} from './block-scan.ts'
import {benchCatchUp, type CatchUp} from './catch-up.ts'
import {benchClaim} from './claim.ts'
import {benchCompare} from './compare.ts'
import {benchDashboard} from './dashboard.ts'
import {benchDerive} from './derive.ts'
import {benchElectrum} from './electrum.ts'
import {benchFailover, benchQuorum, failoverTable} from './failover.ts'
import {benchIdle, sumOf} from './idle.ts'
import {benchLatency} from './latency.ts'
import {benchMoney} from './money.ts'
import {benchPayPage} from './pay-page.ts'
import {benchPayoutRate, benchRecovery, benchSweeps, benchTronSweeps} from './payouts.ts'
import {benchProcesses} from './processes.ts'
import {type Result, ratio} from './result.ts'
import {benchScale, scaleTable} from './scale.ts'
import {benchSignBitcoin} from './sign-bitcoin.ts'
import {benchSize} from './size.ts'
import {benchSolana, benchSolanaAtHead} from './solana.ts'
import {benchTron} from './tron.ts'
import {benchWebhooks} from './webhooks.ts'

const results: Result[] = []
const facts: string[] = []

/** The run with the median ratio of three. */
async function median(run: () => Promise<CatchUp>): Promise<CatchUp> {
  const runs = [await run(), await run(), await run()]
  const ratioOf = ({results: [ours]}: CatchUp) => ours!.value / ours!.floor
  return runs.sort((a, b) => ratioOf(a) - ratioOf(b))[1]!
}

const benches: Record<string, () => Promise<void>> = {
  async 'catch-up'() {
    const small = await median(() => benchCatchUp(5000, 5))
    const large = await median(() => benchCatchUp(600, 150))
    const [smallOurs, ...smallOthers] = small.results
    const [largeOurs, ...largeOthers] = large.results
    results.push({...smallOurs!, target: '0.19, then 0.35'}, ...smallOthers)
    results.push({...largeOurs!, target: '0.34, then 0.55'}, ...largeOthers)
    facts.push(
      `Peak memory of the indexer with 1,000,000 provisioned addresses: ${small.memoryMb.toFixed(0)} MB with blocks of 5 transactions, ${large.memoryMb.toFixed(0)} MB with blocks of 150 (addresses are matched in SQL; none are held in memory). It computed ${small.cpuUsPerBlock.toFixed(0)} and ${large.cpuUsPerBlock.toFixed(0)} µs for a block.`,
    )
  },
  async 'block-scan'() {
    results.push(...(await benchBlockScan()))
  },
  async tron() {
    results.push(...(await benchTron()))
  },
  async solana() {
    results.push(...(await benchSolana()))
    const {core, connection} = await benchSolanaAtHead()
    facts.push(
      `Solana at its head, with 5 slots a second and blocks of 750 transactions (of slots half as long as those of 400 ms, with blocks of 1500): the indexer takes ${(100 * core).toFixed(0)} % of a core, and ${(100 * connection).toFixed(0)} % of a connection of Postgres (aim: 30 % of each).`,
    )
  },
  async absence() {
    for (const [paymentsPerDay, nodes] of [
      [10_000, 2],
      [10_000, 1],
      [100_000, 1],
    ] as const) {
      const {transactions, requests, ...rate} = await benchAbsence(paymentsPerDay, nodes)
      results.push(rate)
      facts.push(
        `${rate.what}: ${requests} requests, for ${transactions} transactions of the treasury's account since the payment could be in a block.`,
      )
    }
  },
  async derive() {
    results.push(...(await benchDerive()))
  },
  async webhooks() {
    const {results: rates, latencyMs} = await benchWebhooks()
    results.push(...rates)
    facts.push(
      `Commit of an event to the arrival of its webhook: p50 ${latencyMs.p50.toFixed(1)} ms, p95 ${latencyMs.p95.toFixed(1)} ms.`,
    )
  },
  async latency() {
    for (const chain of ['ETH', 'TRON', 'SOL'] as const) {
      const {p50, p95} = await benchLatency(chain)
      facts.push(
        `${chain}: block announced by the node to webhook received: p50 ${p50.toFixed(0)} ms, p95 ${p95.toFixed(0)} ms.`,
      )
    }
  },
  async processes() {
    for (const {name, startMs, memoryMb} of await benchProcesses())
      facts.push(`${name}: ready ${startMs.toFixed(0)} ms after its start, ${memoryMb.toFixed(0)} MB of memory.`)
  },
  async idle() {
    const costs = await benchIdle()
    const here = costs.filter(({isLocalChain}) => !isLocalChain)
    for (const {name, wakeUps, percent, memoryMb} of [
      ...costs,
      {name: 'all but the local chains', ...sumOf(here)},
      {name: 'all', ...sumOf(costs)},
    ])
      facts.push(
        `Idle, ${name}: ${wakeUps.toFixed(0)} wake-ups/s, ${percent.toFixed(1)} % of a core, ${memoryMb.toFixed(0)} MB.`,
      )
  },
  async api() {
    results.push(...(await benchApi()))
  },
  async 'pay-page'() {
    results.push(...(await benchPayPage()))
  },
  async dashboard() {
    results.push(...(await benchDashboard()))
  },
  async money() {
    results.push(...(await benchMoney()))
  },
  async analytics() {
    results.push(...(await benchAnalytics()))
  },
  async size() {
    for (const {table, bytes, indexBytes, isKept} of await benchSize())
      facts.push(
        `${table}: ${bytes.toFixed(0)} bytes for each deposit, ${indexBytes.toFixed(0)} of them indexes, ${isKept ? 'kept for ever' : 'kept for DELIVERY_RETENTION_DAYS'}.`,
      )
  },
  async payouts() {
    results.push(await benchPayoutRate())
  },
  async 'sign-bitcoin'() {
    results.push(...(await benchSignBitcoin()))
  },
  async sweeps() {
    for (const {addresses, token, sweptSeconds, seconds, gasPerAddress} of await benchSweeps())
      facts.push(
        `A payout that sweeps ${addresses} addresses of ${token}: swept, finally, after ${sweptSeconds.toFixed(1)} s, paid, finally, after ${seconds.toFixed(1)} s (finality takes 8 to 9 s of each); ${gasPerAddress.toFixed(0)} gas per address.`,
      )
    for (const {addresses, round, way, fundTrx, lendTrx, sweepTrx, paymentTrx} of await benchTronSweeps())
      facts.push(
        `The ${round} sweep of each of ${addresses} addresses of USDT on Tron, energy ${way}: ${fundTrx.toFixed(4)} TRX to send it TRX, ${lendTrx.toFixed(4)} TRX to lend it energy and take that back, ${sweepTrx.toFixed(4)} TRX for its transfer; the payment ${paymentTrx.toFixed(4)} TRX.`,
      )
  },
  async claim() {
    for (const deposits of [500, 1_000_000]) {
      const {claimMs, allocationSeconds, writerMs} = await benchClaim(deposits)
      facts.push(
        `A payout of ${deposits.toLocaleString('en')} deposits: the request took ${claimMs.toFixed(0)} ms, allocation the rest ${allocationSeconds.toFixed(1)} s; another writer of the same merchant and token waited at most ${writerMs.during.toFixed(0)} ms for a deposit meanwhile, ${writerMs.before.toFixed(0)} ms before.`,
      )
    }
  },
  async electrum() {
    results.push(...(await benchElectrum()))
  },
  async compare() {
    results.push(...(await benchCompare()))
  },
  async failover() {
    const {table, wrong, sum} = await benchFailover()
    if (wrong.length) throw new Error(`after the faults, this is wrong:\n${wrong.join('\n')}`)
    facts.push(
      `A cluster that fails over, under load. ${sum}; nothing acknowledged was lost, and nothing is there twice.\n\n${failoverTable(table)}`,
    )
  },
  async quorum() {
    for (const {clients, off, on} of await benchQuorum())
      facts.push(
        `One-row commits on a cluster, ${clients} at once: ${off.rate.toFixed(0)} /s and ${off.ms.toFixed(2)} ms each without a standby that is waited for, ${on.rate.toFixed(0)} /s and ${on.ms.toFixed(2)} ms with the quorum.`,
      )
  },
  async scale() {
    facts.push(
      `A service on a cluster, one process and two, all on the cores of this machine.\n\n${scaleTable(await benchScale())}`,
    )
  },
  async recovery() {
    const {restarted, takenOver} = await benchRecovery()
    const list = (values: number[]) => values.map(value => value.toFixed(0)).join(', ')
    facts.push(
      `kill -9 of the worker in the middle of a step, to the next step of that payout: ${list(takenOver)} ms where a second worker runs, ${list(restarted)} ms where the supervisor starts it again (aim: under 3 s).`,
    )
  },
}

const known = Object.keys(benches).filter(name => clusterPrograms || !['failover', 'quorum', 'scale'].includes(name))
const names = process.argv.length > 2 ? process.argv.slice(2) : known
for (const name of names) {
  const bench = benches[name]
  if (!bench) throw new Error(`no bench ${name}; there are ${Object.keys(benches).join(', ')}`)
  console.error(`${name} ...`)
  await bench()
  if (process.argv.length === 2) writeFileSync(new URL('RESULTS.md', import.meta.url), report())
}
console.log(report())
process.exit(0)

function report(): string {
  const number = (value: number) => value.toLocaleString('en', {maximumFractionDigits: value < 10 ? 2 : 0})
  const rows = results.map(result => {
    const {what, value, unit, floor, target = ''} = result
    return `| ${what} | ${number(value)} ${unit} | ${number(floor)} | ${ratio(result)} | ${target} |`
  })
  const machine = `${cpus().length} × ${cpus()[0]!.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}, PostgreSQL 18 with fsync on`
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD']).toString().trim()
  return `# What was measured

\`npm run bench\` on ${machine}, at ${commit}. Every ratio is to a floor of the same run; what each bench does stands at the top of its file in
\`bench/\`.

| what | rate | floor | ratio | aim |
|---|---|---|---|---|
${rows.join('\n')}

${facts.map(fact => `- ${fact}`).join('\n')}
`
}
