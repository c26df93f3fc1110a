// The audit log: read only.
import type {App} from '../app.ts'
import {download} from '../download.ts'
import {askedOf, listed} from '../filters.ts'
import {show} from '../form.ts'
import {auditLogPage} from '../views/audit-log.ts'

const names = ['from', 'to', 'action', 'person'] as const

export function auditLog(app: App): void {
  app.get('/audit-log', async request => {
    const found = await listed(request, {names, read: request.data.auditLog})
    return show(request, auditLogPage({...found, names}))
  })
  app.get('/audit-log/download', (request, reply) =>
    download(request, reply, {kind: 'audit', name: 'audit-log', asked: askedOf(request, names, [])}),
  )
}
