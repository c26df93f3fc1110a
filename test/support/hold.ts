// Stops a process at a step, for tests of what happens when it goes on later. NODE_OPTIONS=--import=<this file> loads
// it into a process of the service. Promises: the first process that reaches the step named in the file
// SLUICE_HOLD_FILE gets SIGSTOP there. The file is gone then, and SLUICE_HOLD_FILE.held has its pid.
import {subscribe} from 'node:diagnostics_channel'
import {readFileSync, renameSync, writeFileSync} from 'node:fs'

const {SLUICE_HOLD_FILE: file} = process.env

if (file)
  subscribe('sluice:step', label => {
    try {
      if (readFileSync(file, 'utf8') !== label) return
      renameSync(file, `${file}.${process.pid}`) // only one can
    } catch {
      return // nobody is to stop
    }
    writeFileSync(`${file}.held`, String(process.pid))
    process.kill(process.pid, 'SIGSTOP')
  })
