// Output scripts and their addresses. Promises: only the five standard kinds have an address (P2PKH, P2SH, P2WPKH,
// P2WSH, P2TR). An address is accepted only with a correct checksum, on its own network, and with a version that is
// defined today. Script and address are one to one. Tested with the vectors of BIP-173, BIP-350 and BIP-341.
import {hash} from 'node:crypto'
import {bech32, bech32m} from '@scure/base'
import {fromBase58, toBase58} from '../base58.ts'
import {AddressError} from '../family.ts'
import type {BitcoinNetworkData} from '../registry.ts'

/** How a network writes its addresses. */
export type AddressFormat = Pick<BitcoinNetworkData, 'hrp' | 'pubKeyHash' | 'scriptHash'>

const op = {
  zero: 0x00,
  one: 0x51,
  return: 0x6a,
  dup: 0x76,
  equal: 0x87,
  equalVerify: 0x88,
  hash160: 0xa9,
  checkSig: 0xac,
}

/** The address of this script; undefined if it has none. */
export function addressOfScript(script: Uint8Array, network: AddressFormat): string | undefined {
  const {length} = script
  if (length === 22 && script[0] === op.zero && script[1] === 20) return segwitAddress(script, network.hrp)
  if (length === 34 && (script[0] === op.zero || script[0] === op.one) && script[1] === 32)
    return segwitAddress(script, network.hrp)
  if (length === 25 && isPubKeyHash(script)) return base58Check(network.pubKeyHash, script.subarray(3, 23))
  if (length === 23 && script[0] === op.hash160 && script[1] === 20 && script[22] === op.equal)
    return base58Check(network.scriptHash, script.subarray(2, 22))
}

/** The script of an address. Throws AddressError if it is not an address of the network. */
export function scriptOfAddress(address: string, network: AddressFormat): Uint8Array {
  const isSegwit = address.slice(0, network.hrp.length + 1).toLowerCase() === `${network.hrp}1`
  return isSegwit ? segwitScript(address, network) : base58Script(address, network)
}

/** The P2WPKH address of a public key. */
export function keyAddress(publicKey: Uint8Array, network: AddressFormat): string {
  return segwitAddress(Buffer.concat([new Uint8Array([op.zero, 20]), hash160(publicKey)]), network.hrp)
}

/** The name of a script in the Electrum protocol. */
export function scripthashOf(script: Uint8Array): string {
  return hash('sha256', script, 'buffer').reverse().toString('hex')
}

/** The smallest amount of an output with this script that nodes relay, in sat (at 3 sat/vB, like Bitcoin Core). */
export function dustLimit(script: Uint8Array): bigint {
  if (script[0] === op.return) return 0n
  const [version, push] = script
  const isVersion = version === op.zero || (version! >= op.one && version! <= op.one + 15)
  const isWitness = isVersion && script.length >= 4 && script.length <= 42 && push === script.length - 2
  const sizeOfOutput = 8 + (script.length < 0xfd ? 1 : 3) + script.length
  const sizeOfInput = isWitness ? 32 + 4 + 1 + 26 + 4 : 32 + 4 + 1 + 107 + 4 // the size of an input that spends it
  return 3n * BigInt(sizeOfOutput + sizeOfInput)
}

export function hash160(bytes: Uint8Array): Uint8Array {
  return hash('ripemd160', hash('sha256', bytes, 'buffer'), 'buffer')
}

export function sha256d(bytes: Uint8Array): Buffer {
  return hash('sha256', hash('sha256', bytes, 'buffer'), 'buffer')
}

function isPubKeyHash(script: Uint8Array): boolean {
  return (
    script[0] === op.dup &&
    script[1] === op.hash160 &&
    script[2] === 20 &&
    script[23] === op.equalVerify &&
    script[24] === op.checkSig
  )
}

// Bech32 (BIP-173) for version 0, bech32m (BIP-350) from version 1 on.

const coderOf = (version: number) => (version === 0 ? bech32 : bech32m)

/** The witness program of a script that is a version and one push. */
function segwitAddress(script: Uint8Array, hrp: string): string {
  const version = script[0] === op.zero ? 0 : script[0]! - op.one + 1
  const coder = coderOf(version)
  return coder.encode(hrp, [version, ...coder.toWords(script.subarray(2))])
}

function segwitScript(address: string, {hrp}: AddressFormat): Uint8Array {
  if (address !== address.toLowerCase() && address !== address.toUpperCase())
    throw new AddressError('invalid_address', 'must not mix upper and lower case (BIP-173)')
  if (!/^[02-9ac-hj-np-z]{7,}$/i.test(address.slice(hrp.length + 1)))
    throw new AddressError('invalid_address', 'has a letter that addresses never have, or is too short')
  const found = [bech32, bech32m].find(coder => coder.decodeUnsafe(address))
  if (!found) throw new AddressError('invalid_checksum', 'is mistyped: its checksum does not match (BIP-173)')
  const [version, ...program] = found.decode(address as `${string}1${string}`).words as [number, ...number[]]
  if (found !== coderOf(version))
    throw new AddressError('invalid_checksum', 'has the checksum of another witness version (BIP-350)')
  const bytes = found.fromWordsUnsafe(program)
  const isKnown = (version === 0 && bytes?.length === 20) || (version <= 1 && bytes?.length === 32)
  if (!bytes || !isKnown)
    throw new AddressError(
      'invalid_address',
      'must be P2WPKH, P2WSH or P2TR: other witness programs are not defined yet',
    )
  return Uint8Array.from([version === 0 ? op.zero : op.one, bytes.length, ...bytes])
}

// Base58 with the first four bytes of a double SHA-256 as checksum.

/** 25 bytes never need more. */
const mostDigits = 35

function base58Check(version: number, payload: Uint8Array): string {
  const body = Uint8Array.from([version, ...payload])
  return toBase58(Buffer.concat([body, sha256d(body).subarray(0, 4)]))
}

function base58Script(address: string, network: AddressFormat): Uint8Array {
  const bytes = address.length > mostDigits ? undefined : fromBase58(address)
  if (bytes?.length !== 25)
    throw new AddressError('invalid_address', `must be an address of this network: ${network.hrp}1…, or base58`)
  const body = bytes.subarray(0, 21)
  if (!sha256d(body).subarray(0, 4).equals(bytes.subarray(21)))
    throw new AddressError('invalid_checksum', 'is mistyped: its checksum does not match')
  const payload = body.subarray(1)
  if (body[0] === network.pubKeyHash)
    return Uint8Array.from([op.dup, op.hash160, 20, ...payload, op.equalVerify, op.checkSig])
  if (body[0] === network.scriptHash) return Uint8Array.from([op.hash160, 20, ...payload, op.equal])
  throw new AddressError('invalid_address', 'is an address of another network')
}
