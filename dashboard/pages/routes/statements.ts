// Statements: read only.
import type {FastifyRequest} from 'fastify'
import type {App} from '../app.ts'
import {download} from '../download.ts'
import {askedOf, filtersOf, listed} from '../filters.ts'
import {show} from '../form.ts'
import {fieldsOf} from '../view.ts'
import {type Days, statementsPage} from '../views/statements.ts'

const names = ['from', 'to', 'currency'] as const

export function statements(app: App): void {
  app.get('/statements', async request => {
    const days = daysOf(request)
    const [found, sums] = await Promise.all([
      listed(request, {names, read: (asked, before) => request.data.statementLines({...asked, ...days}, before)}),
      request.data.statements(days.from, days.to),
    ])
    const query = {...found.query, ...days}
    const months = [0, 1, 2].map(ago => monthOf(request.me.time_zone, ago))
    return show(
      request,
      statementsPage({days, months, statements: sums, lines: found.page, query, problem: found.problems[0]}),
    )
  })
  app.get('/statements/download', (request, reply) => {
    const days = daysOf(request)
    const name = `statement-${request.me.merchant_prefix}-${days.from}-${days.to}`
    return download(request, reply, {kind: 'statement', name, asked: {...askedOf(request, names, []), ...days}})
  })
}

/** Those of the query, or this month up to now. */
function daysOf(request: FastifyRequest): Days {
  const [, present] = monthOf(request.me.time_zone, 0)
  const {from, to} = filtersOf(fieldsOf(request.query), names, []).asked
  return typeof from === 'string' && typeof to === 'string' ? {from, to} : present
}

/** A month where the merchant is, so many months ago: its name and its days. */
function monthOf(timeZone: string, ago: number): [name: string, days: Days] {
  const today = new Intl.DateTimeFormat('sv-SE', {timeZone, dateStyle: 'short'}).format(new Date())
  const [year, month] = today.split('-').map(Number) as [number, number]
  const first = new Date(Date.UTC(year, month - 1 - ago, 1))
  const last = new Date(Date.UTC(year, month - ago, 0))
  const name = new Intl.DateTimeFormat('en', {timeZone: 'UTC', month: 'long', year: 'numeric'}).format(first)
  return [name, {from: dayOf(first), to: dayOf(last)}]
}
const dayOf = (at: Date) => at.toISOString().slice(0, 10)
