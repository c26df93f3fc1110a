// DIR/devnet.json: where a local chain is served, for those who are given its directory.
import {readFileSync} from 'node:fs'
import path from 'node:path'
import {z} from 'zod'

const common = {
  pid: z.int(),
  started_at: z.string(),
  /** Where its clients find it. */
  url: z.string(),
  /** http://127.0.0.1:port, where devnet_info and devnet_fund are answered. */
  control_url: z.string(),
  /** The variables that tell the chain from others. */
  identity: z.record(z.string(), z.string()),
  /** The variables with which it is followed, and sent to. */
  source: z.record(z.string(), z.string()),
}

const EvmDevnet = z.object({
  ...common,
  chain: z.enum(['ETH', 'POLYGON']),
  chain_id: z.int(),
  /** ws://127.0.0.1:port; the same port serves HTTP. */
  rpc_url: z.string(),
  usdc_address: z.string(),
})
const BitcoinDevnet = z.object({
  ...common,
  chain: z.literal('BTC'),
  network: z.literal('regtest'),
  node: z.enum(['bcoin', 'bitcoind']),
  /** tcp://127.0.0.1:port */
  electrum_url: z.string(),
  /** http://127.0.0.1:port */
  rpc_url: z.string(),
})
const Devnet = z.discriminatedUnion('chain', [EvmDevnet, BitcoinDevnet])
export type EvmDevnet = z.infer<typeof EvmDevnet>
export type BitcoinDevnet = z.infer<typeof BitcoinDevnet>
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
