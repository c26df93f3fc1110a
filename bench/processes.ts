// What each process of a service with five local chains costs: how long it takes from its start until it is ready,
// after kill -9, and the memory (resident set) that it has some seconds later. The supervisor, the local chains and
// Postgres are not counted.
import {chmodSync, mkdtempSync, readFileSync, rmSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {readProcesses} from '../base/home.ts'
import {readSettings} from '../chains/settings.ts'
import {startService} from '../service/supervisor.ts'
import type {Report} from './result.ts'

const settleMs = 5000

export async function benchProcesses(report: Report): Promise<void> {
  const home = mkdtempSync(path.join(tmpdir(), 'sluice-bench-'))
  chmodSync(home, 0o755)
  const service = await startService(readSettings({SLUICE_HOME: home, PORT: '0', DASHBOARD_PORT: '0'}), {quiet: true})
  try {
    const names = readProcesses(home).map(({name}) => name)
    for (const name of names)
      report({what: `${name}: ready after its start`, value: await startOf(home, name), unit: 'ms'})
    await sleep(settleMs)
    for (const name of names) report({what: `${name}: memory`, value: memoryOf(processOf(home, name).pid!), unit: 'MB'})
  } finally {
    await service.stop()
    rmSync(home, {recursive: true, force: true})
  }
}

const processOf = (home: string, name: string) => readProcesses(home).find(each => each.name === name)!

async function startOf(home: string, name: string): Promise<number> {
  const {pid} = processOf(home, name)
  process.kill(pid!, 'SIGKILL')
  const untilIs = async (state: string) => {
    for (let at = processOf(home, name); at.state !== state || at.pid === pid; at = processOf(home, name))
      await sleep(2)
    return performance.now()
  }
  const began = await untilIs('starting')
  return (await untilIs('running')) - began
}

function memoryOf(pid: number): number {
  const [, kilobytes] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))!
  return Number(kilobytes) / 1024
}
