// Chooses the outputs that a transaction spends, and its fee. Promises: no I/O. Every required output is an input. The
// fee is never above the cap, never below the rate, and never below what a replacement needs. There is no change, or
// the change is no dust. An optional output that costs more than it brings is never used. The computed size is at least
// the size of the signed bytes, and only slightly larger.

export interface Output {
  /** '<txid>:<vout>' */
  outpoint: string
  amount: bigint
  /** The owner is the treasury, otherwise the merchant. */
  isTreasury: boolean
}

/** What a transaction has to pay for its place in a block. */
export interface Price {
  /** Sat per virtual byte that the chain asks for now. */
  rate: number
  /** Sat per virtual byte, at most. */
  cap: number
  /**
   * The fee of the replaced transaction. Nodes require at least this fee, plus the relay fee of the replacement
   * (BIP-125).
   */
  replaces?: bigint
  /** The lowest fee that custody accepts, because of its earlier signatures. */
  least?: bigint
}

export interface Selection {
  inputs: Output[]
  fee: bigint
  /** To the treasury; 0n for none. */
  change: bigint
}

/** The most inputs of one transaction: far below what nodes relay, and signed within a second. */
export const mostInputs = 500

/** An output to the treasury (P2WPKH): the length of its script, and its dust limit in sat. */
const change = {scriptLength: 22, dust: 294n}

/** In sat/vB. Nodes require 1; some of them round up. */
const relayMargin = 1.02

/** Bytes of a P2WPKH input without its witness, and of the witness with the longest possible signature (72 bytes). */
const input = {bytes: 41, witness: 1 + 1 + 72 + 1 + 33}

/** Virtual bytes of a transaction with this number of P2WPKH inputs, and with output scripts of these lengths. */
export function virtualSize(inputs: number, scriptLengths: number[]): number {
  const outputs = scriptLengths.reduce((sum, length) => sum + 8 + countSize(length) + length, 0)
  const bytes = 4 + countSize(inputs) + inputs * input.bytes + countSize(scriptLengths.length) + outputs + 4
  const witness = 2 + inputs * input.witness
  return Math.ceil((4 * bytes + witness) / 4)
}

function countSize(count: number): number {
  return count < 0xfd ? 1 : 3
}

/** The fee for one input. An output is worth spending only if its amount is higher. */
export function costOfInput(rate: number): bigint {
  return ceil(rate * (input.bytes + input.witness / 4))
}

/** The lowest fee for a transaction of this size; undefined if it is above the cap. */
export function leastFee(size: number, {rate, cap, replaces, least = 0n}: Price): bigint | undefined {
  const replacement = replaces === undefined ? 0n : replaces + ceil(relayMargin * size)
  const fee = [ceil(rate * size), replacement, least].reduce((a, b) => (a > b ? a : b))
  return fee <= mostFee(size, cap) ? fee : undefined
}

function mostFee(size: number, cap: number): bigint {
  return BigInt(Math.floor(cap * size + 1e-9))
}

export interface Payment {
  amount: bigint
  scriptLength: number
}

/** Why there is no transaction: `short` sat are missing, or the fee would be above the cap. */
export type Failure = {short: bigint} | {aboveCap: true}

/**
 * Selects the inputs of a payment: all of `must`, and as many of `may` as it needs. The merchant's outputs come before
 * the treasury's, and larger ones before smaller ones. The last output of the treasury is the smallest that is enough,
 * so that its large outputs stay free for others. The number of inputs has no limit here.
 */
