// The first page: what there is, what moves, and what to do next.

import {type Html, html, type Part} from '../../../base/html.ts'
import {apiDocs, button, card, command, facts, link, live, table, when} from '../../components.ts'
import type {Chains} from '../chains.ts'
import type {Balance, Endpoint, Me, Overview, Today} from '../data.ts'
import {counted, urlOf, type View} from '../view.ts'
import {depositTable} from './deposits.ts'
import {bigAmount, isHeldBack, newPayoutPath, payoutTable, reason} from './payouts.ts'
import {aboutPaymentRequests} from './search.ts'
import {createUserLine} from './users.ts'
import {disabledAlert, emptyWebhooks, failingAlert, health, lastDay} from './webhooks.ts'

interface Shown {
  overview: Overview
  /** Absent while the totals of an older database are being made. */
  today: Today | undefined
  chains: Chains
  me: Me
  apiUrl: string
}

export const overviewPage = (shown: Shown): View => ({
  title: 'Overview',
  section: '/',
  isLive: true,
  body: live('overview', '/overview/part', overviewPart(shown)),
})

export const overviewPart = (shown: Shown): Html => {
  const {balances, deposits, payouts, endpoints} = shown.overview
  const [newest] = deposits
  return html`<p role="status" class="unseen">${newest && `Newest deposit: ${newest.amount} ${newest.token}, ${newest.status}`}</p>
${shown.me.suspended && html`<p class="alert">The operator has suspended this account. Ask the operator why.</p>`}${needsAHand(shown.overview)}${nextSteps(shown)}
<section aria-labelledby="balances"><h2 id="balances" class="section">Balances</h2>${
    balances.length
      ? html`<div class="tiles">${balances.map(balance => tile(balance, shown.chains))}</div>`
      : html`<div class="card empty"><p>Nothing to pay out yet. A balance is made of deposits that are final.</p></div>`
  }</section>
${todaySoFar(shown)}${card({
  title: 'Deposits',
  action: deposits.length > 0 && link('/deposits', 'All deposits'),
  body: depositTable(
    deposits,
    shown.chains,
    html`<p>None yet. They appear here by themselves as soon as somebody pays one of your users’ addresses.</p>`,
  ),
})}${shown.overview.has_payment_requests && aboutPaymentRequests}<div class="columns">${card({
    title: 'Payouts under way',
    action: link('/payouts', 'All payouts'),
    body: payoutTable(payouts, html`<p>None at the moment.</p>`),
  })}${card({
    title: 'Webhook endpoints',
    action: endpoints.length > 0 && link('/webhooks', 'All endpoints'),
    body: endpointHealth(endpoints),
  })}</div>`
}

type Moved = Today['series'][number]

/** Today so far against last week up to the same time of day; nothing if there is nothing. */
function todaySoFar({today, chains}: Shown): Html | undefined {
  if (!today?.series.length) return undefined
  const of = (wanted: string) => today.series.filter(({series}) => series === wanted)
  const compared = (now: Part, past: Part): Html =>
    html`<strong class="digits">${now}</strong> <span class="soft small">(<span class="digits">${past}</span>)</span>`
  const money = (what: string) => (moved: Moved) => {
    const [chain, token] = moved.about.split(':') as [string, string]
    return [`${token} on ${chains(chain).name}, ${what}`, compared(moved.amount, moved.past_amount)] as const
  }
  return card({
    title: 'Today so far',
    action: link('/charts', 'Charts'),
    body: html`<p class="soft small">In brackets: the same day last week, until ${when(today.compared_with)}.</p>${facts(
      [
        ...of('deposit').map(money('received')),
        ...of('paid').map(money('paid out')),
        ...of('requests').map(
          ({about, count, past_count}) => [`Payment requests ${about}`, compared(count, past_count)] as const,
        ),
      ],
    )}`,
  })
}

