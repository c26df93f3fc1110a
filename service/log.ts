// Structured logs: one JSON object per line on stderr, with the process that wrote it. Secrets, keys and people's addresses are not logged.
import {type Logger, pino} from 'pino'

export type {Logger}

/** A logger for the process of this name, to stderr or to a file. The level comes from LOG_LEVEL. */
export function logger(process_: string, file?: string): Logger {
  return pino(
    {base: {process: process_}, level: process.env.LOG_LEVEL ?? 'info', timestamp: pino.stdTimeFunctions.isoTime},
    pino.destination({dest: file ?? 2, sync: true, mkdir: true}),
  )
}
