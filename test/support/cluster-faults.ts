// What befalls a cluster: each fault begins at once, and resolves to what ends it and makes the cluster whole again.
import type {Cluster} from './cluster.ts'
import {until} from './until.ts'

type Fault = (cluster: Cluster, primary: string) => Promise<() => void | Promise<void>>

export const faults = {
  'kill -9 of the primary, PostgreSQL and Patroni': async (cluster, primary) => {
    cluster.killNode(primary)
    return () => cluster.startNode(primary)
  },
  'the primary freezes, and returns later': async (cluster, primary) => {
    cluster.freezeNode(primary)
    return () => cluster.resumeNode(primary)
  },
  'Patroni alone is killed, PostgreSQL lives': async (cluster, primary) => {
    cluster.killPatroni(primary)
    return () => cluster.startNode(primary)
  },
  'PostgreSQL alone is killed': async (cluster, primary) => {
    cluster.killPostgres(primary)
    return () => {}
  },
  'a planned switchover': async cluster => {
    await cluster.switchOver()
    return () => {}
  },
  "etcd's leader freezes": cluster => cluster.freezeEtcdLeader(),
  'the primary is cut off from the rest': async (cluster, primary) => {
    cluster.cutNode(primary)
    return () => cluster.joinNode(primary)
  },
  'HAProxy is killed, and started again': async cluster => {
    cluster.killProxy()
    cluster.startProxy()
    return () => {}
  },
  'a new primary dies within a second of its promotion': async (cluster, primary) => {
    await cluster.switchOver()
    const promoted = async () => {
      const now = await cluster.primary()
      return now !== primary && now
    }
    const next = await until(promoted, {timeoutMs: 60_000, what: 'a new primary', intervalMs: 50})
    cluster.killNode(next)
    // It and the one after it may both have begun a timeline of the same number: then Patroni does not notice that they
    // differ.
    return () => cluster.remakeNode(next)
  },
} satisfies Record<string, Fault>

export type FaultName = keyof typeof faults
