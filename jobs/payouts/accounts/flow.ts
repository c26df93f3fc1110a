// How money leaves on chains of accounts, alike in all their families: what is on deposit addresses is swept to the
// treasury, and the treasury pays it out, returns it, or an operator withdraws it. rules.ts says what the families
// differ in; Bitcoin, whose money is outputs, has a way of its own. Promises: nothing is begun while the family says
// that it would fail or be too dear; an address is swept only if that brings enough for what it may cost. Beginning is
// safe to repeat, also concurrently: each is one SQL function that checks whether it is due (holdings.ts).
import type pg from 'pg'
import {most} from '../../../base/bigints.ts'
import {PermanentError} from '../../../base/errors.ts'
import {step} from '../../../base/step.ts'
import {isWorthItsFee, worthSweeping} from '../../../chains/chain-settings.ts'
import {familyOf} from '../../../chains/families.ts'
import {
  type Context,
  type Outcome,
  type Payout,
  type PayoutChain,
  type ReturnStep,
  retryMs,
  shortOfFunds,
  untilSwept,
  type Wait,
} from '../context.ts'
import type {Withdrawal} from '../family.ts'
import {
  beginDefunds,
  beginDelegates,
  beginFunds,
  beginReturnStep,
  beginSweeps,
  collectable,
  endSweeping,
  idleGas,
  insertWithdrawal,
  isPayable,
  type Sweep,
  shortage,
  shortfall,
  sweepable,
  treasuryOf,
  untilSweepable,
  whyUnpaid,
} from './holdings.ts'
import {isWait, type Now, type Rules, type Sweeping} from './rules.ts'

type Flow = Required<Pick<PayoutChain, 'unpayable' | 'sweep' | 'beginPayment' | 'beginReturn' | 'collect'>>

export function flowOf(rules: Rules): Flow {
  return {
    unpayable: payout => rules.unpayable({...payout, source: payout.treasury}),
    sweep: (to, payout) => sweep(to, rules, payout),
    beginPayment: (to, payout) => beginPayment(to, rules, payout),
    beginReturn: (to, of) => beginReturn(to, rules, of),
    collect: to => collect(to, rules),
  }
}

// --- a payout ---

async function sweep(to: Context, rules: Rules, payout: Payout): Promise<Outcome> {
  const now = await rules.now(to)
  if (isWait(now)) return now
  if (!payout.sweepFirst && (await isPayable(to, payout, now.reserve))) return await endSweeping(to, payout)
  const wait = await beginSweepsFor(to, rules, now, payout, payout.sweepFirst ? undefined : now.reserve)
  return (await untilSwept(to, payout)) ?? wait ?? (await untilSweepable(to, payout)) ?? (await endSweeping(to, payout))
}

async function beginPayment(to: Context, rules: Rules, payout: Payout): Promise<Wait | undefined> {
  const now = await rules.now(to)
  if (isWait(now)) return now
  const short = await tryPayment(to, rules, now, payout)
  if (short === undefined || typeof short === 'object') return short
  const wait = await beginSweepsFor(to, rules, now, payout, now.reserve) // another payout used money that this one counted on
  if (wait && wait.reason !== 'fee_above_cap') return wait // that sweeps are too dear is not why: coins for the treasury would do
  return await whyUnpaid(to, payout, now.reserve, (await rules.shortOf?.(to, payout, short)) ?? shortOfFunds(short))
}

/** What the treasury lacks, or why the payment is not begun; undefined once it has begun. */
async function tryPayment(
  to: Context,
  {estimate}: Rules,
  {reserve, leastFee}: Now,
  payout: Payout,
): Promise<string | Wait | undefined> {
  const short = leastFee === undefined ? undefined : await shortage(to, 'payout_shortage', payout, leastFee)
  if (short) return short
  const fee = (await estimate?.(to, {...payout, source: payout.treasury})) ?? reserve
  if (typeof fee === 'object') return fee
  step('payment: before begin')
  const lacks = await shortage(to, 'begin_payment', payout, fee)
  step('payment: after begin')
  return lacks
}

