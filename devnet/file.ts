// DIR/devnet.json: where a local chain is served, for programs that get its directory.
import {readFileSync} from 'node:fs'
import path from 'node:path'
import {z} from 'zod'
import {chainCodes} from '../chains/registry.ts'

const Devnet = z.object({
  chain: z.enum(chainCodes),
  /** The program that it runs on; the program's pid is in the file of this name, with .pid. */
  node: z.string(),
  pid: z.int(),
  started_at: z.string(),
  /** The URL for followers of the chain. */
  url: z.string(),
  /** http://127.0.0.1:port of its node and of its control (devnet_*). */
  control_url: z.string(),
  /** The variables that identify the chain. */
  identity: z.record(z.string(), z.string()),
  /** The variables with which it is followed, and with which transactions are sent to it. */
  source: z.record(z.string(), z.string()),
})
export type Devnet = z.infer<typeof Devnet>

export function parseDevnet(text: string): Devnet {
  return Devnet.parse(JSON.parse(text))
}

/**
 * The entry of the chain served from this directory, or of one whose process was killed; undefined if there is none.
 */
export function readDevnet(dir: string): Devnet | undefined {
  let text: string
  try {
    text = readFileSync(path.join(dir, 'devnet.json'), 'utf8')
  } catch {
    return undefined
  }
  return parseDevnet(text)
}
