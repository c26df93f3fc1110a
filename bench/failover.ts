// How long writes are away when the primary of a cluster fails, and how long until every process of the service works
// again: a whole service on a real cluster (Patroni, three etcd, HAProxy, three servers with fsync on), under load,
// through each fault of test/support/cluster-faults.ts. And what the quorum costs: one-row commits with pgbench. Needs
// CLUSTER_BIN: the folder that test/install-cluster fills.
import {execFile} from 'node:child_process'
import {writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {promisify} from 'node:util'
import {Cluster, clusterPrograms, query} from '../test/support/cluster.ts'
import {type FaultName, faults} from '../test/support/cluster-faults.ts'
import {ClusterLoad} from '../test/support/cluster-load.ts'
import type {Report} from './result.ts'

const pgbenchSeconds = 10

/** Throws if something that was acknowledged was lost, or is there twice. */
export async function benchFailover(report: Report): Promise<void> {
  requirePrograms()
  const cluster = await Cluster.start()
  try {
    const load = await ClusterLoad.start(cluster)
    try {
      for (const fault of Object.keys(faults) as FaultName[]) await measure(cluster, load, fault, report)
      const wrong = await load.verify()
      if (wrong.length) throw new Error(`after the faults, this is wrong:\n${wrong.join('\n')}`)
      report({what: 'acknowledged and there once', value: load.users.size, unit: 'users'})
      report({what: 'acknowledged and there once', value: load.payouts.size, unit: 'payouts'})
    } finally {
      await load.close()
    }
  } finally {
    await cluster.close()
  }
}

async function measure(cluster: Cluster, load: ClusterLoad, fault: FaultName, report: Report): Promise<void> {
  const refusedBefore = load.statuses['503'] ?? 0
  const began = performance.now()
  const end = await faults[fault](cluster, (await cluster.primary())!)
  await load.writes(began + 1000)
  const isFirstAgain = (at: number, n: number) => at > began && at - (load.acknowledged[n - 1] ?? at) > 1000
  const back = load.acknowledged.findLast(isFirstAgain) ?? performance.now()
  await load.allWork()
  const allWork = Math.max(0, performance.now() - back) / 1000
  const away = load.longestPauseSince(began)
  await end()
  await cluster.healthy()
  report({what: `${fault}: writes away for`, value: away, unit: 's'})
  report({what: `${fault}: every process works after, from then`, value: allWork, unit: 's'})
  report({what: `${fault}: meanwhile`, value: (load.statuses['503'] ?? 0) - refusedBefore, unit: 'answers of 503'})
}

/** The floor is without a standby that is waited for. */
export async function benchQuorum(report: Report, clients = [1, 16]): Promise<void> {
  requirePrograms()
  const off = await commits(false, clients)
  const on = await commits(true, clients)
  for (const [n, count] of clients.entries()) {
    const what = `one-row commits with the quorum, ${count} at once`
    report({what, value: on[n]!.rate, unit: 'commits/s', floor: off[n]!.rate})
    report({what: `${what}, each`, value: on[n]!.ms, unit: 'ms', floor: off[n]!.ms})
  }
}

/** Each client commits one row after the other, straight on the primary. */
async function commits(quorum: boolean, clients: number[]): Promise<{rate: number; ms: number}[]> {
  const cluster = await Cluster.start({quorum})
  try {
    const url = cluster.urlOf((await cluster.primary())!)
    await query(url, 'create table public.one_row (n int, note text)')
    const script = path.join(tmpdir(), `sluice-bench-${process.pid}.sql`)
    writeFileSync(script, `insert into public.one_row values (1, 'a row of some forty bytes, as of a ledger');\n`)
    const measured: {rate: number; ms: number}[] = []
    for (const count of clients) {
      const words = ['-n', '-c', `${count}`, '-j', '2', '-T', `${pgbenchSeconds}`, '-f', script, url]
      const {stdout} = await promisify(execFile)(path.join(clusterPrograms!, 'pgbench'), words)
      const number = (pattern: RegExp) => Number(pattern.exec(stdout)![1])
      measured.push({rate: number(/tps = ([\d.]+)/), ms: number(/latency average = ([\d.]+)/)})
    }
    return measured
  } finally {
    await cluster.close()
  }
}

export function requirePrograms(): void {
  if (!clusterPrograms)
    throw new Error(
      'CLUSTER_BIN must name a folder with the programs of a cluster: test/install-cluster FOLDER fills it',
    )
}
