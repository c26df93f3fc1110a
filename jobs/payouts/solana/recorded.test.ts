// What payouts make of what agave really answers (test/recorded/README.md).
import {afterEach, expect, test} from 'vitest'
import {z} from 'zod'
import {settingsFrom} from '../../../chains/settings.ts'
import {solanaSettings} from '../../../chains/solana/settings.ts'
import {recorded, replay} from '../../../test/support/recorded.ts'
import type {RpcProxy} from '../../../test/support/rpc-proxy.ts'
import {broadcast, type Solana, solana} from './node.ts'

let proxy: RpcProxy | undefined
afterEach(async () => {
  await proxy?.close()
  proxy = undefined
})

async function chainOf(...names: string[]): Promise<Solana> {
  proxy = await replay(...names)
  return solana(solanaSettings(settingsFrom('SOL', {SOL_NETWORK: 'local', SOL_RPC_URL: proxy.httpUrl})))
}

const Sent = z.object({request: z.object({params: z.tuple([z.string()], z.unknown())})})

test.each<[string, string | undefined]>([
  ['solana/send-fee-payer-below-rent-without-preflight', undefined], // no block will have it: it expires
  ['solana/send-fee-payer-below-rent', 'Transaction simulation failed: Transaction results in an account (0)'],
  ['solana/send-garbage', 'failed to deserialize'],
])('%s: the network has the transaction, or the error is the words of the node: %s', async (name, words) => {
  const raw = Buffer.from(recorded(name, Sent).request.params[0], 'base64').toString('hex')
  const [error] = await broadcast(await chainOf(name), [raw])
  expect(error?.slice(0, words?.length)).toBe(words)
})
