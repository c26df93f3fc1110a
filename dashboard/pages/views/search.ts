// What a search found.

import {type Html, html} from '../../../base/html.ts'
import {card, link, table} from '../../components.ts'
import type {Found} from '../data.ts'
import type {View} from '../view.ts'
import {paymentRequestPath} from './payment-requests.ts'

const kinds: Record<Found['kind'], [name: string, path: (found: Found) => string]> = {
  user: ['User', ({id}) => `/users/${id}`],
  deposit: ['Deposit', ({id}) => `/deposits/${id}`],
  payout: ['Payout', ({id}) => `/payouts/${id}`],
  payout_address: ['Payout address', ({id}) => `/payout-addresses#${id}`],
  payment_request: ['Payment request', ({id}) => paymentRequestPath(id)],
  endpoint: ['Webhook endpoint', ({id}) => `/webhooks/${id}`],
  delivery: ['Delivery', ({id, endpoint_id}) => `/webhooks/${endpoint_id}/deliveries/${id}`],
  api_key: ['API key', ({id}) => `/api-keys#${id}`],
}

export const pathOf = (found: Found): string => kinds[found.kind][1](found)

/** Payments that the lists of deposits leave out. */
export const aboutPaymentRequests = html`<p class="soft small">What is paid for ${link('/payment-requests', 'payment requests')} is in the balance, and is not listed among the deposits.</p>`

const nothing = html`<p><strong>Nothing was found.</strong></p><p>The search finds whole ids, addresses, references and amounts (12.5, or 12.5 USDC), not parts of them.</p><p>Are you looking for a payment? One in a token that is not accepted here is known to the operator alone: ask the operator, with its txid.</p>`

const nameOf = (found: Found): Html => html`<a class="clip" href="${pathOf(found)}">${found.label}</a>`

interface Search {
  text: string
  found: Found[]
  hasPaymentRequests: boolean
}

export const searchPage = ({text, found, hasPaymentRequests}: Search): View => ({
  title: 'Search',
  section: '/search',
  body: html`<form class="row search-row" role="search" aria-label="Everything" method="get"><label class="field"><span>A transaction id, an address (also of whoever paid, or where a payout went), a reference, an amount, or an id</span><input type="search" name="q" value="${text}" required maxlength="255" autocomplete="off"${!text && html` autofocus`}></label><button>Search</button></form>
${
  text &&
  card({
    body: table({
      caption: 'What was found',
      columns: ['What', 'Kind', 'Id'],
      rows: found.map(each => ({
        cells: [nameOf(each), kinds[each.kind][0], html`<code>${each.id}</code>`],
      })),
      empty: nothing,
    }),
  })
}${text && hasPaymentRequests && aboutPaymentRequests}`,
})
