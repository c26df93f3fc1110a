// The passphrase from another program, such as the client of a secret manager. Promises: no shell reads the command, so
// nothing in it is more than a name or a word; what the program prints, also on stderr, is in no log and no error; it
// has half a minute. It runs when the seed is opened, and never again.
import {spawnSync} from 'node:child_process'
import {PermanentError} from '../../base/errors.ts'

const timeoutMs = 30_000
const mostBytes = 4096

/**
 * The first line that it prints. Throws PermanentError if there is none. `command`: its file and arguments, with spaces
 * between.
 */
export function askForPassphrase(command: string): string {
  const [file = '', ...given] = command.split(' ').filter(Boolean)
  const ended = spawnSync(file, given, {
    stdio: ['ignore', 'pipe', 'ignore'],
    timeout: timeoutMs,
    killSignal: 'SIGKILL',
    maxBuffer: mostBytes,
    encoding: 'utf8',
  })
  const why = whyFailed(ended)
  if (why) throw new PermanentError(`CUSTODY_PASSPHRASE_COMMAND: ${why}; run it as custody's user to see what it says`)
  return ended.stdout.trim()
}

function whyFailed({error, status, signal, stdout}: ReturnType<typeof spawnSync>): string | undefined {
  const code = (error as NodeJS.ErrnoException | undefined)?.code
  if (code === 'ETIMEDOUT') return `the program did not end within ${timeoutMs / 1000} s`
  if (code === 'ENOBUFS') return `the program printed more than ${mostBytes} bytes, which is no passphrase`
  if (code) return `the program cannot be started (${code}); the first word must be its whole path`
  if (status !== 0) return `the program ended with ${signal ?? `exit code ${status}`}`
  const lines = String(stdout).trim().split('\n')
  if (lines.length > 1) return `the program printed ${lines.length} lines; the passphrase must be one`
  return lines[0] === '' ? 'the program printed nothing' : undefined
}
