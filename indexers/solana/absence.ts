// Whether a transaction that expired is in no block, beyond the blocks that were followed: a node may have left it out
// of one. Promises: nothing is concluded from a node that fails, that is not past the end, or that keeps no history.
//
// Nothing in a block commits to its transactions over RPC. But one that pays changes the balance of the account whose
// coins it moves: of a token, the token account that it leaves. So if the balances of that account follow one another
// from before the transaction could be in a block up to a balance after its end, no other transaction that moved its
// coins is missing between them; and no node may know it. A node without history knows nothing: it must know an older
// transaction of the account. (A node that lies consistently is believed. One whose fee another account pays, and that
// failed, could be left out; it moved nothing.)
import {eachOf} from '../../base/each-of.ts'
import {mentionsPerRequest, type SolanaNode, type SolanaNodes} from '../../chains/solana/client.ts'
import {parsePayment} from '../../chains/solana/message.ts'
import type {Effect, Latest, Mention} from '../../chains/solana/responses.ts'
import {parseTokenAccount} from '../../chains/solana/tokens.ts'
import type {Expired} from '../cursor.ts'

/** A busy treasury has some hundred in the few minutes that matter. */
const mostTransactions = 5 * mentionsPerRequest

/**
 * `fromSlot`: of the newest block that cannot hold the transaction. Resolves to the evidence, or to why there is none,
 * in words for operators.
 */
export async function proveAbsent(nodes: SolanaNodes, expired: Expired, fromSlot: number): Promise<object | string> {
  const account = await nodes.ask(node => provenOn(node, expired, fromSlot))
  if (typeof account === 'string') return account
  const final: Latest[] = []
  for (const node of nodes.all) {
    const latest = await node.latest('finalized')
    if (latest.height < expired.lifetimeEnd)
      return `the finalized block ${latest.height} of a node is not past the end of the transaction`
    const [found, older] = await node.statuses([expired.txid, account.after])
    if (found) return 'a node knows the transaction, which is in no block that Sluice has read'
    if (!older) return `a node does not know transaction ${account.after} of ${account.address}, so it keeps no history`
    final.push(latest)
  }
  return {final, account: {...account, balance: String(account.balance)}}
}

interface Account {
  address: string
  /** The newest transaction that names the account before the expired one could be in a block. */
  after: string
  /** The balances follow one another over so many transactions, up to this balance, at this slot. */
  transactions: number
  balance: bigint
  slot: number
}

/**
 * Of a token: its account, else who pays the fee, whose lamports change with any transaction. (The account may be too
 * new, or too busy; who pays has more transactions as a rule.)
 */
async function provenOn(node: SolanaNode, expired: Expired, fromSlot: number): Promise<Account | string> {
  const {token, feePayer} = parsePayment(expired.raw)
  if (!token) return await accountOf(node, expired, fromSlot, {account: expired.source, what: 'lamports'})
  const found = await accountOf(node, expired, fromSlot, {account: token.fromAccount, what: 'tokens'})
  if (typeof found !== 'string') return found
  const payer = await accountOf(node, expired, fromSlot, {account: feePayer, what: 'lamports'})
  return typeof payer === 'string' ? `${found}; and ${payer}` : payer
}

async function accountOf(
  node: SolanaNode,
  {txid}: Expired,
  fromSlot: number,
  {account, what}: {account: string; what: keyof Effect},
): Promise<Account | string> {
  const {slot: newest} = await node.latest('finalized')
  const {slot, balance} = await balanceOf(node, account, what, newest)
  const mentions = await mentionsSince(node, account, fromSlot)
  if (typeof mentions === 'string') return mentions
  if (mentions.some(each => each.txid === txid))
    return 'a node knows the transaction, which is in no block that Sluice has read'
  const seen = mentions.filter(each => each.slot <= slot) // later ones are not in the balance
  const effects = await eachOf(seen, async each => ({
    ...each,
    ...(await node.effect(each.txid, account))?.[what],
  }))
  const gap = gapIn(effects, balance)
  if (gap) return `the balances of ${account} have a gap at transaction ${gap}: the node left something out`
  const {txid: after} = seen.at(-1)!
  return {address: account, after, transactions: seen.length, balance, slot}
}

/** In lamports, or base units of the token. */
async function balanceOf(
  node: SolanaNode,
  account: string,
  what: keyof Effect,
  minSlot: number,
): Promise<{slot: number; balance: bigint}> {
  const {slot, accounts} = await node.accounts([account], 'finalized', minSlot)
  const [found] = accounts
  return {slot, balance: (what === 'tokens' ? parseTokenAccount(found)?.amount : found?.lamports) ?? 0n}
}

interface Step extends Mention {
  before?: bigint
  after?: bigint
}

/**
 * The first transaction, from the newest on, that does not lead to the balance above it. Nodes may order those of one
 * slot in any way.
 */
function gapIn(effects: Step[], balance: bigint): string | undefined {
  const left = [...effects]
  while (left[0]) {
    const {slot, txid} = left[0]
    const next = left.findIndex(each => each.slot === slot && each.after === balance)
    const [effect] = next < 0 ? [] : left.splice(next, 1)
    if (effect?.before === undefined) return txid
    balance = effect.before
  }
  return undefined
}

/**
 * The final transactions that name an account, the newest first, down to the newest one at or below a slot; or why they
 * cannot be had.
 */
async function mentionsSince(node: SolanaNode, address: string, slot: number): Promise<Mention[] | string> {
  const found: Mention[] = []
  while (found.length < mostTransactions) {
    const more = await node.mentions(address, found.at(-1)?.txid)
    const end = more.findIndex(each => each.slot <= slot)
    if (end >= 0) return [...found, ...more.slice(0, end + 1)]
    if (!more.length) return `the node does not know any older transaction of ${address}`
    found.push(...more)
  }
  return `there are more than ${mostTransactions} transactions of ${address} since then`
}
