// Transfers of TRC-20 tokens: ERC-20 (EIP-20), with addresses of 20 bytes inside the contract. Promises: no I/O.
import {balanceOfCall, transferCall} from '../erc20-calls.ts'
import {bytesOf} from './address.ts'
import type {Log} from './responses.ts'
import {addressOrNone} from './transaction.ts'

/** Transfer(address,address,uint256), as on EVM chains. */
const transferTopic = 'ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

/** Addresses as 21 bytes; the contract's as text. */
export interface TokenTransfer {
  contract: string
  from: Uint8Array
  to: Uint8Array
  amount: bigint
}

/** The transfer that a contract logged; undefined if the log is none, or of a token that is one of a kind (EIP-721). */
export function transferIn({address, topics, data}: Log): TokenTransfer | undefined {
  const [topic, from, to, ...others] = topics
  const contract = addressOrNone(Uint8Array.of(0x41, ...address))
  if (!contract || !topic || !from || !to || others.length || hex(topic) !== transferTopic || data.length !== 32)
    return undefined
  const ofWord = (word: Uint8Array) => Uint8Array.of(0x41, ...word.subarray(12))
  return {contract, from: ofWord(from), to: ofWord(to), amount: BigInt(`0x${hex(data)}`)}
}

/** What these logs say that a contract moved to an address. */
export function movedTo(logs: Log[], contract: string, recipient: string): bigint {
  const to = hex(bytesOf(recipient))
  return logs
    .map(transferIn)
    .reduce((sum, moved) => (moved?.contract === contract && hex(moved.to) === to ? sum + moved.amount : sum), 0n)
}

const numberOf = (address: string) => BigInt(`0x${hex(bytesOf(address).subarray(1))}`)

/** The data of the call, in hex. */
export const transferData = (to: string, amount: bigint): string => transferCall(numberOf(to), amount)
export const balanceData = (owner: string): string => balanceOfCall(numberOf(owner))
