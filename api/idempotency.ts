// Idempotency-Key: the same key with the same request gives the first reply again.
import {hash} from 'node:crypto'
import {z} from 'zod'

// A string as RFC 9651 writes it, in quotes, or the same without them.
const key = z
  .string()
  .regex(
    /^([!\x23-\x7e][\x21-\x7e]{0,254}|"([\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\]){1,255}")$/,
    'must be 1 to 255 visible characters, in quotes or bare',
  )

/** The headers of a route that makes one `thing`. */
export function idempotencyHeaders(thing: string, example: string) {
  const description =
    'A key of your own choice, 1 to 255 visible characters, in quotes or bare. The same key with the same body returns the first ' +
    `reply again and makes no second ${thing}, for ever. With another body it is 422 \`idempotency_key_reused\`. A refused request ` +
    'does not use up its key.'
  return z.object({'idempotency-key': key.meta({description, examples: [example]}).optional()})
}

/** The key, without its quotes, and the hash of what the request asks for. */
export function keyAndHash(header: string | undefined, asked: unknown[]): [key: string | null, requestHash: string] {
  return [header === undefined ? null : bare(header), hash('sha256', JSON.stringify(asked))]
}

function bare(header: string): string {
  return header.startsWith('"') ? header.slice(1, -1).replace(/\\(.)/g, '$1') : header
}
