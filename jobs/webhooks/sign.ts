// Signs webhooks as Standard Webhooks 1.0 defines. Promises: the `standardwebhooks` packages can verify the signatures,
// with the current secret and, during a rotation, with the previous one.
import {createHmac, createSecretKey, type KeyObject} from 'node:crypto'

// Importing a key costs five times as much as signing.
const keys = new Map<string, KeyObject>()
const keysMax = 10_000

function keyOf(secret: string): KeyObject {
  const known = keys.get(secret)
  if (known) return known
  if (keys.size >= keysMax) keys.clear()
  const key = createSecretKey(secret.replace(/^whsec_/, ''), 'base64')
  keys.set(secret, key)
  return key
}

/**
 * The headers that identify and sign one message. `secrets` are whsec_<base64>, the current one first; each gives a
 * signature. `at` is the time of this attempt in milliseconds: receivers refuse a message whose timestamp is minutes
 * off.
 */
export function signedHeaders(id: string, body: string, secrets: string[], at = Date.now()): Record<string, string> {
  const timestamp = String(Math.floor(at / 1000))
  const signatures = secrets.map(
    secret => `v1,${createHmac('sha256', keyOf(secret)).update(`${id}.${timestamp}.${body}`).digest('base64')}`,
  )
  return {'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures.join(' ')}
}
