// Loaded into custody and the worker: a process dies at the step that is in its file, as by kill -9. Promises: the file
// is gone then, so that the next process goes on.
import {subscribe} from 'node:diagnostics_channel'
import {readFileSync, unlinkSync} from 'node:fs'
import path from 'node:path'

const name = /(\w+)\/main\.ts$/.exec(process.argv[1] ?? '')?.[1]
const file = path.join(process.env.SLUICE_HOME ?? '', `kill-${name}`)

subscribe('sluice:step', label => {
  if (!isFor(label)) return
  unlinkSync(file)
  process.kill(process.pid, 'SIGKILL')
})

function isFor(label: unknown): boolean {
  try {
    return readFileSync(file, 'utf8') === label
  } catch {
    return false
  }
}
