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

const pgbenchSeconds = 10

export interface Failover {
  fault: string
  /** Seconds without an acknowledged write. */
  away: number
  /** Seconds from the first write after it until every process works. */
  allWork: number
  /** Answers of 503 meanwhile. */
  refused: number
}

export async function benchFailover(): Promise<{table: Failover[]; wrong: string[]; sum: string}> {
  requirePrograms()
  const cluster = await Cluster.start()
  try {
    const load = await ClusterLoad.start(cluster)
    try {
      const table: Failover[] = []
      for (const fault of Object.keys(faults) as FaultName[]) table.push(await measure(cluster, load, fault))
      const wrong = await load.verify()
      return {table, wrong, sum: `${load.users.size} users and ${load.payouts.size} payouts were acknowledged`}
    } finally {
      await load.close()
    }
  } finally {
    await cluster.close()
  }
}

async function measure(cluster: Cluster, load: ClusterLoad, fault: FaultName): Promise<Failover> {
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
  return {fault, away, allWork, refused: (load.statuses['503'] ?? 0) - refusedBefore}
}

export interface QuorumCost {
  clients: number
  /** Commits a second, and milliseconds for each, without a standby that is waited for, and with the quorum. */
  off: {rate: number; ms: number}
  on: {rate: number; ms: number}
}

export async function benchQuorum(clients = [1, 16]): Promise<QuorumCost[]> {
  requirePrograms()
  const off = await commits(false, clients)
  const on = await commits(true, clients)
  return clients.map((count, n) => ({clients: count, off: off[n]!, on: on[n]!}))
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

export function failoverTable(table: Failover[]): string {
  const rows = table.map(
    ({fault, away, allWork, refused}) => `| ${fault} | ${away.toFixed(1)} s | ${allWork.toFixed(1)} s | ${refused} |`,
  )
  return [
    '| fault | writes away for | every process works after, from then | answers of 503 |',
    '|---|---|---|---|',
    ...rows,
  ].join('\n')
}
