// The fees of a transaction (EIP-1559), and how much of an address can be swept. Promises: no I/O. No fee is above the
// operator's cap. A replacement pays enough more for every node to take it. A sweep of native coins never moves more
// than the address can pay together with the fee.
import {least, most} from '../../../base/bigints.ts'

export interface Fees {
  /** The highest price, in wei per unit of gas. */
  maxFeePerGas: bigint
  /** The part of it that the block's producer gets, at most. */
  maxPriorityFeePerGas: bigint
}

/** The current prices, in wei per unit of gas. */
export interface FeeMarket {
  baseFee: bigint
  priorityFee: bigint
}

/**
 * The fees of a first attempt: twice the current base fee, so that the transaction stays valid through some full
 * blocks. Undefined while the chain is too expensive. The fee stays so far below the cap that two replacements are
 * possible. A transaction that cannot be replaced cannot be cancelled.
 */
export function offer({baseFee, priorityFee}: FeeMarket, cap: bigint): Fees | undefined {
  const firstMost = (cap * 64n) / 81n
  if (baseFee + priorityFee > firstMost) return
  return {maxFeePerGas: least(2n * baseFee + priorityFee, firstMost), maxPriorityFeePerGas: priorityFee}
}

/**
 * The priority fee that gets into a block now: the median of what the recent blocks that hold transactions were paid,
 * at least what nodes take. A node's own suggestion stays as high as in the last busy block for as long as blocks are
 * empty.
 */
export function tipOf(rewards: bigint[], least: bigint): bigint {
  const sorted = rewards.toSorted((a, b) => (a < b ? -1 : 1))
  return most(sorted[Math.floor(sorted.length / 2)] ?? 0n, least)
}

/** The highest price per unit of gas at which a transaction with this gas limit costs no more than `fee`. */
export function capOf(cap: bigint, fee: bigint, gasLimit: bigint): bigint {
  return least(cap, fee / gasLimit)
}

/**
 * The fees of a replacement: an eighth more of both, or the current fees if those are higher; undefined above the cap.
 */
export function outbid(earlier: Fees, now: Fees | undefined, cap: bigint): Fees | undefined {
  const maxFeePerGas = most(eighthMore(earlier.maxFeePerGas), now?.maxFeePerGas ?? 0n)
  if (maxFeePerGas > cap) return
  const maxPriorityFeePerGas = most(eighthMore(earlier.maxPriorityFeePerGas), now?.maxPriorityFeePerGas ?? 0n)
  return {maxFeePerGas, maxPriorityFeePerGas: least(maxPriorityFeePerGas, maxFeePerGas)}
}

/** The amount that an address can send if it pays the fee itself; 0 if nothing is left. */
export function nativeSweep({balance, holding, fee}: {balance: bigint; holding: bigint; fee: bigint}): bigint {
  return most(least(balance, holding) - fee, 0n)
}

/** A gas estimate plus a margin, because the need may change until the transaction is mined. */
export function withRoom(estimate: bigint, percent: bigint): bigint {
  return (estimate * (100n + percent)) / 100n
}

function eighthMore(value: bigint): bigint {
  return (value * 9n + 7n) / 8n
}
