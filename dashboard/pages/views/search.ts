// What a search found.

import {type Html, html} from '../../../base/html.ts'
import {card, link, table, time, timesOf} from '../../components.ts'
import type {Found} from '../data.ts'
import type {View} from '../view.ts'
import {pathOf} from './paths.ts'

const kinds: Record<Found['kind'], string> = {
  user: 'User',
  deposit: 'Deposit',
  not_credited: 'Payment that is not credited',
  payout: 'Payout',
  payout_address: 'Payout address',
  payment_request: 'Payment request',
  endpoint: 'Webhook endpoint',
  delivery: 'Delivery',
  api_key: 'API key',
}

/** Payments that the lists of deposits leave out. */
export const aboutPaymentRequests = html`<p class="soft small">What is paid for ${link('/payment-requests', 'payment requests')} is in the balance, and is not listed among the deposits.</p>`

const nothing = html`<p><strong>Nothing was found.</strong></p><p>The search finds transaction ids and their beginnings, addresses (also of senders), references, amounts (12.5, or 12.5 USDC) and ids, also in a link or a message that has one.</p><p>Are you looking for a payment? It may be in no block yet, or on another network, or at an address that is not one of yours; the transaction id may be mistyped; or its payer never sent it. A block explorer of the network says which.</p>`

/** Of a sender or an amount, no more are read. */
const mostOfKind = 10

const nameOf = (found: Found): Html => html`<a class="clip" href="${pathOf(found)}">${found.label}</a>`

interface Search {
  text: string
  found: Found[]
  hasPaymentRequests: boolean
}

export const searchPage = ({text, found, hasPaymentRequests}: Search): View => ({
  title: 'Search',
  section: '/search',
  body: html`<form class="row search-row" role="search" aria-label="Everything" method="get"><label class="field"><span>A transaction id, an address (also of whoever paid, or where a payout went), a reference, an amount, or an id</span><input type="search" name="q" value="${text}" required autocomplete="off"${!text && html` autofocus`}></label><button>Search</button></form>
${
  text &&
  card({
    body: html`${table({
      caption: 'What was found, the newest first',
      columns: ['What', 'Kind', 'Id', timesOf('When')],
      rows: found.map(each => ({
        cells: [nameOf(each), kinds[each.kind], html`<code>${each.id}</code>`, each.at && time(each.at)],
      })),
      empty: nothing,
    })}${
      found.length >= mostOfKind &&
      html`<p>These are the newest. The lists have more filters: ${link('/deposits', 'deposits')}, ${link('/payment-requests', 'payment requests')} and ${link('/payouts', 'payouts')}, by sender, address, amount and time.</p>`
    }`,
  })
}${text && hasPaymentRequests && aboutPaymentRequests}`,
})
