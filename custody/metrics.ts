// Custody's metrics for Prometheus (docs/operations/monitoring.md).
import {Counter, Gauge} from 'prom-client'
import {registry} from '../base/observe.ts'
import {refusalCodes} from '../base/reasons.ts'

export const active = new Gauge({
  name: 'sluice_custody_active',
  help: '1 while this custody holds the lock of its database, 0 while it stands by.',
  registers: [registry],
})
export const signatures = new Counter({
  name: 'sluice_custody_signatures_total',
  help: 'Transactions that were signed and are in the journal.',
  labelNames: ['chain', 'kind'],
  registers: [registry],
})
export const refusals = new Counter({
  name: 'sluice_custody_refusals_total',
  help: 'Intents that were refused.',
  labelNames: ['code'],
  registers: [registry],
})
export const rejected = new Counter({
  name: 'sluice_custody_rejected_requests_total',
  help: 'Requests that were rejected: without the token, or with an unknown form.',
  labelNames: ['reason'],
  registers: [registry],
})
export const addressesMade = new Counter({
  name: 'sluice_custody_addresses_made_total',
  help: 'Addresses that were derived for the pool.',
  labelNames: ['family'],
  registers: [registry],
})

export const journalChanged = new Gauge({
  name: 'sluice_custody_journal_changed',
  help: '1 while a stream of the journal differs between database and file, and nothing is signed for it; else 0.',
  labelNames: ['stream'],
  registers: [registry],
})
export const journalCompared = new Gauge({
  name: 'sluice_custody_journal_compared_timestamp_seconds',
  help: 'Time at which all journal entries had last been compared with the file.',
  registers: [registry],
})

// Start at 0: a counter that first appears above 0 shows no increase.
for (const code of refusalCodes) refusals.inc({code}, 0)
for (const reason of ['no_token', 'unknown_form']) rejected.inc({reason}, 0)