/**
 * Begins sweeps for a payout: the largest first, until they bring what it lacks besides `reserve`, or all without one.
 * Resolves to what prevents some.
 */
async function beginSweepsFor(
  to: Context,
  rules: Rules,
  now: Now,
  payout: Payout,
  reserve: bigint | undefined,
): Promise<Wait | undefined> {
  const missing = reserve === undefined ? undefined : await shortfall(to, payout, reserve)
  if (missing === 0n) return undefined
  const least = worthwhile(rules, now, payout.token)
  if (isTooDear(least)) return (await sweepable(to, payout, 1n)).length ? least : undefined
  const {sweeps, isLeft, tried, waits} = await chosen(to, rules, now, payout, {least, missing})
  if (!sweeps.length && waits) return waits
  const asked = worthwhile(rules, now, payout.token) // by what the node has said of these
  if (!sweeps.length && isTooDear(asked)) return asked
  const from = sweeps[0] ?? tried
  const why = from && (await rules.cannotSweep(to, {...payout, from}))
  if (why) return why
  step('sweep: before begin')
  const short = await beginAll(to, now, payout, sweeps, reserve)
  step('sweep: after begin')
  if (short) return shortOfFunds(short)
  return isLeft ? {reason: 'sweeps', detail: 'an address has just changed', ms: retryMs.soon} : undefined
}

/**
 * Sends gas to the addresses that lack some, lends energy to those that are to have some, and begins the other sweeps.
 * Resolves to what the treasury lacks.
 */
async function beginAll(
  to: Context,
  {fundFee, delegates}: Now,
  of: {id: string | null; chain: string; token: string},
  sweeps: Sweep[],
  reserve?: bigint,
): Promise<string | undefined> {
  const lacking = sweeps.filter(({lacks}) => lacks !== undefined)
  const borrowing = delegates ? sweeps.filter(({lacks, lends}) => lacks === undefined && lends !== undefined) : []
  const ready = sweeps.filter(({lacks, lends}) => lacks === undefined && lends === undefined)
  return (
    (await beginSweeps(to.pool, of, ready, reserve)) ??
    (delegates && (await beginDelegates(to.pool, of, borrowing, delegates))) ??
    (await beginFunds(to.pool, of, lacking, fundFee ?? 0n))
  )
}

async function chosen(
  to: Context,
  rules: Rules,
  now: Now,
  payout: Payout,
  {least, missing}: {least: bigint; missing: bigint | undefined},
): Promise<{sweeps: Sweep[]; isLeft: boolean; tried: Sweep | undefined; waits: Wait | undefined}> {
  const holdings = await sweepable(to, payout, least)
  const sweeps: Sweep[] = []
  let tried: Sweep | undefined // one that moves nothing, perhaps because its token refuses everybody
  let waits: Wait | undefined
  let [brought, isLeft] = [0n, false]
  for (let i = 0; i < holdings.length; i += rules.atOnce)
    for (const sweep of await now.sweeps(to, payout, holdings.slice(i, i + rules.atOnce))) {
      if (missing !== undefined && brought >= missing) return {sweeps, isLeft, tried, waits}
      isLeft ||= sweep === undefined
      tried ??= sweep
      waits ??= sweep?.waits
      if (!sweep || !isWorth(rules, now, payout.token, sweep)) continue
      sweeps.push(sweep)
      brought += broughtBy(rules, payout.token, sweep)
    }
  return {sweeps, isLeft, tried, waits}
}

// --- what a sweep is worth ---

const isNative = ({settings}: Rules, token: string) => token === settings.chain.assets[0].token

/**
 * An address pays for its own coins. For those of some chains, and for tokens, the treasury does, also where the
 * address pays with gas that it was sent.
 */
const isPaidByTreasury = (rules: Rules, token: string) =>
  !isNative(rules, token) || familyOf(rules.settings).nativeSweepsPaidBy === 'treasury'

