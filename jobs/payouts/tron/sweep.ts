// How much of each address is swept. Promises: of TRX, an address without gas whose bytes are free is left empty; of
// another one, what its sweep may cost stays until it is paid. Of a token all goes, and the address pays with TRX that
// the treasury sends it: always for the bytes, since whether they are free is known only when a block takes the
// transaction; and for the energy, unless the treasury lends it some (lending.ts). What is left of it pays for its next
// sweep.
import {least} from '../../../base/bigints.ts'
import {eachOf} from '../../../base/each-of.ts'
import {mostTokenBytesFee} from '../../../chains/tron/bytes.ts'
import type {Prices} from '../../../chains/tron/client.ts'
import {freeGas, type Holding, type Readiness, readinessOf, type Sweep} from '../accounts/holdings.ts'
import type {Sweeping} from '../accounts/rules.ts'
import {type Context, retryMs, type Wait} from '../context.ts'
import {bandwidthFee, sweepEnergyFee} from './fees.ts'
import {chooseWay, type Lending, type Needs, type Way} from './lending.ts'
import {sweepFees, type Tron} from './node.ts'
import {blockIfRefused, tokenBalance, tryTransfer} from './tokens.ts'

export async function nativeSweeps(to: Context, chain: Tron, holdings: Holding[]): Promise<Sweep[]> {
  const addresses = holdings.map(({address}) => address)
  const fees = await sweepFees(chain, addresses, await paying(to, chain, addresses))
  return holdings.map(({address, amount}, i) => ({address, amount: BigInt(amount) - fees[i]!, maxFee: fees[i]!}))
}

/**
 * Those that pay, whatever the node says: a sweep of theirs expired within a day (all accounts share a limit of free
 * bytes, too); or they have gas, or get some, and the sweep of a token may use up the free bytes first. Then their fee
 * would be burnt of the gas, which is the operator's.
 */
async function paying({pool}: Context, {settings}: Tron, addresses: string[]): Promise<Set<string>> {
  const {rows} = await pool.query<{source: string}>(
    `select distinct source from app.outgoing_payment
     where chain = $1 and source = any($2) and kind = 'sweep' and outcome = 'expired' and final_at > clock_timestamp() - interval '1 day'
     union select address from app.gas where chain = $1 and address = any($2) and amount > 0
     union select recipient from app.outgoing_payment where chain = $1 and recipient = any($2) and kind = 'fund' and status <> 'final'`,
    [settings.chain.code, addresses],
  )
  return new Set(rows.map(({source}) => source))
}

/** Those whose coins are leaving, perhaps for nothing: the sweep of a token could use up the free bytes before. */
async function leaving({pool}: Context, {settings}: Tron, addresses: string[]): Promise<Set<string>> {
  const {chain} = settings
  const {rows} = await pool.query<{source: string}>(
    `select source from app.outgoing_payment where chain = $1 and token = $2 and source = any($3) and kind = 'sweep' and status <> 'final'`,
    [chain.code, chain.assets[0].token, addresses],
  )
  return new Set(rows.map(({source}) => source))
}

/** A holding whose transfer would succeed. */
interface Movable {
  address: string
  amount: bigint
  /** Of the token, at the newest block. */
  holds: bigint
  /** Gas that no sweep uses, in sun. */
  has: bigint
  /** The energy that the transfer takes. */
  energy: bigint
}

/**
 * One that has what its transfer costs goes; another one first gets gas, or is lent energy. One that cannot move its
 * token moves nothing, and is blocked if the token does not let it go.
 */
