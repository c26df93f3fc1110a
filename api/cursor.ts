// Cursors of list pages. Promises: a cursor is a position in one list with one set of filters, and is refused anywhere
// else. Any string that was not made here, down to the last bit, is refused.
import {hash} from 'node:crypto'
import {invalid} from './errors.ts'

const version = 1
/** Version, position as a big-endian 128-bit number, first bytes of the hash of list, filters and position. */
const cursorLength = 1 + 16 + 4

/** `list` names the list and its filters, such as deposits|final||. */
export function encodeCursor(list: string, position: bigint): string {
  const bytes = Buffer.alloc(cursorLength)
  bytes[0] = version
  bytes.write(position.toString(16).padStart(32, '0'), 1, 'hex')
  hash('sha256', `${list}|${position}`, 'buffer').copy(bytes, 17, 0, 4)
  return bytes.toString('base64url')
}

/**
 * The position, up to `end`, of a cursor that encodeCursor made for this list. Throws 400 invalid_request for any other
 * string.
 */
export function decodeCursor(list: string, cursor: string, end: bigint): bigint {
  const bytes = Buffer.from(cursor, 'base64url')
  if (bytes.length === cursorLength) {
    const position = BigInt(`0x${bytes.toString('hex', 1, 17)}`)
    if (position <= end && encodeCursor(list, position) === cursor) return position
  }
  throw invalid('cursor', 'invalid_cursor', 'is no next_cursor of this list with these filters')
}
