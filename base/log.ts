// Structured logs: one JSON object per line on stderr, with the process that wrote it. Secrets, keys and people's
// addresses are not logged.
import {type Logger, pino} from 'pino'

export type {Logger}

export const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const

/**
 * A logger for the process of this name, to stderr or to a file. The level comes from LOG_LEVEL. If that is not a
 * level, it is info: the settings, which are read later, report the error, and need a logger for that.
 */
export function logger(process_: string, file?: string): Logger {
  const level = logLevels.find(known => known === process.env.LOG_LEVEL) ?? 'info'
  return pino(
    {base: {process: process_}, level, timestamp: pino.stdTimeFunctions.isoTime},
    pino.destination({dest: file ?? 2, sync: true, mkdir: true}),
  )
}

/** Logs nothing: for programs that a person waits for, and that report failures otherwise. */
export const silent = (): Logger => pino({level: 'silent'})
