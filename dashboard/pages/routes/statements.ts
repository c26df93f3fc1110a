// Statements: read only.
import type {FastifyRequest} from 'fastify'
import {z} from 'zod'
import {today} from '../../zone.ts'
import type {App} from '../app.ts'
import type {Asked} from '../data.ts'
import {download} from '../download.ts'
import {filtersOf} from '../filters.ts'
import {before, read, show} from '../form.ts'
import {type Fields, fieldsOf, one} from '../view.ts'
import {type Days, type Month, statementsPage, wrongPeriodPage} from '../views/statements.ts'

const names = ['from', 'to', 'currency'] as const
const monthsAgo = [0, 1, 2, 3, 4, 5]
/** On one page; of more, the file has them all. */
const mostPrinted = 5000

export function statements(app: App): void {
  app.get('/statements', async request => {
    const {data, me} = request
    const {before: start} = read(z.object({before}), fieldsOf(request.query))
    const {days, asset, typed, problem} = periodOf(request)
    const months = monthsAgo.map(monthOf)
    // No figures of another period than the one that was asked for.
    if (problem !== undefined) return show(request, wrongPeriodPage({typed, months, problem}))
    const {lines: size} = read(z.object({lines: z.literal('all').optional()}), fieldsOf(request.query))
    const [lines, sums] = await Promise.all([
      data.statementLines({...days, ...asset}, start, size === 'all' ? mostPrinted : undefined),
      data.statements(days.from, days.to),
    ])
    return show(
      request,
      statementsPage({
        ...{merchant: me.merchant_name, days, isOver: days.to < today(), months},
        ...{statements: sums, lines, query: {...typed, lines: size, before: start}},
      }),
    )
  })
  app.get('/statements/download', (request, reply) => {
    const {days, asset, problem} = periodOf(request)
    if (problem !== undefined) throw Object.assign(new Error(problem), {statusCode: 400})
    const {merchant_prefix: prefix, time_zone: zone} = request.me
    const name = `statement-${prefix}-${days.from}-${days.to}${zone === 'UTC' ? '' : `-${zone.replaceAll('/', '-')}`}`
    return download(request, reply, {kind: 'statement', name, asked: {...days, ...asset}})
  })
}

interface Period {
  days: Days
  /** The chain and token that the lines are of; absent: all. */
  asset: Asked
  /** As the address bar has it: a month that goes on is the whole month, also when its link is opened later. */
  typed: Fields
  problem?: string | undefined
}

/** The days of a month or of a query, of which today is the last one; without any, this month. */
function periodOf(request: FastifyRequest): Period {
  const query = fieldsOf(request.query)
  const {asked, problems} = filtersOf(query, names, [])
  const {from, to, chain, token} = asked as {from?: string; to?: string; chain?: string; token?: string}
  const asset = chain === undefined ? {} : {chain, token}
  const currency = one(query.currency)
  const typed = {currency, month: one(query.month), from: one(query.from), to: one(query.to)}
  const wrong = (problem: string | undefined): Period => ({days: monthOf(0).days, asset, typed, problem})
  if (problems.length) return wrong(problems[0])
  if (typed.month) {
    const first = z.iso.date().safeParse(`${typed.month}-01`)
    if (!first.success || first.data < '1970') return wrong('Month must be a month, such as 2026-11.')
    return first.data > today()
      ? wrong('The month has not begun.')
      : {days: daysIn(first.data), asset, typed: {currency, month: typed.month}}
  }
  if (from === undefined && to === undefined)
    return {days: monthOf(0).days, asset, typed: {currency, month: monthOf(0).month}}
  if (from === undefined || to === undefined) return wrong('A period has a first and a last day.')
  if (from > today()) return wrong('The period has not begun.')
  return {days: {from, to: [to, today()].sort()[0]!}, asset, typed: {currency, from, to}}
}

/** A month where the merchant is, so many months ago. */
function monthOf(ago: number): Month {
  const [year, month] = today().split('-').map(Number) as [number, number]
  const first = new Date(Date.UTC(year, month - 1 - ago, 1))
  const name = new Intl.DateTimeFormat('en', {timeZone: 'UTC', month: 'long', year: 'numeric'}).format(first)
  return {name, month: dayOf(first).slice(0, 7), days: daysIn(dayOf(first))}
}

/** The days of the month that begins with this one, up to today. */
function daysIn(first: string): Days {
  const [year, month] = first.split('-').map(Number) as [number, number]
  return {from: first, to: [dayOf(new Date(Date.UTC(year, month, 0))), today()].sort()[0]!}
}
const dayOf = (at: Date) => at.toISOString().slice(0, 10)
