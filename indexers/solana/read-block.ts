// What a Solana block says about addresses. Promises: what an account received is what its balance rose by in a
// successful transaction, besides the fee if it pays that, however that came about: a program may credit an account
// without a transfer (closeAccount). A failed transaction moves nothing but its fee.
//
// A token is received by whoever owns its token account, the associated one or any other; the treasury, which spends
// from its associated accounts alone, only by those. An account that gets another owner brings all that it holds.
//
// The position of a transfer in its transaction: the account's place among the transaction's keys; 1000 more for a
// token, with the place of the token account. So two transfers to one account in one transaction are one deposit of
// their sum, and a position stays the same in another block.
import {RetryableError} from '../../base/errors.ts'
import {nativeMints, token2022Program, tokenProgram} from '../../chains/solana/address.ts'
import type {Block, TokenBalance, Transaction} from '../../chains/solana/responses.ts'
import {associatedAccount} from '../../chains/solana/tokens.ts'
import type {Candidate, ReadBlock, SentTransaction, TokenCodes} from '../block.ts'

/** A transaction has fewer keys. */
const tokenOffset = 1000

/** Throws RetryableError if the node left out what tokens did. */
export function readBlock({height, hash, parentHash, time, transactions}: Block, codes: TokenCodes): ReadBlock {
  return {
    height,
    hash,
    parentHash,
    time: new Date(1000 * time),
    candidates: transactions.flatMap(each =>
      each.hasFailed ? [] : [...coinsIn(each, codes.native), ...tokensIn(each, codes)],
    ),
    sent: transactions.flatMap(sentBy),
    spends: [],
  }
}

/**
 * Who signs uses the authority of an account, whoever pays the fee. What the accounts of tokens cost that are made in
 * it (rent) is part of the fee: in a transaction of ours, the same account pays both.
 */
function sentBy(transaction: Transaction): SentTransaction[] {
  const {txid, signers, hasFailed, fee} = transaction
  return signers.map((senderKey, i) => {
    const sender = {txid, senderKey, executed: !hasFailed}
    return i === 0 ? {...sender, fee: fee + rentIn(transaction)} : {...sender, fee: 0n, position: i}
  })
}

function rentIn({hasFailed, before, after, tokensBefore = [], tokensAfter = []}: Transaction): bigint {
  if (hasFailed) return 0n
  const made = tokensAfter.filter(
    ({index, mint}) => !nativeMints.includes(mint) && !tokensBefore.some(each => each.index === index),
  )
  return made.reduce((sum, {index}) => sum + BigInt(after[index]!) - BigInt(before[index]!), 0n)
}

function coinsIn(transaction: Transaction, token: string): Candidate[] {
  const {txid, keys, tokensAfter} = transaction
  let sender: string | undefined
  return keys.flatMap((recipientKey, outputIndex): Candidate[] => {
    const amount = -lostBy(transaction, outputIndex)
    // What a token account gets is its rent: no wallet has its address.
    if (amount <= 0n || tokensAfter?.some(({index}) => index === outputIndex)) return []
    sender ??= senderOf(transaction)
    return [{txid, outputIndex, kind: 'native', token, amount, sender, recipientKey}]
  })
}

/** What the balance of an account fell by, besides the fee, which the first one pays. */
function lostBy({before, after, fee}: Transaction, i: number): bigint {
  return BigInt(before[i]!) - BigInt(after[i]!) - (i === 0 ? fee : 0n)
}

/** The account that lost most; the one that pays the fee if none did, or several did. */
function senderOf(transaction: Transaction): string {
  const {keys} = transaction
  return keys[onlyLargest(keys.map((_, i) => lostBy(transaction, i)))] ?? keys[0]!
}

/** The place of the largest number, if it is above 0 and there is no other as large; else -1. */
function onlyLargest(numbers: bigint[]): number {
  const [largest = 0n] = numbers.toSorted((a, b) => Number(b > a) - Number(a > b))
  const first = numbers.indexOf(largest)
  return largest > 0n && first === numbers.lastIndexOf(largest) ? first : -1
}

/** What the owners of token accounts received. */
function tokensIn(transaction: Transaction, {tokens}: TokenCodes): Candidate[] {
  const {txid, keys, tokensBefore, tokensAfter} = transaction
  if (!tokensBefore || !tokensAfter) {
    if (keys.some(key => key === tokenProgram || key === token2022Program))
      throw new RetryableError(`the node does not say what transaction ${txid} did to tokens`)
    return []
  }
  return tokensAfter.flatMap((held): Candidate[] => {
    const {mint, owner, index} = held
    const amount = held.amount - amountAt(held, tokensBefore)
    if (amount <= 0n) return []
    if (owner === undefined)
      throw new RetryableError(`the node does not say who got the token ${mint} in transaction ${txid}`)
    const losers = tokensBefore.filter(each => each.mint === mint)
    const lost = losers.map(each => each.amount - amountAt(each, tokensAfter))
    const sender = losers[onlyLargest(lost)]?.owner ?? keys[0]!
    const outputIndex = tokenOffset + index
    const isOutOfReach = () => !accountsOf(owner, mint).includes(keys[index]!)
    const token = tokens.get(mint) ?? mint
    return [{txid, outputIndex, kind: 'token', token, amount, sender, recipientKey: owner, isOutOfReach}]
  })
}

/** The associated accounts of an owner, of a token of either program. */
const accountsOf = (owner: string, mint: string) =>
  (['token', 'token-2022'] as const).map(program => associatedAccount(owner, mint, program))

/** What the same owner has of the same mint at the same place. */
function amountAt({index, mint, owner}: TokenBalance, balances: TokenBalance[]): bigint {
  return balances.find(each => each.index === index && each.mint === mint && each.owner === owner)?.amount ?? 0n
}
