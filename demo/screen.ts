// The screen of the demo: lines that stay, and below them, on a terminal, lines that change in place. Without a
// terminal the changing lines are not shown; the caller reports changes in lines that stay.
import {styleText} from 'node:util'

type Style = 'bold' | 'dim' | 'green' | 'yellow' | 'red'

export class Screen {
  readonly isLive: boolean
  readonly #out: NodeJS.WriteStream
  #live: string[] = []

  constructor(out: NodeJS.WriteStream) {
    this.#out = out
    this.isLive = out.isTTY === true && process.env.TERM !== 'dumb'
  }

  /** Colours text, but only on a terminal and without NO_COLOR. */
  style(style: Style, text: string): string {
    return styleText(style, text, {stream: this.#out})
  }

  /** Adds lines that stay. */
  say(text = ''): void {
    this.#clear()
    this.#out.write(`${text}\n`)
    this.#draw()
  }

  /** Replaces the lines that change. They are plain text: `paint` may style what fits the terminal. */
  live(lines: string[], paint: (line: string) => string = line => line): void {
    if (!this.isLive) return
    const width = (this.#out.columns || 80) - 1
    const painted = lines.map(line => paint(line.slice(0, width)))
    if (painted.join('\n') === this.#live.join('\n')) return
    this.#clear()
    this.#live = painted
    this.#draw()
  }

  /** Makes the lines that change stay as they are now. */
  freeze(): void {
    this.#live = []
  }

  #draw(): void {
    if (this.#live.length) this.#out.write(`${this.#live.join('\n')}\n`)
  }

  #clear(): void {
    if (this.#live.length) this.#out.write(`\x1b[${this.#live.length}A\x1b[J`)
  }
}
