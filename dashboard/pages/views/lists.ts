// What lists share: filters, which are links and forms and so need no JavaScript, pages, and files of what is shown.
import {type Html, html} from '../../../base/html.ts'
import {alert, live} from '../../components.ts'
import {zone} from '../../zone.ts'
import type {Chains} from '../chains.ts'
import {auditedThings, type FilterName} from '../filters.ts'
import {type Fields, one, urlOf} from '../view.ts'

interface Filter {
  /** The parameter of the query. */
  name: string
  label: string
  values: readonly string[]
}

/** Several statuses have commas between. */
const isSet = (now: Fields[string], value: string | undefined) =>
  value === undefined ? now === undefined : one(now)?.split(',').includes(value)

export const filters = (path: string, query: Fields, all: readonly Filter[]): Html =>
  html`<div class="filters">${all.map(
    ({name, label, values}) =>
      html`<nav class="filter" aria-label="${label}"><span aria-hidden="true">${label}</span>${[
        undefined,
        ...values,
      ].map(
        value =>
          html`<a href="${urlOf(path, {...query, ...(name === 'chain' && {currency: undefined}), before: undefined, [name]: value})}"${isSet(query[name], value) && html` aria-current="true"`}>${value ?? 'all'}</a>`,
      )}</nav>`,
  )}</div>`

/** Where a token is a choice: it is named with its chain. */
export const currenciesOf = (codes: readonly string[], chains: Chains): (readonly [value: string, label: string])[] =>
  codes.flatMap(code => chains(code).tokens.map(token => [`${code}:${token}`, `${token} on ${code}`] as const))

interface MoreFilters {
  path: string
  query: Fields
  names: readonly FilterName[]
  /** What cannot be used of the query. */
  problems: readonly string[]
  currencies?: ReturnType<typeof currenciesOf>
  /** What a day is of, such as Seen. */
  what: string
  /** Also where none is set. */
  isOpen?: boolean
}

/** Filters that are typed; open where one is set. */
export function moreFilters({path, query, names, problems, currencies = [], what, isOpen}: MoreFilters): Html {
  const typed = names.filter(name => name !== 'chain')
  const kept = Object.entries(query).filter(([name]) => name !== 'before' && !typed.some(other => other === name))
  const ofChain = currencies.filter(([pair]) => query.chain === undefined || pair.startsWith(`${one(query.chain)}:`))
  const isSome = typed.some(name => query[name] !== undefined)
  return html`${problems.map(alert)}<details class="more"${(isOpen || isSome) && html` open`}><summary>More filters</summary><p class="soft small">Days are those of ${zone()}.</p><form class="row" method="get" action="${path}">${kept.map(
    ([name, value]) => value !== undefined && html`<input type="hidden" name="${name}" value="${one(value)}">`,
  )}${typed.map(name => filterField(name, one(query[name]) ?? '', {currencies: ofChain, what}))}<button class="quiet">Filter</button>${
    isSome && html`<a class="button quiet" href="${path}">Show all</a>`
  }</form></details>`
}

const labels: Record<Exclude<FilterName, 'chain'>, string> = {
  from: 'from',
  to: 'to',
  paid_from: 'Paid from',
  paid_to: 'Paid to',
  currency: 'Currency',
  amount_from: 'Amount from',
  amount_to: 'Amount to',
  sender: 'Sender',
  address: 'Address paid to',
  user: 'User (id or reference)',
  beginning: 'Reference begins with',
  action: 'About',
  person: 'Person (e-mail address)',
}

type Choices = Required<Pick<MoreFilters, 'currencies' | 'what'>>

function filterField(name: Exclude<FilterName, 'chain'>, value: string, {currencies, what}: Choices): Html {
  const choices = name === 'action' ? auditedThings.map(each => [each, each.replaceAll('_', ' ')] as const) : currencies
  if (name === 'currency' || name === 'action')
    return html`<label class="field"><span>${labels[name]}</span><select name="${name}"><option value="">any</option>${choices.map(
      ([each, label]) => html`<option value="${each}"${each === value && html` selected`}>${label}</option>`,
    )}</select></label>`
  const isDay = /^(paid_)?(from|to)$/.test(name)
  const label = name === 'from' || name === 'to' ? `${what} ${labels[name]}` : labels[name]
  return html`<label class="field"><span>${label}</span><input name="${name}" type="${isDay ? 'date' : 'text'}" value="${value}" maxlength="255" autocomplete="off"></label>`
}

/** Files of all that the filters show, not of this page alone. */
export const downloads = (path: string, {before: _, ...query}: Fields): Html => {
  const to = (format: string) => urlOf(`${path}/download`, {...query, format})
  return html`<p class="downloads small">Download all of it, with times in UTC: <a href="${to('csv')}">CSV</a> <a href="${to('spreadsheet')}">for a spreadsheet</a> <a href="${to('parquet')}">Parquet</a></p>`
}

/** A list whose first page is loaded again when there is news: it begins with the newest. */
export const liveWhereNewest = (id: string, path: string, query: Fields, list: Html): Html =>
  query.before === undefined ? live(id, urlOf(`${path}/part`, query), list) : list

/** Links to the page after, and to the first one. */
export function pager(path: string, query: Fields, next: string | null): Html | undefined {
  const newest =
    query.before !== undefined &&
    html`<a class="button quiet" href="${urlOf(path, {...query, before: undefined})}">Newest</a>`
  const older =
    next !== null && html`<a class="button quiet" rel="next" href="${urlOf(path, {...query, before: next})}">Older</a>`
  return newest || older ? html`<nav class="pager" aria-label="Pages of the list">${newest}${older}</nav>` : undefined
}
