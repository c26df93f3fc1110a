#!/usr/bin/env node
// sluice: the command line for operators. Its commands are in program.ts.
import {CommanderError} from 'commander'
import {loadEnvironmentFile} from '../chains/settings.ts'
import {UsageError} from './command.ts'
import {sluiceProgram} from './program.ts'

process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  process.exit() // the reader, such as head, closed the pipe
})
try {
  loadEnvironmentFile()
  await sluiceProgram().parseAsync()
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2
  else {
    console.error(`sluice: ${(error as Error).message}`)
    process.exitCode = error instanceof UsageError ? 2 : 1
  }
}
