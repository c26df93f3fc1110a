// Statements of some days: the balance of each asset before and after, what changed it, and every line behind that.
import {type Html, html} from '../../../base/html.ts'
import type {Statement, StatementLine} from '../../../reading/statements.ts'
import {alert, card, facts, link, short, table, time, timesOf} from '../../components.ts'
import {local, zone} from '../../zone.ts'
import type {Page} from '../data.ts'
import {type Fields, one, urlOf, type View} from '../view.ts'
import {downloads, filters, pager} from './lists.ts'
import {paymentRequestPath} from './paths.ts'

/** The first and the last day, such as 2026-11-01. */
export interface Days {
  from: string
  to: string
}

export interface Month {
  /** November 2026. */
  name: string
  /** 2026-11. */
  month: string
  days: Days
}

interface Shown {
  /** The name of the account. */
  merchant: string
  days: Days
  /** The last day has ended. */
  isOver: boolean
  /** Periods that people ask for most. */
  months: readonly Month[]
  statements: readonly Statement[]
  lines: Page<StatementLine>
  query: Fields
}

export const statementsPage = (shown: Shown): View => ({
  title: `Statement of ${shown.merchant}, ${shown.days.from} to ${shown.days.to}`,
  section: '/statements',
  lead: html`${shown.merchant}: from ${shown.days.from} to ${shown.days.to}, both included, in ${link('/settings', zone())}${!shown.isOver && html`. <strong>So far:</strong> the last day has not ended`}. <span class="printed">Printed ${local(new Date().toISOString())}.</span>`,
  body: html`${period(shown.months, shown.days, shown.query)}${card({title: 'Balances', body: sums(shown.statements)})}${card(
    {
      title: shown.query.currency === undefined ? 'Lines' : `Lines of ${one(shown.query.currency)}`,
      body: html`${ofAsset(shown)}${partOf(shown)}${lineTable(shown.lines.items)}${downloads('/statements', {...shown.query, lines: undefined})}${pager('/statements', shown.query, shown.lines.next)}`,
    },
  )}`,
})

/** Links to the lines of one asset, where there are several. */
const ofAsset = ({statements, query}: Shown) =>
  (statements.length > 1 || query.currency !== undefined) &&
  filters('/statements', query, [
    {name: 'currency', label: 'Asset', values: statements.map(({chain, token}) => `${chain}:${token}`)},
  ])

/** Lines are on other pages, which a printed one does not have. */
const partOf = ({lines: {items, next}, query}: Shown) =>
  (next !== null || query.before !== undefined) &&
  html`<p><strong>These are ${items.length} lines of the period, not all of them.</strong> <a href="${urlOf('/statements', {...query, lines: 'all', before: undefined})}">All lines on one page</a> can be printed, up to 5,000; the file has more.</p>`

interface Wrong {
  typed: Fields
  months: readonly Month[]
  problem: string
}

export const wrongPeriodPage = ({typed, months, problem}: Wrong): View => ({
  title: 'Statement',
  section: '/statements',
  body: html`${alert(problem)}${period(months, {from: one(typed.from) ?? '', to: one(typed.to) ?? ''}, typed)}`,
})

const period = (months: readonly Month[], days: Days, query: Fields): Html =>
  html`<div class="filters"><nav class="filter" aria-label="Months">${months.map(
    ({name, month}) =>
      html`<a href="${urlOf('/statements', {month, currency: query.currency})}"${month === query.month && html` aria-current="true"`}>${name}</a>`,
  )}</nav></div><form class="row period" method="get" action="/statements">${(['from', 'to'] as const).map(
    name =>
      html`<label class="field"><span>${name === 'from' ? 'From day' : 'To day'}</span><input name="${name}" type="date" required value="${days[name]}"></label>`,
  )}${query.currency !== undefined && html`<input type="hidden" name="currency" value="${one(query.currency)}">`}<button class="quiet">Show</button></form>`

const sums = (statements: readonly Statement[]): Html =>
  statements.length
    ? html`<div class="tiles">${statements.map(sum)}</div>`
    : html`<div class="empty"><p>There was no balance, and nothing changed one.</p></div>`

const sum = (statement: Statement): Html =>
  html`<section class="sums" id="${statement.chain}-${statement.token}"><h3>${statement.token} on ${statement.chain}</h3>${facts(
    [
      ['At the beginning', digits(statement.opening_balance)],
      ['Deposits', digits(statement.deposits)],
      statement.deposits_lost !== '0' && ['Deposits lost in reorganisations', digits(statement.deposits_lost)],
      ['Payouts', digits(statement.payouts)],
      ['Fees', digits(statement.fees)],
      statement.adjustments !== '0' && ['Adjustments', digits(statement.adjustments)],
      ['At the end, before fees', html`<strong>${digits(statement.closing_balance)}</strong>`],
      ['Held back of it', statement.held_back === null ? 'not known' : digits(statement.held_back)],
      statement.payouts_under_way !== '0' && ['Payouts on their way then', digits(statement.payouts_under_way)],
    ],
  )}</section>`

const digits = (amount: string): Html => html`<span class="digits">${amount}</span>`

const words: Record<StatementLine['type'], string> = {
  deposit: 'Deposit',
  deposit_lost: 'Deposit lost in a reorganisation',
  payout: 'Payout',
  fee: 'Fee',
  adjustment: 'Adjustment',
}

/** What came back of a payout that failed, or was cancelled, is above zero. */
function wordsOf({type, amount}: StatementLine): string {
  const isBack = (type === 'payout' || type === 'fee') && !amount.startsWith('-')
  return `${words[type]}${isBack ? ' returned' : ''}`
}

const lineTable = (lines: readonly StatementLine[]): Html =>
  table({
    caption: 'What changed the balances, the newest first',
    columns: ['Amount', 'What', 'Chain', 'Of', 'Transaction', timesOf('Posted')],
    rows: lines.map(line => ({
      cells: [
        html`<span class="amount">${line.amount} ${line.token}</span>`,
        wordsOf(line),
        line.chain,
        about(line),
        line.txid && short(line.txid),
        time(line.created_at),
      ],
    })),
    empty: html`<p>Nothing.</p>`,
  })

function about({deposit_id, external_ref, external_id, payout_id}: StatementLine) {
  if (payout_id !== null) return link(`/payouts/${payout_id}`, 'payout')
  if (external_id !== null) return html`<a class="clip" href="${paymentRequestPath(external_id)}">${external_id}</a>`
  return deposit_id === null
    ? null
    : html`<a class="clip" href="/deposits/${deposit_id}">${external_ref || 'deposit'}</a>`
}
