// Charts as SVG, drawn here: bars that stand on each other, or a line, one for each day. Promises: it needs no
// JavaScript and no style of its own; whoever cannot see it, or wants the numbers, has them as a table behind it.
// Floats are for the drawing alone.
import {type Html, html, type Part} from '../../../base/html.ts'
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
  /** What the period comes to. */
  note?: Part
}

const height = 100
/** Of a day, in the drawing. */
const width = 10

/** What stands at the top and at the bottom of the drawing. */
interface Range {
  top: number
  bottom: number
}

export function chart({title, unit, days, series, isLine = false, note}: Chart): Html {
  const of = (each: Series, day: number) => Number(each.values[day] ?? 0)
  const heights = days.map((_, day) => series.reduce((sum, each) => sum + Math.max(0, of(each, day)), 0))
  const lows = days.map((_, day) => Math.min(0, ...series.map(each => of(each, day))))
  const range = {top: Math.max(...heights, 0), bottom: Math.min(...lows, 0)}
  const peak = heights.indexOf(range.top)
  const lowest = lows.indexOf(range.bottom)
  const [isAbove, isBelow] = [range.top > 0, range.bottom < 0]
  const extremes = [
    isAbove && `at most ${exact(series, peak)} ${unit}, on ${days[peak]}`,
    isBelow && `at least ${exact(series, lowest)} ${unit}, on ${days[lowest]}`,
  ].filter(text => text !== false)
  return html`<figure class="chart"><figcaption><h3>${title}</h3>${series.length > 1 && legend(series)}<span class="soft small">${
    extremes.join('; ') || 'nothing'
  }</span>${note && html`<span class="small">${note}</span>`}</figcaption><div class="plot">${scale(range)}<svg viewBox="0 0 ${days.length * width} ${height}" preserveAspectRatio="none" role="img" aria-label="${title}, day by day; the numbers are in the table below">${
    isAbove || isBelow
      ? html`${grid(range, days.length * width)}${isLine ? line(series[0]!, days, range) : days.map((day, n) => bars(series, {day, n, range, unit}))}`
      : ''
  }</svg></div><p class="axis soft small"><span>${days[0]}</span><span>${days.at(-1)}</span></p>${numbers({title, unit, days, series})}</figure>`
}

const rounded = new Intl.NumberFormat('en', {notation: 'compact', maximumSignificantDigits: 3})

/** The values at the top, in the middle and at the bottom, for whoever sees the drawing. */
const scale = ({top, bottom}: Range): Html =>
  html`<p class="scale soft small" aria-hidden="true">${[top, (top + bottom) / 2, bottom].map(value => html`<span>${rounded.format(value)}</span>`)}</p>`

const yOf = (value: number, {top, bottom}: Range): number => (height * (top - value)) / (top - bottom)

/** The middle, and zero where something is below it. */
const grid = (range: Range, right: number): Html[] =>
  [height / 2, ...(range.bottom < 0 ? [yOf(0, range)] : [])].map(
    y => html`<path class="grid" d="M0 ${y.toFixed(2)}H${right}"/>`,
  )

/** Exact where one series alone makes the height. */
function exact(series: readonly Series[], day: number): string {
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
  range: Range
  unit: string
}

/** What is below zero hangs from it. */
function bars(series: readonly Series[], {day, n, range, unit}: Day): Html[] {
  let sum = 0
  return series.flatMap(({name, tone, values}) => {
    const value = Number(values[n] ?? 0)
    if (value === 0) return []
    const base = value > 0 ? sum : 0
    if (value > 0) sum += value
    const top = yOf(Math.max(base, base + value), range)
    const size = Math.max(Math.abs(yOf(base + value, range) - yOf(base, range)), 0.5)
    const label = `${day}: ${values[n]} ${unit}${series.length > 1 ? ` ${name}` : ''}`
    return html`<rect class="${tone}" x="${n * width + 1}" y="${top.toFixed(2)}" width="${width - 2}" height="${size.toFixed(2)}"><title>${label}</title></rect>`
  })
}

/** A step for each day, filled to zero. */
function line({tone, values}: Series, days: readonly string[], range: Range): Html {
  const y = (n: number) => yOf(Number(values[n] ?? 0), range).toFixed(2)
  const points = days.map((_, n) => `${n * width},${y(n)} ${(n + 1) * width},${y(n)}`)
  const zero = yOf(0, range).toFixed(2)
  return html`<polygon class="${tone}" points="0,${zero} ${points.join(' ')} ${days.length * width},${zero}"/>`
}

const legend = (series: readonly Series[]): Html =>
  html`<span class="legend small">${series.map(({name, tone}) => html`<span class="${tone}">${name}</span>`)}</span>`

/** The days on which there is anything. */
function numbers({title, unit, days, series}: Omit<Chart, 'isLine' | 'note'>): Html {
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