/**
 * The least that an address must hold to be swept now; or that sweeping a token costs too much. Which holdings of a
 * token are too small, SQL decides.
 */
function worthwhile(rules: Rules, now: Now, token: string): bigint | Wait {
  const fee = now.likelySweepFee(token)
  if (isNative(rules, token)) return worthSweeping(rules.settings, fee)
  if (fee <= rules.maxTokenSweepFee!) return 1n
  return {reason: 'fee_above_cap', detail: tooDear(rules.settings, rules.maxTokenSweepFee!), ms: retryMs.soon}
}

const isTooDear = (least: bigint | Wait): least is Wait => typeof least === 'object'

export const tooDear = ({chain}: Rules['settings'], most: bigint): string =>
  `sweeping a token costs more than ${chain.code}_TOKEN_SWEEP_FEE allows now (${most} base units of ${chain.assets[0].token})`

/** Custody signs no other sweep. */
function isWorth(rules: Rules, {fundFee = 0n}: Now, token: string, sweep: Sweep): boolean {
  if (isNative(rules, token)) return isWorthItsFee(rules.settings, sweep)
  const fee = sweep.lacks === undefined ? sweep.maxFee : sweep.maxFee + fundFee
  return sweep.amount > 0n && fee <= rules.maxTokenSweepFee!
}

/** What a sweep adds to what the treasury can pay of this token. */
function broughtBy(rules: Rules, token: string, {amount, maxFee}: Sweep): bigint {
  return isNative(rules, token) && isPaidByTreasury(rules, token) ? amount - maxFee : amount
}

// --- returns, collecting, withdrawals ---

/**
 * An unattributed deposit is swept to the treasury like a merchant's, then goes to its destination like a withdrawal.
 */
async function beginReturn(to: Context, rules: Rules, of: ReturnStep): Promise<Wait | undefined> {
  const now = await rules.now(to)
  if (isWait(now)) return now
  if (of.step === 'sweep') return await beginReturnSweep(to, rules, now, of)
  const {depositId, token, amount, treasury: source, destination: recipient} = of
  const payment = {token, amount, source, recipient}
  const fee = rules.estimate ? await rules.estimate(to, payment) : ((await rules.unpayable(payment)) ?? now.reserve)
  if (typeof fee === 'object') return fee
  return await beginReturnStep(to, 'begin_return_withdrawal($1, $2)', [depositId, String(fee)])
}

async function beginReturnSweep(to: Context, rules: Rules, now: Now, of: ReturnStep): Promise<Wait | undefined> {
  const {depositId, token, address, amount} = of
  const why = await rules.cannotSweep(to, {...of, from: {address, amount}})
  if (why) return why
  const {settings} = rules
  const least = worthwhile(rules, now, token)
  const isTooLittle =
    isTooDear(least) || amount < least || (!isNative(rules, token) && amount < settings.sweepMin.get(token)!)
  const [sweep] = await now.sweeps(to, of, [{address, amount: String(amount)}])
  if (!sweep) return {reason: 'sweeps', detail: 'the address has just changed', ms: retryMs.soon}
  const {holds = amount, waits} = sweep
  if (waits) return waits
  if (holds < amount)
    return {reason: 'not_there', detail: `the address holds ${holds} base units of ${token}`, ms: retryMs.soon}
  if (isTooLittle || !isWorth(rules, now, token, sweep)) {
    const limits = isNative(rules, token) ? 'SWEEP_FEE_PERCENT sets' : 'SWEEP_MIN and TOKEN_SWEEP_FEE set'
    const detail = `moving ${amount} base units costs too much for the amount now; ${settings.chain.code}_${limits} the limit`
    return {reason: 'not_worth_moving', detail, ms: retryMs.soon}
  }
  if (sweep.lacks !== undefined || sweep.lends !== undefined) {
    const short = await beginAll(to, now, {id: null, chain: settings.chain.code, token}, [sweep])
    if (short) return shortOfFunds(short)
    return sweep.lacks === undefined
      ? {reason: 'energy_under_way', detail: 'the treasury lends the address energy', ms: retryMs.soon}
      : {reason: 'gas_under_way', detail: 'the treasury sends the address gas', ms: retryMs.soon}
  }
  const values = [depositId, String(sweep.amount), String(sweep.maxFee)]
  return await beginReturnStep(to, 'begin_return_sweep($1, $2, $3)', values)
}

