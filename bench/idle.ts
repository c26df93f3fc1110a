// What a service costs while nothing happens: wake-ups a second (voluntary context switches of all threads), percent of
// a core, and memory (proportional set size), by process, of all that `npm start` starts with five local chains. What
// the local chains themselves cost is told apart: the rest is what a service costs whose nodes are elsewhere.
import {execFileSync} from 'node:child_process'
import {chmodSync, mkdtempSync, readdirSync, readFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {readProcesses} from '../base/home.ts'
import {removeHome} from '../test/support/processes.ts'
import {ended, start} from '../test/support/service.ts'
import type {Report} from './result.ts'

interface Cost {
  name: string
  isLocalChain: boolean
  /** A second. */
  wakeUps: number
  /** Of one core. */
  percent: number
  memoryMb: number
}

/** By then, the local chains are quiet (devnet/main.ts). */
const settleMs = 100_000

const measuredMs = 40_000

export async function benchIdle(report: Report): Promise<void> {
  const home = mkdtempSync(path.join(tmpdir(), 'sluice-bench-'))
  chmodSync(home, 0o755)
  const {child} = await start(home)
  try {
    await sleep(settleMs)
    const names = namesOf(home, child.pid!)
    const before = readAll(names.keys())
    await sleep(measuredMs)
    const costs = summed(names, before, readAll(names.keys()))
    const here = costs.filter(({isLocalChain}) => !isLocalChain)
    reportSum(report, 'all but the local chains', here, {wakeUps: '100', percent: '3', memoryMb: '600'})
    reportSum(report, 'all', costs, {wakeUps: '150', percent: '4', memoryMb: '900'})
    for (const cost of costs) reportSum(report, cost.name, [cost], {})
  } finally {
    child.kill('SIGTERM')
    await ended(child)
    await removeHome(home)
  }
}

interface Reading {
  at: number
  switches: number
  ticks: number
}

const ticksPerSecond = Number(execFileSync('getconf', ['CLK_TCK']).toString())

/** What each process of the service, by its id, is called; the server of Postgres and its backends are one. */
function namesOf(home: string, supervisor: number): Map<number, string> {
  const names = new Map([[supervisor, 'supervisor']])
  for (const {name, pid} of readProcesses(home)) if (pid) names.set(pid, name)
  const all = pids().map(pid => ({pid, parent: parentOf(pid), command: commandOf(pid)}))
  for (const {pid, command} of all) {
    const devnet = / --chain (\w+) --dir .*\/devnet\//.exec(command)
    if (devnet && command.includes(home)) names.set(pid, `devnet-${devnet[1]!.toLowerCase()}`)
    if (command.includes(`${home}/postgres`)) names.set(pid, 'postgres')
  }
  for (let found = -1; found !== names.size; ) {
    found = names.size
    for (const {pid, parent} of all) if (!names.has(pid) && names.has(parent)) names.set(pid, names.get(parent)!)
  }
  return names
}

function readAll(wanted: Iterable<number>): Map<number, Reading> {
  const read = new Map<number, Reading>()
  for (const pid of wanted)
    try {
      read.set(pid, {at: performance.now(), switches: switchesOf(pid), ticks: ticksOf(pid)})
    } catch {} // it has ended
  return read
}

function summed(names: Map<number, string>, before: Map<number, Reading>, after: Map<number, Reading>): Cost[] {
  const sums = new Map<string, Cost>()
  for (const [pid, now] of after) {
    const then = before.get(pid)
    const name = names.get(pid)!
    const seconds = then && (now.at - then.at) / 1000
    if (!seconds) continue
    const sum = sums.get(name) ?? {name, isLocalChain: name.startsWith('devnet'), wakeUps: 0, percent: 0, memoryMb: 0}
    sum.wakeUps += (now.switches - then.switches) / seconds
    sum.percent += (100 * (now.ticks - then.ticks)) / ticksPerSecond / seconds
    sum.memoryMb += memoryOf(pid)
    sums.set(name, sum)
  }
  return [...sums.values()]
}

const pids = () =>
  readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .map(Number)

function readOr(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return '' // it has ended
  }
}

const commandOf = (pid: number) => readOr(`/proc/${pid}/cmdline`).replaceAll('\0', ' ')
const afterName = (pid: number) =>
  readOr(`/proc/${pid}/stat`)
    .replace(/^.*\) /s, '')
    .split(' ')
const parentOf = (pid: number) => Number(afterName(pid)[1])
const ticksOf = (pid: number) => Number(afterName(pid)[11]) + Number(afterName(pid)[12])

function switchesOf(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`).map(thread => readOr(`/proc/${pid}/task/${thread}/status`))
  return threads.reduce((sum, status) => sum + Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(status)?.[1] ?? 0), 0)
}

function memoryOf(pid: number): number {
  return Number(/^Pss:\s+(\d+) kB/m.exec(readOr(`/proc/${pid}/smaps_rollup`))?.[1] ?? 0) / 1024
}

type Aims = Partial<Record<'wakeUps' | 'percent' | 'memoryMb', string>>

function reportSum(report: Report, name: string, costs: Cost[], aims: Aims): void {
  const sum = (of: (cost: Cost) => number) => costs.reduce((total, cost) => total + of(cost), 0)
  report({what: `idle, ${name}: wake-ups`, value: sum(cost => cost.wakeUps), unit: '/s', aim: aims.wakeUps})
  report({what: `idle, ${name}: processor`, value: sum(cost => cost.percent), unit: '% of a core', aim: aims.percent})
  report({what: `idle, ${name}: memory`, value: sum(cost => cost.memoryMb), unit: 'MB', aim: aims.memoryMb})
}
