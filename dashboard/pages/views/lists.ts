// What lists share: filters, which are links and so need no JavaScript, and pages.
import {type Html, html} from '../../../base/html.ts'
import {live} from '../../components.ts'
import {type Fields, urlOf} from '../view.ts'

interface Filter {
  /** The parameter of the query. */
  name: string
  label: string
  values: readonly string[]
}

export const filters = (path: string, query: Fields, all: readonly Filter[]): Html =>
  html`<div class="filters">${all.map(
    ({name, label, values}) =>
      html`<nav class="filter" aria-label="${label}"><span aria-hidden="true">${label}</span>${[
        undefined,
        ...values,
      ].map(
        value =>
          html`<a href="${urlOf(path, {...query, before: undefined, [name]: value})}"${query[name] === value && html` aria-current="true"`}>${value ?? 'all'}</a>`,
      )}</nav>`,
  )}</div>`

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
