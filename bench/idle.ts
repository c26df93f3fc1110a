// What a service costs while nothing happens: wake-ups a second, percent of a core, and memory, by process (usage.ts),
// of all that `npm start` starts with five local chains. What the local chains themselves cost is told apart: the rest
// is what a service costs whose nodes are elsewhere. It is started for the second time, as it is day after day: the
// first time, each process compiles its modules.
import {chmodSync, mkdtempSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {removeHome} from '../test/support/processes.ts'
import {ended, start} from '../test/support/service.ts'
import type {Report} from './result.ts'
import {type Usage, usage} from './usage.ts'

/** By then, the local chains are quiet (devnet/main.ts), and each process has given back what it used to start. */
const settleMs = 180_000
const measuredSeconds = 40

export async function benchIdle(report: Report): Promise<void> {
  const home = mkdtempSync(path.join(tmpdir(), 'sluice-bench-'))
  chmodSync(home, 0o755)
  const first = await start(home)
  first.child.kill('SIGTERM')
  await ended(first.child)
  const {child} = await start(home)
  try {
    await sleep(settleMs)
    const before = usage(home, child.pid!)
    await sleep(1000 * measuredSeconds)
    const costs = usage(home, child.pid!).flatMap(now => costOf(now, before))
    const here = costs.filter(({part}) => part === 'product')
    reportSum(report, 'all but the local chains', here, {wakeUps: '100', percent: '3', memoryMb: '600'})
    reportSum(report, 'all', costs, {wakeUps: '150', percent: '4', memoryMb: '900'})
    for (const cost of costs) reportSum(report, cost.name, [cost], {})
  } finally {
    child.kill('SIGTERM')
    await ended(child)
    await removeHome(home)
  }
}

interface Cost extends Pick<Usage, 'name' | 'part' | 'memoryMb'> {
  /** A second. */
  wakeUps: number
  /** Of one core. */
  percent: number
}

/** Nothing for this bench itself, and for a process that was not there before. */
function costOf({name, part, cpuSeconds, wakeUps, memoryMb}: Usage, before: Usage[]): Cost[] {
  const then = before.find(each => each.name === name)
  if (!then || part === 'load') return []
  const percent = (100 * (cpuSeconds - then.cpuSeconds)) / measuredSeconds
  const woken = [...wakeUps].reduce((sum, [pid, count]) => sum + count - (then.wakeUps.get(pid) ?? 0), 0)
  return [{name, part, wakeUps: woken / measuredSeconds, percent, memoryMb}]
}

type Aims = Partial<Record<'wakeUps' | 'percent' | 'memoryMb', string>>

function reportSum(report: Report, name: string, costs: Cost[], aims: Aims): void {
  const sum = (of: (cost: Cost) => number) => costs.reduce((total, cost) => total + of(cost), 0)
  report({what: `idle, ${name}: wake-ups`, value: sum(cost => cost.wakeUps), unit: '/s', aim: aims.wakeUps})
  report({what: `idle, ${name}: processor`, value: sum(cost => cost.percent), unit: '% of a core', aim: aims.percent})
  report({what: `idle, ${name}: memory`, value: sum(cost => cost.memoryMb), unit: 'MB', aim: aims.memoryMb})
}
