// Amounts of a token in words, and in its smallest units. (viem has this, too: whoever loads a function of it loads
// nearly 250 modules, at each start of a process.)

/** Plain decimal, without trailing zeros: 1250000 of 6 decimals is 1.25. */
export function formatUnits(units: bigint, decimals: number): string {
  const digits = String(units < 0n ? -units : units).padStart(decimals + 1, '0')
  const whole = digits.slice(0, digits.length - decimals)
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, '')
  return `${units < 0n ? '-' : ''}${whole}${fraction && `.${fraction}`}`
}

/** Throws RangeError if it is no plain decimal, or has more digits than the token. */
export function parseUnits(amount: string, decimals: number): bigint {
  const [, whole, fraction = ''] = /^(-?\d+)(?:\.(\d+))?$/.exec(amount) ?? []
  if (whole === undefined || fraction.length > decimals)
    throw new RangeError(`"${amount}" is no amount of at most ${decimals} decimals`)
  return BigInt(whole + fraction.padEnd(decimals, '0'))
}
