// A whole service on a cluster of three servers that fails over, under load, through every fault of
// test/support/cluster-faults.ts; in each, a process stands at a step of a payout and goes on when another server is
// the primary. Nothing that was acknowledged is lost, nothing is there twice, nobody is told that an old primary has
// stored something, and no answer is 500. Needs CLUSTER_BIN: the folder that test/install-cluster fills.
import {afterAll, beforeAll, describe, expect, test} from 'vitest'
import {Cluster, clusterPrograms, query} from '../support/cluster.ts'
import {type FaultName, faults} from '../support/cluster-faults.ts'
import {ClusterLoad} from '../support/cluster-load.ts'
import {until} from '../support/until.ts'

if (!clusterPrograms)
  console.log('the faults of a cluster are skipped: CLUSTER_BIN names no folder that test/install-cluster has filled')

/**
 * Every step of a payment, the short faults taking several. Before a payment begins, a job only asks the database, and
 * is repeated: one such step stands for all.
 */
const rounds: [FaultName, string[]][] = [
  ['PostgreSQL alone is killed', ['custody: after file']],
  ['a planned switchover', ['custody: judged', 'send: after store', 'custody: before answer']],
  ["etcd's leader freezes", ['payment: after begin']],
  ['HAProxy is killed, and started again', ['send: before sign']],
  ['kill -9 of the primary, PostgreSQL and Patroni', ['send: after sign']],
  ['the primary freezes, and returns later', ['custody: after database']],
  ['Patroni alone is killed, PostgreSQL lives', ['send: before broadcast']],
  ['the primary is cut off from the rest', ['send: after broadcast']],
  ['a new primary dies within a second of its promotion', ['payment: before begin']],
]

describe.skipIf(!clusterPrograms)('a service on a cluster', () => {
  let cluster: Cluster
  let load: ClusterLoad

  beforeAll(async () => {
    cluster = await Cluster.start({parameters: {fsync: 'off'}})
    load = await ClusterLoad.start(cluster)
  })
  afterAll(async () => {
    await load?.close()
    await cluster?.close()
  })

  test.each(rounds.flatMap(([fault, steps]) => steps.map(step => [fault, step] as const)))(
    'works again after: %s; a process stood at "%s"',
    (fault, step) =>
      load.explained(async () => {
        const release = await load.hold(step)
        const began = performance.now()
        const primary = await cluster.primary()
        const end = await faults[fault](cluster, primary!)
        await load.writes(began + 1000)
        release()
        await end()
        await load.allWork()
        await cluster.healthy()
        console.log(`${fault} (${step}): writes were away for ${load.longestPauseSince(began).toFixed(1)} s`)
      }),
    300_000,
  )

  test(
    'nothing acknowledged is lost, nothing is there twice, nothing was written to an old primary, and no answer is 500',
    () =>
      load.explained(async () => {
        const atLeast = rounds.flatMap(([, steps]) => steps).length
        await until(async () => load.payouts.size >= atLeast, {timeoutMs: 120_000, what: `${atLeast} payouts`})
        const wrong = await load.verify()
        console.log('answers by status:', load.statuses)
        expect(wrong).toEqual([])
      }),
    300_000,
  )

  test('without any standby commits wait, and go on by themselves once one is back', async () => {
    const primary = await cluster.primary()
    const [one, other] = cluster.names.filter(name => name !== primary)
    for (const name of [one!, other!]) cluster.killNode(name)
    const store = async () => await query(cluster.url, `insert into public.witness values ('none', 0) returning n`)
    const waits = () =>
      store().then(
        () => false,
        error => /timeout/.test(error.message),
      )
    await until(waits, {timeoutMs: 60_000, what: 'a commit to wait'})
    expect(await waits()).toBe(true)
    cluster.startNode(one!)
    await until(store, {timeoutMs: 120_000, what: 'commits to go on'})
    cluster.startNode(other!)
    await cluster.healthy()
  }, 300_000)
})
