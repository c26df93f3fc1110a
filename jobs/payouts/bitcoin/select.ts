// Which outputs of ours a transaction spends, and what it costs. Promises: no I/O; the outputs that it must spend are in it; it never spends
// more on the network than the cap, or less than the rate or than what it replaces asks for; its change is nothing, or no dust; nothing
// that costs more than it brings is taken by choice; its size is at least that of the signed bytes, and larger by next to nothing.

export interface Output {
  /** '<txid>:<vout>' */
  outpoint: string
  amount: bigint
  /** The merchant's, or the treasury's. */
  isTreasury: boolean
}

/** What a transaction has to offer for its place in a block. */
export interface Price {
  /** Sat per virtual byte that the chain asks for now. */
  rate: number
  /** Sat per virtual byte, at most. */
  cap: number
  /** The fee of what it replaces: nodes want that, and something for every byte that they pass on once more (BIP-125). */
  replaces?: bigint
  /** What custody wants at least, because of what it signed before. */
  least?: bigint
}

export interface Selection {
  inputs: Output[]
  fee: bigint
  /** To the treasury; 0n for none. */
  change: bigint
}

/** Inputs of one transaction, at most: far below what nodes relay, and signed within a second. */
export const mostInputs = 500

/** An output to the treasury (P2WPKH): its bytes, and the least that it may carry, in sat. */
const change = {scriptLength: 22, dust: 294n}

/** 1 sat/vB is what nodes ask for; some of them round up. */
const relayMargin = 1.02

/** Bytes of a P2WPKH input without its witness, and of the witness with the longest signature there is: 72 bytes. */
const input = {bytes: 41, witness: 1 + 1 + 72 + 1 + 33}

/** Virtual bytes of a transaction that spends so many P2WPKH outputs and pays to scripts of these lengths. */
export function virtualSize(inputs: number, scriptLengths: number[]): number {
  const outputs = scriptLengths.reduce((sum, length) => sum + 8 + countSize(length) + length, 0)
  const bytes = 4 + countSize(inputs) + inputs * input.bytes + countSize(scriptLengths.length) + outputs + 4
  const witness = 2 + inputs * input.witness
  return Math.ceil((4 * bytes + witness) / 4)
}

function countSize(count: number): number {
  return count < 0xfd ? 1 : 3
}

/** What an output of ours has to be worth more than, to be worth spending. */
export function costOfInput(rate: number): bigint {
  return ceil(rate * (input.bytes + input.witness / 4))
}

/** The least that a transaction of this size may offer; undefined above the cap. */
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

/** Why there is no transaction: so much is missing, or the chain asks for more than the cap. */
export type Failure = {short: bigint} | {aboveCap: true}

/**
 * A payment out of all of `must`, and as much of `may` as it takes: the merchant's before the treasury's, the largest first; the last of the
 * treasury's is the smallest that will do, so that its large outputs stay free for others. The number of inputs has no limit here.
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

/** Of outputs in falling order, of which the first will do. */
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

/** With so many inputs that bring so much. */
function settle(payment: Payment, total: bigint, count: number, price: Price): Omit<Selection, 'inputs'> | Failure {
  const left = total - payment.amount
  const fee = leastFee(virtualSize(count, [payment.scriptLength, change.scriptLength]), price)
  if (fee !== undefined && left - fee >= change.dust) return {fee, change: left - fee}
  const without = virtualSize(count, [payment.scriptLength])
  const least = leastFee(without, price)
  if (least === undefined) return {aboveCap: true}
  if (left < least) return {short: least - left}
  // What would be dust goes to the network, as long as the cap allows that.
  return left <= mostFee(without, price.cap) ? {fee: left, change: 0n} : {short: change.dust}
}

/** All of it to the treasury: a sweep, or a cancel. */
export function selectAll(inputs: Output[], price: Price): Selection | Failure {
  const size = sweepSize(inputs.length)
  const fee = leastFee(size, price)
  if (fee === undefined) return {aboveCap: true}
  const left = sum(inputs) - fee
  return left >= change.dust ? {inputs, fee, change: left} : {short: change.dust - left}
}

/** The cap of a sweep whose fee is for a parent of so many virtual bytes, too: per virtual byte of its own. */
export function sweepCap(inputs: number, parentVsize: number, maxFeeRate: number): number {
  return parentVsize ? (maxFeeRate * (sweepSize(inputs) + parentVsize)) / sweepSize(inputs) : maxFeeRate
}

/** Virtual bytes of a transaction that takes all to the treasury. */
export function sweepSize(inputs: number): number {
  return virtualSize(inputs, [change.scriptLength])
}

export function sum(outputs: Output[]): bigint {
  return outputs.reduce((total, {amount}) => total + amount, 0n)
}

function ceil(sats: number): bigint {
  return BigInt(Math.ceil(sats - 1e-9)) // 0.1 * 30 is a little more than 3
}
