// Charts as SVG, drawn here: bars that stand on each other, or a line, one for each day. Promises: it needs no
// JavaScript and no style of its own; whoever cannot see it, or wants the numbers, has them as a table behind it.
// Floats are for the drawing alone.
import {type Html, html} from '../../../base/html.ts'
import type {Tone} from '../../components.ts'

export interface Series {
  /** Such as "paid". */
  name: string
  tone: Tone
  /** Decimals, one for each day; null where there is none. */
  values: readonly (string | null)[]
}

interface Chart {
  title: string
  /** Behind each number, such as USDC. */
  unit: string
  days: readonly string[]
  series: readonly Series[]
  isLine?: boolean
}

const height = 100
/** Of a day, in the drawing. */
const width = 10

export function chart({title, unit, days, series, isLine = false}: Chart): Html {
  const of = (each: Series, day: number) => Number(each.values[day] ?? 0)
  const heights = days.map((_, day) => series.reduce((sum, each) => sum + Math.max(0, of(each, day)), 0))
  const top = Math.max(...heights, 0)
  const scale = top === 0 ? 0 : height / top
  const body = isLine ? line(series[0]!, days, scale) : days.map((day, n) => bars(series, {day, n, scale, unit}))
  const peak = days[heights.indexOf(top)]
  return html`<figure class="chart"><figcaption><h3>${title}</h3>${series.length > 1 && legend(series)}<span class="soft small">${
    top === 0 ? 'nothing' : `at most ${highest(series, heights.indexOf(top))} ${unit}, on ${peak}`
  }</span></figcaption><svg viewBox="0 0 ${days.length * width} ${height}" preserveAspectRatio="none" role="img" aria-label="${title}, day by day; the numbers are in the table below">${body}</svg><p class="axis soft small"><span>${days[0]}</span><span>${days.at(-1)}</span></p>${numbers({title, unit, days, series})}</figure>`
}

/** Exact where one series alone makes the height. */
function highest(series: readonly Series[], day: number): string {
  const there = series
    .map(({values}) => values[day])
    .filter(value => value !== null && value !== undefined && value !== '0')
  return there.length === 1
    ? there[0]!
    : String(Number(there.reduce((sum, value) => sum + Number(value), 0).toPrecision(12)))
}

interface Day {
  day: string
  n: number
  scale: number
  unit: string
}

function bars(series: readonly Series[], {day, n, scale, unit}: Day): Html[] {
  let y = height
  return series.flatMap(({name, tone, values}) => {
    const size = Math.max(0, Number(values[n] ?? 0)) * scale
    if (size === 0) return []
    y -= size
    const label = `${day}: ${values[n]} ${unit}${series.length > 1 ? ` ${name}` : ''}`
    return html`<rect class="${tone}" x="${n * width + 1}" y="${y.toFixed(2)}" width="${width - 2}" height="${Math.max(size, 0.5).toFixed(2)}"><title>${label}</title></rect>`
  })
}

/** A step for each day, filled to the ground; below zero it lies on it. */
function line({tone, values}: Series, days: readonly string[], scale: number): Html {
  const y = (n: number) => (height - Math.max(0, Number(values[n] ?? 0)) * scale).toFixed(2)
  const points = days.map((_, n) => `${n * width},${y(n)} ${(n + 1) * width},${y(n)}`)
  return html`<polygon class="${tone}" points="0,${height} ${points.join(' ')} ${days.length * width},${height}"/>`
}

const legend = (series: readonly Series[]): Html =>
  html`<span class="legend small">${series.map(({name, tone}) => html`<span class="${tone}">${name}</span>`)}</span>`

/** The days on which there is anything. */
function numbers({title, unit, days, series}: Omit<Chart, 'isLine'>): Html {
  const rows = days
    .map((day, n) => ({day, values: series.map(({values}) => values[n] ?? null)}))
    .filter(({values}) => values.some(value => value !== null && value !== '0'))
    .reverse()
  return html`<details><summary>Numbers<span class="unseen"> of ${title}</span></summary><table><thead><tr><th scope="col">Day</th>${series.map(
    ({name}) => html`<th scope="col">${name} (${unit})</th>`,
  )}</tr></thead><tbody>${rows.map(
    ({day, values}) =>
      html`<tr><th scope="row">${day}</th>${values.map(value => html`<td class="digits">${value ?? '–'}</td>`)}</tr>`,
  )}</tbody></table></details>`
}
