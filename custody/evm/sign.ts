// Builds what is signed on EVM chains: EIP-1559 transactions, and the authorisation with which the treasury takes a
// token from an address that has no gas (EIP-3009). Promises: pure, except for the signature from `sign`; no I/O. The
// same input gives the same bytes.
import {pointCompress} from 'tiny-secp256k1'
import type {Address, Hex, TransactionSerializableEIP1559} from 'viem'
import {publicKeyToAddress} from 'viem/accounts'
import {
  bytesToHex,
  encodeFunctionData,
  getAddress,
  hashTypedData,
  hexToBytes,
  keccak256,
  numberToHex,
  parseAbi,
  serializeTransaction,
  stringToHex,
} from 'viem/utils'
import type {Signature} from '../keys/secp256k1.ts'

export interface Fees {
  maxFeePerGas: bigint
  maxPriorityFeePerGas: bigint
  gasLimit: bigint
}

export interface Transaction extends Fees {
  chainId: number
  nonce: number
  to: string
  value: bigint
  data?: Hex
}

export interface Signed {
  txid: Hex
  raw: Hex
}

/** A token contract, and the EIP-712 domain that its authorisations are bound to. */
export interface Token {
  contract: string
  chainId: number
  name: string
  version: string
}

export interface Authorisation {
  from: string
  to: string
  value: bigint
  /** 32 bytes that are used only once. */
  nonce: Hex
}

export type Sign = (digest: Uint8Array) => Promise<Signature>

/** The address of a public key, in EIP-55 form. */
export function addressOf(publicKey: Uint8Array): string {
  return publicKeyToAddress(bytesToHex(pointCompress(publicKey, false)))
}

export async function signTransaction(transaction: Transaction, sign: Sign): Promise<Signed> {
  const {chainId, nonce, to, value, data, maxFeePerGas, maxPriorityFeePerGas, gasLimit} = transaction
  const unsigned: TransactionSerializableEIP1559 = {
    type: 'eip1559',
    chainId,
    nonce,
    to: getAddress(to),
    value,
    data,
    maxFeePerGas,
    maxPriorityFeePerGas,
    gas: gasLimit,
  }
  const {r, s, yParity} = await sign(hexToBytes(keccak256(serializeTransaction(unsigned))))
  const raw = serializeTransaction(unsigned, {r: word(r), s: word(s), yParity})
  return {raw, txid: keccak256(raw)}
}

const abi = parseAbi([
  'function transfer(address to, uint256 value)',
  'function receiveWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)',
])

/** The call that moves an amount of a token from the sender. */
export function transferCall(to: string, value: bigint): Hex {
  return encodeFunctionData({abi, functionName: 'transfer', args: [getAddress(to), value]})
}

// No time limits: a late sweep is still right, and its nonce can be used only once.
const validAfter = 0n
const validBefore = 2n ** 256n - 1n

/** The digest that `from` signs so that only `to` can take the value. */
export function authorisationDigest(token: Token, {from, to, value, nonce}: Authorisation): Hex {
  return hashTypedData({
    domain: {
      name: token.name,
      version: token.version,
      chainId: token.chainId,
      verifyingContract: getAddress(token.contract),
    },
    primaryType: 'ReceiveWithAuthorization',
    types: {
      ReceiveWithAuthorization: [
        {name: 'from', type: 'address'},
        {name: 'to', type: 'address'},
        {name: 'value', type: 'uint256'},
        {name: 'validAfter', type: 'uint256'},
        {name: 'validBefore', type: 'uint256'},
        {name: 'nonce', type: 'bytes32'},
      ],
    },
    message: {from: getAddress(from), to: getAddress(to), value, validAfter, validBefore, nonce},
  })
}

/** The call by which `to` takes the value, with the signature of `from`. */
export async function receiveCall(token: Token, authorisation: Authorisation, sign: Sign): Promise<Hex> {
  const {from, to, value, nonce} = authorisation
  const {r, s, yParity} = await sign(hexToBytes(authorisationDigest(token, authorisation)))
  const [payer, payee]: Address[] = [getAddress(from), getAddress(to)]
  return encodeFunctionData({
    abi,
    functionName: 'receiveWithAuthorization',
    args: [payer!, payee!, value, validAfter, validBefore, nonce, 27 + yParity, word(r), word(s)],
  })
}

/** The nonce of a sweep's authorisation. Every attempt of the sweep has the same one, so only one can succeed. */
export function authorisationNonce(outgoingPaymentId: string): Hex {
  return keccak256(`0x${outgoingPaymentId.replaceAll('-', '')}`)
}

/** The nonce of every trial: no sweep has it, because its nonce is the hash of 16 bytes. */
export const trialNonce: Hex = keccak256(stringToHex('a trial, which moves nothing'))

function word(value: bigint): Hex {
  return numberToHex(value, {size: 32})
}
