// The treasury's stake: what an operator stakes and unstakes, and what is done with it now and then. Promises: what
// addresses do not need any more is taken back, what was unstaked is brought back, and operators see what a sweep costs
// by each way. Safe to run twice, and beside another worker: each is one SQL function that checks whether it is due.
import type pg from 'pg'
import {PermanentError} from '../../../base/errors.ts'
import {mostStakingFee, stakingBytes} from '../../../chains/tron/bytes.ts'
import {TronNodes} from '../../../chains/tron/client.ts'
import type {TronSettings} from '../../../chains/tron/settings.ts'
import {treasuryOf} from '../accounts/holdings.ts'
import {type Context, retryable} from '../context.ts'
import type {Staking} from '../family.ts'
import {assumedEnergy} from './fees.ts'
import {chooseWay, energyOf, type Lending, leastStake, lendingNow, type Way} from './lending.ts'
import type {Tron} from './node.ts'

/** As in db/functions/outgoing/stake.sql. */
const unstakingDays = 14n

export async function tendStake(to: Context, chain: Tron, tokens: string[]): Promise<void> {
  const {code} = chain.settings.chain
  const fee = String(mostStakingFee(chain.settings))
  const {rows} = await to.pool.query<{is_due: boolean}>(
    'select app.begin_undelegates($1, $2, 200), app.begin_reclaim($1, $2), app.are_sweep_costs_due($1) as is_due',
    [code, fee],
  )
  if (!rows[0]!.is_due || !tokens.length) return
  await retryable(lookAround(to, chain, tokens), async why =>
    to.log.warn({chain: code, error: why}, 'the node does not say what is lent, and what a sweep costs'),
  )
}

/** Once a minute. */
async function lookAround(to: Context, chain: Tron, tokens: string[]): Promise<void> {
  await noteCosts(to, chain, tokens)
  await findDelegations(to, chain)
}

async function noteCosts(to: Context, chain: Tron, tokens: string[]): Promise<void> {
  const {settings, nodes, energy} = chain
  const prices = await nodes.ask(node => node.prices())
  const lending = await lendingNow(to, chain, prices)
  for (const token of tokens) {
    const needs = energy.get(token) ?? assumedEnergy
    const [free, fee] = [lending?.free, lending?.fee ?? 2n * stakingBytes * prices.byte]
    const way = chooseWay(settings, prices, lending, {energy: needs, gasFee: {burnt: 0n, delegated: 0n}})
    await to.pool.query('select app.note_sweep_cost($1, $2, $3, $4, $5, $6)', [
      settings.chain.code,
      token,
      String(needs * prices.energy),
      String(fee),
      way === 'burnt' ? 'burnt' : 'delegated',
      inWords(settings, lending, {needs, free, way}),
    ])
  }
}

function inWords(
  {chain, sweepEnergy}: TronSettings,
  lending: Lending | undefined,
  {needs, free = 0n, way}: {needs: bigint; free: bigint | undefined; way: Way},
): string {
  const takes = `a sweep takes ${needs} energy`
  if (sweepEnergy === 'burnt') return `${takes}; ${chain.code}_SWEEP_ENERGY is burnt`
  if (!lending) return `${takes}; nothing is staked for energy`
  const stake = lending.stakeFor(needs)
  const left = `${energyOf(lending.rate, free)} of the stake's are free, enough for ${free / stake} sweeps now`
  return way === 'burnt' && free >= stake ? `${takes}; ${left}; burning costs less` : `${takes}; ${left}`
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

/**
 * Books what the treasury has staked by the node, where an old copy without custody's journal does not know of it.
 * Resolves to what was booked, in words.
 */
export async function recountStake(db: pg.Client, settings: TronSettings): Promise<string[]> {
  const {code} = settings.chain
  const treasury = await treasuryOf(db, code)
  const stake = await new TronNodes(settings).ask(node => node.stake(treasury))
  const {rows} = await db.query<{booked: string}>('select booked from app.recount_stake($1, $2, $3, $4)', [
    code,
    String(stake.energy),
    String(stake.bandwidth),
    JSON.stringify(
      stake.unstaking.map(({resource, amount, freeMs}) => ({resource, amount: String(amount), free_ms: freeMs})),
    ),
  ])
  return rows.map(({booked}) => booked)
}