export async function tokenSweeps(
  to: Context,
  chain: Tron,
  {prices, lending}: {prices: Prices; lending: Lending | undefined},
  of: Sweeping,
  holdings: Holding[],
): Promise<(Sweep | undefined)[]> {
  const {code} = chain.settings.chain
  const addresses = holdings.map(({address}) => address)
  const free = await freeGas(to, code, addresses)
  const readiness = await readinessOf(to, code, addresses)
  const isLeaving = await leaving(to, chain, addresses)
  const found = await eachOf([...holdings.entries()], async ([i, {address, amount}]) => {
    const waits = whyNotReady(readiness[i]!)
    if (waits) return {address, amount: 0n, maxFee: 0n, waits}
    if (isLeaving.has(address)) return
    return await tried(to, chain, of, {address, amount: BigInt(amount), has: free[i]!})
  })
  const sweeps: (Sweep | undefined)[] = []
  for (const [i, one] of found.entries()) {
    if (!isMovable(one)) sweeps.push(one)
    else if (readiness[i] === 'lent') sweeps.push(await withLentEnergy(chain, one))
    else sweeps.push(byWay(chain, prices, one, chooseWay(chain.settings, prices, lending, needsOf(chain, prices, one))))
  }
  return sweeps
}

const takenBack = ['energy_under_way', 'the treasury takes back energy of the address'] as const
const unready = {
  fund: ['gas_under_way', 'the treasury sends the address gas'],
  delegate: ['energy_under_way', 'the treasury lends the address energy'],
  undelegate: takenBack,
  returning: takenBack,
} as const

/** Undefined if the address may be swept, or readied for it. */
function whyNotReady(readiness: Readiness): Wait | undefined {
  if (readiness === null || readiness === 'lent') return undefined
  const [reason, detail] = unready[readiness]
  return {reason, detail, ms: retryMs.soon}
}

const isMovable = (found: Movable | Sweep | undefined): found is Movable => found !== undefined && 'energy' in found

async function tried(
  to: Context,
  chain: Tron,
  {token, treasury}: Sweeping,
  {address, amount: held, has}: {address: string; amount: bigint; has: bigint},
): Promise<Movable | Sweep> {
  const holds = await tokenBalance(chain, token, address)
  const amount = least(held, holds)
  const transfer = {token, amount, source: address, recipient: treasury}
  const {failure, energy} = await tryTransfer(chain, transfer)
  if (failure) {
    if (failure.isSure) await blockIfRefused(to, chain, transfer)
    return {address, amount: 0n, maxFee: 0n, holds}
  }
  chain.energy.set(token, energy)
  return {address, amount, holds, has, energy}
}

function needsOf({settings}: Tron, prices: Prices, {energy, has}: Movable): Needs {
  const bytes = mostTokenBytesFee(settings)
  const fee = bandwidthFee(prices)
  const gasFee = {
    burnt: has < sweepEnergyFee(energy, prices).expected + bytes ? fee : 0n,
    delegated: has < bytes ? fee : 0n,
  }
  return {energy, gasFee}
}

/** One that burns, and has less than that costs, gets what a contract may cost that becomes busier. */
function byWay({settings}: Tron, prices: Prices, one: Movable, way: Way): Sweep {
  const {address, amount, holds, has, energy} = one
  const bytes = mostTokenBytesFee(settings)
  if (way === 'burnt') {
    const {expected, limit} = sweepEnergyFee(energy, prices)
    const asked = limit + bytes
    if (has >= expected + bytes) return {address, amount, holds, maxFee: least(asked, has)}
    return {address, amount, holds, maxFee: asked, lacks: asked - has}
  }
  if ('ms' in way) return {address, amount: 0n, maxFee: 0n, holds, waits: way}
  return {address, amount, holds, maxFee: bytes, lends: way.lends, ...(has < bytes && {lacks: bytes - has})}
}

/** It goes if the energy is enough, and else once that was taken back. */
async function withLentEnergy({settings, nodes}: Tron, one: Movable): Promise<Sweep> {
  const {address, amount, holds, has, energy} = one
  const bytes = mostTokenBytesFee(settings)
  const left = (await nodes.ask(node => node.energy(address)))?.left ?? 0n
  if (left >= energy) return {address, amount, holds, maxFee: bytes, ...(has < bytes && {lacks: bytes - has})}
  const detail = `the address was lent ${left} energy, and its transfer takes ${energy} now; that is taken back first`
  return {address, amount: 0n, maxFee: 0n, holds, waits: {reason: 'energy_short', detail, ms: retryMs.soon}}
}
