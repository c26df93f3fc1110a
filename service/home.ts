// The files of one running service in SLUICE_HOME. Promises: whoever knows the directory finds the service by service.json, which is
// written whole or not at all and is readable by its owner only (it holds the database password).
import {mkdirSync, readFileSync, renameSync, writeFileSync} from 'node:fs'
import path from 'node:path'
import {z} from 'zod'

const Service = z.object({
  pid: z.int(),
  started_at: z.iso.datetime(),
  api_url: z.url(),
  database_url: z.string(),
  /** How to reach the node of each chain that is followed. */
  chains: z.record(z.string(), z.object({rpc_url: z.string(), local: z.boolean()})),
})
export type Service = z.infer<typeof Service>

/** Where the service of this directory was last reached; undefined if none was ever started there. */
export function readService(home: string): Service | undefined {
  let text: string
  try {
    text = readFileSync(path.join(home, 'service.json'), 'utf8')
  } catch {
    return undefined
  }
  return Service.parse(JSON.parse(text))
}

export function writeService(home: string, service: Service): void {
  writeWhole(path.join(home, 'service.json'), JSON.stringify(service, null, 2))
}

/** Replaces a file by a rename, so that no reader ever sees a part of it. Mode 0600. */
export function writeWhole(file: string, text: string): void {
  mkdirSync(path.dirname(file), {recursive: true})
  const temporary = `${file}.${process.pid}.tmp`
  writeFileSync(temporary, text, {mode: 0o600})
  renameSync(temporary, file)
}
