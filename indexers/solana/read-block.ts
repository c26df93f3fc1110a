// What a Solana block says about addresses. Promises: what an account received is what its balance rose by in a
// successful transaction, besides the fee if it pays that, however that came about: a program may credit an account
// without a transfer (closeAccount). A failed transaction moves nothing but its fee.
//
// The position of a transfer in its transaction: the account's place among the transaction's keys; 1000 more for a
// token, with the place of the token account. So two transfers to one account in one transaction are one deposit of
// their sum, and a position stays the same in another block.
import type {Block, TokenBalance, Transaction} from '../../chains/solana/responses.ts'
import type {Candidate, ReadBlock, SentTransaction} from '../block.ts'

/** A transaction has fewer keys. */
const tokenOffset = 1000

/** `native` is the token code of the chain's coin. */
export function readBlock({height, hash, parentHash, time, transactions}: Block, native: string): ReadBlock {
  return {
    height,
    hash,
    parentHash,
    time: new Date(1000 * time),
    candidates: transactions.flatMap(each => (each.hasFailed ? [] : [...coinsIn(each, native), ...tokensIn(each)])),
    sent: transactions.flatMap(sentBy),
    spends: [],
  }
}

/** Who signs uses the authority of an account, whoever pays the fee. */
function sentBy({txid, signers, hasFailed, fee}: Transaction): SentTransaction[] {
  return signers.map((senderKey, i) => {
    const payer = {txid, senderKey, executed: !hasFailed, fee}
    return i === 0 ? payer : {...payer, fee: 0n, position: i}
  })
}

function coinsIn(transaction: Transaction, token: string): Candidate[] {
  const {txid, keys} = transaction
  let sender: string | undefined
  return keys.flatMap((recipientKey, outputIndex): Candidate[] => {
    const amount = -lostBy(transaction, outputIndex)
    if (amount <= 0n) return []
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
function tokensIn({txid, keys, tokensBefore, tokensAfter}: Transaction): Candidate[] {
  return tokensAfter.flatMap((held): Candidate[] => {
    const amount = held.amount - amountAt(held, tokensBefore)
    if (amount <= 0n || held.owner === undefined) return []
    const {mint: token, owner: recipientKey, index} = held
    const losers = tokensBefore.filter(({mint}) => mint === token)
    const lost = losers.map(each => each.amount - amountAt(each, tokensAfter))
    const sender = losers[onlyLargest(lost)]?.owner ?? keys[0]!
    return [{txid, outputIndex: tokenOffset + index, kind: 'token', token, amount, sender, recipientKey}]
  })
}

function amountAt({index, mint}: TokenBalance, balances: TokenBalance[]): bigint {
  return balances.find(each => each.index === index && each.mint === mint)?.amount ?? 0n
}
