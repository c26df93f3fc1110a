// Charts: money by asset, payment requests by outcome, webhooks by endpoint, and how long deposits take to be final.
import {type Html, html, type Part} from '../../../base/html.ts'
import type {Tone} from '../../components.ts'
import {card, link} from '../../components.ts'
import {zone} from '../../zone.ts'
import type {Chains} from '../chains.ts'
import type {ChartSeries, Charts, Endpoint} from '../data.ts'
import {urlOf, type View} from '../view.ts'
import {chart, type Series} from './chart.ts'

export const chartPeriods = [30, 90, 365] as const
/** Everything that the page draws. */
export const chartSeries = [
  'deposit',
  'paid',
  'balance',
  'requests',
  'delivered',
  'undelivered',
  'failed_attempts',
  'seen_to_final',
]

interface Shown {
  charts: Charts
  days: (typeof chartPeriods)[number]
  endpoints: readonly Endpoint[]
  chains: Chains
}

export const chartsPage = (shown: Shown): View => ({
  title: 'Charts',
  section: '/charts',
  lead: html`Day by day, in ${link('/settings', zone())}; the last day is today, so far.`,
  body: html`<div class="filters"><nav class="filter" aria-label="Period"><span aria-hidden="true">Period</span>${chartPeriods.map(
    days =>
      html`<a href="${urlOf('/charts', {days: String(days)})}"${days === shown.days && html` aria-current="true"`}>${days === 365 ? 'a year' : `${days} days`}</a>`,
  )}</nav></div>${money(shown)}${requests(shown)}${webhooks(shown)}${finality(shown)}`,
})

const group = (title: string, charts: readonly Part[], empty: string): Html =>
  card({title, body: charts.length ? html`<div class="charts">${charts}</div>` : html`<p class="soft">${empty}</p>`})

const isAbout = (series: string, about?: string) => (each: ChartSeries) =>
  each.series === series && (about === undefined || each.about === about)

function money({charts: {days, series}, chains}: Shown): Html {
  const assets = [...new Set(series.filter(isAbout('balance')).map(({about}) => about))]
  const charts = assets.flatMap(asset => {
    const [chain, unit] = asset.split(':') as [string, string]
    const of = (name: string) => series.find(isAbout(name, asset))
    const named = (title: string, values: readonly string[], tone: Tone, isLine = false) =>
      chart({
        title: `${unit} on ${chains(chain).name}: ${title}`,
        unit,
        days,
        isLine,
        series: [{name: title, tone, values}],
      })
    const [received, paid, balance] = [of('deposit'), of('paid'), of('balance')]
    return [
      received && named('received', received.amounts, 'good'),
      balance && named('balance', balance.amounts_at_end, 'soft', true),
      paid && named('paid out', paid.amounts, 'wait'),
    ]
  })
  return group('Money', charts, 'Nothing has become final yet.')
}

const outcomes: readonly (readonly [status: string, tone: Tone])[] = [
  ['paid', 'good'],
  ['underpaid', 'bad'],
  ['expired', 'wait'],
  ['cancelled', 'soft'],
]

function requests({charts: {days, series}}: Shown): Html {
  const drawn = outcomes.flatMap(([status, tone]): Series[] => {
    const found = series.find(isAbout('requests', status))
    return found ? [{name: status, tone, values: found.counts.map(String)}] : []
  })
  const charts = drawn.length ? [chart({title: 'How they ended', unit: 'requests', days, series: drawn})] : []
  return group('Payment requests', charts, 'None has ended yet.')
}

/** In seconds, of those of each day. */
const means = ({counts, amounts}: ChartSeries): (string | null)[] =>
  counts.map((count, day) => (count > 0 ? (Number(amounts[day]) / count / 1000).toFixed(1) : null))

const sum = (counts: readonly number[] = []) => counts.reduce((all, count) => all + count, 0)

/** How many of the attempts succeeded. */
function rate(delivered: readonly number[] = [], failed: readonly number[] = []): string | undefined {
  const all = sum(delivered) + sum(failed)
  return all === 0 ? undefined : `${((100 * sum(delivered)) / all).toFixed(1)} %`
}

/** Attempts, because a delivery ends only days after the first one that failed. */
function webhooks({charts: {days, series}, endpoints}: Shown): Html {
  const charts = endpoints.flatMap(({id, url}) => {
    const [delivered, failed, lost] = ['delivered', 'failed_attempts', 'undelivered'].map(name =>
      series.find(isAbout(name, id)),
    )
    const part = (found: ChartSeries | undefined, name: string, tone: Tone): Series[] =>
      found ? [{name, tone, values: found.counts.map(String)}] : []
    const attempts = [...part(delivered, 'succeeded', 'good'), ...part(failed, 'failed', 'bad')]
    const lastDay = rate(delivered?.counts.slice(-1), failed?.counts.slice(-1))
    const note = `Succeeded: ${rate(delivered?.counts, failed?.counts) ?? 'none'}${lastDay ? `; ${lastDay} today` : ''}`
    return [
      attempts.length > 0 &&
        chart({title: `Attempts to deliver to ${url}`, unit: 'attempts', days, series: attempts, note}),
      lost &&
        chart({
          title: `Deliveries to ${url} that failed for good`,
          unit: 'deliveries',
          days,
          series: part(lost, 'failed for good', 'bad'),
        }),
      delivered &&
        chart({
          title: `Time until they were delivered to ${url}, on average`,
          unit: 'seconds',
          days,
          series: [{name: 'average', tone: 'soft', values: means(delivered)}],
        }),
    ]
  })
  return group('Webhooks', charts, 'Nothing was delivered yet.')
}

function finality({charts: {days, series}, chains}: Shown): Html {
  const charts = series.filter(isAbout('seen_to_final')).map(each =>
    chart({
      title: `${chains(each.about).name}: from seen to final, on average`,
      unit: 'seconds',
      days,
      series: [{name: 'average', tone: 'soft', values: means(each)}],
    }),
  )
  return group('How long deposits take', charts, 'None is final yet.')
}
