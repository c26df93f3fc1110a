// Codes of authenticators (TOTP, RFC 6238: SHA-1, six digits, half a minute) and recovery codes.
import {createHash, createHmac, randomBytes, timingSafeEqual} from 'node:crypto'

const stepMs = 30_000
const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567' // base32, RFC 4648

export const newSecret = (): string => base32(randomBytes(20))

/** What an authenticator reads from a QR code. */
export function secretUri(secret: string, account: string): string {
  const query = new URLSearchParams({secret, issuer: 'Sluice'})
  return `otpauth://totp/Sluice:${encodeURIComponent(account)}?${query}`
}

/**
 * The half minute since 1970 of which the code is: the present one, or one beside it, because clocks differ. Undefined
 * if it is none of them.
 */
export function stepOf(secret: string, code: string, now = Date.now()): number | undefined {
  const present = Math.floor(now / stepMs)
  return [present, present - 1, present + 1].find(step => isEqual(codeAt(secret, step), code))
}

export function codeAt(secret: string, step: number): string {
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(step))
  const mac = createHmac('sha1', fromBase32(secret)).update(counter).digest()
  const number = mac.readUInt32BE(mac[19]! & 15) & 0x7fffffff
  return String(number % 1_000_000).padStart(6, '0')
}

/** Ten codes of 80 random bits, in groups that are easy to copy. */
export function newRecoveryCodes(): string[] {
  return Array.from({length: 10}, () => base32(randomBytes(10)).toLowerCase().match(/.{4}/g)!.join('-'))
}

/** What is stored of a recovery code, however it was typed. */
export function recoveryCodeHash(code: string): Buffer {
  return createHash('sha256').update(code.toLowerCase().replaceAll(/[\s-]/g, '')).digest()
}

function isEqual(expected: string, given: string): boolean {
  const [a, b] = [Buffer.from(expected), Buffer.from(given)]
  return a.length === b.length && timingSafeEqual(a, b)
}

function base32(bytes: Buffer): string {
  const bits = [...bytes].map(byte => byte.toString(2).padStart(8, '0')).join('')
  return bits
    .match(/.{5}/g)!
    .map(five => alphabet[Number.parseInt(five, 2)])
    .join('')
}

function fromBase32(text: string): Buffer {
  const bits = [...text].map(letter => alphabet.indexOf(letter).toString(2).padStart(5, '0')).join('')
  return Buffer.from(bits.match(/.{8}/g)!.map(byte => Number.parseInt(byte, 2)))
}
