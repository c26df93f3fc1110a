// Output scripts and their addresses. Promises: only the five standard kinds have an address (P2PKH, P2SH, P2WPKH, P2WSH, P2TR). An address is
// accepted only with a correct checksum, on its own network, and with a version that is defined today. Script and address are one to one. Tested
// with the vectors of BIP-173, BIP-350 and BIP-341.
import {hash} from 'node:crypto'
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

// Bech32 (BIP-173) for version 0, bech32m (BIP-350) from version 1 on. Written by hand for speed, because it runs for every output of every block.

const charset = 'qpzry9x8gf2tvdw0s3jn54khce6mua7l'
const checksumLength = 6
const bech32 = 1
const bech32m = 0x2bc830a3

function step(state: number, value: number): number {
  const top = state >>> 25
  let next = ((state & 0x1ffffff) << 5) ^ value
  if (top & 1) next ^= 0x3b6a57b2
  if (top & 2) next ^= 0x26508e6d
  if (top & 4) next ^= 0x1ea119fa
  if (top & 8) next ^= 0x3d4233dd
  if (top & 16) next ^= 0x2a1462b3
  return next
}

const prefixes = new Map<string, number>()

/** The checksum's state after the human-readable part. */
function afterPrefix(hrp: string): number {
  let state = prefixes.get(hrp)
  if (state === undefined) {
    const codes = [...hrp].map(letter => letter.charCodeAt(0))
    state = [...codes.map(code => code >> 5), 0, ...codes.map(code => code & 31)].reduce(step, 1)
    prefixes.set(hrp, state)
  }
  return state
}

/** The witness program of a script that is a version and one push. */
function segwitAddress(script: Uint8Array, hrp: string): string {
  const version = script[0] === op.zero ? 0 : script[0]! - op.one + 1
  let state = step(afterPrefix(hrp), version)
  let text = `${hrp}1${charset[version]}`
  const put = (value: number) => {
    state = step(state, value)
    text += charset[value]
  }
  let bits = 0
  let pending = 0
  for (let i = 2; i < script.length; i++) {
    pending = ((pending << 8) | script[i]!) & 0xfff
    bits += 8
    while (bits >= 5) {
      bits -= 5
      put((pending >> bits) & 31)
    }
  }
  if (bits) put((pending << (5 - bits)) & 31)
  for (let i = 0; i < checksumLength; i++) state = step(state, 0)
  state ^= version === 0 ? bech32 : bech32m
  for (let shift = 25; shift >= 0; shift -= 5) text += charset[(state >> shift) & 31]
  return text
}

function segwitScript(address: string, {hrp}: AddressFormat): Uint8Array {
  const lower = address.toLowerCase()
  if (address !== lower && address !== address.toUpperCase())
    throw new AddressError('invalid_address', 'must not mix upper and lower case (BIP-173)')
  const values = [...lower.slice(hrp.length + 1)].map(letter => charset.indexOf(letter))
  if (values.includes(-1) || values.length < 1 + checksumLength)
    throw new AddressError('invalid_address', 'has a letter that addresses never have, or is too short')
  const checksum = values.reduce(step, afterPrefix(hrp))
  if (checksum !== bech32 && checksum !== bech32m)
    throw new AddressError('invalid_checksum', 'is mistyped: its checksum does not match (BIP-173)')
  const version = values[0]!
  if (checksum !== (version === 0 ? bech32 : bech32m))
    throw new AddressError('invalid_checksum', 'has the checksum of another witness version (BIP-350)')
  const program = bytesOf(values.slice(1, -checksumLength))
  const isKnown =
    (version === 0 && (program?.length === 20 || program?.length === 32)) || (version === 1 && program?.length === 32)
  if (!program || !isKnown)
    throw new AddressError(
      'invalid_address',
      'must be P2WPKH, P2WSH or P2TR: other witness programs are not defined yet',
    )
  return Uint8Array.from([version === 0 ? op.zero : op.one, program.length, ...program])
}

/** Converts groups of five bits to bytes; undefined if the padding is not all zero, or longer than necessary. */
function bytesOf(values: number[]): number[] | undefined {
  const bytes: number[] = []
  let bits = 0
  let pending = 0
  for (const value of values) {
    pending = ((pending << 5) | value) & 0xfff
    bits += 5
    if (bits < 8) continue
    bits -= 8
    bytes.push((pending >> bits) & 0xff)
  }
  if (bits < 5 && (pending & ((1 << bits) - 1)) === 0) return bytes
}

// Base58 with the first four bytes of a double SHA-256 as checksum.

const base58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
const base58Digits = 35 // 25 bytes never need more

function base58Check(version: number, payload: Uint8Array): string {
  const body = Uint8Array.from([version, ...payload])
  const bytes = Buffer.concat([body, sha256d(body).subarray(0, 4)])
  const digits = new Uint8Array(base58Digits)
  let used = 0
  for (const byte of bytes) {
    let carry = byte
    for (let i = 0; i < used || carry; i++) {
      carry += digits[i]! << 8
      digits[i] = carry % 58
      carry = Math.floor(carry / 58)
      if (i >= used) used = i + 1
    }
  }
  let text = ''
  for (let i = 0; bytes[i] === 0; i++) text += base58[0]
  for (let i = used - 1; i >= 0; i--) text += base58[digits[i]!]
  return text
}

function base58Script(address: string, network: AddressFormat): Uint8Array {
  const bytes = base58Bytes(address)
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

function base58Bytes(text: string): Uint8Array | undefined {
  if (text.length > base58Digits) return
  let value = 0n
  for (const letter of text) {
    const digit = base58.indexOf(letter)
    if (digit < 0) return
    value = value * 58n + BigInt(digit)
  }
  const zeros = text.length - text.replace(/^1+/, '').length
  const hex = value === 0n ? '' : value.toString(16)
  return Buffer.from('00'.repeat(zeros) + hex.padStart(hex.length + (hex.length % 2), '0'), 'hex')
}
