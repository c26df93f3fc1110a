// The audit log: read only.
import {z} from 'zod'
import type {App} from '../app.ts'
import {before, read, show} from '../form.ts'
import {auditLogPage} from '../views/audit-log.ts'

export function auditLog(app: App): void {
  app.get('/audit-log', async request => {
    const query = read(z.object({before}), request.query)
    return show(request, auditLogPage(query, await request.data.auditLog(query.before)))
  })
}
