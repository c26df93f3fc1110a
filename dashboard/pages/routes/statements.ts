// Statements: read only.
import type {FastifyRequest} from 'fastify'
import {z} from 'zod'
import {today} from '../../zone.ts'
import type {App} from '../app.ts'
import {download} from '../download.ts'
import {filtersOf} from '../filters.ts'
import {before, read, show} from '../form.ts'
import {fieldsOf} from '../view.ts'
import {type Days, statementsPage} from '../views/statements.ts'

const names = ['from', 'to'] as const

export function statements(app: App): void {
  app.get('/statements', async request => {
    const {data, me} = request
    const {before: start} = read(z.object({before}), fieldsOf(request.query))
    const {days, problem} = daysOf(request)
    const [lines, sums] = await Promise.all([
      data.statementLines({...days}, start),
      data.statements(days.from, days.to),
    ])
    return show(
      request,
      statementsPage({
        ...{merchant: me.merchant_name, days, isOver: days.to < today(), months: [0, 1, 2].map(monthOf)},
        ...{statements: sums, lines, query: {...days, before: start}, problem},
      }),
    )
  })
  app.get('/statements/download', (request, reply) => {
    const {days, problem} = daysOf(request)
    if (problem !== undefined) throw Object.assign(new Error(problem), {statusCode: 400})
    const name = `statement-${request.me.merchant_prefix}-${days.from}-${days.to}`
    return download(request, reply, {kind: 'statement', name, asked: {...days}})
  })
}

/** Those of the query, of which today is the last one; or this month so far, and why. */
function daysOf(request: FastifyRequest): {days: Days; problem?: string | undefined} {
  const [, present] = monthOf(0)
  const {asked, problems} = filtersOf(fieldsOf(request.query), names, [])
  const {from, to} = asked as {from?: string; to?: string}
  if (problems.length) return {days: present, problem: problems[0]}
  if (from === undefined && to === undefined) return {days: present}
  if (from === undefined || to === undefined) return {days: present, problem: 'A period has a first and a last day.'}
  if (from > today()) return {days: present, problem: 'The period has not begun.'}
  return {days: {from, to: [to, today()].sort()[0]!}}
}

/** A month where the merchant is, so many months ago: its name and its days up to today. */
function monthOf(ago: number): [name: string, days: Days] {
  const [year, month] = today().split('-').map(Number) as [number, number]
  const first = new Date(Date.UTC(year, month - 1 - ago, 1))
  const last = new Date(Date.UTC(year, month - ago, 0))
  const name = new Intl.DateTimeFormat('en', {timeZone: 'UTC', month: 'long', year: 'numeric'}).format(first)
  return [name, {from: dayOf(first), to: ago === 0 ? today() : dayOf(last)}]
}
const dayOf = (at: Date) => at.toISOString().slice(0, 10)
