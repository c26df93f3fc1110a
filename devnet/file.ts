// DIR/devnet.json: where a local chain is served, for those who are given its directory.
import {readFileSync} from 'node:fs'
import path from 'node:path'
import {z} from 'zod'

export const Devnet = z.object({
  pid: z.int(),
  chain: z.enum(['ETH', 'POLYGON']),
  chain_id: z.int(),
  /** ws://127.0.0.1:port; the same port serves HTTP. */
  rpc_url: z.string(),
  usdc_address: z.string(),
  started_at: z.string(),
})
export type Devnet = z.infer<typeof Devnet>

/** What is served from this directory, or was when its process was killed; undefined if nothing is. */
export function readDevnet(dir: string): Devnet | undefined {
  let text: string
  try {
    text = readFileSync(path.join(dir, 'devnet.json'), 'utf8')
  } catch {
    return undefined
  }
  return Devnet.parse(JSON.parse(text))
}
