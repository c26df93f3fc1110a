// What merchants see: webhooks, events, keys, and that one never sees another; and that only stored bytes are sent.
import type {Mutation} from '../mutation.ts'

export const merchants: Mutation[] = [
  {
    rule: 'A delivery stays pending until its result is stored',
    file: 'jobs/webhooks/pump.ts',
    from: `      this.#ended.unshift(...ended)
`,
    to: `      for (const {claimed} of ended) this.#known.delete(claimed.id)
`,
    tests: ['jobs/webhooks/webhooks.test.ts'],
  },
  {
    rule: 'What was cut says nothing about the endpoint',
    file: 'jobs/webhooks/pump.ts',
    from: 'if (outcome.error && this.#isCut) this.#known.delete(claimed.id)',
    to: 'if (false) this.#known.delete(claimed.id)',
    tests: ['jobs/webhooks/webhooks.test.ts'],
  },
  {
    rule: 'What is under way is not claimed again',
    file: 'jobs/webhooks/pump.ts',
    from: `      for (const row of rows) this.#known.add(row.id)
`,
    to: '',
    tests: ['jobs/webhooks/webhooks.test.ts'],
  },
  {
    rule: 'Only events with a sequence are sent',
    file: 'jobs/webhooks/pump.ts',
    from: `e.id = d.event_id and e.sequence is not null limit 1) e
  where w.id`,
    to: `e.id = d.event_id limit 1) e
  where w.id`,
    tests: ['jobs/webhooks/webhooks.test.ts'],
  },
  {
    rule: 'Both secrets sign while they are rotated',
    file: 'jobs/webhooks/pump.ts',
    from: 'case when w.previous_secret_expires_at > now() then array[w.secret, w.previous_secret] else array[w.secret] end as secrets',
    to: 'array[w.secret] as secrets',
    tests: ['jobs/webhooks/webhooks.test.ts'],
  },
  {
    rule: 'An old secret ends',
    file: 'jobs/webhooks/pump.ts',
    from: 'case when w.previous_secret_expires_at > now() then array[w.secret, w.previous_secret] else array[w.secret] end as secrets',
    to: 'array_remove(array[w.secret, w.previous_secret], null) as secrets',
    tests: ['jobs/webhooks/webhooks.test.ts'],
  },
  {
    rule: 'One worker sends to an endpoint',
    file: 'jobs/webhooks/dispatcher.ts',
    from: "or app.try_lock_endpoint(id)'",
    to: "or app.try_lock_endpoint(id) or true'",
    tests: ['jobs/webhooks/webhooks.test.ts'],
  },
  {
    rule: 'An exchange ends in time',
    file: 'jobs/webhooks/send.ts',
    from: "let timer = setTimeout(end, exchangeTimeoutMs, 'timeout')",
    to: 'let timer = setTimeout(() => {}, exchangeTimeoutMs)',
    tests: ['jobs/webhooks/send.test.ts'],
  },
  {
    rule: 'No webhook goes to a private address',
    file: 'jobs/webhooks/address.ts',
    from: 'if (addresses.every(({address}) => isPublicAddress(address))) return undefined',
    to: 'if (addresses.length) return undefined',
    tests: ['jobs/webhooks/address.test.ts', 'jobs/webhooks/send.test.ts'],
  },
  {
    rule: 'A name with one private address is refused',
    file: 'jobs/webhooks/address.ts',
    from: 'addresses.every((',
    to: 'addresses.some((',
    tests: ['jobs/webhooks/address.test.ts'],
  },
  {
    rule: 'An address in a URL is checked as well',
    file: 'jobs/webhooks/address.ts',
    from: `    if (refusal) callback(refusal, null)
    else connect(options, callback)`,
    to: '    connect(options, callback)',
    tests: ['jobs/webhooks/address.test.ts', 'jobs/webhooks/send.test.ts'],
  },
  {
    rule: 'The id is signed',
    file: 'jobs/webhooks/sign.ts',
    from: '.update(`${id}.${timestamp}.${body}`)',
    to: '.update(`${timestamp}.${body}`)',
    tests: ['jobs/webhooks/sign.test.ts'],
  },
  {
    rule: 'The time is signed',
    file: 'jobs/webhooks/sign.ts',
    from: '`${id}.${timestamp}.${body}`',
    to: '`${id}.${body}`',
    tests: ['jobs/webhooks/sign.test.ts'],
  },
  {
    rule: 'A result counts only for the attempt that it is of',
    file: 'db/functions/webhooks/attempts.sql',
    from: " and d.status = 'pending' and d.attempts = r.number - 1",
    to: '',
    tests: ['jobs/webhooks/webhooks.test.ts'],
  },
  {
    rule: 'A 410 disables the endpoint',
    file: 'db/functions/webhooks/attempts.sql',
    from: 'and (is_gone or (first_failure',
    to: 'and ((first_failure',
    tests: ['jobs/webhooks/webhooks.test.ts'],
  },
  {
    rule: 'An endpoint is disabled after five days of failure',
    file: 'db/functions/webhooks/attempts.sql',
    from: "w.failing_since < at - interval '5 days'",
    to: "w.failing_since < at - interval '50 days'",
    tests: ['jobs/webhooks/webhooks.test.ts'],
  },
  {
    rule: 'A success ends a series of failures',
    file: 'db/functions/webhooks/attempts.sql',
    from: `  set failing_since = case when has_success then first_failure else coalesce(w.failing_since, first_failure) end
`,
    to: `  set failing_since = coalesce(w.failing_since, first_failure)
`,
    tests: ['jobs/webhooks/webhooks.test.ts'],
  },
  {
    rule: 'What an endpoint can no longer get fails',
    file: 'db/functions/webhooks/give_up.sql',
    from: `where w.disabled_at is not null or w.deleted_at is not null
`,
    to: `where w.deleted_at is not null
`,
    tests: ['jobs/webhooks/webhooks.test.ts', 'api/webhook-endpoints.test.ts'],
  },
  {
    rule: 'One caller at a time gives numbers',
    file: 'db/functions/events/sequence.sql',
    from: `  perform pg_advisory_xact_lock(hashtextextended('app.sequence_events', 0));
`,
    to: '',
    tests: ['db/event-sequence.test.ts', 'jobs/webhooks/webhooks.test.ts'],
  },
  {
    rule: 'Numbers are given in the order of the events',
    file: 'db/functions/events/sequence.sql',
    from: 'order by position limit batch',
    to: 'order by position desc limit batch',
    tests: ['jobs/webhooks/webhooks.test.ts', 'api/contract.test.ts', 'db/derive-deposits.test.ts'],
  },
  {
    rule: 'Only events without a number get one',
    file: 'db/functions/events/sequence.sql',
    from: 'where sequence is null order by',
    to: 'order by',
    tests: ['jobs/webhooks/webhooks.test.ts', 'api/contract.test.ts'],
  },
  {
    rule: 'A redelivery that begins meanwhile is seen',
    file: 'db/functions/webhooks/partitions.sql',
    from: '  if is_pending then return null; end if;',
    to: '',
    tests: ['jobs/webhooks/partitions.test.ts'],
  },
  {
    rule: 'A merchant sends again only what is its own',
    file: 'db/functions/webhooks/redeliver.sql',
    from: 'where d.id = delivery and d.endpoint_id = own.id;',
    to: 'where d.id = delivery;',
    tests: ['api/refusals.test.ts'],
  },
  {
    rule: 'A revoked key has no merchant',
    file: 'api/keys.ts',
    from: 'and k.revoked_at is null and m.suspended_at is null',
    to: 'and m.suspended_at is null',
    tests: ['api/refusals.test.ts'],
  },
  {
    rule: "A suspended account's keys have no merchant",
    file: 'api/keys.ts',
    from: 'and k.revoked_at is null and m.suspended_at is null',
    to: 'and k.revoked_at is null',
    tests: ['api/refusals.test.ts', 'cli/main.test.ts'],
  },
  {
    rule: 'A revocation is heard at once',
    file: 'api/keys.ts',
    from: "client.on('notification', ({payload}) => this.#doubt(payload))",
    to: "client.on('notification', () => {})",
    tests: ['api/refusals.test.ts'],
  },
  {
    rule: 'Nothing is cached while nobody listens',
    file: 'api/keys.ts',
    from: 'if (this.#isListening && doubts === this.#doubts)',
    to: 'if (doubts === this.#doubts)',
    tests: ['api/refusals.test.ts', 'api/operations.test.ts'],
  },
  {
    rule: 'Two headers with two keys are no key',
    file: 'api/keys.ts',
    from: 'return apiKey === undefined || apiKey === secret ? secret : undefined',
    to: 'return secret',
    tests: ['api/refusals.test.ts', 'api/refusals.test.ts'],
  },
  {
    rule: "A merchant's read is shared with no other merchant",
    file: 'api/database.ts',
    from: 'JSON.stringify([query.name, values]) // the values',
    to: 'JSON.stringify([query.name]) // the values',
    tests: ['api/refusals.test.ts', 'api/database.test.ts'],
  },
  {
    rule: 'A read is as new as its request',
    file: 'api/database.ts',
    from: 'const client = await this.#pool.connect().finally(onBegin)',
    to: 'const client = await this.#pool.connect()',
    tests: ['api/database.test.ts'],
  },
  {
    rule: 'A merchant sees its own deposits',
    file: 'api/routes/deposits.ts',
    from: 'where p.id = $1 and p.merchant_id = $2 and p.credited',
    to: 'where p.id = $1 and $2::uuid is not null and p.credited',
    tests: ['api/refusals.test.ts'],
  },
  {
    rule: 'Each attempt is stored once',
    file: 'db/functions/outgoing/store_attempt.sql',
    from: `    or number <> 1 + (select count(*) from app.outgoing_attempt o where o.outgoing_payment_id = s.id)
`,
    to: '',
    tests: ['db/ledger.test.ts', 'db/payouts.test.ts', 'db/payment-races.test.ts', 'db/payment-life.property.test.ts'],
  },
  {
    rule: 'Nothing is stored for what is final',
    file: 'db/functions/outgoing/store_attempt.sql',
    from: "  if s.status = 'final' or (s.cancelling",
    to: '  if (s.cancelling',
    tests: ['db/ledger.test.ts', 'db/payouts.test.ts', 'db/payment-races.test.ts', 'db/payment-life.property.test.ts'],
  },
  {
    rule: 'Nothing that pays is stored for what is cancelled',
    file: 'db/functions/outgoing/store_attempt.sql',
    from: "(s.cancelling and of_kind = 'effect')",
    to: 'false',
    tests: ['db/ledger.test.ts', 'db/payouts.test.ts', 'db/payment-races.test.ts', 'db/payment-life.property.test.ts'],
  },
  {
    rule: 'What is stored has the nonce or input of its payment',
    file: 'db/functions/outgoing/store_attempt.sql',
    from: 'j.conflict_key is distinct from s.conflict_key;',
    to: 'false;',
    tests: [
      'db/ledger.test.ts',
      'db/payouts.test.ts',
      'db/payment-races.test.ts',
      'jobs/payouts/sign-attempts.test.ts',
    ],
  },
  {
    rule: 'A higher fee is reserved as it is stored',
    file: 'db/functions/outgoing/store_attempt.sql',
    from: `    perform app.reserve(s.chain, native, more);
`,
    to: '',
    tests: ['db/payouts.test.ts', 'db/payment-races.test.ts', 'db/ledger.test.ts'],
  },
  {
    rule: 'The operator can pay a higher fee before it is stored',
    file: 'db/functions/outgoing/store_attempt.sql',
    from: `    if app.operator_funds(s.chain, native) < more then return false; end if;
`,
    to: '',
    tests: [
      'db/payouts.test.ts',
      'db/payment-races.test.ts',
      'db/ledger.test.ts',
      'jobs/payouts/sign-attempts.test.ts',
    ],
  },
  {
    rule: 'Only stored bytes are sent',
    file: 'jobs/payouts/sign-attempts.ts',
    from: '  if (isStored) stored.set(',
    to: '  if (txid) stored.set(',
    tests: ['jobs/payouts/sign-attempts.test.ts', 'jobs/payouts/advance-payout.test.ts'],
  },
  {
    rule: 'A payment that is cancelled is not sent again',
    file: 'jobs/payouts/send-transactions.ts',
    from: "(cancelling && newest.kind === 'effect' && !isFinal)",
    to: 'false',
    tests: ['jobs/payouts/advance-payout.test.ts', 'test/faults/payouts.test.ts'],
  },
]
