// The fees of a transaction (EIP-1559), and how much of an address can be swept. Promises: no I/O. No fee is above the operator's cap. A replacement
// pays enough more for every node to take it. A sweep of native coins never moves more than the address can pay together with the fee.

export interface Fees {
  /** Wei per unit of gas, at most. */
  maxFeePerGas: bigint
  /** The part of it that the block's maker gets. */
  maxPriorityFeePerGas: bigint
}

/** What a block asks for now, in wei per unit of gas. */
export interface FeeMarket {
  baseFee: bigint
  priorityFee: bigint
}

export const gas = {
  /** A transfer of native coins to an address without code, and a cancel. */
  transfer: 21_000n,
  /** receiveWithAuthorization: 60,000 measured; a proxy costs more. It cannot be estimated before it is signed. */
  authorization: 120_000n,
  /** The most that a payment may use; one that wants more is not made. */
  paymentMost: 200_000n,
} as const

/**
 * Room for twice the present base fee, so that some full blocks price nothing out; undefined while the chain asks for too much. Stays so far
 * below the cap that it can be outbid twice: what cannot be replaced cannot be cancelled either.
 */
export function offer({baseFee, priorityFee}: FeeMarket, cap: bigint): Fees | undefined {
  const firstMost = (cap * 64n) / 81n
  if (baseFee + priorityFee > firstMost) return
  return {maxFeePerGas: least(2n * baseFee + priorityFee, firstMost), maxPriorityFeePerGas: priorityFee}
}

/** The fees of a replacement: an eighth more of both, or the current fees if those are higher; undefined above the cap. */
export function outbid(earlier: Fees, now: Fees | undefined, cap: bigint): Fees | undefined {
  const maxFeePerGas = most(eighthMore(earlier.maxFeePerGas), now?.maxFeePerGas ?? 0n)
  if (maxFeePerGas > cap) return
  const maxPriorityFeePerGas = most(eighthMore(earlier.maxPriorityFeePerGas), now?.maxPriorityFeePerGas ?? 0n)
  return {maxFeePerGas, maxPriorityFeePerGas: least(maxPriorityFeePerGas, maxFeePerGas)}
}

/** What can be moved out of an address that pays its own fee; 0 where nothing is left. */
export function nativeSweep({balance, holding, fee}: {balance: bigint; holding: bigint; fee: bigint}): bigint {
  return most(least(balance, holding) - fee, 0n)
}

/** Native coins are worth sweeping if what it may cost is no more than a share of what arrives; custody signs nothing else. */
export function isWorthSweeping(amount: bigint, fee: bigint, percent: number): boolean {
  return amount > 0n && fee * 100n <= BigInt(percent) * amount
}

/** An estimate with room for what changes until the transaction is mined. */
export function withRoom(estimate: bigint, percent: bigint): bigint {
  return (estimate * (100n + percent)) / 100n
}

function eighthMore(value: bigint): bigint {
  return (value * 9n + 7n) / 8n
}

export function least(a: bigint, b: bigint): bigint {
  return a < b ? a : b
}

export function most(a: bigint, b: bigint): bigint {
  return a > b ? a : b
}
