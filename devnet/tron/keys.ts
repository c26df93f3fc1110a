// Keys of accounts on a local Tron chain.
import {randomBytes} from 'node:crypto'
import {isPrivate, pointFromScalar, recover, signRecoverable} from 'tiny-secp256k1'
import {addressOf, keyBytes} from '../../chains/tron/address.ts'
import {type Transaction, transactionOf} from '../../chains/tron/transaction.ts'

export function newKey(): Uint8Array {
  for (;;) {
    const key = randomBytes(32)
    if (isPrivate(key)) return key
  }
}

export const publicKeyOf = (key: Uint8Array): Uint8Array => pointFromScalar(key, true)!

export const addressOfKey = (key: Uint8Array): string => addressOf(keyBytes(publicKeyOf(key)))

export function sign(rawData: Uint8Array, key: Uint8Array): Transaction {
  const {txid} = transactionOf(rawData, [])
  const {signature, recoveryId} = signRecoverable(Buffer.from(txid, 'hex'), key)
  return transactionOf(rawData, [Uint8Array.of(...signature, recoveryId)])
}

/** The address whose key made a transaction's only signature; undefined if there is none. */
export function signerOf({txid, signatures}: Transaction): string | undefined {
  const [signature, ...others] = signatures
  const id = signature?.[64]
  if (others.length || signature?.length !== 65 || id === undefined) return undefined
  const recovery = id >= 27 ? id - 27 : id
  if (recovery > 3) return undefined
  try {
    const key = recover(Buffer.from(txid, 'hex'), signature.subarray(0, 64), recovery as 0 | 1 | 2 | 3, true)
    return key ? addressOf(keyBytes(key)) : undefined
  } catch {
    return undefined
  }
}
