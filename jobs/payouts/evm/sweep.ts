// Chooses the addresses that a payout sweeps, and begins the sweeps. Promises: an address is not swept if that costs more than it brings, or if its
// last sweep failed. Only money that is final and on the address is moved. Beginning is safe to repeat, also concurrently: sweeps under way are
// counted when the nonces are taken. So an address that looks empty, because its sweep is in a block that is not final, is not replaced by another.

import {worthSweeping} from '../../../chains/chain-settings.ts'
import {batch, type Holding, type Sweep, sweepable} from '../accounts.ts'
import type {Context} from '../context.ts'
import {isWorthSweeping, nativeSweep} from './fees.ts'
import {likelySweepGas, sweepGas} from './gas.ts'
import {balancesOf, contractOf, type Evm} from './node.ts'

/** What is swept, to where, at which price. */
export interface Sweeping {
  token: string
  treasury: string
  /** In wei. */
  feePerGas: bigint
}

/**
 * The sweeps of a payout: the largest first, until they bring `missing` base units, or all if `missing` is undefined.
 */
export async function sweepsFor(
  to: Context,
  chain: Evm,
  payout: {id: string; token: string; treasury: string},
  feePerGas: bigint,
  missing: bigint | undefined,
): Promise<Sweep[]> {
  const sweeping = {...payout, feePerGas}
  const rows = await sweepable(to, payout, worthwhile(chain, sweeping))
  const sweeps: Sweep[] = []
  let brought = 0n
  for (let i = 0; i < rows.length; i += batch)
    for (const sweep of await sized(chain, sweeping, rows.slice(i, i + batch))) {
      if (missing !== undefined && brought >= missing) return sweeps
      sweeps.push(sweep)
      brought += sweep.amount
    }
  return sweeps
}

/** The least amount that an address must hold to be worth a sweep at this price. A token costs its address nothing: app.sweepable decides. */
function worthwhile(chain: Evm, {token, feePerGas}: Omit<Sweeping, 'treasury'>): bigint {
  if (contractOf(chain, token)) return 1n
  return worthSweeping(chain.settings, likelySweepGas(chain, token) * feePerGas)
}

/** Whether moving this amount brings enough for what it may cost. */
export function isWorth(
  chain: Evm,
  sweeping: Omit<Sweeping, 'treasury'>,
  {amount, maxFee}: {amount: bigint; maxFee: bigint},
): boolean {
  return contractOf(chain, sweeping.token)
    ? amount > 0n && !isTokenSweepTooDear(chain, sweeping.token, maxFee)
    : isWorthSweeping(amount, maxFee, chain.settings.sweepFeePercent)
}

/** Whether sweeping a token costs more than the operator allows. Custody does not sign such a sweep. */
export function isTokenSweepTooDear({settings, native}: Evm, token: string, maxFee: bigint): boolean {
  return token !== native && maxFee > settings.tokenSweepFee
}

/** Why it is. */
export function tooDear({settings}: Evm): string {
  return `sweeping a token costs more than ${settings.chain.code}_TOKEN_SWEEP_FEE allows now (${settings.tokenSweepFee} wei)`
}

/** The sweep of each address, by its balance at the newest block. Addresses that are not worth a sweep are left out. */
export async function sized(chain: Evm, sweeping: Sweeping, holdings: Holding[]): Promise<Sweep[]> {
  const {token, treasury, feePerGas} = sweeping
  const [example] = holdings
  if (!example) return []
  const balances = await balancesOf(
    chain,
    token,
    holdings.map(({address}) => address),
  )
  const isNative = token === chain.native
  const gas = await sweepGas(chain, {token, from: example.address, treasury})
  const maxFee = feePerGas * gas
  return holdings.flatMap(({address, amount: held}, i) => {
    const [balance, holding] = [balances[i]!, BigInt(held)]
    const amount = nativeSweep({balance, holding, fee: isNative ? maxFee : 0n})
    return isWorth(chain, sweeping, {amount, maxFee}) ? [{address, amount, maxFee}] : []
  })
}
