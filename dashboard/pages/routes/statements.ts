// Statements: read only.
import type {FastifyRequest} from 'fastify'
import type {App} from '../app.ts'
import {download} from '../download.ts'
import {filtersOf, listed} from '../filters.ts'
import {show} from '../form.ts'
import {fieldsOf} from '../view.ts'
import {type Days, statementsPage} from '../views/statements.ts'

const names = ['from', 'to'] as const

export function statements(app: App): void {
  app.get('/statements', async request => {
    const {time_zone, merchant_name} = request.me
    const {days, problem} = daysOf(request)
    const [found, sums] = await Promise.all([
      listed(request, {names, read: (_asked, before) => request.data.statementLines({...days}, before)}),
      request.data.statements(days.from, days.to),
    ])
    const months = [0, 1, 2].map(ago => monthOf(time_zone, ago))
    const query = {...days, before: found.query.before}
    const isOver = days.to < todayIn(time_zone)
    return show(
      request,
      statementsPage({
        merchant: merchant_name,
        days,
        isOver,
        months,
        statements: sums,
        lines: found.page,
        query,
        problem,
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
  const {time_zone} = request.me
  const [, present] = monthOf(time_zone, 0)
  const {asked, problems} = filtersOf(fieldsOf(request.query), names, [])
  const {from, to} = asked as {from?: string; to?: string}
  const today = todayIn(time_zone)
  if (problems.length) return {days: present, problem: problems[0]}
  if (from === undefined && to === undefined) return {days: present}
  if (from === undefined || to === undefined) return {days: present, problem: 'A period has a first and a last day.'}
  if (from > today) return {days: present, problem: 'The period has not begun.'}
  return {days: {from, to: [to, today].sort()[0]!}}
}

const todayIn = (timeZone: string) =>
  new Intl.DateTimeFormat('sv-SE', {timeZone, dateStyle: 'short'}).format(new Date())

/** A month where the merchant is, so many months ago: its name and its days up to today. */
function monthOf(timeZone: string, ago: number): [name: string, days: Days] {
  const today = todayIn(timeZone)
  const [year, month] = today.split('-').map(Number) as [number, number]
  const first = new Date(Date.UTC(year, month - 1 - ago, 1))
  const last = new Date(Date.UTC(year, month - ago, 0))
  const name = new Intl.DateTimeFormat('en', {timeZone: 'UTC', month: 'long', year: 'numeric'}).format(first)
  return [name, {from: dayOf(first), to: ago === 0 ? today : dayOf(last)}]
}
const dayOf = (at: Date) => at.toISOString().slice(0, 10)
