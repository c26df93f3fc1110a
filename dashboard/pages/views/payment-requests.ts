// Payment requests: the list, one with its time line and what its customer needs, a new one, and how much of a new one
// may be missing.

import {type Html, html} from '../../../base/html.ts'
import {percent} from '../../../base/percent.ts'
import {qrMarkup} from '../../../base/qr.ts'
import {paymentStatus} from '../../../reading/fields.ts'
import type {PaymentRequestItem} from '../../../reading/payment-requests.ts'
import {
  alert,
  button,
  card,
  copyable,
  decide,
  facts,
  field,
  formId,
  link,
  live,
  notice,
  type Step,
  select,
  status,
  type Tone,
  table,
  time,
  timeLine,
  timesOf,
  when,
} from '../../components.ts'
import type {ShownChain} from '../chains.ts'
import type {Currency, PaymentRequestDetail} from '../data.ts'
import type {FilterName, Listed} from '../filters.ts'
import {counted, type Fields, one, sentence, type View} from '../view.ts'
import {deliverySteps} from './deliveries.ts'
import {type currenciesOf, downloads, filters, liveWhereNewest, moreFilters, pager} from './lists.ts'
import {paymentRequestPath} from './paths.ts'
import {transaction} from './transaction.ts'

export const paymentRequestStatuses = paymentStatus.options
type State = PaymentRequestItem['status']

const tones: Record<State, Tone> = {
  awaiting: 'soft',
  detected: 'wait',
  paid: 'good',
  underpaid: 'bad',
  expired: 'soft',
  cancelled: 'soft',
}

/** `late`: paid, but not in time. */
const stateOf = ({status: state, late}: Pick<PaymentRequestItem, 'status' | 'late'>) =>
  html`${status(state, tones[state])}${late && html` <span class="soft small">late</span>`}`

interface List extends Listed<PaymentRequestItem> {
  names: readonly FilterName[]
  currencies: ReturnType<typeof currenciesOf>
}

/** The part of the list that is live. */
export const paymentRequestList = ({query, page}: Pick<List, 'query' | 'page'>): Html =>
  html`${table({
    caption: 'Payment requests, the newest first',
    columns: [
      'Reference',
      {name: 'Status', kind: 'state'},
      'Asked for',
      'Received',
      timesOf('Made'),
      timesOf('Expires'),
    ],
    rows: page.items.map(request => ({
      id: request.external_id,
      cells: [
        html`<a class="clip" href="${paymentRequestPath(request.external_id)}">${request.external_id}</a>`,
        stateOf(request),
        html`<span class="amount">${request.amount} ${request.currency}</span>`,
        received(request),
        time(request.created_at),
        time(request.expires_at),
      ],
    })),
    empty: Object.values(query).some(Boolean)
      ? html`<p>No payment request matches these filters.</p>`
      : html`<p><strong>No payment requests yet.</strong></p><p>A payment request asks a customer for one exact amount, on a page with a QR code. ${link('/payment-requests/new', 'Make one here')}, or with your program: <code>POST /v1/ETH-USDC/payment-request</code>.</p>`,
  })}${pager('/payment-requests', query, page.next)}`

/** Null if nothing came. */
function received({amount_received: final, amount_pending: pending}: PaymentRequestItem): Html | null {
  if (final === '0' && pending === '0') return null
  return html`<span class="digits">${final}</span>${pending !== '0' && html` <span class="soft small">and ${pending} seen</span>`}`
}

interface Tolerance {
  bps: number
  /** It was changed just now. */
  isSaved: boolean
}

