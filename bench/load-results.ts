// What the load test (load.ts) says of its stages: a line every ten seconds, and the results.

import {z} from 'zod'
import {type ChainCode, chainCodes} from '../chains/registry.ts'
import type {Entry} from './load-book.ts'
import type {Asked} from './load-merchants.ts'
import type {Result} from './result.ts'
import {cores, type Part, sumOf, type Usage} from './usage.ts'

export interface Plan {
  perMinute: number
  seconds: number
}

export interface Paid {
  planned: Entry[]
  refused: Map<string, number>
}

export interface Sample {
  at: number
  queues: Queues
  usages: Usage[]
  idleSeconds: number
}

export const Queues = z.object({
  deliveries: z.coerce.number(),
  jobs: z.coerce.number(),
  unsequenced: z.coerce.number(),
  notFinal: z.coerce.number(),
})
type Queues = z.infer<typeof Queues>

export interface Stage extends Plan, Paid {
  /** At the planned end. */
  behind: number
  seconds: number
  samples: Sample[]
  asked: Asked[]
  /** Milliseconds to the webhook, by chain, sorted; what never came counts as the time that was waited. */
  delays: Map<ChainCode, number[]>
  unnoticed: number
}

/** Later than this, the system counts as broken. */
export const lateMs = 5000
const parts: Part[] = ['product', 'local chains', 'load']

export const isBehind = ({sentAt, pendingAt}: Entry) => sentAt !== undefined && pendingAt === undefined

// --- the table ---

const widths = {
  s: 5,
  paid: 8,
  behind: 8,
  deliveries: 11,
  jobs: 6,
  unsequenced: 12,
  'not final': 10,
  'API p95 ms': 11,
  'product cores': 14,
  'chains cores': 13,
  'product MB': 11,
}
type Row = Record<keyof typeof widths, string | number>

export const head = Object.entries(widths)
  .map(([name, width]) => name.padStart(width))
  .join('')

interface Between {
  began: number
  entries: Entry[]
  asked: Asked[]
  from: Sample
  to: Sample
}

export function line({began, entries, asked, from, to}: Between): string {
  const used = cores(from.usages, to.usages, (to.at - from.at) / 1000)
  const of = (part: Part) => sumOf(part, to.usages, ({name}) => used.get(name)!).toFixed(2)
  const {notFinal, ...queues} = to.queues
  const row: Row = {
    s: (to.at - began) / 1000,
    paid: entries.filter(({sentAt}) => sentAt).length,
    behind: entries.filter(isBehind).length,
    ...queues,
    'not final': notFinal,
    'API p95 ms': quantile(timesOf(asked), 0.95),
    'product cores': of('product'),
    'chains cores': of('local chains'),
    'product MB': sumOf('product', to.usages, ({memoryMb}) => memoryMb),
  }
  const text = (cell: string | number) => (typeof cell === 'string' ? cell : cell.toFixed(0))
  return Object.entries(widths)
    .map(([name, width]) => text(row[name as keyof Row]).padStart(width))
    .join('')
}

// --- results ---

export function quantile(values: number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0
}

const timesOf = (asked: Asked[]) => asked.map(({ms}) => ms)
const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length

function spread(what: string, values: number[]): Result[] {
  const parts = Object.entries({p50: 0.5, p95: 0.95, max: 1})
  return parts.map(([name, part]) => ({what: `${what}, ${name}`, value: quantile(values, part), unit: 'ms'}))
}

export function ofBase(stage: Stage): Result[] {
  const {planned, delays, asked, unnoticed, samples, perMinute} = stage
  const sent = planned.filter(({sentAt}) => sentAt !== undefined)
  const all = [...delays.values()].flat()
  const paths = [...new Set(asked.map(({path}) => path))]
  return [
    {what: 'deposits a minute, planned', value: perMinute, unit: ''},
    {what: 'deposits paid', value: sent.length, unit: ''},
    {what: 'payments that local chains did not take', value: planned.length - sent.length, unit: ''},
    {what: 'deposits that are in no block at the end', value: unnoticed, unit: ''},
    ...spread('block to webhook, all chains', all),
    ...[...delays].flatMap(([chain, each]) =>
      spread(`${chain === 'BTC' ? 'mempool' : 'block'} to webhook, ${chain}`, each),
    ),
    ...paths.flatMap(path => {
      const of = asked.filter(each => each.path === path)
      return spread(`GET ${path}`, timesOf(of))
    }),
    {what: 'API requests without a 200', value: asked.filter(({status}) => status !== 200).length, unit: ''},
    ...ofQueues(samples),
    ...ofCpu(samples),
    ...ofMemory(samples),
  ]
}

