// JSON whose integers are exact. Promises: an integer that a number cannot hold exactly becomes bigint.

/** Fast for texts without such integers: a reviver makes parsing many times slower. */
export function parseJson(text: string): unknown {
  if (!/(^|[:,[\s])-?(9\d{15}|\d{17})/.test(text)) return JSON.parse(text) // hashes have many digits, too, but no number is inside a text
  const exact = (_key: string, value: unknown, {source}: {source: string}) =>
    Number.isInteger(value) && !Number.isSafeInteger(value) ? BigInt(source) : value
  return JSON.parse(text, exact as Parameters<typeof JSON.parse>[1])
}

/** For JSON.stringify: a bigint is written as an integer, however large. */
export const exactly = (_key: string, value: unknown): unknown =>
  typeof value === 'bigint' ? (JSON as unknown as {rawJSON(text: string): unknown}).rawJSON(String(value)) : value
