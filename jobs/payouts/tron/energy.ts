// How the sweep of a token gets its energy: burnt from the gas that the treasury sends its address, or lent of the
// treasury's stake. Promises: what is cheaper now, unless the operator forces one (TRON_SWEEP_ENERGY); several
// addresses share what is free of the stake, in order, and as no sweep waits for energy to come back, the others burn.
// Energy that is used comes back within 24 hours (java-tron's ResourceProcessor).
import type pg from 'pg'
import {most} from '../../../base/bigints.ts'
import {PermanentError, RetryableError} from '../../../base/errors.ts'
import {mostStakingFee, stakingBytes} from '../../../chains/tron/bytes.ts'
import {type Energy, type Prices, TronNodes} from '../../../chains/tron/client.ts'
import type {TronSettings} from '../../../chains/tron/settings.ts'
import {treasuryOf} from '../accounts/holdings.ts'
import {type Context, retryMs, type Wait} from '../context.ts'
import type {Staking} from '../family.ts'
import {assumedEnergy, withRoom} from './fees.ts'
import type {Tron} from './node.ts'

const trx = 1_000_000n
/** What a delegate lends at least (java-tron's DelegateResourceActuator). */
const leastStake = trx
/** As in db/functions/outgoing/stake.sql. */
const unstakingDays = 14n
/** What a stake gives falls as others stake: so much more is lent. */
const driftPercent = 2n

/** What the treasury can lend now. */
export interface Lending {
  /** Of its stake, in sun. */
  free: bigint
  /** What lending and taking back once costs, in sun. */
  fee: bigint
  rate: Pick<Energy, 'network' | 'staked'>
}

/** Undefined if no energy is lent: by the settings, or because nothing is staked for it. */
export async function lendingNow(to: Context, chain: Tron, {byte}: Pick<Prices, 'byte'>): Promise<Lending | undefined> {
  const {settings, nodes} = chain
  const {code} = settings.chain
  if (settings.sweepEnergy === 'burnt') return
  const {rows} = await to.pool.query<{is_staked: boolean; delegating: string}>(
    `select exists (select from app.stake where chain = $1 and resource = 'energy' and amount > 0) as is_staked, app.delegating($1) as delegating`,
    [code],
  )
  const {is_staked, delegating} = rows[0]!
  if (!is_staked) return
  const treasury = await treasuryOf(to.pool, code)
  return await nodes.ask(async node => {
    const lendable = await node.lendable(treasury)
    const energy = await node.energy(treasury)
    const isFree = await node.isFree(treasury, 2n * stakingBytes)
    if (!energy || energy.network === 0n || energy.staked === 0n)
      throw new RetryableError('the node does not say what energy a stake gives')
    const {network, staked} = energy
    const fee = isFree ? 0n : 2n * stakingBytes * byte
    return {free: most(lendable - BigInt(delegating), 0n), fee, rate: {network, staked}}
  })
}

/** The stake that gives so much energy at once, in sun. */
export function stakeFor({rate: {network, staked}}: Pick<Lending, 'rate'>, energy: bigint): bigint {
  const exact = (energy * staked * trx + network - 1n) / network
  return most(exact + (exact * driftPercent) / 100n, leastStake)
}

/** What a stake gives at once. */
export const energyOf = ({rate: {network, staked}}: Pick<Lending, 'rate'>, sun: bigint): bigint =>
  (sun * network) / (staked * trx)

/** A sweep whose way is to be chosen. */
export interface Needs {
  /** By a trial of the transfer. */
  energy: bigint
  /** What the transaction costs that sends the address gas, if it lacks some: to burn, or for bytes alone; in sun. */
  gasFee: {burnt: bigint; delegated: bigint}
}

/**
 * How much of the stake each of these sweeps is lent, in order; 'burnt' if it burns; 'short' if it may not, and too
 * little is free.
 */
export function chooseWays(
  {sweepEnergy}: Pick<TronSettings, 'sweepEnergy'>,
  prices: Pick<Prices, 'energy'>,
  lending: Lending | undefined,
  sweeps: Needs[],
): (bigint | 'burnt' | 'short')[] {
  let free = lending?.free ?? 0n
  return sweeps.map(({energy, gasFee}) => {
    const stake = lending && stakeFor(lending, withRoom(energy))
    const isForced = sweepEnergy === 'delegated'
    const isCheaper = lending !== undefined && lending.fee + gasFee.delegated < energy * prices.energy + gasFee.burnt
    if (stake !== undefined && stake <= free && (isForced || isCheaper)) {
      free -= stake
      return stake
    }
    return isForced ? 'short' : 'burnt'
  })
}

