// DIR/devnet.json: where a local chain is served, for those who are given its directory.
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
  /** Where those who follow the chain find it. */
  url: z.string(),
  /** http://127.0.0.1:port, where its node and what controls the chain (devnet_*) are asked. */
  control_url: z.string(),
  /** The variables that tell the chain from others. */
  identity: z.record(z.string(), z.string()),
  /** The variables with which it is followed, and sent to. */
  source: z.record(z.string(), z.string()),
})
export type Devnet = z.infer<typeof Devnet>

export function parseDevnet(text: string): Devnet {
  return Devnet.parse(JSON.parse(text))
}

/** What is served from this directory, or was when its process was killed; undefined if nothing is. */
export function readDevnet(dir: string): Devnet | undefined {
  let text: string
  try {
    text = readFileSync(path.join(dir, 'devnet.json'), 'utf8')
  } catch {
    return undefined
  }
  return parseDevnet(text)
}
