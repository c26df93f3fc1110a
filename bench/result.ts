// What every bench reports: its results, each as soon as it is ready.
export interface Result {
  what: string
  value: number
  unit: string
  /** What the value is compared with, in the same unit, measured in the same run on the same machine. */
  floor?: number
  /** Of others' work: what ours may be compared with. */
  isReference?: boolean
  /** The ratio to reach, or the value with its unit; undefined if there is no aim. */
  aim?: string
}

export type Report = (result: Result) => void

export const ratioOf = ({value, floor}: Result): number | undefined => (floor === undefined ? undefined : value / floor)

/** As a row of a table. */
export function row(result: Result): string {
  const {what, value, unit, floor, aim = ''} = result
  const ratio = ratioOf(result)
  return `| ${what} | ${number(value)} ${unit} | ${floor === undefined ? '' : number(floor)} | ${ratio?.toFixed(2) ?? ''} | ${aim} |`
}

export function number(value: number): string {
  return value.toLocaleString('en', value < 100 ? {maximumSignificantDigits: 3} : {maximumFractionDigits: 0})
}

/** The value that this share of all is below. */
export const quantile = (values: number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * share)]!

export const median = (values: number[]): number => quantile(values, 0.5)
