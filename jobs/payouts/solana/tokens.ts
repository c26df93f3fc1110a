// Tokens of Solana, as a node shows them: the accounts that hold them, and what stands in the way of moving them.
// Promises: nothing is sent. An address is blocked only if its own account is frozen, at a finalized block, so that no
// fork takes that back, and the treasury's is not.
import {least, most} from '../../../base/bigints.ts'
import {eachOf} from '../../../base/each-of.ts'
import {systemProgram} from '../../../chains/solana/address.ts'
import type {Account, Commitment} from '../../../chains/solana/client.ts'
import {accountOf, splToken} from '../../../chains/solana/settings.ts'
import {parseTokenAccount, type TokenAccount} from '../../../chains/solana/tokens.ts'
import type {Holding, Sweep} from '../accounts/holdings.ts'
import type {Payment} from '../accounts/rules.ts'
import {blockAddress, ofToken, openFeeIncident, tokenRefused, treasuryLacks} from '../accounts/tokens.ts'
import {type Context, notPayable, retryMs, type Wait} from '../context.ts'
import type {OutgoingPayment} from '../outgoing-payments.ts'
import {highestFee, highestSweepFee} from './fees.ts'
import {notWallet, type Solana} from './node.ts'

/** Of an account of any mint: more than the extensions of a mint add to it, as a rule. */
const accountBytes = 200

/** A token account, and where it is. */
interface Found extends TokenAccount {
  address: string
}

/** An owner of a token, and how much of it is to leave one account. */
interface Leaving {
  token: string
  owner: string
  amount: bigint
}

/**
 * The account of an owner that a transfer of so much leaves: the associated one, if it holds that, or enough to be
 * worth a sweep; else the other one that holds most. Undefined if it has none. So strangers who make accounts for an
 * address with next to nothing in them delay nothing.
 */
async function accountFor(
  chain: Solana,
  of: Leaving,
  commitment: Commitment = 'confirmed',
): Promise<Found | undefined> {
  const own = accountOf(chain.settings, of.token, of.owner)
  return await chosen(chain, of, await chain.nodes.ask(node => node.account(own, commitment)))
}

/** The same, by what the associated account is: others are asked for only if it does not hold enough. */
async function chosen(
  chain: Solana,
  {token, owner, amount}: Leaving,
  account: Account | undefined,
): Promise<Found | undefined> {
  const {contract: mint} = splToken(chain.settings, token)
  const own = accountOf(chain.settings, token, owner)
  const first = found(own, account)
  const isOwn = first?.owner === owner && first.mint === mint
  if (isOwn && first.amount >= least(amount, chain.settings.sweepMin.get(token)!)) return first
  // What is not final yet is not in the ledger: a sweep of it would have to wait if it left the chain.
  const {accounts} = await chain.nodes.ask(node => node.accountsOf(owner, mint, 'finalized'))
  const others = accounts
    .map(each => found(each.address, each))
    .filter(each => each !== undefined && each.owner === owner && each.mint === mint && each.address !== own)
    .toSorted((a, b) => (a!.amount > b!.amount ? -1 : 1))
  return others[0] && others[0].amount > 0n ? others[0] : isOwn ? first : undefined
}

function found(address: string, account: Account | undefined): Found | undefined {
  const parsed = parseTokenAccount(account)
  return parsed && {...parsed, address}
}

/** Sweeps of what each address holds of a token: of one of its accounts, if they are several. */
export async function tokenSweeps(
  chain: Solana,
  {token, treasury}: {token: string; treasury: string},
  holdings: Holding[],
): Promise<Sweep[]> {
  const {settings, nodes} = chain
  const asked = [treasury, ...holdings.map(({address}) => address)].map(each => accountOf(settings, token, each))
  const {accounts} = await nodes.ask(node => node.accounts(asked, 'confirmed'))
  const [ofTreasury, ...own] = accounts
  const maxFee = highestSweepFee(settings) + (isInUse(ofTreasury) ? 0n : settings.maxAccountRent)
  return await eachOf([...holdings.entries()], async ([i, {address, amount}]) => {
    const held = await chosen(chain, {token, owner: address, amount: BigInt(amount)}, own[i])
    const holds = held?.amount ?? 0n
    return {address, amount: least(holds, BigInt(amount)), maxFee, holds}
  })
}

const isInUse = (account: Account | undefined) => parseTokenAccount(account) !== undefined

async function isNew(chain: Solana, token: string, owner: string): Promise<boolean> {
  return !isInUse(await chain.nodes.ask(node => node.account(accountOf(chain.settings, token, owner), 'confirmed')))
}

/**
 * The most that a payment of a token costs, in lamports, the rent that the treasury keeps included; or why it is not
 * begun.
 */
export async function paymentFee(to: Context, chain: Solana, payment: Payment): Promise<bigint | Wait> {
  const {settings, nodes} = chain
  const {token} = payment
  const stopped = (await chain.wrongMint(token)) ?? (await openFeeIncident(to, settings.chain.code, token))
  if (stopped) return stopped
  const {unpayable, hasAccount} = await lookAtRecipient(chain, payment)
  if (unpayable) return unpayable
  const dear = hasAccount ? undefined : await rentTooHigh(chain)
  return dear ?? highestFee(settings) + settings.maxAccountRent + (await nodes.ask(node => node.rentMinimum()))
}

