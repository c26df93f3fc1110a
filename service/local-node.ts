// The node of a local chain, as its process describes it in devnet.json: what differs between the families of chains.
import {z} from 'zod'
import type {Chain} from '../chains/registry.ts'

const ANSWER_TIMEOUT_MS = 3000
const FIRST_COINS = 100n

export interface LocalNode {
  /** Of the process that serves the chain. */
  pid: number
  /** Where clients find it. */
  url: string
  /** Settings that tell the chain from others. */
  identity: Record<string, string>
  /** Settings with which it is followed, and sent to. */
  source: Record<string, string>
  /** Whether it does more than exist. */
  answers(): Promise<boolean>
  /** Sends 100 coins to an address that has nothing; false where it has something. */
  fund(address: string): Promise<boolean>
}

const families: Record<Chain['family'], (written: unknown) => LocalNode> = {evm, bitcoin}

/** Throws where that is not what a chain of the family writes. */
export function localNode(family: Chain['family'], written: unknown): LocalNode {
  return families[family](written)
}

const EvmDevnet = z.object({
  pid: z.int(),
  chain: z.string(),
  chain_id: z.int(),
  rpc_url: z.url(),
  usdc_address: z.string(),
})

function evm(written: unknown): LocalNode {
  const {pid, chain, chain_id, rpc_url, usdc_address} = EvmDevnet.parse(written)
  const url = rpc_url.replace(/^ws/, 'http')
  return {
    pid,
    url: rpc_url,
    identity: {[`${chain}_CHAIN_ID`]: String(chain_id), [`${chain}_USDC_ADDRESS`]: usdc_address},
    source: {[`${chain}_RPC_URL`]: rpc_url, [`${chain}_FINALITY`]: 'tag', [`${chain}_TRACES`]: 'debug'},
    answers: () => answers(url, 'eth_chainId'),
    fund: async address => {
      const balance = z.string().parse(await ask(url, 'eth_getBalance', [address, 'latest']))
      if (BigInt(balance) > 0n) return false
      const value = `0x${(FIRST_COINS * 10n ** 18n).toString(16)}`
      await ask(url, 'eth_sendTransaction', [{to: address, value}])
      return true
    },
  }
}

const BitcoinDevnet = z.object({
  pid: z.int(),
  chain: z.string(),
  network: z.string(),
  electrum_url: z.string(),
  rpc_url: z.url(),
})
const Balance = z.object({confirmed: z.string(), unconfirmed: z.string()})

function bitcoin(written: unknown): LocalNode {
  const {pid, chain, network, electrum_url, rpc_url} = BitcoinDevnet.parse(written)
  return {
    pid,
    url: electrum_url,
    identity: {[`${chain}_NETWORK`]: network},
    source: {[`${chain}_ELECTRUM_URLS`]: electrum_url, [`${chain}_RPC_URL`]: rpc_url},
    answers: () => answers(rpc_url, 'getblockcount'),
    fund: async address => {
      const {confirmed, unconfirmed} = Balance.parse(await ask(rpc_url, 'devnet_balance', [address]))
      if (BigInt(confirmed) + BigInt(unconfirmed) > 0n) return false
      await ask(rpc_url, 'devnet_pay', [[{to: address, amount: String(FIRST_COINS * 10n ** 8n)}]])
      return true
    },
  }
}

async function answers(url: string, method: string): Promise<boolean> {
  return await ask(url, method, []).then(
    () => true,
    () => false,
  )
}

const Answer = z.object({result: z.unknown().optional(), error: z.object({message: z.string()}).nullish()})

async function ask(url: string, method: string, params: unknown[]): Promise<unknown> {
  const response = await fetch(url, {
    method: 'POST',
    headers: {'content-type': 'application/json'},
    body: JSON.stringify({jsonrpc: '2.0', id: 1, method, params}),
    signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
  })
  const {result, error} = Answer.parse(await response.json())
  if (error || result === undefined) throw new Error(`${method}: ${error?.message ?? 'no answer'}`)
  return result
}
