// The node of a local chain of any family, as its process describes it in devnet.json.
import {z} from 'zod'

const answerTimeoutMs = 3000
const firstCoins = 100

export const LocalNode = z.object({
  /** Of the process that serves the chain. */
  pid: z.int(),
  /** Where clients find it. */
  url: z.string(),
  control_url: z.url(),
  /** Settings that tell the chain from others. */
  identity: z.record(z.string(), z.string()),
  /** Settings with which it is followed, and sent to. */
  source: z.record(z.string(), z.string()),
})
export type LocalNode = z.infer<typeof LocalNode>

/** Whether it does more than exist. */
export async function responses(node: LocalNode): Promise<boolean> {
  return await ask(node, 'devnet_info', []).then(
    () => true,
    () => false,
  )
}

/** Sends 100 coins to an address that has none; false if it has some. */
export async function fund(node: LocalNode, address: string): Promise<boolean> {
  return z.boolean().parse(await ask(node, 'devnet_fund', [address, firstCoins]))
}

const Response = z.object({result: z.unknown().optional(), error: z.object({message: z.string()}).nullish()})

async function ask({control_url}: LocalNode, method: string, params: unknown[]): Promise<unknown> {
  const response = await fetch(control_url, {
    method: 'POST',
    headers: {'content-type': 'application/json'},
    body: JSON.stringify({jsonrpc: '2.0', id: 1, method, params}),
    signal: AbortSignal.timeout(answerTimeoutMs),
  })
  const {result, error} = Response.parse(await response.json())
  if (error || result === undefined) throw new Error(`${method}: ${error?.message ?? 'no response'}`)
  return result
}
