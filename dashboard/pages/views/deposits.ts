// Deposits: the list, and one with its time line.

import {type Html, html, type Part} from '../../../base/html.ts'
import type {Deposit} from '../../../reading/deposits.ts'
import {
  card,
  copyable,
  facts,
  link,
  live,
  type Step,
  short,
  status,
  type Tone,
  table,
  time,
  timeLine,
  timesOf,
} from '../../components.ts'
import type {Chains, ShownChain} from '../chains.ts'
import type {DepositDetail} from '../data.ts'
import type {FilterName, Listed} from '../filters.ts'
import {counted, type Fields, referenceOf, type View} from '../view.ts'
import {deliverySteps} from './deliveries.ts'
import {currenciesOf, downloads, filters, liveWhereNewest, moreFilters, pager} from './lists.ts'
import {newPayoutPath, payoutStatus} from './payouts.ts'
import {aboutPaymentRequests} from './search.ts'
import {transaction} from './transaction.ts'

export const depositStatuses = ['pending', 'final', 'reorged'] as const

const tones: Record<Deposit['status'], Tone> = {pending: 'wait', final: 'good', reorged: 'bad'}

export const depositState = ({status: state}: Pick<Deposit, 'status'>) => status(state, tones[state])

const progress = ({status, confirmations}: Deposit, {needed}: ShownChain) =>
  status === 'pending' &&
  (needed
    ? `${Math.min(confirmations, needed)} of ${counted(needed, 'confirmation')}`
    : counted(confirmations, 'confirmation'))

export const userLink = ({user_id, external_ref}: Pick<Deposit, 'user_id' | 'external_ref'>) =>
  html`<a class="clip" href="/users/${user_id}">${referenceOf(external_ref)}</a>`

/** Without a column for the user on a page that is about one. */
export const depositTable = (deposits: Deposit[], chains: Chains, empty: Part, isOfOneUser = false): Html =>
  table({
    caption: 'Deposits, the newest first',
    columns: [
      ...['Amount', {name: 'Status', kind: 'state'} as const, 'Chain'],
      ...(isOfOneUser ? [] : ['User']),
      ...['Transaction', timesOf('Seen')],
    ],
    rows: deposits.map(deposit => ({
      id: deposit.id,
      cells: [
        html`<a class="amount" href="/deposits/${deposit.id}">${deposit.amount} ${deposit.token}</a>`,
        html`${depositState(deposit)} <span class="soft small">${progress(deposit, chains(deposit.chain))}</span>`,
        deposit.chain,
        ...(isOfOneUser ? [] : [userLink(deposit)]),
        short(deposit.txid),
        time(deposit.created_at),
      ],
    })),
    empty,
  })

interface List extends Listed<Deposit> {
  names: readonly FilterName[]
  chains: Chains
  hasPaymentRequests: boolean
}

/** The part of the list that is live. */
export const depositList = (
  {query, page, chains}: Pick<List, 'query' | 'page' | 'chains'>,
  codes: readonly string[],
): Html =>
  html`${depositTable(page.items, chains, emptyFor(query, chains, codes))}${pager('/deposits', query, page.next)}`

const emptyFor = (query: Fields, chains: Chains, codes: readonly string[]) =>
  Object.values(query).some(Boolean)
    ? html`<p>No deposit matches these filters.</p>`
    : html`<p><strong>No deposits yet.</strong></p><p>They appear here by themselves as soon as somebody pays one of your <a href="/users">users’ addresses</a>. These tokens are credited, and no others:</p>${facts(
        codes.map(code => [chains(code).name, chains(code).tokens.join(', ')] as const),
      )}`

export const depositsPage = (list: List, codes: readonly string[]): View => ({
  title: 'Deposits',
  section: '/deposits',
  isLive: list.query.before === undefined,
  lead: html`By when they were first seen; ${link('/statements', 'statements')} count them by when they became final.`,
  body: html`${filters('/deposits', list.query, [
    {name: 'status', label: 'Status', values: depositStatuses},
    {name: 'chain', label: 'Chain', values: codes},
  ])}${moreFilters({...list, what: 'Seen', path: '/deposits', currencies: currenciesOf(codes, list.chains)})}${card({
    body: html`${liveWhereNewest('deposits', '/deposits', list.query, depositList(list, codes))}${downloads('/deposits', list.query)}`,
  })}${list.hasPaymentRequests && aboutPaymentRequests}`,
})

