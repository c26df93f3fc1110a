// Chooses the addresses that a payout sweeps, and begins the sweeps. Promises: an address is not swept if that costs more than it brings, or if its
// last sweep failed. Only money that is final and on the address is moved. Beginning is safe to repeat, also concurrently: sweeps under way are
// counted when the nonces are taken. So an address that looks empty, because its sweep is in a block that is not final, is not replaced by another.
import type pg from 'pg'
import type {Context} from '../context.ts'
import {gas, isWorthSweeping, nativeSweep} from './fees.ts'
import {balancesOf, contractOf, type Evm} from './node.ts'

/** Addresses that are polled, and sweeps that are begun, at once. */
const batch = 200
const most = 100_000

export interface Sweep {
  address: string
  amount: bigint
  maxFee: bigint
}

interface Holding {
  address: string
  amount: string
}

/**
 * The sweeps of a payout: the largest first, until they bring `missing` base units, or all if `missing` is undefined. Each address is swept once:
 * money that arrives after the claim does not belong to the payout.
 */
export async function sweepsFor(
  to: Context,
  chain: Evm,
  payout: {id: string; token: string},
  feePerGas: bigint,
  missing: bigint | undefined,
): Promise<Sweep[]> {
  const {rows} = await to.pool.query<Holding>(
    `select h.address, h.amount from app.sweepable($1, $2, $3) h
     where not exists (select from app.payout_sweep l join app.outgoing_payment s on s.id = l.outgoing_payment_id join app.payout p on p.id = l.payout_id
       where l.payout_id = $1 and s.source = h.address and s.status = 'final' and (s.outcome <> 'done' or s.created_at >= p.created_at))
     order by h.amount desc`,
    [payout.id, String(worthwhile(chain, payout.token, feePerGas)), most],
  )
  const sweeps: Sweep[] = []
  let brought = 0n
  for (let i = 0; i < rows.length; i += batch)
    for (const sweep of await sized(chain, payout.token, rows.slice(i, i + batch), feePerGas)) {
      if (missing !== undefined && brought >= missing) return sweeps
      sweeps.push(sweep)
      brought += sweep.amount
    }
  return sweeps
}

/** The least amount of a token that is worth sweeping from an address. */
export function worthwhile(chain: Evm, token: string, feePerGas: bigint): bigint {
  const {sweepMin, sweepFeePercent} = chain.settings
  if (contractOf(chain, token)) return sweepMin.get(token) ?? 1n
  const fee = gas.transfer * feePerGas
  return fee + (fee * 100n) / BigInt(sweepFeePercent) + 1n
}

/** Whether sweeping a token costs more than the operator allows. Custody does not sign such a sweep. */
export function isTokenSweepTooDear({settings, native}: Evm, token: string, maxFee: bigint): boolean {
  return token !== native && maxFee > settings.tokenSweepFee
}

/** The sweep of each address, by its balance at the newest block. Addresses that are not worth a sweep are left out. */
export async function sized(chain: Evm, token: string, holdings: Holding[], feePerGas: bigint): Promise<Sweep[]> {
  const balances = await balancesOf(
    chain,
    token,
    holdings.map(({address}) => address),
  )
  const isNative = token === chain.native
  const maxFee = feePerGas * (isNative ? gas.transfer : gas.authorization)
  return holdings.flatMap(({address, amount: held}, i) => {
    const [balance, holding] = [balances[i]!, BigInt(held)]
    const amount = nativeSweep({balance, holding, fee: isNative ? maxFee : 0n})
    const isWorth = isNative
      ? isWorthSweeping(amount, maxFee, chain.settings.sweepFeePercent)
      : amount > 0n && amount >= worthwhile(chain, token, feePerGas) && !isTokenSweepTooDear(chain, token, maxFee)
    return isWorth ? [{address, amount, maxFee}] : []
  })
}

/**
 * Takes the nonces, and begins the sweeps. With `paymentFee`, they bring no more than the payout lacks by then. Resolves to what the treasury lacks
 * for network fees; the sweeps before that point were begun.
 */
export async function beginSweeps(
  pool: pg.Pool,
  of: {id: string | null; chain: string; token: string},
  sweeps: Sweep[],
  paymentFee?: bigint,
): Promise<string | undefined> {
  for (let i = 0; i < sweeps.length; i += batch) {
    const part = sweeps.slice(i, i + batch)
    const {rows} = await pool.query<{short: string | null}>(
      'select app.begin_sweeps($1, $2, $3, $4, $5::numeric[], $6::numeric[], $7) as short',
      [
        of.id,
        of.chain,
        of.token,
        part.map(({address}) => address),
        part.map(({amount}) => String(amount)),
        part.map(({maxFee}) => String(maxFee)),
        paymentFee === undefined ? null : String(paymentFee),
      ],
    )
    if (rows[0]!.short) return rows[0]!.short
  }
}
