// Base58, as Bitcoin's first wallet wrote it. Promises: each row of bytes has exactly one text.

const letters = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'

export function toBase58(bytes: Uint8Array): string {
  let digits = ''
  for (let number = numberOf(bytes); number > 0n; number /= 58n) digits = letters[Number(number % 58n)] + digits
  return '1'.repeat(zerosOf(bytes, 0)) + digits
}

/** Undefined if a letter is none of base58. */
export function fromBase58(text: string): Buffer | undefined {
  let number = 0n
  for (const letter of text) {
    const digit = letters.indexOf(letter)
    if (digit < 0) return undefined
    number = number * 58n + BigInt(digit)
  }
  const hex = number === 0n ? '' : number.toString(16)
  return Buffer.concat([
    Buffer.alloc(zerosOf([...text], '1')),
    Buffer.from(hex.padStart(hex.length + (hex.length % 2), '0'), 'hex'),
  ])
}

function numberOf(bytes: Uint8Array): bigint {
  return bytes.length ? BigInt(`0x${Buffer.from(bytes).toString('hex')}`) : 0n
}

/** How many of the first items are zero. */
function zerosOf<T>(items: ArrayLike<T>, zero: T): number {
  let count = 0
  while (count < items.length && items[count] === zero) count++
  return count
}