export const depositPage = (deposit: DepositDetail, chain: ShownChain): View => ({
  title: `${deposit.amount} ${deposit.token}`,
  section: '/deposits',
  parent: ['/deposits', 'Deposits'],
  isLive: true,
  body: live('deposit', `/deposits/${deposit.id}/part`, depositPart(deposit, chain)),
})

export const depositPart = (deposit: DepositDetail, chain: ShownChain): Html =>
  html`<div class="columns">${card({
    title: 'What happened',
    action: html`<span role="status">${depositState(deposit)}</span>`,
    body: timeLine(steps(deposit, chain)),
  })}${card({
    title: 'Details',
    body: facts([
      ['Network', chain.name],
      ['User', link(`/users/${deposit.user_id}`, referenceOf(deposit.external_ref))],
      ['Paid to', copyable(deposit.address, 'address')],
      [
        'Sender',
        html`${copyable(deposit.sender, 'sender')}<div class="soft small">As the chain says. Never pay back to it: it may belong to an exchange.</div>`,
      ],
      ['Transaction', transaction(deposit.txid, chain)],
      [
        'Block',
        deposit.status === 'reorged'
          ? `none: ${deposit.block_height} left the chain`
          : (deposit.block_height ?? 'none yet'),
      ],
      deposit.held_back !== null && [
        'Held back',
        deposit.held_back.reason === 'address_blocked'
          ? html`Yes: the chain does not let it leave its address<div class="soft small">Such as when the issuer of the token has frozen the address. It is tried again every day.</div>`
          : html`Yes, until ${deposit.held_back.missing} ${deposit.token} more come to its address<div class="soft small">Less than ${deposit.held_back.minimum} ${deposit.token} on an address is not worth moving. Then a payout collects it.</div>`,
      ],
      [
        'Output number',
        html`${deposit.output_index}<div class="soft small">Which payment of the transaction it is: one transaction can have several (<code>output_index</code>).</div>`,
      ],
      ['Id', copyable(deposit.id, 'id')],
    ]),
  })}</div>`

/** What happened comes first, by its time. */
function steps(deposit: DepositDetail, chain: ShownChain): Step[] {
  const {created_at, block_height, finalised_at, payout, events} = deposit
  const seen: Step = {
    at: created_at,
    title: 'Seen',
    text: block_height === null ? 'In no block yet.' : `In block ${block_height}.`,
    tone: 'good',
  }
  const past: Step[] = [
    seen,
    ...(finalised_at
      ? [{at: finalised_at, title: 'Final', text: 'It counts: it was added to the balance.', tone: 'good'} as const]
      : []),
    ...events.flatMap(deliverySteps),
    ...(payout
      ? [
          {
            at: payout.created_at,
            title: html`Collected by a ${link(`/payouts/${payout.id}`, 'payout')}`,
            text: payoutStatus(payout.status),
            tone: 'good',
          } as const,
        ]
      : []),
  ]
  return [...past.sort((a, b) => a.at!.localeCompare(b.at!)), ...ahead(deposit, chain)]
}

function ahead(deposit: DepositDetail, chain: ShownChain): Step[] {
  if (deposit.status === 'reorged')
    return [
      {
        at: null,
        title: 'Reorged',
        text: 'Its block left the chain (a reorganisation): it does not count. If the transaction is mined again, this deposit is pending again.',
        tone: 'bad',
      },
    ]
  const paid: Step = {
    at: null,
    title: 'Payout',
    text: deposit.held_back
      ? 'None has collected it: it is held back.'
      : html`None has collected it yet. ${deposit.status === 'final' && link(newPayoutPath(deposit), `Pay out the balance of ${deposit.token}`)}`,
  }
  if (deposit.status === 'pending')
    return [{at: null, title: 'Final', text: progress(deposit, chain), tone: 'wait'}, paid]
  return deposit.payout ? [] : [paid]
}
