// What a search found.
import {card, table} from '../../components.ts'
import {html} from '../../html.ts'
import type {Found} from '../data.ts'
import type {View} from '../view.ts'

const kinds: Record<Found['kind'], [name: string, path: (found: Found) => string]> = {
  user: ['User', ({id}) => `/users/${id}`],
  deposit: ['Deposit', ({id}) => `/deposits/${id}`],
  payout: ['Payout', ({id}) => `/payouts/${id}`],
  endpoint: ['Webhook endpoint', ({id}) => `/webhooks/${id}`],
  delivery: ['Delivery', ({id, endpoint_id}) => `/webhooks/${endpoint_id}/deliveries/${id}`],
  api_key: ['API key', ({id}) => `/api-keys#${id}`],
}

export const pathOf = (found: Found): string => kinds[found.kind][1](found)

export const searchPage = (text: string, found: Found[]): View => ({
  title: 'Search',
  section: '/search',
  body: html`<form class="row search-row" role="search" aria-label="Everything" method="get"><label class="field"><span>A transaction id, an address, your reference of a user, or an id</span><input type="search" name="q" value="${text}" required maxlength="255" autocomplete="off"${!text && html` autofocus`}></label><button>Search</button></form>
${
  text &&
  card({
    body: table({
      caption: 'What was found',
      columns: ['What', 'Kind', 'Id'],
      rows: found.map(each => ({
        cells: [
          html`<a class="clip" href="${pathOf(each)}">${each.label}</a>`,
          kinds[each.kind][0],
          html`<code>${each.id}</code>`,
        ],
      })),
      empty: html`<p><strong>Nothing was found.</strong></p><p>The search finds whole ids and references, not parts of them.</p>`,
    }),
  })
}`,
})