/** Their longest, and what they are at the end. */
function ofQueues(samples: Sample[]): Result[] {
  const names = ['deliveries', 'jobs', 'unsequenced', 'notFinal'] as const
  const words = {
    deliveries: 'pending deliveries',
    jobs: 'jobs',
    unsequenced: 'unsequenced events',
    notFinal: 'not final',
  }
  return names.flatMap(name => [
    {what: `queue: ${words[name]}, longest`, value: Math.max(...samples.map(({queues}) => queues[name])), unit: ''},
    {what: `queue: ${words[name]}, at the end`, value: samples.at(-1)!.queues[name], unit: ''},
  ])
}

function ofCpu(samples: Sample[]): Result[] {
  const [from, to] = [samples[0]!, samples.at(-1)!]
  const seconds = (to.at - from.at) / 1000
  const used = cores(from.usages, to.usages, seconds)
  return [
    ...parts.map(part => ({
      what: `CPU of all: ${part}`,
      value: sumOf(part, to.usages, ({name}) => used.get(name)!),
      unit: 'cores',
    })),
    {what: 'CPU that was idle', value: (to.idleSeconds - from.idleSeconds) / seconds, unit: 'cores'},
    ...[...used].sort((a, b) => b[1] - a[1]).map(([name, value]) => ({what: `CPU of ${name}`, value, unit: 'cores'})),
  ]
}

/** The means of three minutes: the first, the one that ends halfway, the last; without what was before all payments. */
function ofMemory(samples: Sample[]): Result[] {
  const [began, ended] = [samples[0]!.at, samples.at(-1)!.at]
  const minuteBefore = (end: number) => samples.slice(1).filter(({at}) => at > end - 60_000 && at <= end)
  const minutes = {
    'first minute': minuteBefore(began + 61_000),
    halfway: minuteBefore((began + ended) / 2),
    'last minute': minuteBefore(ended),
  }
  const each = (what: string, of: (usages: Usage[]) => number): Result[] =>
    Object.entries(minutes).map(([when, those]) => ({
      what: `memory of ${what}, ${when}`,
      value: mean(those.map(({usages}) => of(usages))),
      unit: 'MB',
    }))
  const names = samples[0]!.usages.filter(({part}) => part === 'product').map(({name}) => name)
  return [
    ...parts.flatMap(part => each(`all: ${part}`, usages => sumOf(part, usages, ({memoryMb}) => memoryMb))),
    ...names.flatMap(wanted => each(wanted, usages => usages.find(({name}) => name === wanted)?.memoryMb ?? 0)),
  ]
}

// --- until it breaks ---

export function whyBroken({planned, refused, behind, delays, perMinute}: Stage): string | undefined {
  const isUnsent = ({sentAt}: Entry) => sentAt === undefined
  const unsent = planned.filter(isUnsent).length
  const byChain = chainCodes.map(
    code => `${code} ${planned.filter(each => each.chain === code && isUnsent(each)).length}`,
  )
  const [why] = [...refused].sort((a, b) => b[1] - a[1])[0] ?? []
  const p95 = quantile([...delays.values()].flat(), 0.95)
  if (unsent > planned.length / 10)
    return `${unsent} of ${planned.length} payments could not be sent (${[...byChain, ...(why ? [why] : [])].join(', ')})`
  if (p95 > lateMs) return `p95 to the webhook is ${(p95 / 1000).toFixed(1)} s`
  if (behind > perMinute / 6) return `${behind} deposits had no webhook at the end, more than those of ten seconds`
  return undefined
}

export function busiest({samples}: Stage): string {
  const all = ofCpu(samples).slice(0, parts.length + 5)
  return all.map(({what, value}) => `${what} ${value.toFixed(2)}`).join(', ')
}

export function ofStage(stage: Stage, name: string, broken: string | undefined): Result[] {
  const {planned, delays, asked, samples, behind} = stage
  const sent = planned.filter(({sentAt}) => sentAt !== undefined).length
  return [
    {what: `${name}: deposits a minute, sent`, value: (60 * sent) / stage.seconds, unit: ''},
    {what: `${name}: ${broken ?? 'it holds'}`, value: broken ? 0 : 1, unit: ''},
    {what: `${name}: block to webhook, p95`, value: quantile([...delays.values()].flat(), 0.95), unit: 'ms'},
    {
      what: `${name}: API, p95`,
      value: quantile(
        asked.map(({ms}) => ms),
        0.95,
      ),
      unit: 'ms',
    },
    {what: `${name}: without a webhook at the end`, value: behind, unit: ''},
    {what: `${name}: pending deliveries at the end`, value: samples.at(-1)!.queues.deliveries, unit: ''},
    ...ofCpu(samples)
      .slice(0, parts.length + 5)
      .map(({what, ...rest}) => ({what: `${name}: ${what}`, ...rest})),
  ]
}