/** The wait while the network asks more for an account than the operator allows. */
async function rentTooHigh({settings, nodes}: Solana): Promise<Wait | undefined> {
  const rent = await nodes.ask(node => node.rentMinimum(accountBytes))
  if (rent <= settings.maxAccountRent) return undefined
  const detail = `an account for a token costs ${rent} lamports; ${settings.chain.code}_MAX_ACCOUNT_RENT allows ${settings.maxAccountRent}`
  return {reason: 'fee_above_cap', detail, ms: retryMs.soon}
}

/** Why a recipient cannot be paid in a token; undefined if it can, or nobody can say. */
export const tokenUnpayable = async (chain: Solana, payment: Payment): Promise<Wait | undefined> =>
  (await lookAtRecipient(chain, payment)).unpayable

async function lookAtRecipient(
  chain: Solana,
  {token, recipient}: Payment,
): Promise<{unpayable: Wait | undefined; hasAccount: boolean}> {
  const asked = [recipient, accountOf(chain.settings, token, recipient)]
  const {accounts} = await chain.nodes.ask(node => node.accounts(asked, 'confirmed'))
  const why = notWallet(accounts[0]) ?? refusedBy(recipient, accounts[1])
  const unpayable = why === undefined ? undefined : notPayable('destination_not_payable', why)
  return {unpayable, hasAccount: isInUse(accounts[1])}
}

function refusedBy(recipient: string, account: Account | undefined): string | undefined {
  const held = parseTokenAccount(account)
  if (!held) return account && account.owner !== systemProgram ? "the recipient's token account is none" : undefined
  if (held.owner !== recipient) return "the recipient's token account belongs to somebody else now"
  if (held.isFrozen) return "the recipient's token account is frozen by the issuer of the token"
  return held.extensions.includes('MemoTransfer')
    ? "the recipient's token account takes no transfer without a memo"
    : undefined
}

/** Why no sweep of a token is begun now: its mint is not what it was, or the treasury's account is frozen. */
export async function tokenRefusal(
  to: Context,
  chain: Solana,
  {token, treasury}: {token: string; treasury: string},
): Promise<Wait | undefined> {
  const known = (await chain.wrongMint(token)) ?? (await openFeeIncident(to, chain.settings.chain.code, token))
  if (known) return known
  const words = await refusesTreasury(chain, token, treasury)
  if (words !== undefined) return tokenRefused(token, words)
  return (await isNew(chain, token, treasury)) ? await rentTooHigh(chain) : undefined
}

async function refusesTreasury(chain: Solana, token: string, treasury: string): Promise<string | undefined> {
  const account = await chain.nodes.ask(node => node.account(accountOf(chain.settings, token, treasury), 'confirmed'))
  return refusedBy(treasury, account)?.replace("the recipient's", "the treasury's")
}

/** Why the chain does not let a token leave an address; undefined if it does. */
export async function refusalOf(
  chain: Solana,
  {token, address, holds}: {token: string; address: string; holds: bigint},
): Promise<string | undefined> {
  const account = await accountFor(chain, {token, owner: address, amount: holds}, 'finalized')
  if (account?.isFrozen) return frozen
  const has = account?.amount ?? 0n
  return has < holds ? `it holds ${has} base units of ${token} on the chain, and ${holds} in the ledger` : undefined
}
const frozen = 'its token account is frozen by the issuer of the token'

/**
 * Blocks the address of a sweep whose account is frozen. Resolves to what is said of the token, if the treasury's is.
 */
export async function blockIfFrozen(
  to: Context,
  chain: Solana,
  {token, source: address, recipient: treasury, amount}: Payment,
): Promise<string | undefined> {
  const words = await refusesTreasury(chain, token, treasury)
  if (words !== undefined) return ofToken(token, words)
  const account = await accountFor(chain, {token, owner: address, amount}, 'finalized')
  if (account?.isFrozen) await blockAddress(to, chain.settings.chain.code, {token, address}, frozen)
}

/** What an intent for a sweep of a token names: the account that it leaves, and whether the treasury has one. */
export interface Accounts {
  account: string
  new_account: boolean
}

/** The accounts of a sweep, chosen as when it was begun; or why it is not signed now. */
export async function accountsOfSweep(
  chain: Solana,
  sweep: Payment & Pick<OutgoingPayment, 'holding'>,
): Promise<Accounts | Wait> {
  const {token, source: owner, recipient, amount, holding} = sweep
  const wrong = await chain.wrongMint(token)
  if (wrong) return wrong
  const held = await accountFor(chain, {token, owner, amount: most(holding, amount)})
  if (held && held.amount >= amount) return {account: held.address, new_account: await isNew(chain, token, recipient)}
  const detail = `the address has no account with ${amount} base units of ${token} on the chain: ${held?.amount ?? 0n} at most`
  return {reason: 'would_revert', detail, ms: retryMs.soon}
}

/** Why a payment is not signed now: its recipient may be another one than when it was begun. */
export async function whyNotPaid(chain: Solana, payment: Payment): Promise<Wait | undefined> {
  const {token, source} = payment
  const wrong = await chain.wrongMint(token)
  if (wrong) return wrong
  const account = await chain.nodes.ask(node => node.account(accountOf(chain.settings, token, source), 'confirmed'))
  const lacks = treasuryLacks(payment, parseTokenAccount(account)?.amount ?? 0n)
  if (lacks) return {reason: 'would_revert', detail: lacks, ms: retryMs.soon}
  return await tokenUnpayable(chain, payment)
}
