// Compares the balances of our addresses on Solana with the ledger, of SOL and of tokens. Of a token, other accounts of
// a deposit address than its associated one are asked for where that one has too little. Promises: it asks a node and
// changes nothing. Nodes keep no balances of the past, so they are read at the node's newest final block, all at once,
// and compared when the ledger has this block, for each address that nothing has moved since. The others are read
// again; if they never rest, a RetryableError, never a match.
import {setTimeout as sleep} from 'node:timers/promises'
import type pg from 'pg'
import {RetryableError} from '../../../base/errors.ts'
import {
  type Account,
  accountsPerRequest,
  type Header,
  type SolanaNode,
  SolanaNodes,
} from '../../../chains/solana/client.ts'
import {accountOf, type SolanaSettings, splToken} from '../../../chains/solana/settings.ts'
import {parseTokenAccount} from '../../../chains/solana/tokens.ts'
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
    batch: Math.max(1, Math.floor(accountsPerRequest / (1 + settings.tokens.size))),
    async poll(addresses) {
      const {height, differences} = await observe(db, nodes, settings, addresses, readBalances)
      const sure: Difference[] = []
      for (const difference of differences) {
        const {address, token, ledger, chain} = difference
        const isElsewhere =
          chain < ledger && token !== settings.chain.assets[0].token && !(await isTreasury(db, settings, address))
        if (!isElsewhere) sure.push(difference)
        else sure.push(...(await observe(db, nodes, settings, [address], readAllOf(token))).differences)
      }
      return {height, differences: sure, unread: []}
    },
    heightAt: time => nodes.ask(node => lastBlockBefore(node, (time.getTime() - clockMarginMs) / 1000)),
    close() {},
  }
}

/** The treasury's tokens are where it can spend them, or they are not its own. */
async function isTreasury(db: pg.Client, {chain}: SolanaSettings, address: string): Promise<boolean> {
  const sql = 'select from app.address where chain = $1 and address = $2 and merchant_id is null'
  return (await db.query(sql, [chain.code, address])).rows.length > 0
}

/** What the node says at one of its final blocks. */
interface Read {
  height: number
  hash: string
  held: {address: string; token: string; amount: bigint}[]
}
type Reader = (node: SolanaNode, settings: SolanaSettings, addresses: string[]) => Promise<Read | undefined>

/** Of addresses that rested since the block that was read, each once; the others are read again. */
async function observe(
  db: pg.Client,
  nodes: SolanaNodes,
  settings: SolanaSettings,
  addresses: string[],
  reader: Reader,
): Promise<{height: number; differences: Difference[]}> {
  const differences: Difference[] = []
  let left = addresses
  let read: Read | undefined
  for (let i = 0; i < tries.most; i++, await sleep(tries.pauseMs)) {
    read ??= await nodes.ask(node => reader(node, settings, left))
    const found = read && (await compare(db, settings.chain, read))
    if (!found) continue // the ledger gets to the block that was read
    differences.push(...found.differences)
    left = found.moved
    read = undefined
    if (!left.length) return {height: found.height, differences}
  }
  throw new RetryableError('the ledger did not have the final block of the node, or money moved all the time')
}

/**
 * Lamports, and of each token what is in the associated account, as a rule all of it. Undefined if the node does not
 * show the block now.
 */
async function readBalances(
  node: SolanaNode,
  settings: SolanaSettings,
  addresses: string[],
): Promise<Read | undefined> {
  const [{token: native}, ...tokens] = settings.chain.assets
  const places = addresses.flatMap(address => [
    {address, token: native, at: address},
    ...tokens
      .filter(({contract}) => contract)
      .map(({token}) => ({address, token, at: accountOf(settings, token, address)})),
  ])
  const {slot, accounts} = await node.accounts(
    places.map(({at}) => at),
    'finalized',
  )
  const held = places.map(({address, token}, i) => {
    const account = accounts[i]
    return {address, token, amount: token === native ? (account?.lamports ?? 0n) : ownedIn(address, account)}
  })
  return await at(node, slot, held)
}

/** All that an address has of a token, in whichever account. */
const readAllOf =
  (token: string): Reader =>
  async (node, settings, [address]) => {
    const {slot, accounts} = await node.accountsOf(address!, splToken(settings, token).contract, 'finalized')
    const amount = accounts.reduce((sum, account) => sum + ownedIn(address!, account), 0n)
    return await at(node, slot, [{address: address!, token, amount}])
  }

function ownedIn(owner: string, account: Account | undefined): bigint {
  const parsed = parseTokenAccount(account)
  return parsed?.owner === owner ? parsed.amount : 0n
}

async function at(node: SolanaNode, slot: number, held: Read['held']): Promise<Read | undefined> {
  const header = await node.header(slot, 'finalized')
  return header && {height: header.height, hash: header.hash, held}
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
  {code}: SolanaSettings['chain'],
  {height, hash, held}: Read,
): Promise<Compared | undefined> {
  const addresses = [...new Set(held.map(({address}) => address))]
  const {rows} = await db.query<{height: number; address: string; token: string; amount: string; hasMoved: boolean}>(
    `select address, token, amount, has_moved as "hasMoved", final_height as height from app.ledger_holdings_since($1, $2, $3, $4)`,
    [code, height, hash, addresses],
  )
  if (!rows.length) return undefined
  const moved = new Set(rows.filter(({hasMoved}) => hasMoved).map(({address}) => address))
  const ledgerOf = new Map(rows.map(({address, token, amount}) => [`${address} ${token}`, BigInt(amount)]))
  const differences = held.flatMap(({address, token, amount: chain}): Difference[] => {
    const ledger = ledgerOf.get(`${address} ${token}`) ?? 0n
    return ledger === chain || moved.has(address) ? [] : [{address, token, outpoint: '', ledger, chain}]
  })
  return {height: rows[0]!.height, differences, moved: [...moved]}
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