/** Sweeps addresses that hold enough, if the operator has set that, and brings back gas that no address needs. */
async function collect(to: Context, rules: Rules): Promise<void> {
  await rules.tend?.(to)
  await collectTokens(to, rules)
  await collectGas(to, rules)
}

async function collectTokens(to: Context, rules: Rules): Promise<void> {
  const {chain, collectAbove} = rules.settings
  for (const [token, above] of collectAbove) {
    if (!(await collectable(to, {chain: chain.code, token, above})).length) continue
    const now = await rules.now(to)
    if (isWait(now)) return // tried again when fees have fallen
    const treasury = await treasuryOf(to.pool, chain.code)
    const why = await collectToken(to, rules, now, {token, treasury, above})
    if (why) to.log.warn({chain: chain.code, token}, `addresses are not collected: ${why}`)
  }
}

/** Resolves to what prevents it. */
async function collectToken(
  to: Context,
  rules: Rules,
  now: Now,
  {above, ...of}: Sweeping & {above: bigint},
): Promise<string | undefined> {
  const {code} = rules.settings.chain
  const least = worthwhile(rules, now, of.token)
  if (isTooDear(least)) return undefined
  const holdings = await collectable(to, {chain: code, token: of.token, above: above > least ? above : least})
  const [first] = holdings
  const why = first && (await rules.cannotSweep(to, {...of, from: {...first, amount: BigInt(first.amount)}}))
  if (why) return why.detail
  for (let i = 0; i < holdings.length; i += rules.atOnce) {
    const some = await now.sweeps(to, of, holdings.slice(i, i + rules.atOnce))
    const sweeps = some.filter(sweep => sweep !== undefined).filter(sweep => isWorth(rules, now, of.token, sweep))
    const short = await beginAll(to, now, {id: null, chain: code, token: of.token}, sweeps)
    if (short) return `${short}; send money to the treasury`
  }
}

/** Brings gas back that is worth its fee. */
async function collectGas(to: Context, rules: Rules): Promise<void> {
  const {code, assets} = rules.settings.chain
  const idle = await idleGas(to, code, rules.atOnce)
  const now = idle.length ? await rules.now(to) : undefined
  if (!now || isWait(now)) return
  const of = {token: assets[0].token, treasury: await treasuryOf(to.pool, code)}
  const found = (await now.sweeps(to, of, idle)).filter(sweep => sweep !== undefined)
  const sweeps = found.map(sweep => keeping(sweep, now.likelySweepFee(of.token)))
  const worth = sweeps.filter(sweep => isWorthItsFee(rules.settings, sweep))
  if (worth.length) await beginDefunds(to, code, worth)
}

/** Also where a sweep may be free, what custody counts for one stays: only gas pays for it. */
function keeping({amount, maxFee, ...sweep}: Sweep, fee: bigint): Sweep {
  const kept = most(maxFee, fee)
  return {...sweep, amount: amount + maxFee - kept, maxFee: kept}
}

/**
 * Begins a withdrawal of the operator's own money, and reserves the amount and the most that it may cost; its id. The
 * node is asked first: a recipient that cannot be paid would hold up the treasury's nonces, or waste its attempts.
 */
export async function beginWithdrawalBy(
  db: pg.Client,
  {settings, unpayable}: Rules,
  withdrawal: Withdrawal,
  reserve: bigint,
): Promise<string> {
  const {token, amount, to: recipient} = withdrawal
  const {code} = settings.chain
  const why = await unpayable({token, amount, recipient, source: await treasuryOf(db, code)})
  if (why) throw new PermanentError(`${why.detail}; withdraw to another address, or another amount`)
  return await insertWithdrawal(db, code, withdrawal, reserve)
}
