// What a command shows: a text for people, or with --json exactly one line of JSON on stdout. Errors go to stderr.

import type {Size} from './fit.ts'

export interface Report {
  /** With --json. */
  json: unknown
  /** Without. */
  text: string
  /** The part that fits a terminal of this size, for a report that is shown repeatedly. */
  fitted?: (size: Size) => string
}

export function show({json, text}: Report, asJson: boolean): void {
  console.log(asJson ? JSON.stringify(json) : text)
}

type Cell = string | number | null | undefined

/**
 * Rows under headings, in columns: numbers to the right, everything else to the left. Returns `empty` if there are no
 * rows.
 */
export function table(headings: string[], rows: Cell[][], empty: string): string {
  if (!rows.length) return empty
  const lines = [headings, ...rows.map(row => row.map(cell => String(cell ?? '')))]
  const widths = headings.map((_, column) => Math.max(...lines.map(line => line[column]!.length)))
  const toTheRight = headings.map((_, column) => rows.every(row => typeof row[column] === 'number'))
  const pad = (text: string, column: number) =>
    toTheRight[column] ? text.padStart(widths[column]!) : text.padEnd(widths[column]!)
  return lines.map(line => line.map(pad).join('  ').trimEnd()).join('\n')
}

/** Names and values, one pair a line. */
export function facts(pairs: Record<string, Cell>): string {
  const width = Math.max(...Object.keys(pairs).map(name => name.length))
  return Object.entries(pairs)
    .map(([name, value]) => `${name.padEnd(width)}  ${value ?? ''}`)
    .join('\n')
}

/** A moment as people write it: 2026-11-20 10:42:07 UTC. */
export function moment(at?: Date | string | null): string {
  return at ? `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')} UTC` : ''
}
