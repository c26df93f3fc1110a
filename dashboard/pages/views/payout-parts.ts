// What a payout is made of: deposits of users, payments of payment requests, and debts.

import {type Html, html, type Part} from '../../../base/html.ts'
import type {PayoutPart} from '../../../reading/payouts.ts'
import {card, short, status, table, time, timesOf} from '../../components.ts'
import type {Page, PayoutDetail} from '../data.ts'
import {counted, type Fields, type View} from '../view.ts'
import {depositState, userLink} from './deposits.ts'
import {pager} from './lists.ts'
import {paymentRequestPath} from './paths.ts'

/** Why there is an adjustment, for people. */
const reasons: Record<string, string> = {
  deposit_lost: 'A reorganisation took it away after an earlier payout had begun to pay it',
  deposit_back: 'It is back, after a reorganisation had taken it away',
  payout_failed: 'A reorganisation had taken it away, and the payout that was to pay it failed',
  payout_recovered: 'A payout from before the service was restored from a backup',
  paid_after_all: 'An earlier payout was paid twice',
}

const origin = ({type, reason, user_id, external_ref, external_id}: PayoutPart): Part => {
  if (type === 'adjustment') return reasons[reason!] ?? reason
  return user_id === null
    ? html`Payment request <a class="clip" href="${paymentRequestPath(external_id!)}">${external_id}</a>`
    : userLink({user_id, external_ref: external_ref!})
}

const state = ({status: now, amount}: PayoutPart): Html => {
  if (now !== null) return depositState({status: now})
  return amount.startsWith('-') ? status('debt', 'bad') : status('credit', 'soft')
}

const partTable = (parts: readonly PayoutPart[], {token, ...payout}: PayoutDetail): Html =>
  table({
    caption: 'What the payout is made of: debts, then deposits, the newest first',
    columns: ['Amount', {name: 'Status', kind: 'state'}, 'From', 'Transaction', timesOf('Seen')],
    rows: parts.map(part => ({
      cells: [
        part.deposit_id === null
          ? html`<span class="amount">${part.amount} ${token}</span>`
          : html`<a class="amount" href="/deposits/${part.deposit_id}">${part.amount} ${token}</a>`,
        state(part),
        origin(part),
        part.txid && short(part.txid),
        time(part.created_at),
      ],
    })),
    empty:
      payout.status === 'failed'
        ? html`<p>Nothing any more: its deposits are in the balance again, or in a later payout.</p>`
        : html`<p>Its deposits are listed here once it has collected them.</p>`,
  })

const whole = ({status: now, deposit_count, collected_count, gross, token}: PayoutDetail): Html | undefined => {
  if (now === 'failed') return undefined
  if (collected_count !== null)
    return html`<p role="status" class="soft">It is still collecting: ${collected_count} of ${counted(deposit_count, 'deposit')} so far.</p>`
  return html`<p class="soft">Together this is the gross: <span class="digits">${gross}</span> ${token}.</p>`
}

interface List {
  payout: PayoutDetail
  query: Fields
  page: Page<PayoutPart>
}

/** A page of the list, as a section of the payout's page and on a page of its own. */
export const payoutParts = ({payout, query, page}: List): Html =>
  card({
    title: 'What it is made of',
    body: html`${whole(payout)}${partTable(page.items, payout)}${pager(`/payouts/${payout.id}/deposits`, query, page.next)}`,
  })

export const payoutPartsPage = (list: List): View => ({
  title: `Deposits of ${list.payout.net} ${list.payout.token}`,
  section: '/payouts',
  parent: [`/payouts/${list.payout.id}`, 'Payout'],
  body: payoutParts(list),
})
