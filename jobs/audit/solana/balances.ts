// Compares the balances of our addresses on Solana with the ledger. Promises: it asks a node and changes nothing. Nodes
// keep no balances of the past, so they are read at the node's newest final block, all at once, and compared when the
// ledger has this block, for each address that nothing has moved since. The others are read again; if they never rest,
// a RetryableError, never a match.
import {setTimeout as sleep} from 'node:timers/promises'
import type pg from 'pg'
import {RetryableError} from '../../../base/errors.ts'
import {accountsPerRequest, type Header, type SolanaNode, SolanaNodes} from '../../../chains/solana/client.ts'
import type {SolanaSettings} from '../../../chains/solana/settings.ts'
import type {Asked, AuditFamily, Difference} from '../observation.ts'

/** Our final block is some seconds behind the node's. */
const tries = {most: 80, pauseMs: 250}
/** Clocks differ, and the times of blocks are estimates. */
const clockMarginMs = 3_600_000
/** Among so many slots there is a block, unless the chain stood still. */
const slotsWithBlock = 500

export const solana: AuditFamily<SolanaSettings> = {
  claim: 'our addresses and the treasury hold on the chain what the ledger says',
  ask: askBalances,
}

function askBalances(db: pg.Client, settings: SolanaSettings): Asked {
  const nodes = new SolanaNodes(settings)
  return {
    batch: accountsPerRequest,
    async poll(addresses) {
      const differences: Difference[] = []
      let left = addresses
      let read: Read | undefined
      for (let i = 0; i < tries.most; i++, await sleep(tries.pauseMs)) {
        read ??= await nodes.ask(node => readBalances(node, left))
        const found = read && (await compare(db, settings.chain, read))
        if (!found) continue // the ledger gets to the block that was read
        differences.push(...found.differences)
        left = found.moved
        read = undefined
        if (!left.length) return {height: found.height, differences, unread: []}
      }
      throw new RetryableError('the ledger did not have the final block of the node, or money moved all the time')
    },
    heightAt: time => nodes.ask(node => lastBlockBefore(node, (time.getTime() - clockMarginMs) / 1000)),
    close() {},
  }
}

/** What the node says at one of its final blocks. */
interface Read {
  height: number
  hash: string
  /** In lamports. */
  balances: Map<string, bigint>
}

/** Undefined if the node does not show the block now. */
async function readBalances(node: SolanaNode, addresses: string[]): Promise<Read | undefined> {
  const {slot, lamports} = await node.balances(addresses, 'finalized')
  const header = await node.header(slot, 'finalized')
  return (
    header && {
      height: header.height,
      hash: header.hash,
      balances: new Map(addresses.map((each, i) => [each, lamports[i]!])),
    }
  )
}

interface Compared {
  height: number
  differences: Difference[]
  /** The addresses that something has moved since. */
  moved: string[]
}

/** Undefined while the ledger does not have the block. */
async function compare(
  db: pg.Client,
  {code, assets: [{token}]}: SolanaSettings['chain'],
  {height, hash, balances}: Read,
): Promise<Compared | undefined> {
  const {rows} = await db.query<{height: number; address: string; amount: string; hasMoved: boolean}>(
    `select address, amount, has_moved as "hasMoved", final_height as height from app.ledger_holdings_since($1, $2, $3, $4) where token = $5`,
    [code, height, hash, [...balances.keys()], token],
  )
  if (!rows.length) return undefined
  const resting = rows.filter(({hasMoved}) => !hasMoved)
  const differences = resting.flatMap(({address, amount}): Difference[] => {
    const [ledger, chain] = [BigInt(amount), balances.get(address)!]
    return ledger === chain ? [] : [{address, token, outpoint: '', ledger, chain}]
  })
  const moved = rows.filter(({hasMoved}) => hasMoved).map(({address}) => address)
  return {height: rows[0]!.height, differences, moved}
}

/** The height of a block that was made before a time; undefined if the node lacks one that is asked for. */
async function lastBlockBefore(node: SolanaNode, seconds: number): Promise<number | undefined> {
  let low = await blockFrom(node, await node.firstSlot())
  const {slot: newest} = await node.latest('finalized')
  for (let high = newest; low && high - low.slot > slotsWithBlock; ) {
    const middle = await blockFrom(node, Math.floor((low.slot + high) / 2))
    if (!middle) return undefined
    if (middle.time < seconds) low = middle
    else high = Math.floor((low.slot + high) / 2)
  }
  return low && low.time < seconds ? low.height : undefined
}

/** The first block from a slot on. */
async function blockFrom(node: SolanaNode, slot: number): Promise<Header | undefined> {
  const [first] = await node.slots(slot, slot + slotsWithBlock, 'finalized')
  return first === undefined ? undefined : await node.header(first, 'finalized')
}
