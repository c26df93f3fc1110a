// Facts about operating-system processes, for whoever has to decide whether a recorded pid still means what it meant.
import {execFile} from 'node:child_process'
import {readFile} from 'node:fs/promises'
import {promisify} from 'node:util'

/**
 * The command line of a living process, its arguments joined by spaces; undefined when there is no such process (a
 * zombie counts as none). A pid alone proves nothing, it may have been given to another program since it was written
 * down: compare the command line before you trust or signal it.
 */
export async function commandLine(pid: number): Promise<string | undefined> {
  try {
    if (process.platform === 'linux') {
      const text = await readFile(`/proc/${pid}/cmdline`, 'utf8')
      return text === '' ? undefined : text.replaceAll('\0', ' ').trim()
    }
    const {stdout} = await promisify(execFile)('ps', ['-o', 'command=', '-p', String(pid)])
    return stdout.includes('<defunct>') ? undefined : stdout.trim()
  } catch {
    return undefined
  }
}