/** What a sweep of a token costs by the way that it will probably go, in sun, without what its bytes cost. */
export function likelyFee(
  settings: TronSettings,
  prices: Pick<Prices, 'energy'>,
  lending: Lending | undefined,
  energy: bigint,
): bigint {
  const burnt = energy * prices.energy
  const [way] = chooseWays(settings, prices, lending, [{energy, gasFee: {burnt: 0n, delegated: 0n}}])
  return typeof way === 'bigint' ? lending!.fee : burnt
}

/** The wait of a sweep that may not burn, while too little of the stake is free. */
export function energyShort(
  {chain, sweepEnergy}: TronSettings,
  lending: Lending | undefined,
  energy: bigint,
): Wait | undefined {
  if (sweepEnergy !== 'delegated') return
  const stake = lending && stakeFor(lending, withRoom(energy))
  if (stake !== undefined && stake <= lending!.free) return
  const what = lending
    ? `it needs ${stake} sun of the stake, of which ${lending.free} are free`
    : 'nothing is staked for energy'
  const detail = `${chain.code}_SWEEP_ENERGY is delegated, so no sweep burns energy: ${what}`
  return {reason: 'energy_short', detail, ms: retryMs.soon}
}

/**
 * Takes back what addresses do not need any more, brings back what was unstaked, and notes what a sweep costs by each
 * way. Safe to run twice: each is one SQL function that checks whether it is due.
 */
export async function tendStake(to: Context, chain: Tron, tokens: string[]): Promise<void> {
  const {code} = chain.settings.chain
  const fee = String(mostStakingFee(chain.settings))
  const {rows} = await to.pool.query<{is_due: boolean}>(
    'select app.begin_undelegates($1, $2, 200), app.begin_reclaim($1, $2), app.are_sweep_costs_due($1) as is_due',
    [code, fee],
  )
  if (rows[0]!.is_due && tokens.length) await noteCosts(to, chain, tokens)
}

async function noteCosts(to: Context, chain: Tron, tokens: string[]): Promise<void> {
  const {settings, nodes, energy} = chain
  const prices = await nodes.ask(node => node.prices())
  const lending = await lendingNow(to, chain, prices)
  if (lending) await findDelegations(to, chain)
  for (const token of tokens) {
    const needs = energy.get(token) ?? assumedEnergy
    const [way] = chooseWays(settings, prices, lending, [{energy: needs, gasFee: {burnt: 0n, delegated: 0n}}])
    await to.pool.query('select app.note_sweep_cost($1, $2, $3, $4, $5, $6)', [
      settings.chain.code,
      token,
      String(needs * prices.energy),
      String(lending?.fee ?? 2n * stakingBytes * prices.byte),
      typeof way === 'bigint' ? 'delegated' : 'burnt',
      inWords(settings, lending, needs),
    ])
  }
}

/** What was lent may be in no copy of the database or the journal any more; or be known here in error. */
async function findDelegations(to: Context, {settings, nodes}: Tron): Promise<void> {
  const {code} = settings.chain
  const treasury = await treasuryOf(to.pool, code)
  const lent = await nodes.ask(node => node.lent(treasury))
  await to.pool.query('select app.find_delegations($1, $2, $3::numeric[])', [
    code,
    lent.map(({to: address}) => address),
    lent.map(({amount}) => String(amount)),
  ])
}

function inWords({chain, sweepEnergy}: TronSettings, lending: Lending | undefined, energy: bigint): string {
  const needs = `a sweep needs ${energy} energy`
  if (sweepEnergy === 'burnt') return `${needs}; ${chain.code}_SWEEP_ENERGY is burnt`
  if (!lending) return `${needs}; nothing is staked for energy`
  const sweeps = lending.free / stakeFor(lending, withRoom(energy))
  return `${needs}; ${energyOf(lending, lending.free)} of the stake's are free now, enough for ${sweeps} sweeps at once`
}

/**
 * Begins to stake the operator's coins, or to unstake some; its id. Throws PermanentError if the network holds what is
 * unstaked for another time than 14 days, which is when it counts again.
 */
export async function beginStaking(
  db: pg.Client,
  settings: TronSettings,
  {kind, resource, amount}: Staking,
): Promise<string> {
  if (amount < leastStake) throw new PermanentError('the network takes no less than 1 TRX; write a larger amount')
  const days = await new TronNodes(settings).ask(node => node.unstakingDays())
  if (days !== unstakingDays)
    throw new PermanentError(
      `the network holds what is unstaked for ${days} days, and Sluice counts on ${unstakingDays}; stake nothing here`,
    )
  const {rows} = await db.query<{id: string}>(`select app.begin_${kind}($1, $2, $3, $4) as id`, [
    settings.chain.code,
    resource,
    String(amount),
    String(mostStakingFee(settings)),
  ])
  return rows[0]!.id
}