/** What only the merchant can make good; nothing if there is none. */
function needsAHand({endpoints, waiting, underpaid_count: count, underpaid_since: since}: Overview): Html | undefined {
  const all = [
    ...endpoints.map(disabledAlert),
    ...endpoints.map(failingAlert),
    ...waiting.map(
      payout =>
        html`<p class="notice wait">A ${link(`/payouts/${payout.id}`, `payout of ${payout.net} ${payout.token} on ${payout.chain}`)} waits. ${reason(payout)}</p>`,
    ),
    count > 0 &&
      html`<p class="notice wait">${count < 100 ? counted(count, 'payment request') : '100 or more payment requests'} of the last two weeks ended with too little. ${link(urlOf('/payment-requests', {status: 'underpaid', from: since}), 'See which')}</p>`,
  ].filter(Boolean)
  return all.length ? card({title: 'Needs a hand', body: html`${all}`}) : undefined
}

const tile = (balance: Balance, chains: Chains) =>
  html`<article class="card tile" id="balance-${balance.chain}-${balance.token}"><h3>${balance.token}<span class="soft"> on ${chains(balance.chain).name}</span></h3>
<p class="${bigAmount(balance.net)}">${balance.net}</p><p class="soft small digits">${balance.gross} gross − ${isHeldBack(balance) && html`${balance.held_back} held back − `}${balance.fee} fee, of ${counted(balance.depositCount, 'deposit')}</p>
${
  balance.refusal === null
    ? html`<p>${button(newPayoutPath(balance), html`Pay out<span class="unseen"> ${balance.net} ${balance.token} on ${balance.chain}</span>`)}</p>`
    : html`<p class="small">${balance.refusal}${!balance.has_address && html`. ${link('/payout-addresses', 'Payout addresses')}`}</p>`
}</article>`

const endpointHealth = (endpoints: Endpoint[]) =>
  table({
    caption: 'Health of the webhook endpoints',
    columns: ['URL', {name: 'Health', kind: 'state'}, 'Last 24 hours'],
    rows: endpoints.map(endpoint => ({
      id: endpoint.id,
      cells: [
        html`<a class="clip" href="/webhooks/${endpoint.id}">${endpoint.url}</a>`,
        health(endpoint),
        lastDay(endpoint),
      ],
    })),
    empty: emptyWebhooks,
  })

interface SetUpStep {
  isDone: boolean
  title: string
  text: Html
  to?: [path: string, name: string] | undefined
}

/** What a new merchant still has to do, in order; nothing once all is done. */
function nextSteps({overview, apiUrl}: Shown): Html | undefined {
  const {has_keys, has_users, has_addresses, has_whitelisted, endpoints} = overview
  const steps: SetUpStep[] = [
    {
      isDone: has_keys,
      title: 'Create an API key',
      text: html`<p>Your server sends it with each request (${apiDocs('API reference')}).</p>`,
      to: ['/api-keys/new', 'Create a key'],
    },
    {
      isDone: has_users,
      title: 'Make a user',
      text: html`<p>A user is one of your customers, and gets an address of its own on each chain.</p>${command(createUserLine(apiUrl))}`,
    },
    {
      isDone: endpoints.length > 0,
      title: 'Add a webhook endpoint',
      text: html`<p>Your server learns of deposits and payouts at once.</p>`,
      to: ['/webhooks/new', 'Add an endpoint'],
    },
    {
      isDone: has_addresses,
      title: 'Register a payout address',
      text: html`<p>That is where your money goes.</p>`,
      to: ['/payout-addresses', 'Register an address'],
    },
    {
      isDone: has_whitelisted,
      title: 'Have it put on the whitelist',
      text: html`<p>Nothing is paid before the operator has confirmed a payout address: the page of payout addresses has the command to send to the operator.</p>`,
      to: has_addresses ? ['/payout-addresses', 'See the command'] : undefined,
    },
  ]
  const first = steps.findIndex(({isDone}) => !isDone)
  if (first < 0) return undefined
  return card({
    id: 'next',
    title: 'Set up',
    body: html`<ol class="set-up">${steps.map(
      ({isDone, title, text, to}, index) =>
        html`<li class="${isDone ? 'done' : index === first ? 'now' : 'later'}"><div><strong>${title}</strong> <span class="soft small">${isDone ? 'done' : ''}</span></div>${!isDone && html`${text}${to && html`<p>${button(...to, index === first ? '' : 'quiet')}</p>`}`}</li>`,
    )}</ol>`,
  })
}
