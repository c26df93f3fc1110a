// The result of a bench: a rate, the floor of the same run, and their ratio.
export interface Result {
  what: string
  value: number
  floor: number
  unit: string
  /** The ratio to reach; undefined if there is no aim. */
  target?: string
}

export const ratio = ({value, floor}: Result): string => (value / floor).toFixed(2)