export const paymentRequestsPage = (list: List, {bps, isSaved}: Tolerance, codes: readonly string[]): View => ({
  title: 'Payment requests',
  section: '/payment-requests',
  isLive: list.query.before === undefined,
  actions: button('/payment-requests/new', 'New payment request'),
  body: html`${isSaved && notice(`New payment requests are made with a tolerance of ${percent(bps)}.`)}${filters(
    '/payment-requests',
    list.query,
    [
      {name: 'status', label: 'Status', values: paymentRequestStatuses},
      {name: 'chain', label: 'Chain', values: codes},
    ],
  )}${moreFilters({...list, what: 'Made', path: '/payment-requests'})}${card({
    body: html`${liveWhereNewest('payment-requests', '/payment-requests', list.query, paymentRequestList(list))}${downloads('/payment-requests', list.query)}`,
  })}${card({
    title: 'Tolerance',
    body: html`<p>Of a new payment request, <strong>${percent(bps)}</strong> of the amount may be missing: exchanges take their fee out of what they send. Your program can say otherwise for each one, by <code>tolerance</code>; those that exist keep theirs.</p>`,
    action: button('/payment-requests/tolerance', 'Change the tolerance', 'quiet'),
  })}`,
})

interface One {
  found: PaymentRequestDetail
  chain: ShownChain
  /** What the customer sees. */
  pageUrl: string
  /** What its QR code holds; null if nothing is due. */
  code: string | null
}

export const paymentRequestPage = (shown: One): View => ({
  title: `Request for ${shown.found.amount} ${shown.found.currency}`,
  section: '/payment-requests',
  parent: ['/payment-requests', 'Payment requests'],
  isLive: true,
  body: live('payment-request', `${paymentRequestPath(shown.found.external_id)}/part`, paymentRequestPart(shown)),
})

export const paymentRequestPart = (shown: One): Html =>
  html`<div class="columns"><div>${whatHappened(shown)}${details(shown)}</div>${forTheCustomer(shown)}</div>`

const whatHappened = ({found, chain}: One): Html =>
  card({
    title: 'What happened',
    action: html`<span role="status">${stateOf(found)}</span>`,
    body: html`<p class="cause">${sentence(found.explanation)}</p>${timeLine(steps(found, chain))}${
      found.status === 'awaiting' &&
      html`<p>${button(`${paymentRequestPath(found.external_id)}/cancel`, 'Cancel the request', 'quiet')}</p>`
    }`,
  })

const details = ({found}: One): Html =>
  card({
    title: 'Details',
    body: facts([
      ['Reference', copyable(found.external_id, 'reference')],
      ['Asked for', `${found.amount} ${found.currency}`],
      ['Received', `${found.amount_received} ${found.currency}`],
      found.amount_pending !== '0' && ['Seen, not final', `${found.amount_pending} ${found.currency}`],
      found.shortfall !== '0' && ['Missing', `${found.shortfall} ${found.currency}`],
      ['Tolerance', found.tolerance === '0' ? 'none' : `${found.tolerance} ${found.currency}`],
      ['Expires', when(found.expires_at)],
      found.return_url !== null && ['Its page leads back to', html`<span class="clip">${found.return_url}</span>`],
      ...Object.entries(found.metadata).map(([name, text]) => [name, text] as const),
    ]),
  })

const forTheCustomer = ({found, chain, pageUrl, code}: One): Html =>
  card({
    title: 'For the customer',
    body: html`${code !== null && html`<div class="qr payment" role="img" aria-label="QR code of the payment">${qrMarkup(code)}</div>`}${facts(
      [
        [
          'Page',
          html`${copyable(pageUrl, 'link of the page')}<div><a href="${pageUrl}" target="_blank" rel="noreferrer">Open the page<span class="unseen"> (opens a new tab)</span></a></div>`,
        ],
        ['Network', chain.name],
        ['Address', copyable(found.address, 'address')],
        found.due !== '0' && ['Due', `${found.amount_missing} ${found.currency}`],
      ],
    )}`,
  })

