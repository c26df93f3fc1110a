// What the treasury can lend of its stake, and which sweeps get some. Promises: no I/O but lendingNow; what is given to
// one sweep is not given to the next one, however many are chosen among in turn.
import {least, most} from '../../../base/bigints.ts'
import {RetryableError} from '../../../base/errors.ts'
import {mostTokenBytesFee, stakingBytes} from '../../../chains/tron/bytes.ts'
import type {Energy, Prices} from '../../../chains/tron/client.ts'
import type {TronSettings} from '../../../chains/tron/settings.ts'
import {treasuryOf} from '../accounts/holdings.ts'
import {type Context, retryMs, type Wait} from '../context.ts'
import {withRoom} from './fees.ts'
import type {Tron} from './node.ts'

const trx = 1_000_000n
/** What a delegate lends at least, in sun (java-tron's DelegateResourceActuator). */
export const leastStake = trx
/** What a stake gives falls as others stake: so much more is lent. */
const driftPercent = 2n
/** A delegate, and later an undelegate. */
const pairBytes = 2n * stakingBytes

type Rate = Pick<Energy, 'network' | 'staked'>

/** The stake that gives so much energy at once, in sun. */
export function stakeFor({network, staked}: Rate, energy: bigint): bigint {
  const exact = (energy * staked * trx + network - 1n) / network
  return most(exact + (exact * driftPercent) / 100n, leastStake)
}

/** What a stake gives at once. */
export const energyOf = ({network, staked}: Rate, sun: bigint): bigint => (sun * network) / (staked * trx)

/** What is left to lend, in sun; it falls with each that is lent. */
export class Lending {
  readonly rate: Rate
  readonly #byte: bigint
  #free: bigint
  #freePairs: bigint

  constructor({rate, byte, free, freeBytes}: {rate: Rate; byte: bigint; free: bigint; freeBytes: bigint}) {
    this.rate = rate
    this.#byte = byte
    this.#free = most(free, 0n)
    this.#freePairs = freeBytes / pairBytes
  }

  get free(): bigint {
    return this.#free
  }

  /** What lending once more, and taking that back, costs. */
  get fee(): bigint {
    return this.#freePairs > 0n ? 0n : pairBytes * this.#byte
  }

  /** The stake for so much energy. */
  stakeFor(energy: bigint): bigint {
    return stakeFor(this.rate, withRoom(energy))
  }

  lend(stake: bigint): void {
    this.#free -= stake
    if (this.#freePairs > 0n) this.#freePairs -= 1n
  }
}

/** Undefined if no energy is lent: by the settings, or because nothing is staked for it. */
export async function lendingNow(to: Context, chain: Tron, {byte}: Pick<Prices, 'byte'>): Promise<Lending | undefined> {
  const {settings, nodes} = chain
  const {code} = settings.chain
  if (settings.sweepEnergy === 'burnt') return
  const {rows} = await to.pool.query<{staked: string; lent: string; unseen: string}>(
    'select staked, lent, unseen from app.stake_for_energy($1)',
    [code],
  )
  const [staked, lent, unseen] = [rows[0]!.staked, rows[0]!.lent, rows[0]!.unseen].map(BigInt) as [
    bigint,
    bigint,
    bigint,
  ]
  if (staked === 0n) return
  const treasury = await treasuryOf(to.pool, code)
  return await nodes.ask(async node => {
    const lendable = await node.lendable(treasury)
    const energy = await node.energy(treasury)
    if (!energy || energy.network === 0n || energy.staked === 0n)
      throw new RetryableError('the node does not say what energy a stake gives')
    const free = least(lendable - unseen, settings.maxDelegated - lent)
    return new Lending({rate: energy, byte, free, freeBytes: await node.freeBytes(treasury)})
  })
}

/** A sweep whose way is to be chosen. */
export interface Needs {
  /** By a trial of the transfer. */
  energy: bigint
  /** What the transaction costs that sends the address gas, if it lacks some: to burn, or for bytes alone; in sun. */
  gasFee: {burnt: bigint; delegated: bigint}
}

/** How a sweep gets its energy; or why it waits. */
export type Way = {lends: bigint} | 'burnt' | Wait

/**
 * The way of a sweep. What is lent is taken off `lending`. It waits only where it may not burn: the operator does not
 * want that, or it costs more than he allows, and something is staked.
 */
export function chooseWay(
  settings: TronSettings,
  prices: Pick<Prices, 'energy'>,
  lending: Lending | undefined,
  {energy, gasFee}: Needs,
): Way {
  const stake = lending?.stakeFor(energy)
  const burns = energy * prices.energy + gasFee.burnt
  const isForced = settings.sweepEnergy === 'delegated'
  const isTooDear =
    withRoom(energy * prices.energy) + mostTokenBytesFee(settings) + gasFee.burnt > settings.tokenSweepFee
  const mayBurn = !isForced && (!isTooDear || !lending)
  if (lending && stake! <= lending.free && (!mayBurn || lending.fee + gasFee.delegated < burns)) {
    lending.lend(stake!)
    return {lends: stake!}
  }
  return mayBurn ? 'burnt' : energyShort(settings, lending, stake)
}

/** What a sweep of a token is likely to cost, in sun, without what its bytes cost. */
export function likelyFee(prices: Pick<Prices, 'energy'>, lending: Lending | undefined, energy: bigint): bigint {
  const burnt = energy * prices.energy
  return lending ? least(lending.fee, burnt) : burnt
}

function energyShort(
  {chain, sweepEnergy}: TronSettings,
  lending: Lending | undefined,
  stake: bigint | undefined,
): Wait {
  const {code} = chain
  const why =
    sweepEnergy === 'delegated'
      ? `${code}_SWEEP_ENERGY is delegated, so no sweep burns energy`
      : `burning its energy costs more than ${code}_TOKEN_SWEEP_FEE allows`
  const what = lending
    ? `it needs ${stake} sun of the stake, and ${lending.free} are free`
    : 'nothing is staked for energy'
  return {reason: 'energy_short', detail: `${why}: ${what}`, ms: retryMs.soon}
}
