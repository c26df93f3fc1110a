// What a service costs the machine, by process: seconds of CPU, wake-ups (voluntary context switches of all threads),
// and memory. Memory is the proportional set size, in which pages that processes share, as those of Postgres do, are
// counted once. Linux only.
import {readdirSync, readFileSync} from 'node:fs'
import path from 'node:path'
import {readProcesses} from '../base/home.ts'
import {chainCodes} from '../chains/registry.ts'
import {readDevnet} from '../devnet/file.ts'

/** `load`: this bench, which pays, receives and asks. */
export type Part = 'product' | 'local chains' | 'load'

export interface Usage {
  name: string
  part: Part
  cpuSeconds: number
  /** Of each process, by its id: one that has ended is not there any more. */
  wakeUps: Map<number, number>
  memoryMb: number
}

interface Stat {
  parent: number
  cpuSeconds: number
}

const ticksPerSecond = 100

/** Of a service and this process. What ended and was waited for is counted at who started it. */
export function usage(home: string, supervisor: number): Usage[] {
  const stats = readStats()
  const treeOf = (root: number, without?: number): number[] => {
    const below = [...stats].filter(([pid, {parent}]) => parent === root && pid !== without)
    return [root, ...below.flatMap(([pid]) => treeOf(pid))]
  }
  const of = (name: string, part: Part, pids: number[]): Usage => ({
    name,
    part,
    cpuSeconds: pids.reduce((sum, pid) => sum + (stats.get(pid)?.cpuSeconds ?? 0), 0),
    wakeUps: new Map(pids.map(pid => [pid, wakeUpsOf(pid)])),
    memoryMb: pids.reduce((sum, pid) => sum + memoryMb(pid), 0),
  })
  const chains = chainCodes.flatMap(code => {
    const pid = readDevnet(path.join(home, 'devnet', code.toLowerCase()))?.pid
    return pid === undefined ? [] : [of(`local ${code}`, 'local chains', treeOf(pid))]
  })
  const postmaster = Number.parseInt(readFileSync(path.join(home, 'postgres', 'data', 'postmaster.pid'), 'utf8'), 10)
  return [
    of('supervisor', 'product', [supervisor]),
    ...readProcesses(home).flatMap(({name, pid}) => (pid === undefined ? [] : [of(name, 'product', [pid])])),
    of('postgres', 'product', treeOf(postmaster)),
    ...chains,
    of('load', 'load', treeOf(process.pid, supervisor)),
  ]
}

/** Cores that each used from one usage to another. */
export function cores(from: Usage[], to: Usage[], seconds: number): Map<string, number> {
  const before = new Map(from.map(({name, cpuSeconds}) => [name, cpuSeconds]))
  return new Map(to.map(({name, cpuSeconds}) => [name, (cpuSeconds - (before.get(name) ?? 0)) / seconds]))
}

export function sumOf(part: Part, usages: Usage[], value: (usage: Usage) => number): number {
  return usages.filter(each => each.part === part).reduce((sum, each) => sum + value(each), 0)
}

/** How often processes of the service ended by themselves and were started again. */
export const restarts = (home: string): number => readProcesses(home).reduce((sum, {restarts}) => sum + restarts, 0)

/** Seconds in which cores had nothing to do, since the machine was started. */
export function idleSeconds(): number {
  const [, , , , idle, waiting] = readIfAny('/proc/stat').split(/\s+/)
  return (Number(idle) + Number(waiting)) / ticksPerSecond
}

function readStats(): Map<number, Stat> {
  const found = new Map<number, Stat>()
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const text = readIfAny(`/proc/${name}/stat`)
    if (!text) continue
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    const ticks = fields.slice(11, 15).reduce((sum, each) => sum + Number(each), 0)
    found.set(Number(name), {parent: Number(fields[1]), cpuSeconds: ticks / ticksPerSecond})
  }
  return found
}

function wakeUpsOf(pid: number): number {
  const threads = threadsOf(pid).map(thread => readIfAny(`/proc/${pid}/task/${thread}/status`))
  return threads.reduce((sum, status) => sum + Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(status)?.[1] ?? 0), 0)
}

function threadsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`)
  } catch {
    return [] // it is gone
  }
}

function memoryMb(pid: number): number {
  const [, kilobytes] = /^Pss:\s+(\d+) kB$/m.exec(readIfAny(`/proc/${pid}/smaps_rollup`)) ?? []
  return Number(kilobytes ?? 0) / 1024
}

/** Empty if the process is gone. */
function readIfAny(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
