// Kills or stops a process at a step, for tests of what a crash leaves behind. NODE_OPTIONS=--import=<this file> loads
// it into a process of the service. Promises: the first process that reaches the step SLUICE_CRASH_AT gets the signal
// SLUICE_CRASH_SIGNAL there: SIGKILL (the default), or SIGSTOP, and goes on at that step after SIGCONT. The file
// SLUICE_CRASH_MARK then exists, and no other process gets the signal while it does.
import {subscribe} from 'node:diagnostics_channel'
import {closeSync, openSync} from 'node:fs'

const {SLUICE_CRASH_AT: label, SLUICE_CRASH_MARK: mark, SLUICE_CRASH_SIGNAL: signal = 'SIGKILL'} = process.env

if (label && mark) {
  subscribe('sluice:step', message => {
    if (message !== label || !isFirst(mark)) return
    process.kill(process.pid, signal)
  })
}

function isFirst(file: string): boolean {
  try {
    closeSync(openSync(file, 'wx'))
    return true
  } catch {
    return false
  }
}
