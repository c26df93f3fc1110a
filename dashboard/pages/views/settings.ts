// Settings of the account.
import {html} from '../../../base/html.ts'
import {alert, button, card, formId, notice, select} from '../../components.ts'
import {type Fields, one, type View} from '../view.ts'

/**
 * Zones that programs still know by the name of before, of those that people look for (the file backward of tzdata).
 */
const renamed: Record<string, string> = {
  'Africa/Asmera': 'Africa/Asmara',
  'America/Buenos_Aires': 'America/Argentina/Buenos_Aires',
  'America/Godthab': 'America/Nuuk',
  'Asia/Calcutta': 'Asia/Kolkata',
  'Asia/Katmandu': 'Asia/Kathmandu',
  'Asia/Rangoon': 'Asia/Yangon',
  'Asia/Saigon': 'Asia/Ho_Chi_Minh',
  'Atlantic/Faeroe': 'Atlantic/Faroe',
  'Europe/Kiev': 'Europe/Kyiv',
  'Pacific/Enderbury': 'Pacific/Kanton',
  'Pacific/Ponape': 'Pacific/Pohnpei',
  'Pacific/Truk': 'Pacific/Chuuk',
}

/** Those that this program can show times in, by their present names. */
export const zones = [
  'UTC',
  ...Intl.supportedValuesOf('timeZone')
    .map(zone => renamed[zone] ?? zone)
    .filter(zone => zone !== 'UTC')
    .sort(),
]

/** The present name of a zone. */
export const presentName = (zone: string): string => renamed[zone] ?? zone

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
      value: presentName(one(typed.time_zone) ?? timeZone),
      options: zones.map(zone => [zone, zone] as const),
    })}<button class="quiet">Save the time zone</button></form>`,
  })}${card({
    title: 'Payment page',
    body: html`<p>How you look on the pages of your payment requests: name, logo, colour and links.</p>`,
    action: button('/settings/payment-page', 'See it', 'quiet'),
  })}`,
})