export function selectPayment(payment: Payment, must: Output[], may: Output[], price: Price): Selection | Failure {
  const worth = may.filter(({amount}) => amount > costOfInput(price.rate)).sort(byAmount)
  const treasurys = worth.filter(({isTreasury}) => isTreasury)
  const inputs = [...must]
  let total = sum(must)
  const tryWith = (last?: Output): Selection | Failure => {
    const found = settle(payment, total + (last?.amount ?? 0n), inputs.length + (last ? 1 : 0), price)
    return 'fee' in found ? {inputs: last ? [...inputs, last] : inputs, ...found} : found
  }
  let found: Selection | Failure = must.length ? tryWith() : {short: payment.amount}
  for (const [i, output] of [...worth.filter(({isTreasury}) => !isTreasury), ...treasurys].entries()) {
    if ('inputs' in found) return found
    found = tryWith(output)
    if ('inputs' in found && output.isTreasury) return smallest(treasurys.slice(i - worth.length), tryWith) ?? found
    inputs.push(output)
    total += output.amount
  }
  return found
}

function byAmount(a: Output, b: Output): number {
  return a.amount < b.amount ? 1 : a.amount > b.amount ? -1 : a.outpoint < b.outpoint ? -1 : 1
}

/**
 * The selection with the smallest output that is enough. The outputs are in descending order, and the first one is
 * enough.
 */
function smallest(outputs: Output[], tryWith: (last: Output) => Selection | Failure): Selection | undefined {
  let [low, high] = [0, outputs.length - 1]
  let smallest: Selection | undefined
  while (low <= high) {
    const middle = (low + high) >> 1
    const found = tryWith(outputs[middle]!)
    if ('inputs' in found) smallest = found
    if ('inputs' in found) low = middle + 1
    else high = middle - 1
  }
  return smallest
}

/** Fee and change of a payment with `count` inputs of `total` sat. */
function settle(payment: Payment, total: bigint, count: number, price: Price): Omit<Selection, 'inputs'> | Failure {
  const left = total - payment.amount
  const fee = leastFee(virtualSize(count, [payment.scriptLength, change.scriptLength]), price)
  if (fee !== undefined && left - fee >= change.dust) return {fee, change: left - fee}
  const without = virtualSize(count, [payment.scriptLength])
  const least = leastFee(without, price)
  if (least === undefined) return {aboveCap: true}
  if (left < least) return {short: least - left}
  // Change that would be dust goes to the fee, if the cap allows it.
  return left <= mostFee(without, price.cap) ? {fee: left, change: 0n} : {short: change.dust}
}

/** Sends everything to the treasury: for a sweep, or a cancel. */
export function selectAll(inputs: Output[], price: Price): Selection | Failure {
  const size = sweepSize(inputs.length)
  const fee = leastFee(size, price)
  if (fee === undefined) return {aboveCap: true}
  const left = sum(inputs) - fee
  return left >= change.dust ? {inputs, fee, change: left} : {short: change.dust - left}
}

/**
 * Like selectAll, with as many of the treasury's outputs as the fee needs: a cancel that its inputs cannot pay for
 * could never be signed.
 */
export function selectCancel(must: Output[], may: Output[], price: Price): Selection | Failure {
  const inputs = [...must]
  let found = selectAll(inputs, price)
  for (const output of may.filter(({amount}) => amount > costOfInput(price.rate)).sort(byAmount)) {
    if (!('short' in found)) return found
    inputs.push(output)
    found = selectAll([...inputs], price)
  }
  return found
}

/**
 * The highest fee rate of a sweep (sat per virtual byte of the sweep itself) whose fee also pays for a parent of
 * `parentVsize` virtual bytes.
 */
export function sweepCap(inputs: number, parentVsize: number, maxFeeRate: number): number {
  return parentVsize ? (maxFeeRate * (sweepSize(inputs) + parentVsize)) / sweepSize(inputs) : maxFeeRate
}

/** Virtual bytes of a transaction that sends everything to the treasury. */
export function sweepSize(inputs: number): number {
  return virtualSize(inputs, [change.scriptLength])
}

export function sum(outputs: Output[]): bigint {
  return outputs.reduce((total, {amount}) => total + amount, 0n)
}

function ceil(sats: number): bigint {
  return BigInt(Math.ceil(sats - 1e-9)) // in floating point, 0.1 * 30 is slightly more than 3
}
