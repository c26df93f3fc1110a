// Fits a report to a terminal. Promises: no line is longer than the terminal is wide, and there are fewer lines than it
// is high; sections have the order in which they were given, the most important first; the last lines say what was left
// out.

export interface Size {
  columns: number
  rows: number
}

export interface Section {
  /** Names the section where the last lines say what was left out. */
  name: string
  lines: string[]
  /** The most lines that it may take, so that other sections have room. */
  most: number
}

/** The size of the terminal, or of COLUMNS and LINES; undefined if neither is known, as for a file. */
export function terminalSize(
  {columns, rows}: Partial<Size> = process.stdout,
  {COLUMNS, LINES}: NodeJS.ProcessEnv = process.env,
): Size | undefined {
  const size = {columns: columns ?? Number(COLUMNS), rows: rows ?? Number(LINES)}
  return size.columns > 0 && size.rows > 0 ? size : undefined
}

export function screen(sections: Section[], {columns, rows}: Size): string {
  const room = rows - 3 // two lines for what was left out, and one where the cursor stands after the last line
  const shown: string[] = []
  const leftOut: string[] = []
  for (const {name, lines, most} of sections) {
    const part = lines.slice(0, Math.max(0, Math.min(most, room - shown.length)))
    shown.push(...part)
    if (part.length < lines.length) leftOut.push(`${lines.length - part.length} ${name}`)
  }
  if (leftOut.length) shown.push(...wrap(`Left out (sluice status has it): ${leftOut.join(', ')}`, columns, 2))
  return shown.map(line => clip(line, columns)).join('\n')
}

export function clip(text: string, columns: number): string {
  return text.length > columns ? `${text.slice(0, columns - 1)}…` : text
}

/**
 * Wraps a text between words; all lines but the first are indented. A text that needs more than `most` lines ends with
 * an ellipsis.
 */
export function wrap(text: string, columns: number, most: number): string[] {
  const lines = ['']
  for (const word of text.split(/\s+/)) {
    const line = lines.at(-1)!
    if (!line) lines[lines.length - 1] = word
    else if (line.length + 1 + word.length <= columns) lines[lines.length - 1] = `${line} ${word}`
    else lines.push(`  ${word}`)
  }
  if (lines.length <= most) return lines
  return [...lines.slice(0, most - 1), clip(`${lines[most - 1]} …`, columns)]
}
