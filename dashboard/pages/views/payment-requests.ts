// How much of a new payment request may be missing.

import {html} from '../../../base/html.ts'
import {percent} from '../../../base/percent.ts'
import {alert, button, card, decide, field, formId, notice} from '../../components.ts'
import {type Fields, one, type View} from '../view.ts'

export const paymentRequestsPage = (bps: number, isSaved: boolean): View => ({
  title: 'Payment requests',
  section: '/payment-requests',
  lead: 'Exchanges take their fee out of what they send. A payment request that comes up a little short is paid all the same, if you allow it.',
  body: html`${isSaved && notice(`New payment requests are made with a tolerance of ${percent(bps)}.`)}${card({
    title: 'Tolerance',
    body: html`<p>Of a new payment request, <strong>${percent(bps)}</strong> of the amount may be missing. Your program can say otherwise for each one, by <code>tolerance</code>; those that exist keep theirs.</p>`,
    action: button('/payment-requests/tolerance', 'Change the tolerance', 'quiet'),
  })}`,
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
