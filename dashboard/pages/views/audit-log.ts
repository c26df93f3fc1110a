// What people did here.

import {html, type Part} from '../../../base/html.ts'
import {card, email, short, status, table, time, timesOf} from '../../components.ts'
import type {AuditEntry} from '../data.ts'
import type {FilterName, Listed} from '../filters.ts'
import type {View} from '../view.ts'
import {downloads, moreFilters, pager} from './lists.ts'

interface List extends Listed<AuditEntry> {
  names: readonly FilterName[]
}

export const auditLogPage = ({query, page, ...list}: List): View => ({
  title: 'Audit log',
  section: '/audit-log',
  lead: 'What people did in this dashboard, and attempts to sign in. Nobody can change it from here.',
  body: html`${moreFilters({...list, query, what: 'Done', path: '/audit-log'})}${card({
    body: html`${table({
      caption: 'Audit log, the newest first',
      columns: ['What', {name: 'Outcome', kind: 'state'}, 'To what', 'Who', timesOf('When')],
      rows: page.items.map(entry => ({
        cells: [
          wordsOf(entry.action),
          status(outcomeOf(entry), entry.outcome === 'done' ? 'good' : 'bad'),
          toWhat(entry),
          who(entry),
          time(entry.at),
        ],
      })),
      empty: html`<p>${Object.values(query).some(Boolean) ? 'Nothing matches these filters.' : 'Nothing was done yet.'}</p>`,
    })}${downloads('/audit-log', query)}${pager('/audit-log', query, page.next)}`,
  })}`,
})

const outcomes: Record<string, string> = {used_code: 'code used before'}
const outcomeOf = ({outcome}: AuditEntry) => outcomes[outcome] ?? outcome.replaceAll('_', ' ')

/**
 * An invitation or a reset, which only the command line makes (dashboard.invite): its person, if there is one, is who
 * it is for.
 */
const isByOperator = ({action}: AuditEntry) => ['invitation.create', 'reset.create'].includes(action)

function toWhat(entry: AuditEntry): Part {
  const {target, detail, person} = entry
  if (isByOperator(entry)) return person && email(person)
  return target || detail ? html`${target && short(target)} <span class="clip">${detail}</span>` : null
}

function who(entry: AuditEntry): Part {
  if (isByOperator(entry)) return 'the operator'
  return html`${entry.person ? email(entry.person) : 'not known'}${entry.ip && html`<span class="soft small">from ${entry.ip}</span>`}`
}

/** "webhook_endpoint.rotate" as "Webhook endpoint: rotate". */
function wordsOf(action: string): string {
  const words = action.replace('.', ': ').replaceAll('_', ' ').replace(/^api /, 'API ')
  return words.charAt(0).toUpperCase() + words.slice(1)
}
