// Settings of the account.
import {html} from '../../../base/html.ts'
import {alert, button, card, formId, notice, select} from '../../components.ts'
import {type Fields, one, type View} from '../view.ts'

/** Those that this program can show times in. */
export const zones = ['UTC', ...Intl.supportedValuesOf('timeZone').filter(zone => zone !== 'UTC')]

interface State {
  typed?: Fields
  error?: string
  saved?: string
}

export const settingsPage = (timeZone: string, {typed = {}, error, saved}: State = {}): View => ({
  title: 'Settings',
  section: '/settings',
  body: html`${notice(saved)}${card({
    title: 'Time zone',
    body: html`${alert(error)}<p>In which these pages show times, and in which a day of a filter or a statement begins. The API’s times are always in UTC.</p>
<form class="row" method="post" action="/settings/time-zone">${formId()}${select({
      label: 'Time zone',
      name: 'time_zone',
      value: one(typed.time_zone) ?? timeZone,
      options: zones.map(zone => [zone, zone] as const),
    })}<button class="quiet">Save the time zone</button></form>`,
  })}${card({
    title: 'Payment page',
    body: html`<p>How you look on the pages of your payment requests: name, logo, colour and links.</p>`,
    action: button('/settings/payment-page', 'See it', 'quiet'),
  })}`,
})
