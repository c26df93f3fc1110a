// API keys. Promises: 256 random bits, so their hash needs no salt; the secret is shown once and never stored.
import {createHash, randomBytes} from 'node:crypto'

/** A new secret, and its hash, which is stored. */
export function newKey(): {secret: string; hash: Buffer} {
  const secret = `sk_${randomBytes(32).toString('base64url')}`
  return {secret, hash: createHash('sha256').update(secret).digest()}
}
