// Payouts: the list, one with its steps, and the page that asks before a balance is paid out.

import {type Html, html, type Part} from '../../../base/html.ts'
import type {PayoutAddressState} from '../../../reading/balances.ts'
import {
  alert,
  card,
  copyable,
  decide,
  facts,
  formId,
  link,
  live,
  type Step,
  status,
  type Tone,
  table,
  time,
  timeLine,
  timesOf,
  when,
} from '../../components.ts'
import {local, zone} from '../../zone.ts'
import type {ShownChain} from '../chains.ts'
import type {Balance, Me, Payout, PayoutDetail} from '../data.ts'
import type {FilterName, Listed} from '../filters.ts'
import {counted, type Fields, sentence, urlOf, type View} from '../view.ts'
import {deliverySteps} from './deliveries.ts'
import {type currenciesOf, downloads, filters, liveWhereNewest, moreFilters, pager} from './lists.ts'
import {whitelistState, whitelistText} from './payout-addresses.ts'
import {transaction} from './transaction.ts'

export const payoutStatuses = ['pending', 'sweeping', 'swept', 'paying', 'completed', 'failed'] as const

const tones: Record<Payout['status'], Tone> = {
  pending: 'wait',
  sweeping: 'wait',
  swept: 'wait',
  paying: 'wait',
  completed: 'good',
  failed: 'bad',
}
export const payoutStatus = (state: Payout['status']) => status(state, tones[state])

/** The merchant, or the operator, took it back: nothing went wrong. */
const isCancelled = ({error}: Payout) => error?.code === 'cancelled'
const payoutState = (payout: Payout) =>
  isCancelled(payout) ? status('cancelled', 'soft') : payoutStatus(payout.status)

export const newPayoutPath = ({chain, token}: {chain: string; token: string}): string =>
  urlOf('/payouts/new', {chain, token})

/** Why it waits, or why it failed. */
export const reason = (payout: Payout): string | null =>
  payout.waiting ? whatFor(payout) : payout.error && sentence(payout.error.message)

/** What it waits for, in a sentence. Whoever is on the whitelist already waits for a time, not for the operator. */
function whatFor({waiting, whitelisted_at: at}: Payout): string {
  if (at === null) return sentence(waiting!.message)
  if (Date.parse(at) <= Date.now()) return 'The payout address is on the whitelist now: it is tried again shortly.'
  return `The payout address is on the whitelist from ${local(at)} ${zone()} on.`
}

export const payoutTable = (payouts: Payout[], empty: Part): Html =>
  table({
    caption: 'Payouts, the newest first',
    columns: ['Net', {name: 'Status', kind: 'state'}, 'Chain', 'Gross and fee', 'Why', timesOf('Requested')],
    rows: payouts.map(payout => ({
      id: payout.id,
      cells: [
        html`<a class="amount" href="/payouts/${payout.id}">${payout.net} ${payout.token}</a>`,
        payoutState(payout),
        payout.chain,
        html`<span class="digits">${payout.gross}</span> <span class="digits">−&nbsp;${payout.fee}</span>`,
        reason(payout),
        time(payout.created_at),
      ],
    })),
    empty,
  })

interface List extends Listed<Payout> {
  names: readonly FilterName[]
  currencies: ReturnType<typeof currenciesOf>
}

export const payoutList = ({query, page}: Pick<List, 'query' | 'page'>): Html =>
  html`${payoutTable(
    page.items,
    Object.values(query).some(Boolean)
      ? html`<p>No payout matches these filters.</p>`
      : html`<p><strong>No payouts yet.</strong></p><p>Once deposits are final, pay a balance out from the ${link('/', 'overview')}.</p>`,
  )}${pager('/payouts', query, page.next)}`

export const payoutsPage = (list: List, codes: readonly string[]): View => ({
  title: 'Payouts',
  section: '/payouts',
  isLive: list.query.before === undefined,
  body: html`${filters('/payouts', list.query, [
    {name: 'status', label: 'Status', values: payoutStatuses},
    {name: 'chain', label: 'Chain', values: codes},
  ])}${moreFilters({...list, what: 'Requested', path: '/payouts'})}${card({
    body: html`${liveWhereNewest('payouts', '/payouts', list.query, payoutList(list))}${downloads('/payouts', list.query)}`,
  })}`,
})

