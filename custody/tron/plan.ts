// How a transaction of Tron is made. Promises: the block that it names is one that the indexer found final, so that no
// fork makes it invalid, or valid again; no two transactions of a chain have the same time, because equal ones have the
// same id, and only one of them pays. What the energy of a token's transfer may burn is in the transaction; nothing in
// it limits what its bytes cost: the settings say what is counted.
import {findContract} from '../../chains/contract-tokens.ts'
import {mostStakingFee, mostTokenBytesFee} from '../../chains/tron/bytes.ts'
import {type TronSettings, tronSettings} from '../../chains/tron/settings.ts'
import {largestAmount, resources, type StakedFor, type Staking} from '../../chains/tron/transaction.ts'
import type {Case} from '../family.ts'
import {isStaking, type Kind} from '../intents.ts'
import {isLent} from '../judge/delegations.ts'
import {type Lifetime, lifetimeInTime, linkedNow} from '../judge/expiring.ts'
import {checkSweepFee, checkTokenSweep, checkTokenSweepFee, type FamilyContext, type Plan} from '../judge/plan.ts'
import {Refusal} from '../judge/refusal.ts'

export interface TronTerms {
  maxFee: bigint
  lifetime: Lifetime
  /** The block that it names. */
  on: {height: number; hash: string}
  /** In ms; nodes do not check it. */
  timestamp: number
  /** Of a token: its contract, and the most that energy may burn, in sun. */
  call: TokenCall | undefined
  staking: Staking | undefined
  /** Of a sweep with lent energy: what it burns at most if that is gone, in sun. */
  mayBurn: bigint | undefined
}

interface TokenCall {
  contract: string
  feeLimit: bigint
}

/** `feeLimit`: what the worker offers for the energy of a token's transfer, in sun. */
export async function termsOf(
  context: FamilyContext,
  {purpose, before, from, outgoingPayment}: Pick<Case, 'purpose' | 'before' | 'from' | 'outgoingPayment'>,
  feeLimit: bigint | undefined,
): Promise<TronTerms> {
  const {kind, chain, token, amount} = purpose
  const settings = tronSettings(context.chains.get(chain))
  const staking = stakingOf(purpose, from.address)
  const call = staking ? undefined : callOf(settings, token, feeLimit)
  if (!call && amount > largestAmount) throw new Refusal('above_limit', `a transaction cannot move ${amount} sun`)
  if (call && kind === 'sweep' && !before.length) await checkTokenSweep(context, purpose, from.address)
  const hasEnergy = outgoingPayment.fromGas && kind === 'sweep' && (await isLent(context, chain, from.address))
  const maxFee = hasEnergy ? mostTokenBytesFee(settings) : maxFeeOf(settings, call, kind)
  const linked = await linkedNow(context, chain, settings)
  return {
    maxFee,
    lifetime: lifetimeInTime(linked, settings.lifetimeMs),
    on: {height: linked.finalHeight, hash: linked.finalHash},
    timestamp: await nextTimestamp(context, chain, linked.nowMs),
    call,
    staking,
    mayBurn: hasEnergy ? call!.feeLimit : undefined,
  }
}

/** Undefined for the native coin. */
function callOf(settings: TronSettings, token: string, feeLimit: bigint | undefined): TokenCall | undefined {
  const {chain} = settings
  const contract = findContract(settings, token)
  if (contract === undefined && token !== chain.assets[0].token)
    throw new Refusal('unknown_settlement', `custody signs nothing for ${token} on ${chain.code}`)
  if (contract === undefined && feeLimit === undefined) return undefined
  if (contract !== undefined && feeLimit !== undefined && feeLimit > 0n && feeLimit <= largestAmount)
    return {contract, feeLimit}
  throw new Refusal('fee_too_low', 'a transfer of a token has a fee_limit above zero, and a payment of TRX has none')
}

/** Undefined for what moves coins or a token. */
function stakingOf({kind, destination: receiver, details}: Case['purpose'], owner: string): Staking | undefined {
  if (!isStaking(kind)) return undefined
  if (kind === 'reclaim') return {kind, owner}
  const of = {owner, amount: BigInt(String(details.stake)), resource: known(String(details.resource) as StakedFor)}
  return kind === 'stake' || kind === 'unstake' ? {kind, ...of} : {kind, ...of, receiver}
}

function known(resource: StakedFor): StakedFor {
  if (resource in resources) return resource
  throw new Refusal('settlement_changed', `nothing is staked for ${resource}`)
}

/**
 * The most that it may cost, in sun. (What a sweep burns that has lent energy is no cost that is planned: it counts in
 * the fee budget until a final block shows that there was none.)
 */
function maxFeeOf(settings: TronSettings, call: TokenCall | undefined, kind: Kind): bigint {
  if (isStaking(kind)) return mostStakingFee(settings)
  const isSweep = kind === 'sweep' || kind === 'defund'
  if (!call) return isSweep ? settings.maxSweepFee : settings.maxPaymentFee
  const maxFee = call.feeLimit + mostTokenBytesFee(settings)
  if (!isSweep && maxFee > settings.tokenPaymentFee)
    throw new Refusal(
      'fee_above_cap',
      `the payment may cost ${maxFee} sun, with its bytes: more than ${settings.chain.code}_TOKEN_PAYMENT_FEE allows (${settings.tokenPaymentFee})`,
    )
  return maxFee
}

/** TRX has the check of every family; a token's sweep has a maximum fee. */
export function checkSweep(settings: TronSettings, sweep: Plan & TronTerms): void {
  if (sweep.call) checkTokenSweepFee(settings, sweep)
  else checkSweepFee(settings, sweep)
}

/** Later than that of every transaction in the journal, also of those signed in this turn. */
async function nextTimestamp({client}: FamilyContext, chain: string, nowMs: number): Promise<number> {
  const {rows} = await client.query<{last: string}>({
    name: 'last_timestamp',
    text: `select details ->> 'timestamp' as last from custody.journal where stream = $1 and details ? 'timestamp' order by seq desc limit 1`,
    values: [chain],
  })
  return Math.max(Math.floor(nowMs), 1 + Number(rows[0]?.last ?? 0))
}
