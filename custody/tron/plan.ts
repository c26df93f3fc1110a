// How a transaction of Tron is made. Promises: the block that it names is one that the indexer found final, so that no
// fork makes it invalid, or valid again; no two transactions of a chain have the same time, because equal ones have the
// same id, and only one of them pays. What the energy of a token's transfer may burn is in the transaction; nothing in
// it limits what its bytes cost: the settings say what is counted.
import {findContract} from '../../chains/contract-tokens.ts'
import {mostTokenBytesFee} from '../../chains/tron/bytes.ts'
import {type TronSettings, tronSettings} from '../../chains/tron/settings.ts'
import {largestAmount} from '../../chains/tron/transaction.ts'
import type {Case} from '../family.ts'
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
}

interface TokenCall {
  contract: string
  feeLimit: bigint
}

/** `feeLimit`: what the worker offers for the energy of a token's transfer, in sun. */
export async function termsOf(
  context: FamilyContext,
  {purpose, before, from}: Pick<Case, 'purpose' | 'before' | 'from'>,
  feeLimit: bigint | undefined,
): Promise<TronTerms> {
  const {kind, chain, token, amount} = purpose
  const settings = tronSettings(context.chains.get(chain))
  const call = callOf(settings, token, feeLimit)
  if (!call && amount > largestAmount) throw new Refusal('above_limit', `a transaction cannot move ${amount} sun`)
  if (call && kind === 'sweep' && !before.length) await checkTokenSweep(context, purpose, from.address)
  const maxFee = maxFeeOf(settings, call, {isSweep: kind === 'sweep' || kind === 'defund'})
  const linked = await linkedNow(context, chain, settings)
  return {
    maxFee,
    lifetime: lifetimeInTime(linked, settings.lifetimeMs),
    on: {height: linked.finalHeight, hash: linked.finalHash},
    timestamp: await nextTimestamp(context, chain, linked.nowMs),
    call,
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

function maxFeeOf(settings: TronSettings, call: TokenCall | undefined, {isSweep}: {isSweep: boolean}): bigint {
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
