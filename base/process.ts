// Facts about operating-system processes, to decide whether a recorded pid still is the same process.
import {execFile} from 'node:child_process'
import {readFileSync} from 'node:fs'
import {promisify} from 'node:util'

/**
 * The command line of a living process, its arguments joined by spaces; undefined when there is no such process (a
 * zombie counts as none). A pid alone proves nothing, it may have been given to another program since it was written
 * down: compare the command line before you trust or signal it.
 */
export async function commandLine(pid: number): Promise<string | undefined> {
  try {
    if (process.platform === 'linux') {
      const text = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
      return text === '' ? undefined : text.replaceAll('\0', ' ').trim()
    }
    const {stdout} = await promisify(execFile)('ps', ['-o', 'command=', '-p', String(pid)])
    return stdout.includes('<defunct>') ? undefined : stdout.trim()
  } catch {
    return undefined
  }
}

/** Whether a process was started with this variable in its environment; false where that cannot be known. */
export async function hasVariable(pid: number, name: string, value: string): Promise<boolean> {
  try {
    if (process.platform === 'linux')
      return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(`${name}=${value}`)
    const {stdout} = await promisify(execFile)('ps', ['eww', '-o', 'command=', '-p', String(pid)])
    return stdout.includes(` ${name}=${value}`)
  } catch {
    return false
  }
}

/** Sends a signal; a process that has ended meanwhile is no error. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
