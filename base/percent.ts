// Percentages as people write them.

/** Basis points of a percentage, such as 0.5 or 0.5%: 50. Undefined if it is none, or has more than two decimals. */
export function basisPoints(text: string): number | undefined {
  const [, whole, part = ''] = /^(\d{1,3})(?:\.(\d{1,2}))? ?%?$/.exec(text.trim()) ?? []
  return whole === undefined ? undefined : Number(whole) * 100 + Number(part.padEnd(2, '0'))
}

/** 50 as 0.5%. */
export const percent = (bps: number): string => `${bps / 100}%`
