// Payment requests: when one is paid, what moves it, what is late, and what its merchant is told.
import type {Mutation} from '../mutation.ts'

const status = 'db/functions/payment_requests/status.sql'
const events = 'db/functions/payment_requests/events.sql'
const states = ['db/payment-states.test.ts']

export const requests: Mutation[] = [
  {
    rule: 'A request is paid from the amount less its tolerance on',
    file: status,
    from: 'r.amount - greatest(r.tolerance, r.detected_from - 1));',
    to: 'r.amount - (r.detected_from - 1));',
    tests: states,
  },
  {
    rule: 'What nobody can send may be missing',
    file: status,
    from: 'r.amount - greatest(r.tolerance, r.detected_from - 1));',
    to: 'r.amount - r.tolerance);',
    tests: states,
  },
  {
    rule: 'What is no payment pays no request',
    file: status,
    from: 'return greatest(least(r.detected_from, r.amount), r.amount',
    to: 'return greatest(1, r.amount',
    tests: ['db/payment-requests.test.ts'],
  },
  {
    rule: 'What is too little to be a payment moves no request',
    file: status,
    from: 'when received + pending < r.detected_from then case',
    to: 'when received + pending = 0 then case',
    tests: states,
  },
  {
    rule: 'The sum of what came decides, and not its parts',
    file: status,
    from: 'when received + pending < r.detected_from then case',
    to: 'when received < r.detected_from and pending < r.detected_from then case',
    tests: [...states, 'db/payment-life.property.test.ts'],
  },
  {
    rule: 'A request waits for money that is in time',
    file: status,
    from: 'when pending_in_time or received',
    to: 'when received',
    tests: states,
  },
  {
    rule: 'Money that no block takes is late after some time',
    file: 'db/views/api/receipt.sql',
    from: 'or coalesce(d.mined_at, statement_timestamp()) >',
    to: 'or d.mined_at >',
    tests: states,
  },
  {
    rule: 'Money that a block takes too late is late',
    file: 'db/views/api/receipt.sql',
    from: 'or coalesce(d.mined_at, statement_timestamp()) >',
    to: 'or d.mined_at is null and statement_timestamp() >',
    tests: states,
  },
  {
    rule: 'The first block that holds a payment decides',
    file: 'db/functions/payment_requests/receipts.sql',
    from: 'new.mined_at := least(new.mined_at, mined_at, clock_timestamp())',
    to: 'new.mined_at := least(mined_at, clock_timestamp())',
    tests: ['db/payment-unconfirmed.test.ts'],
  },
  {
    rule: 'A block with a false time makes no payment late',
    file: 'db/functions/payment_requests/receipts.sql',
    from: 'new.mined_at := least(new.mined_at, mined_at, clock_timestamp())',
    to: 'new.mined_at := least(new.mined_at, mined_at)',
    tests: ['db/payment-unconfirmed.test.ts'],
  },
  {
    rule: 'The worker decides when unconfirmed money becomes late',
    file: status,
    from: "when unmined_in_time then nullif(least(r.expires_at, r.cancelled_at) + r.late_after, 'infinity') end;",
    to: 'end;',
    tests: ['db/payment-unconfirmed.test.ts'],
  },
  {
    rule: 'Nobody is asked for less than can be sent',
    file: status,
    from: 'then 0 else greatest(r.amount - r.received - r.pending, a.min_payment) end',
    to: 'then 0 else r.amount - r.received - r.pending end',
    tests: ['db/payment-requests.test.ts'],
  },
  {
    rule: 'Nothing is asked for once enough was seen',
    file: status,
    from: 'select case when r.received + r.pending >= app.paid_from(r) then 0',
    to: 'select case when r.received + r.pending >= r.amount then 0',
    tests: states,
  },
  {
    rule: 'At most half of an amount may be missing',
    file: 'db/functions/payment_requests/create.sql',
    from: 'if tolerance * 2 > amount or',
    to: 'if',
    tests: ['db/payment-requests.test.ts'],
  },
  {
    rule: 'A request that is not paid any more is told as reopened',
    file: events,
    from: "when was.status = 'paid' or now_status = 'awaiting' then 'reopened'",
    to: "when now_status = 'awaiting' then 'reopened'",
    tests: ['db/payment-requests.test.ts', 'db/payment-life.property.test.ts'],
  },
  {
    rule: 'That more is final, and not enough, is told',
    file: events,
    from: "then 'partially_paid' end]",
    to: 'then null end]',
    tests: ['db/payment-requests.test.ts'],
  },
  {
    rule: 'Only endpoints that name a type get its events',
    file: 'db/functions/events/add.sql',
    from: ' and of_type = any(w.event_types);',
    to: ';',
    tests: ['db/payment-requests.test.ts'],
  },
  {
    rule: 'Events of payment requests are in no list that does not ask for them',
    file: 'api/routes/events.ts',
    from: "`not starts_with(type, 'payment_request.')`",
    to: "'true'",
    tests: ['api/payment-requests.test.ts', 'api/contract.test.ts'],
  },
  {
    rule: 'The URI of the API asks for what is missing',
    file: 'db/functions/payment_requests/show.sql',
    from: 'r.token, w.address, app.payment_missing(r)::text',
    to: 'r.token, w.address, r.amount::text',
    tests: ['api/payment-requests.test.ts'],
  },
]
