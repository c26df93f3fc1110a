// Compares the balances of our addresses on Tron with the ledger, of TRX and of tokens: nothing in a block covers what
// contracts move, or log, so this is where a node that left some out, or made some up, is found. Promises: it asks a
// node and changes nothing. Nodes keep no balances of the past, so each is read between two equal final blocks, and
// compared only if the ledger is at that block; what was read in time is not read again. Where none is for a while, a
// RetryableError, never a match.
import {setTimeout as sleep} from 'node:timers/promises'
import type pg from 'pg'
import {eachOf} from '../../../base/each-of.ts'
import {RetryableError} from '../../../base/errors.ts'
import {findContract} from '../../../chains/contract-tokens.ts'
import {type BlockHeader, type TronNode, TronNodes} from '../../../chains/tron/client.ts'
import type {TronSettings} from '../../../chains/tron/settings.ts'
import {balanceData} from '../../../chains/tron/token-transfers.ts'
import type {Asked, AuditFamily, Observation} from '../observation.ts'

/** A node is asked about each address and token. */
const batch = 50
/** Read between two looks at the final block: a public node answers as many in less than a second. */
const atOnce = 10
/** Without anything read. The indexer and the node agree on the final block for some of the time between two blocks. */
const fullTries = {most: 80, pauseMs: 250}
/** Clocks differ, and a block carries the time at which its making began. */
const clockMarginMs = 3_600_000

export const tron: AuditFamily<TronSettings> = {
  claim: 'our addresses and the treasury hold on the chain what the ledger says',
  ask: askBalances,
}

/** The ledger at a final block. */
interface Ledger {
  height: number
  hash: string
  held: Held[]
}

interface Held {
  address: string
  token: string
  amount: bigint
}

export function askBalances(db: pg.Client, settings: TronSettings, tries = fullTries): Asked {
  const nodes = new TronNodes(settings)
  const ledgerOf = (addresses: string[]) => readLedger(db, settings.chain.code, addresses)
  return {
    batch,
    async poll(addresses) {
      const read: Read[] = []
      for (let i = 0; i < tries.most; i++, await sleep(tries.pauseMs)) {
        const before = read.length
        const height = await nodes.ask(node => readOn(node, settings, () => ledgerOf(addresses), read))
        if (height !== undefined) return observed(read, height)
        if (read.length > before) i = 0
      }
      throw new RetryableError('the node and the ledger had no final block in common for long enough')
    },
    async heightAt(time) {
      const {height} = await ledgerOf([])
      return await nodes.ask(node => lastBlockBefore(node, time.getTime() - clockMarginMs, height))
    },
    close() {},
  }
}

/** A balance that was read while the ledger and the node had the same final block. */
interface Read {
  height: number
  of: Held
  /** In base units; or why a token's contract does not say it. */
  chain: bigint | string
}

/**
 * Reads what is not read yet, while the final block is the ledger's. Its height once all is read, undefined if the
 * block changed before.
 */
async function readOn(
  node: TronNode,
  settings: TronSettings,
  ledger: () => Promise<Ledger>,
  read: Read[],
): Promise<number | undefined> {
  const {height, hash, held} = await ledger()
  const isFinal = (block: Pick<BlockHeader, 'hash'>) => block.hash === hash
  if (!isFinal(await node.solidHeader())) return
  const isRead = new Set(read.map(({of}) => nameOf(of)))
  const left = held.filter(one => !isRead.has(nameOf(one)))
  for (let i = 0; i < left.length; i += atOnce) {
    const some = left.slice(i, i + atOnce)
    const balances = await eachOf(some, one => balanceOf(node, settings, one))
    if (!isFinal(await node.solidHeader())) return
    read.push(...some.map((of, at) => ({height, of, chain: balances[at]!})))
  }
  return height
}

const nameOf = ({address, token}: Held) => `${address} ${token}`

/** At the lowest block of a balance, so that what is said to be right was right there. */
function observed(read: Read[], height: number): Observation {
  const differences = read.flatMap(({of: {address, token, amount}, chain}) =>
    typeof chain === 'string' || amount === chain ? [] : [{address, token, outpoint: '', ledger: amount, chain}],
  )
  const unread = read.flatMap(({chain}) => (typeof chain === 'string' ? [chain] : []))
  return {height: Math.min(height, ...read.map(one => one.height)), differences, unread: [...new Set(unread)]}
}

/**
 * What an address holds after the solidified block, staked or not, in base units; or why a token's contract does not
 * say it.
 */
async function balanceOf(
  node: TronNode,
  {chain, tokens}: TronSettings,
  {address, token, amount}: Held,
): Promise<bigint | string> {
  if (token === chain.assets[0].token) {
    const account = await node.account(address, {solid: true})
    return account ? account.balance + account.staked : 0n
  }
  const contract = findContract({tokens}, token)
  if (!contract) return amount ? `${token}: it has no contract on this network` : 0n
  const {failure, returned} = await node.try({from: address, contract, data: balanceData(address)}, {solid: true})
  if (failure || returned.length !== 32) return `${token}: its contract did not return a balance`
  return BigInt(`0x${Buffer.from(returned).toString('hex')}`)
}

// One statement, so that the block and the balances belong together.
async function readLedger(db: pg.Client, chain: string, addresses: string[]): Promise<Ledger> {
  const {rows} = await db.query<{
    height: number
    hash: string
    address: string | null
    token: string
    amount: string
  }>(
    `select c.final_height as height, c.final_hash as hash, h.address, h.token, h.amount from chain.cursor c
     left join app.ledger_holdings(c.chain, $2) h on true where c.chain = $1 order by h.token, h.address`,
    [chain, addresses],
  )
  const {height, hash} = rows[0]!
  const held = rows.flatMap(({address, token, amount}) =>
    address === null ? [] : [{address, token, amount: BigInt(amount)}],
  )
  return {height, hash, held}
}

/** The highest block up to `to` that was made before a time; undefined if the node lacks one that is asked for. */
async function lastBlockBefore(node: TronNode, time: number, to: number): Promise<number | undefined> {
  let [low, high] = [1, to]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    const header = await node.header(middle)
    if (!header) return
    if (header.time < time) low = middle
    else high = middle - 1
  }
  return low
}