/** `parts`: what it is made of (payout-parts.ts). */
export const payoutPage = (payout: PayoutDetail, chain: ShownChain, parts: Html): View => ({
  title: `${payout.net} ${payout.token}`,
  section: '/payouts',
  parent: ['/payouts', 'Payouts'],
  isLive: true,
  body: live('payout', `/payouts/${payout.id}/part`, payoutPart(payout, chain, parts)),
})

export const payoutPart = (payout: PayoutDetail, chain: ShownChain, parts: Html): Html =>
  html`${why(payout)}<div class="columns">${card({
    title: 'Steps',
    action: html`<span role="status">${payoutState(payout)}</span>`,
    body: html`${timeLine(steps(payout))}${
      payout.is_cancellable &&
      html`<p><a class="button quiet" href="/payouts/${payout.id}/cancel">Cancel this payout</a></p>`
    }`,
  })}${card({
    title: 'Details',
    body: facts([
      ['Network', chain.name],
      [
        'Gross',
        html`<span class="amount">${payout.gross} ${payout.token}</span> of ${counted(payout.deposit_count, 'deposit')}`,
      ],
      ['Fee', html`<span class="amount">${payout.fee} ${payout.token}</span> (${percent(payout.fee_bps)})`],
      ['Net', html`<strong class="amount">${payout.net} ${payout.token}</strong>`],
      ['Paid to', copyable(payout.address, 'address')],
      ['Transaction', transactionOf(payout, chain)],
      [
        'Sweep first',
        payout.sweep_first ? 'yes: what your users paid is moved to the treasury before anything is paid' : 'no',
      ],
      ['Id', copyable(payout.id, 'id')],
    ]),
  })}</div>${parts}`

const transactionOf = ({txid, status: state}: Payout, chain: ShownChain): Part => {
  if (txid) return transaction(txid, chain)
  return state === 'failed' ? 'none' : state === 'paying' ? 'shown here once it is final' : 'none yet'
}

function why(payout: Payout): Html | null {
  const {waiting, whitelisted_at, error} = payout
  if (waiting)
    return html`<p role="status" class="notice wait"><strong>It waits</strong> since ${when(waiting.since)}. ${whatFor(payout)} ${waiting.code === 'address_not_whitelisted' && link('/payout-addresses', whitelisted_at ? 'Payout addresses' : 'See what the operator has to do')}</p>`
  if (isCancelled(payout))
    return html`<p role="status" class="notice"><strong>It was ${error!.message}, and nothing was paid.</strong> Its deposits are in the balance again.</p>`
  return (
    error &&
    html`<p role="status" class="alert"><strong>It failed, and nothing was paid.</strong> ${sentence(error.message)} Its deposits are in the balance again.</p>`
  )
}

/** Steps that a payout did not need, such as sweeping, have no time, and are left out once it is past them. */
function steps(payout: PayoutDetail): Step[] {
  const {created_at, sweeping_at, swept_at, paying_at, finished_at, status: state, events, waiting} = payout
  const end =
    state === 'failed'
      ? {title: isCancelled(payout) ? 'Cancelled' : 'Failed', text: 'Nothing was paid.'}
      : {title: 'Completed', text: 'The payout ends here: its transaction is final.'}
  const all = [
    {at: created_at, title: 'Requested', text: 'The address is checked against the whitelist.'},
    {
      at: sweeping_at,
      title: 'Sweeping',
      text: 'What your users paid is moved to the treasury, the operator’s wallet that pays you, as far as that needs it.',
    },
    {at: swept_at, title: 'Swept', text: 'From here on the treasury has enough, and the payment is prepared.'},
    {at: paying_at, title: 'Paying', text: 'The net is being sent, which nobody can take back.'},
  ]
  const last = all.findLastIndex(({at}) => at !== null)
  const past: Step[] = [
    ...all.flatMap((step, index) =>
      step.at === null ? [] : [{...step, tone: index === last && waiting ? ('wait' as const) : ('good' as const)}],
    ),
    ...(finished_at
      ? [
          {
            at: finished_at,
            ...end,
            tone: isCancelled(payout) ? ('soft' as const) : tones[state],
          },
        ]
      : []),
    ...events.flatMap(deliverySteps),
  ]
  const ahead = finished_at ? [] : [...all.slice(last + 1), {at: null, ...end}]
  return [...past.sort((a, b) => a.at!.localeCompare(b.at!)), ...ahead]
}

