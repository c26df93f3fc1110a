// What people did here.
import {card, short, status, table, time} from '../../components.ts'
import {html} from '../../html.ts'
import type {AuditEntry, Page} from '../data.ts'
import type {Fields, View} from '../view.ts'
import {pager} from './lists.ts'

export const auditLogPage = (query: Fields, page: Page<AuditEntry>): View => ({
  title: 'Audit log',
  section: '/audit-log',
  lead: 'What people did in this dashboard, and attempts to sign in. Nobody can change it from here.',
  body: card({
    body: html`${table({
      caption: 'Audit log, the newest first',
      columns: ['What', {name: 'Outcome', kind: 'state'}, 'To what', 'Who', 'When (UTC)'],
      rows: page.items.map(({at, person, action, target, detail, ip, outcome}) => ({
        cells: [
          wordsOf(action),
          status(outcome, outcome === 'done' ? 'good' : 'bad'),
          target || detail ? html`${target && short(target)} <span class="clip">${detail}</span>` : null,
          html`<span class="clip">${person ?? 'not known'}</span>${ip && html`<span class="soft small">from ${ip}</span>`}`,
          time(at),
        ],
      })),
      empty: html`<p>Nothing was done yet.</p>`,
    })}${pager('/audit-log', query, page.next)}`,
  }),
})

/** "webhook_endpoint.rotate" as "Webhook endpoint: rotate". */
function wordsOf(action: string): string {
  const words = action.replace('.', ': ').replaceAll('_', ' ').replace(/^api /, 'API ')
  return words.charAt(0).toUpperCase() + words.slice(1)
}
