// Amounts are decimal strings, because numbers lose digits: 0.1 + 0.2 is 0.30000000000000004, and 18 decimals do not
// fit at all. What a merchant does with them is here, exact to the last digit.

const plain = /^-?(0|[1-9]\d*)(\.\d+)?$/

function parsed(amount: string): {digits: bigint; decimals: number} {
  if (!plain.test(amount))
    throw new TypeError(`an amount is a plain decimal string, such as "1.25", and this is ${JSON.stringify(amount)}`)
  const [, fraction = ''] = amount.split('.')
  return {digits: BigInt(amount.replace('.', '')), decimals: fraction.length}
}

/** Both with the same number of decimals. */
function aligned(a: string, b: string): [a: bigint, b: bigint, decimals: number] {
  const [left, right] = [parsed(a), parsed(b)]
  const decimals = Math.max(left.decimals, right.decimals)
  const scaled = ({digits, decimals: own}: typeof left) => digits * 10n ** BigInt(decimals - own)
  return [scaled(left), scaled(right), decimals]
}

/** Without trailing zeros, as the service writes them. */
function text(digits: bigint, decimals: number): string {
  const all = (digits < 0n ? -digits : digits).toString().padStart(decimals + 1, '0')
  const whole = all.slice(0, all.length - decimals)
  const fraction = all.slice(all.length - decimals).replace(/0+$/, '')
  return (digits < 0n ? '-' : '') + whole + (fraction && `.${fraction}`)
}

export const Amount = {
  /** Below zero if a is less, zero if they are equal, above zero if a is more: as `sort` takes it. */
  compare(a: string, b: string): -1 | 0 | 1 {
    const [left, right] = aligned(a, b)
    return left < right ? -1 : left > right ? 1 : 0
  },
  /** The sum. */
  add(a: string, b: string): string {
    const [left, right, decimals] = aligned(a, b)
    return text(left + right, decimals)
  },
}