/** What happened comes first, by its time. */
function steps(request: PaymentRequestDetail, chain: ShownChain): Step[] {
  const {token, receipts, created_at, paid_at, cancelled_at, expires_at, events, not_counted} = request
  const hasEnded = Date.parse(expires_at) <= Date.now() && cancelled_at === null
  const past: Step[] = [
    {at: created_at, title: 'Made', tone: 'good'},
    ...receipts.map(
      ({txid, sender, amount, status: state, confirmations, late, created_at: at, settlement_id}): Step => ({
        at,
        title: `${amount} ${token} came${late ? ', late' : ''}`,
        text: html`${state === 'final' ? 'Final.' : `${counted(confirmations, 'confirmation')}${chain.needed ? ` of ${chain.needed}` : ''}.`} ${transaction(txid, chain)}<br>From ${copyable(sender, 'sender')}${
          settlement_id !== null && html`<br>Collected by a ${link(`/payouts/${settlement_id}`, 'payout')}.`
        }`,
        tone: state === 'final' ? 'good' : 'wait',
      }),
    ),
    ...not_counted.map(
      ({txid, what, why, at}): Step => ({
        at,
        title: `${what} came, and does not count`,
        text: html`${sentence(why)} ${transaction(txid, chain)}`,
        tone: 'bad',
      }),
    ),
    ...(paid_at ? [{at: paid_at, title: 'Paid', tone: 'good'} as const] : []),
    ...(cancelled_at ? [{at: cancelled_at, title: 'Cancelled', tone: 'soft'} as const] : []),
    ...(hasEnded && !(paid_at && paid_at < expires_at)
      ? [{at: expires_at, title: 'Expired', tone: 'soft'} as const]
      : []),
    ...events.flatMap(deliverySteps),
  ]
  return past.sort((a, b) => a.at!.localeCompare(b.at!))
}

interface NewRequest {
  currencies: readonly Currency[]
  /** How much may be missing, if nothing is said. */
  bps: number
  /** Until it expires, if nothing is said. */
  hours: string
  /** Of the account. */
  prefix: string
  typed: Fields
  error?: string
}

export const newPaymentRequestPage = ({currencies, bps, hours, prefix, typed, error}: NewRequest): View => ({
  title: 'New payment request',
  section: '/payment-requests',
  parent: ['/payment-requests', 'Payment requests'],
  body: html`<section class="card narrow">${alert(error)}<form method="post" action="/payment-requests">${formId()}${select(
    {
      label: 'Currency',
      name: 'currency',
      value: one(typed.currency) ?? 'ETH-USDC',
      options: currencies.map(({name, display_name}) => [name, `${name} (${display_name})`] as const),
    },
  )}${field({
    label: 'Amount',
    name: 'amount',
    value: one(typed.amount),
    maxlength: 100,
    autocomplete: 'off',
    isFirst: true,
    help: 'In the coin, such as 25.5. Take the rate elsewhere, if you think in another currency.',
  })}${field({
    label: 'Reference',
    name: 'reference',
    value: one(typed.reference),
    maxlength: 255,
    autocomplete: 'off',
    help: html`Your own, such as the number of an invoice; each is used once. It is stored as <code>${prefix}-…</code>.`,
  })}${field({
    label: 'Expires after, in hours',
    name: 'hours',
    value: one(typed.hours) ?? hours,
    maxlength: 10,
    autocomplete: 'off',
    help: 'From 0.1 to 168 (a week). What is paid later still counts, and is marked.',
  })}${field({
    label: 'May be missing, in percent',
    name: 'tolerance',
    value: one(typed.tolerance),
    maxlength: 10,
    isOptional: true,
    autocomplete: 'off',
    help: `From 0 to 50; ${percent(bps)} if you leave it empty.`,
  })}${decide('Make the payment request', '/payment-requests')}</form></section>`,
})

export const tolerancePage = (bps: number, typed: Fields, error?: string): View => ({
  title: 'Tolerance of payment requests',
  section: '/payment-requests',
  parent: ['/payment-requests', 'Payment requests'],
  body: html`<section class="card narrow">${alert(error)}<p>It is part of each payment request that is made later. Those that exist keep theirs.</p>
<form method="post" action="/payment-requests/tolerance">${formId()}${field({
    label: 'Tolerance in percent',
    name: 'tolerance',
    value: one(typed.tolerance) ?? percent(bps),
    maxlength: 10,
    autocomplete: 'off',
    isFirst: true,
    help: 'From 0 to 50, with at most two decimals, such as 0.5.',
  })}${decide('Save the tolerance', '/payment-requests')}</form></section>`,
})
