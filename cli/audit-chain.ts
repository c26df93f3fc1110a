// What the chains hold, compared with the ledger: each address of ours that ever received anything, and the treasury, at the final block
// that the ledger is of. Promises: asks a node and changes nothing; a node that does not answer is an error, never a match.
import {setTimeout as sleep} from 'node:timers/promises'
import {RpcClient} from '@subsquid/rpc-client'
import type pg from 'pg'
import {encodeFunctionData, erc20Abi, getAddress} from 'viem'
import {z} from 'zod'
import {PermanentError} from '../service/errors.ts'

const TIMEOUT_MS = 60_000
const BATCH = 100 // public nodes refuse larger ones

/** A node, and the contracts of the chain's tokens. */
export interface ChainNode {
  rpc_url: string
  tokens: Record<string, string>
}

export interface Difference {
  address: string
  token: string
  ledger: string
  chain: string
}

interface Holding {
  address: string
  token: string
  amount: bigint
}

const quantity = z
  .string()
  .regex(/^0x[0-9a-f]*$/i)
  .transform(hex => (hex === '0x' ? 0n : BigInt(hex)))

/** What addresses and treasury should hold of each asset; `db` is in a transaction that sees one moment. */
export async function holdingsOf(db: pg.Client, chain: string): Promise<Holding[]> {
  const {rows} = await db.query<{address: string; token: string; amount: string}>(
    `with treasury as (select app.treasury_address($1) as address), posted as (
       select case e.account when 'treasury' then t.address else e.address end as address, e.token, sum(e.amount) as amount
       from app.ledger_entry e cross join treasury t where e.chain = $1 and e.account in ('address', 'treasury') group by 1, 2
     ), ours as (
       select address from app.deposit where chain = $1 union select address from treasury where address is not null
     )
     select address, a.token, coalesce(p.amount, 0)::text as amount
     from ours join app.asset a on a.chain = $1 left join posted p using (address, token) order by address, a.token`,
    [chain],
  )
  return rows.map(({amount, ...row}) => ({...row, amount: BigInt(amount)}))
}

/** What the node has otherwise at this height. */
export async function differences(
  {rpc_url, tokens}: ChainNode,
  height: number,
  holdings: Holding[],
): Promise<Difference[]> {
  const client = new RpcClient({
    url: rpc_url,
    requestTimeout: TIMEOUT_MS,
    retryAttempts: 0,
    maxBatchCallSize: BATCH,
    log: null,
  })
  try {
    const found: Difference[] = []
    for (let at = 0; at < holdings.length; at += BATCH) {
      const batch = holdings.slice(at, at + BATCH)
      const held = await balances(
        client,
        batch.map(holding => question(holding, tokens, height)),
      )
      for (const [n, {address, token, amount}] of batch.entries())
        if (held[n] !== amount) found.push({address, token, ledger: String(amount), chain: String(held[n])})
    }
    return found
  } finally {
    client.close()
  }
}

function question({address, token}: Holding, tokens: Record<string, string>, height: number) {
  const block = `0x${height.toString(16)}`
  const contract = tokens[token]
  if (!contract) return {method: 'eth_getBalance', params: [address, block]}
  const data = encodeFunctionData({abi: erc20Abi, functionName: 'balanceOf', args: [getAddress(address)]})
  return {method: 'eth_call', params: [{to: contract, data}, block]}
}

// The client keeps a question until there is a connection, however long that takes.
async function balances(client: RpcClient, questions: {method: string; params: unknown[]}[]): Promise<bigint[]> {
  const clock = new AbortController()
  const late = sleep(TIMEOUT_MS, undefined, clock).then(() => {
    throw new Error(`no answer in ${TIMEOUT_MS / 1000} s`)
  })
  try {
    const answers = await Promise.race([client.batchCall(questions), late])
    return answers.map(answer => quantity.parse(answer))
  } catch (error) {
    throw new PermanentError(`the node cannot be asked: ${(error as Error).message}`, {cause: error})
  } finally {
    clock.abort()
  }
}
