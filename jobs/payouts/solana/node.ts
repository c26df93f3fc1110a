// The node, as payouts ask it. Promises: a response is checked; a request ends in one, or in a RetryableError. What it
// says is never a proof: it only decides what is tried.
import {eachOf} from '../../../base/each-of.ts'
import {systemProgram} from '../../../chains/solana/address.ts'
import {refusedToken} from '../../../chains/solana/check-tokens.ts'
import {type Account, SolanaNodes} from '../../../chains/solana/client.ts'
import {signatureFee, twoSignaturesFee} from '../../../chains/solana/message.ts'
import type {SolanaSettings} from '../../../chains/solana/settings.ts'
import {parseTokenAccount} from '../../../chains/solana/tokens.ts'
import type {Holding, Sweep} from '../accounts/holdings.ts'
import {type Context, notPayable, type Payout, retryMs, shortOfFunds, type Wait} from '../context.ts'
import type {OutgoingPayment} from '../outgoing-payments.ts'
import {highestFee, highestSweepFee, priorityFee} from './fees.ts'

/** A chain of the family, and its nodes. */
export interface Solana {
  settings: SolanaSettings
  nodes: SolanaNodes
  /** The wait while the mint of a token is not what the settings say; asked again until it is. */
  wrongMint: (token: string) => Promise<Wait | undefined>
}

export function solana(settings: SolanaSettings): Solana {
  const nodes = new SolanaNodes(settings)
  const right = new Set<string>()
  return {
    settings,
    nodes,
    async wrongMint(token) {
      if (right.has(token)) return
      const detail = await nodes.ask(node => refusedToken(settings, node, [token]))
      if (detail !== undefined) return {reason: 'token_refused', detail, ms: retryMs.told}
      right.add(token)
    },
  }
}

/** A transaction names our newest block: if the node's is this much higher, it would be too old soon. */
const mostBlocksBehind = 25

/** The wait while the indexer is behind the node: what would be signed now would expire before a block takes it. */
export async function behindNow({pool}: Context, {settings, nodes}: Solana): Promise<Wait | undefined> {
  const {code} = settings.chain
  const {height} = await nodes.ask(node => node.latest('confirmed'))
  const {rows} = await pool.query<{height: number}>('select head_height as height from chain.cursor where chain = $1', [
    code,
  ])
  const behind = height - (rows[0]?.height ?? 0)
  if (behind <= mostBlocksBehind) return undefined
  return {reason: 'head_stale', detail: `the indexer of ${code} is ${behind} blocks behind the node`, ms: retryMs.soon}
}

/**
 * What the treasury must have besides the amount of a payment: the fee, and what an account must hold at least, which
 * stays.
 */
export async function paymentReserve({settings, nodes}: Solana): Promise<bigint> {
  return highestFee(settings) + (await nodes.ask(node => node.rentMinimum()))
}

/** Why an account is no wallet. One that is not there may be one: nobody has paid it yet. */
export function notWallet(account: Account | undefined): string | undefined {
  if (!account || (!account.executable && account.owner === systemProgram)) return undefined
  const token = parseTokenAccount(account)
  return token
    ? `the recipient is a token account: the address of its owner, ${token.owner}, can be paid`
    : `the recipient belongs to the program ${account.owner}: it is no wallet`
}

/** Why a recipient cannot be paid this much, in lamports. */
export async function unpayable(
  {nodes}: Solana,
  {recipient, amount}: {recipient: string; amount: bigint},
): Promise<Wait | undefined> {
  const [account, rent] = await nodes.ask(node =>
    Promise.all([node.account(recipient, 'confirmed'), node.rentMinimum()]),
  )
  const why = notWallet(account)
  if (why !== undefined) return notPayable('destination_not_payable', why)
  if ((account?.lamports ?? 0n) + amount >= rent) return undefined
  const detail = `the recipient has no account yet, and an account takes no less than ${rent} lamports (rent); this is ${amount}`
  return notPayable('below_rent_exempt', detail)
}

/** What the treasury lacks: coins, or only those that it must keep. */
export async function shortOf({pool}: Context, {settings}: Solana, {id}: Payout, short: string): Promise<Wait> {
  const {rows} = await pool.query<{short: string | null}>('select app.payout_shortage($1, $2) as short', [
    id,
    String(highestFee(settings)),
  ])
  if (rows[0]!.short !== null) return shortOfFunds(rows[0]!.short)
  const detail = `the treasury would hold less than an account must (rent): ${short}`
  return {reason: 'treasury_below_rent', detail, ms: retryMs.soon}
}

/** What the treasury lacks to pay for a sweep: it must keep the rent, before the sweep arrives. */
export async function cannotSweep(
  {settings, nodes}: Solana,
  {token, treasury}: {token: string; treasury: string},
): Promise<Wait | undefined> {
  const [balance, rent] = await nodes.ask(node =>
    Promise.all([node.balance(treasury, 'confirmed'), node.rentMinimum()]),
  )
  const isToken = token !== settings.chain.assets[0].token
  const least = rent + (isToken ? settings.tokenSweepFee : highestSweepFee(settings))
  if (balance.lamports >= least) return undefined
  return shortOfFunds(
    `the treasury ${treasury} holds ${balance.lamports} lamports; it pays for sweeps, and needs ${least} (the rent, and the fee): send it some SOL`,
  )
}

/**
 * Sweeps that leave each address empty, or with what has just arrived there. An address whose balance is not what the
 * ledger says cannot be swept if too little would stay: an account holds nothing, or at least the rent.
 */
export async function nativeSweeps(chain: Solana, holdings: Holding[]): Promise<(Sweep | undefined)[]> {
  const addresses = holdings.map(({address}) => address)
  const {rent, balances, fee} = await chain.nodes.ask(async node => ({
    rent: await node.rentMinimum(),
    balances: await eachOf(addresses, async address => (await node.balance(address, 'confirmed')).lamports),
    fee:
      twoSignaturesFee + priorityFee(chain.settings, await node.recentFees(addresses), {attempts: 0, moved: 'coins'}),
  }))
  return holdings.map(({address, amount}, i) => {
    const left = balances[i]! - BigInt(amount)
    return left === 0n || left >= rent ? {address, amount: BigInt(amount), maxFee: fee} : undefined
  })
}

/**
 * What a sweep of lamports offers for its place in a block: all that was reserved for it, or kept on its address, when
 * it was begun.
 */
export const sweepPriorityFee = ({source, feePayer, maxFee}: OutgoingPayment): bigint =>
  maxFee - (feePayer === source ? signatureFee : twoSignaturesFee)

/**
 * Broadcasts signed transactions, in hex. Returns the node's error for each, undefined if it took it; neither proves
 * anything.
 */
export async function broadcast({nodes}: Solana, raws: string[]): Promise<(string | undefined)[]> {
  return await nodes.ask(node => eachOf(raws, raw => node.send(Buffer.from(raw, 'hex').toString('base64'))))
}
