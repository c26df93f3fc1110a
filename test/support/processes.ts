// The operating system's view of a service under test.
import {chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync} from 'node:fs'
import path from 'node:path'
import {scratchFolder} from './scratch.ts'
import {until} from './until.ts'

/** A directory for SLUICE_HOME. Everybody may enter it: run by root, Postgres must reach it as another user. */
export function newHome(): string {
  const home = mkdtempSync(path.join(scratchFolder(), 'sluice-home-'))
  chmodSync(home, 0o755)
  return home
}

/** Kills all processes of this home, also those that one of them was just starting, and removes it. */
export async function removeHome(home: string): Promise<void> {
  const killed = () => {
    const left = processesOf(home)
    for (const pid of left) kill(pid, 'SIGKILL')
    return left.length === 0
  }
  await until(async () => killed(), {timeoutMs: 60_000, what: 'every process to be gone'})
  rmSync(home, {recursive: true})
}

/** Every living process of this home: its environment or its command line names the home. Linux only. */
export function processesOf(home: string): number[] {
  return readdirSync('/proc').flatMap(name => {
    try {
      if (!/^\d+$/.test(name) || Number(name) === process.pid) return []
      const isZombie = readFileSync(`/proc/${name}/stat`, 'utf8').includes(') Z ')
      const text = readFileSync(`/proc/${name}/cmdline`, 'utf8') + readFileSync(`/proc/${name}/environ`, 'utf8')
      return !isZombie && text.includes(home) ? [Number(name)] : []
    } catch {
      return [] // it is gone, or belongs to somebody else
    }
  })
}

/** A process and those that it started, and so on. Linux only. */
export function treeOf(root: number): number[] {
  const parents = readdirSync('/proc').flatMap(name => {
    try {
      if (!/^\d+$/.test(name)) return []
      const [, parent] = readFileSync(`/proc/${name}/stat`, 'utf8').split(') ').at(-1)!.split(' ')
      return [{pid: Number(name), parent: Number(parent)}]
    } catch {
      return [] // it is gone
    }
  })
  const below = (pid: number): number[] => [
    pid,
    ...parents.filter(({parent}) => parent === pid).flatMap(child => below(child.pid)),
  ]
  return below(root)
}

/** Waits until a process is stopped, by SIGSTOP. Linux only. */
export async function stops(pid: number): Promise<void> {
  const isStopped = async () => readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') T ')
  await until(isStopped, {timeoutMs: 60_000, what: `process ${pid} to be stopped`})
}

/** The pid in a file, once it has one: a program that starts writes it, and pid 0 would signal the tests themselves. */
export async function pidIn(
  file: string,
  limits: Parameters<typeof until>[1] = {timeoutMs: 60_000, what: `a pid in ${file}`, intervalMs: 1},
): Promise<number> {
  return await until(async () => Number.parseInt(readFileSync(file, 'utf8'), 10), limits)
}

/** A process in words: whether it is stopped, and its command line. Linux only. */
export function described(pid: number): string {
  try {
    const of = (file: string) => readFileSync(`/proc/${pid}/${file}`, 'utf8')
    const [, state] = /^State:\s+(.*)$/m.exec(of('status')) ?? []
    return `${pid} ${state}: ${of('cmdline').split('\0').slice(1).join(' ')}`
  } catch {
    return `${pid} has ended`
  }
}

export function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {} // it is gone
}
