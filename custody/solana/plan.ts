// How a transaction of Solana is made. Promises: it names the newest block that the indexer linked, and its end follows
// from that block's height. A fork that leaves this block makes the transaction invalid, never valid for longer; a
// final block would take away a fifth of the time. No transaction uses a durable nonce, which would have no end.
// Transactions of a chain that are equal otherwise have different limits of compute units, because equal ones have the
// same id, and only one of them pays. The fee is exact; what an account of a token costs that is made (rent) is the
// most that the operator allows, because only the chain knows it.
//
// A token goes to the associated account of its recipient, which is worked out here. Every payment makes that account
// first, if it is not there: the instruction for it fails if somebody else owns the account by now, so nobody else is
// paid. A sweep may leave another account of its address, which the worker names: if the address does not own it, the
// chain refuses the transaction.
import {findContract} from '../../chains/contract-tokens.ts'
import {blockMs, largestAmount, lifetimeBlocks, signatureFee, type TokenTransfer} from '../../chains/solana/message.ts'
import {accountOf, type SolanaSettings, solanaSettings, transferTo} from '../../chains/solana/settings.ts'
import type {Case} from '../family.ts'
import {type Lifetime, lifetimeInBlocks, linkedNow} from '../judge/expiring.ts'
import {
  checkSweepFee,
  checkTokenSweep,
  checkTokenSweepFee,
  type FamilyContext,
  type Plan,
  type Purpose,
} from '../judge/plan.ts'
import {Refusal} from '../judge/refusal.ts'

/**
 * More than a payment needs, which fails if it has too little: 450 units; a token some 6,000, and its recipient's
 * account 20,000, or 1,500 more for each address that is tried for it.
 */
const leastLimit = {coins: 1000, token: 40_000, madeAccount: 150_000}
/**
 * The limits begin again after this many signatures; only those of one block's time could meet. The highest limit costs
 * nothing, and one twentieth of what the fee is worth to a leader.
 */
const limits = 1000

export interface SolanaTerms {
  maxFee: bigint
  lifetime: Lifetime
  blockhash: string
  computeUnitLimit: number
  priorityFee: bigint
  /** Undefined for the native coin. */
  transfer: (TokenTransfer & {to: string}) | undefined
  /** What the account may cost that is made for the recipient, in lamports; 0 if none is. */
  rent: bigint
}

/** What the worker offers, and what it asked a node. */
export interface Offer {
  /**
   * In lamports, on top of the signatures'. Of a sweep whose address pays, it is what the address keeps for it, so that
   * nothing is left.
   */
  priorityFee: bigint
  /** Of a sweep of a token: the account that it leaves; absent: the associated one. */
  account?: string | undefined
  /** Of a sweep of a token: the treasury has no account yet. */
  isNewAccount?: boolean | undefined
}

export async function termsOf(
  context: FamilyContext,
  {purpose, before, from, payer}: Pick<Case, 'purpose' | 'before' | 'from' | 'payer'>,
  {priorityFee, account, isNewAccount = false}: Offer,
): Promise<SolanaTerms> {
  const {kind, chain, amount} = purpose
  const settings = solanaSettings(context.chains.get(chain))
  const transfer = transferOf(settings, purpose, from.address, {account, isNewAccount})
  if (amount > largestAmount) throw new Refusal('above_limit', `a transaction cannot move ${amount} base units`)
  if (priorityFee > settings.maxPriorityFee)
    throw new Refusal(
      'fee_above_cap',
      `a priority fee of ${priorityFee} lamports is more than ${chain}_MAX_PRIORITY_FEE allows (${settings.maxPriorityFee})`,
    )
  // What is on another account than the associated one is little as a rule, and cannot be swept together with it.
  const isOther = transfer !== undefined && transfer.fromAccount !== accountOf(settings, purpose.token, from.address)
  if (transfer && kind === 'sweep' && !before.length && !isOther) await checkTokenSweep(context, purpose, from.address)
  const rent = transfer?.madeFor === undefined ? 0n : settings.maxAccountRent
  if (rent && kind === 'pay') await checkRent(context, purpose, rent, settings.dailyAccountRent)
  const linked = await linkedNow(context, chain, settings)
  const signatures = payer.address === from.address ? 1n : 2n
  return {
    maxFee: signatureFee * signatures + priorityFee + rent,
    lifetime: lifetimeInBlocks(linked, lifetimeBlocks, blockMs),
    blockhash: linked.headHash,
    computeUnitLimit: await nextLimit(context, chain, rent ? 'madeAccount' : transfer ? 'token' : 'coins'),
    priorityFee,
    transfer,
    rent,
  }
}

/** Undefined for the native coin. */
function transferOf(
  settings: SolanaSettings,
  {kind, chain, token, destination}: Purpose,
  from: string,
  {account, isNewAccount}: Pick<Offer, 'account'> & {isNewAccount: boolean},
): SolanaTerms['transfer'] {
  const mint = findContract(settings, token)
  if (mint === undefined && token !== settings.chain.assets[0].token)
    throw new Refusal('unknown_settlement', `custody signs nothing for ${token} on ${chain}`)
  if (mint === undefined) return undefined
  const fromAccount = account ?? accountOf(settings, token, from)
  return transferTo(settings, {token, fromAccount, recipient: destination, isMade: kind !== 'sweep' || isNewAccount})
}

/**
 * Refuses a payment that may make an account, if accounts for a merchant's recipients cost too much today: whoever
 * closes one gets its rent. Each payment counts as if it made one, until a final block shows what it paid.
 */
async function checkRent(
  {client, journal}: FamilyContext,
  {chain, merchantId}: Purpose,
  rent: bigint,
  most: bigint,
): Promise<void> {
  const signed = journal.known.rentsOn(new Date().toISOString(), chain, merchantId!)
  const {rows} = await client.query<{used: string}>({
    name: 'rents_today',
    text: `select coalesce(sum(coalesce((
          select greatest(i.fee - r.rest, 0) from chain.confirmed_tx i join chain.cursor c using (chain)
          where i.chain = $1 and i.txid = r.txid and i.block_height <= c.final_height order by i.fee desc limit 1), r.rent)), 0)::text as used
      from unnest($2::text[], $3::numeric[], $4::numeric[]) r (txid, rent, rest)
      where not exists (select from chain.lapse l where l.chain = $1 and l.txid = r.txid)`,
    values: [
      chain,
      signed.map(({txid}) => txid),
      signed.map(({rent}) => String(rent)),
      signed.map(({rest}) => String(rest)),
    ],
  })
  const used = BigInt(rows[0]!.used)
  if (used + rent > most)
    throw new Refusal(
      'account_rent_limit',
      `accounts for this merchant's recipients may cost ${used} lamports today (UTC), and the next ${rent} more; ${chain}_DAILY_ACCOUNT_RENT allows ${most}`,
    )
}

/** Another one than the transactions before it in the journal have, also those signed in this turn. */
async function nextLimit({client}: FamilyContext, chain: string, of: keyof typeof leastLimit): Promise<number> {
  const {rows} = await client.query<{seq: number}>({
    name: 'last_seq',
    text: 'select coalesce(max(seq), 0)::int as seq from custody.journal where stream = $1',
    values: [chain],
  })
  return leastLimit[of] + (rows[0]!.seq % limits)
}

/** SOL has the check of every family; a token's sweep has a maximum fee. */
export function checkSweep(settings: SolanaSettings, sweep: Plan & SolanaTerms): void {
  if (sweep.transfer) checkTokenSweepFee(settings, sweep)
  else checkSweepFee(settings, sweep)
}