const percent = (bps: number) => `${bps / 100} %`

interface Draft {
  balance: Balance
  address: PayoutAddressState | undefined
  chain: ShownChain
  me: Me
  /** How long it waits for the whitelist before it fails. */
  payoutTimeoutMs: number
  typed: Fields
  error?: string
}

export const isHeldBack = ({held_back}: Balance): boolean => held_back !== '0'

/** The class of an amount that stands out; a long one is smaller. */
export const bigAmount = (net: string): string => `amount big${net.length > 12 ? ' long' : ''}`

export const newPayoutPage = ({balance, address, chain, me, payoutTimeoutMs, typed, error}: Draft): View => ({
  title: `Pay out ${balance.net} ${balance.token}`,
  section: '/payouts',
  parent: ['/', 'Overview'],
  body: html`<section class="card narrow">${alert(error ?? balance.refusal ?? undefined)}${facts([
    ['Network', chain.name],
    [
      'Gross',
      html`<span class="amount">${balance.gross} ${balance.token}</span> of ${counted(balance.depositCount, 'deposit')}`,
    ],
    isHeldBack(balance) && [
      'Held back',
      html`<span class="amount">${balance.held_back} ${balance.token}</span> <small>${balance.why_held_back}</small>`,
    ],
    ['Fee', html`<span class="amount">${balance.fee} ${balance.token}</span> (${percent(me.fee_bps)})`],
    ['You receive', html`<strong class="${bigAmount(balance.net)}">${balance.net} ${balance.token}</strong>`],
    [
      'Paid to',
      address
        ? html`${copyable(address.address, 'address')}<div>${whitelistState(address)}</div>`
        : link(`/payout-addresses/${balance.chain}`, 'Register a payout address'),
    ],
  ])}${address && whitelistText(address, me, payoutTimeoutMs)}
${
  balance.refusal === null &&
  html`<form method="post" action="/payouts">${formId()}<input type="hidden" name="chain" value="${balance.chain}"><input type="hidden" name="token" value="${balance.token}">${address && html`<input type="hidden" name="address" value="${address.address}">`}
<label class="tick"><input type="checkbox" name="sweep_first" value="1"${typed.sweep_first && html` checked`}><span><span>Sweep first</span><small>Usually the treasury, the operator’s wallet that pays you, pays as soon as it has enough. Tick this to have what your users paid moved there first (“swept”), from every address of this balance: it takes longer, but nothing is paid in advance.</small></span></label>
<p class="soft small">A payout pays the whole balance${isHeldBack(balance) && ' that is not held back'}. You can cancel it until its payment begins.</p>${decide(`Pay out ${balance.net} ${balance.token}`, '/')}</form>`
}</section>`,
})

/** Instead of asking whether it is to be cancelled. */
export const tooLateToCancel = (payout: Payout): View => ({
  title: 'This payout cannot be cancelled',
  section: '/payouts',
  parent: [`/payouts/${payout.id}`, 'Payout'],
  body: html`<section class="card narrow"><p>It is ${payoutState(payout)}, and its payment has begun; nothing was changed.</p><p>${link(`/payouts/${payout.id}`, 'To the payout')}</p></section>`,
})

export const nothingToPayOut = (chain: string, token: string): View => ({
  title: 'Nothing to pay out',
  section: '/payouts',
  parent: ['/', 'Overview'],
  body: html`<section class="card narrow"><p>There is no balance of ${token} on ${chain}. A balance is made of deposits that are final and that no payout has collected.</p></section>`,
})
