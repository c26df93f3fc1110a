// What an EVM chain holds, compared with the ledger: each address of ours that ever received anything, and the treasury, at the final block
// that the ledger is of. Promises: asks a node and changes nothing; a node that does not answer is a RetryableError, never a match.
import {setTimeout as sleep} from 'node:timers/promises'
import {RpcClient} from '@subsquid/rpc-client'
import type pg from 'pg'
import {encodeFunctionData, erc20Abi, getAddress} from 'viem'
import {z} from 'zod'
import {RetryableError} from '../../service/errors.ts'
import type {EvmSettings} from '../../service/settings.ts'

const timeoutMs = 60_000
const batchMax = 100 // public nodes refuse larger ones

interface Holding {
  address: string
  token: string
  amount: bigint
}

interface Difference {
  address: string
  token: string
  ledger: string
  chain: string
}

const quantity = z
  .string()
  .regex(/^0x[0-9a-f]*$/i)
  .transform(hex => (hex === '0x' ? 0n : BigInt(hex)))

/** What the node has otherwise, by address and token. */
export async function holdingsThatDiffer(
  db: pg.Client,
  chain: string,
  {rpcUrl, tokens}: EvmSettings,
): Promise<Map<string, Difference>> {
  const {holdings, height} = await holdingsOf(db, chain)
  const contracts = Object.fromEntries([...tokens].map(([contract, token]) => [token, contract]))
  const client = new RpcClient({
    url: rpcUrl!,
    requestTimeout: timeoutMs,
    retryAttempts: 0,
    maxBatchCallSize: batchMax,
    log: null,
  })
  const found = new Map<string, Difference>()
  try {
    for (let at = 0; at < holdings.length; at += batchMax) {
      const batch = holdings.slice(at, at + batchMax)
      const held = await balances(
        client,
        batch.map(holding => question(holding, contracts, height)),
      )
      for (const [n, {address, token, amount}] of batch.entries())
        if (held[n] !== amount)
          found.set(`${address} ${token}`, {address, token, ledger: String(amount), chain: String(held[n])})
    }
  } finally {
    client.close()
  }
  return found
}

// One statement: the height is that of what is held.
async function holdingsOf(db: pg.Client, chain: string): Promise<{holdings: Holding[]; height: number}> {
  const {rows} = await db.query<{address: string; token: string; amount: string; height: number}>(
    `select h.address, h.token, h.amount, c.final_height as height from chain.cursor c cross join app.audit_holdings(c.chain) h
     where c.chain = $1`,
    [chain],
  )
  return {
    holdings: rows.map(({address, token, amount}) => ({address, token, amount: BigInt(amount)})),
    height: rows[0]?.height ?? 0,
  }
}

function question({address, token}: Holding, contracts: Record<string, string>, height: number) {
  const block = `0x${height.toString(16)}`
  const contract = contracts[token]
  if (!contract) return {method: 'eth_getBalance', params: [address, block]}
  const data = encodeFunctionData({abi: erc20Abi, functionName: 'balanceOf', args: [getAddress(address)]})
  return {method: 'eth_call', params: [{to: contract, data}, block]}
}

// The client keeps a question until there is a connection, however long that takes.
async function balances(client: RpcClient, questions: {method: string; params: unknown[]}[]): Promise<bigint[]> {
  const clock = new AbortController()
  const late = sleep(timeoutMs, undefined, clock).then(() => {
    throw new Error(`no answer in ${timeoutMs / 1000} s`)
  })
  try {
    const answers = await Promise.race([client.batchCall(questions), late])
    return answers.map(answer => quantity.parse(answer))
  } catch (error) {
    throw new RetryableError(`the node cannot be asked: ${(error as Error).message}`, {cause: error})
  } finally {
    clock.abort()
  }
}
