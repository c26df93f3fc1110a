// Compares the balances of our addresses on an EVM chain with the ledger, at the ledger's final block. Promises: it
// asks a node and changes nothing. A node that does not respond, or responds for another block, is a RetryableError,
// never a match. If a token's contract does not return balances, the token is reported as not read, and the others are
// compared.
import type pg from 'pg'
import {z} from 'zod'
import {RetryableError} from '../../../base/errors.ts'
import {Questions} from '../../../chains/evm/client.ts'
import type {EvmSettings} from '../../../chains/evm/settings.ts'
import type {Asked, AuditFamily, Difference, Observation} from '../observation.ts'
import {addressesMax, heldCode, readHeld} from './held-code.ts'

const timeoutMs = 60_000
/** Calls per observation, for each token. */
const callsMax = 4
/** Clocks differ, and a block carries the time at which its making began. */
const clockMarginMs = 3_600_000

const Block = z.object({timestamp: z.string().regex(/^0x[0-9a-f]+$/i)})

/** The ledger at one moment. */
interface Ledger {
  height: number
  /** By token: the addresses, and what each holds. */
  holdings: Map<string, {address: string; amount: bigint}[]>
}

export const evm: AuditFamily<EvmSettings> = {
  claim: 'our addresses and the treasury hold on the chain what the ledger says',
  ask: askBalances,
}

function askBalances(db: pg.Client, {chain, rpcUrl, tokens}: EvmSettings): Asked {
  const node = new Questions(rpcUrl!, timeoutMs)
  const contracts = new Map([...tokens].map(([contract, token]) => [token, contract]))
  const native = chain.assets[0].token
  return {
    batch: callsMax * addressesMax,
    poll: async addresses => {
      const {height, holdings} = await ledgerOf(db, chain.code, addresses)
      const poll: Observation = {height, differences: [], unread: []}
      for (const [token, all] of holdings) {
        if (token !== native && !contracts.has(token)) {
          if (all.some(({amount}) => amount !== 0n)) poll.unread.push(`${token}: it has no contract on this network`)
          continue
        }
        for (let at = 0; at < all.length; at += addressesMax) {
          const some = all.slice(at, at + addressesMax)
          const found = await held(node, contracts.get(token), some, height)
          if (typeof found === 'string') poll.unread.push(`${token}: ${found}`)
          else compare(token, some, found, poll)
        }
      }
      return poll
    },
    heightAt: async time => {
      const {height} = await ledgerOf(db, chain.code, [])
      return await lastBlockBefore(node, time.getTime() - clockMarginMs, height)
    },
    close: () => node.close(),
  }
}

function compare(
  token: string,
  ours: {address: string; amount: bigint}[],
  held: (bigint | null)[],
  poll: Observation,
): void {
  let unread = 0
  for (const [n, {address, amount}] of ours.entries()) {
    const chain = held[n]!
    if (chain === null) unread++
    else if (chain !== amount) poll.differences.push(difference(token, address, amount, chain))
  }
  if (unread)
    poll.unread.push(`${token}: its contract did not return the balance of ${unread} of ${ours.length} addresses`)
}

function difference(token: string, address: string, ledger: bigint, chain: bigint): Difference {
  return {address, token, outpoint: '', ledger, chain}
}

// One statement, so that the height and the balances belong together.
async function ledgerOf(db: pg.Client, chain: string, addresses: string[]): Promise<Ledger> {
  const {rows} = await db.query<{height: number; address: string | null; token: string; amount: string}>(
    `select c.final_height as height, h.address, h.token, h.amount from chain.cursor c
     left join app.ledger_holdings(c.chain, $2) h on true where c.chain = $1 order by h.token, h.address`,
    [chain, addresses],
  )
  const holdings: Ledger['holdings'] = new Map()
  for (const {address, token, amount} of rows) {
    if (address === null) continue
    if (!holdings.has(token)) holdings.set(token, [])
    holdings.get(token)!.push({address, amount: BigInt(amount)})
  }
  return {height: rows[0]!.height, holdings}
}

/** The balances at a block, or why the contract cannot be read, if the node blames the contract alone. */
async function held(node: Questions, contract: string | undefined, addresses: {address: string}[], height: number) {
  const code = heldCode(
    contract,
    addresses.map(({address}) => address),
  )
  const [response] = await node.ask([{method: 'eth_call', params: [{data: code}, hex(height)]}])
  if ('result' in response!) return readHeld(response.result, {height, count: addresses.length})
  const why = response!.message.slice(0, 200)
  if (contract) return why
  throw new RetryableError(`the node refused to give balances at block ${height}: ${why}`)
}

/**
 * The highest block up to `to` that was made before a time; undefined if the node does not give the times of its
 * blocks.
 */
async function lastBlockBefore(node: Questions, time: number, to: number): Promise<number | undefined> {
  let [low, high] = [1, to]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    const [response] = await node.ask([{method: 'eth_getBlockByNumber', params: [hex(middle), false]}])
    const block = 'result' in response! ? Block.safeParse(response.result).data : undefined
    if (!block) return
    if (Number(block.timestamp) * 1000 < time) low = middle
    else high = middle - 1
  }
  return low
}

function hex(height: number): string {
  return `0x${height.toString(16)}`
}
