// Whatever a merchant, a payer or a webhook's response puts into a field is shown as text: the markup of a page does
// not depend on it. And what pages say.
import fc from 'fast-check'
import {describe, expect, test} from 'vitest'
import type {PayoutPart} from '../../../reading/payouts.ts'
import type {Statement, StatementLine} from '../../../reading/statements.ts'
import {page} from '../../layout.ts'
import type {ShownChain} from '../chains.ts'
import type {AuditEntry, Endpoint, Me, Overview, PaymentRequestDetail, PayoutDetail, Today} from '../data.ts'
import type {View} from '../view.ts'
import {apiKeysPage, createdApiKeyPage, newApiKeyPage, revokeKeyPage} from './api-keys.ts'
import {auditLogPage} from './audit-log.ts'
import {chartsPage} from './charts.ts'
import {deliveryPage, sentAgain} from './deliveries.ts'
import {depositPage, depositsPage} from './deposits.ts'
import {overviewPage} from './overview.ts'
import {newPaymentRequestPage, paymentRequestPage, paymentRequestsPage} from './payment-requests.ts'
import {payoutAddressesPage, payoutAddressPage} from './payout-addresses.ts'
import {payoutParts, payoutPartsPage} from './payout-parts.ts'
import {payoutPage} from './payouts.ts'
import {searchPage} from './search.ts'
import {statementsPage} from './statements.ts'
import {userPage} from './users.ts'
import {editEndpointPage, endpointPage} from './webhooks.ts'

const at = '2026-11-25T03:41:09.000Z'
const attacks = fc.constantFrom(
  '"><script>x()</script>',
  "'><img src=x onerror=x()>",
  '" autofocus onfocus="x()',
  '</code><b>',
  '&lt;b&gt;',
)
const field = fc.tuple(attacks, fc.string({unit: 'binary', maxLength: 20})).map(parts => parts.join(''))

const shownChain = (text: string): ShownChain => ({
  code: 'ETH',
  name: text,
  needed: 2,
  tokens: [text],
  transactionUrl: () => `https://e/${text}`,
})

/** One of everything, with this text in each of its fields. */
function thingsOf(text: string) {
  const chain = shownChain(text)
  const chains = () => chain
  const me: Me = {
    email: text,
    name: text,
    merchant_name: text,
    merchant_prefix: text,
    fee_bps: 50,
    time_zone: 'UTC',
    suspended: true,
    chains: ['ETH', 'SOL'],
    networks: ['eip155:11155111'],
    is_fresh: true,
  }
  const delivery = {
    id: text,
    endpoint_id: text,
    endpoint_url: text,
    endpoint_deleted: false,
    about: {kind: 'payment_request' as const, id: text, label: text},
    event_id: text,
    event_type: 'deposit.pending' as const,
    status: 'failed' as const,
    created_at: at,
    next_attempt_at: at,
    finished_at: at,
    attempts: [{attempted_at: at, duration_ms: 1, response_status: 500, error: text}],
  }
  const events = [{id: text, type: text, created_at: at, deliveries: [delivery]}]
  const deposit = {
    id: text,
    chain: 'ETH' as const,
    token: text,
    amount: text,
    status: 'pending' as const,
    confirmations: 1,
    txid: text,
    sender: text,
    address: text,
    user_id: text,
    external_ref: text,
    created_at: at,
    output_index: 0,
    block_height: 1,
    finalised_at: at,
    held_back: {reason: 'below_minimum' as const, minimum: text, missing: text},
    settlement_id: null,
    settlement: null,
    metadata: {},
    settled_before_restore: false,
    events,
    payout: {id: text, status: 'paying' as const, created_at: at},
  }
  const payout = {
    id: text,
    is_cancellable: true,
    status: 'pending' as const,
    chain: 'ETH' as const,
    token: text,
    gross: text,
    fee: text,
    net: text,
    address: text,
    txid: text,
    created_at: at,
    completed_at: null,
    waiting: {code: 'address_not_whitelisted' as const, message: text, since: at},
    whitelisted_at: null,
    error: {code: 'timed_out' as const, message: text},
    fee_bps: 50,
    sweep_first: true,
    deposit_count: 1,
    collected_count: null,
    sweeping_at: at,
    swept_at: null,
    paying_at: at,
    finished_at: null,
    events,
  }
  const part: PayoutPart = {
    type: 'deposit',
    amount: text,
    reason: null,
    deposit_id: text,
    status: 'final',
    txid: text,
    output_index: 1,
    user_id: text,
    external_ref: text,
    external_id: null,
    created_at: at,
  }
  const receipt: PayoutPart = {...part, type: 'receipt', deposit_id: null, user_id: null, external_id: text}
  const debt: PayoutPart = {...receipt, type: 'adjustment', reason: 'deposit_lost', status: null}
  const parts = {payout, query: {}, page: {items: [part, receipt, debt], next: text}}
  const endpoint: Endpoint = {
    id: text,
    url: text,
    event_types: ['deposit.pending'],
    enabled: false,
    created_at: at,
    disabled_at: at,
    disabled_reason: text,
    failing_since: at,
    previous_secret_expires_at: at,
    delivered: 1,
    failed: 1,
    pending: 1,
    was_tried: true,
  }
  const key = {id: text, label: text, scopes: [text], created_at: at, last_used_on: text, revoked_at: null}
  const address = {chain: 'ETH' as const, address: text, whitelisted: false, whitelisted_at: null, updated_at: at}
  const balance = {
    ...{chain: 'ETH' as const, token: text, gross: text, fee: text, net: text, held_back: text, why_held_back: text},
    ...{depositCount: 1, has_address: false, refusal: text},
  }
  const audit = {at, person: text, action: text, target: text, detail: text, ip: text, outcome: text}
  const overview: Overview = {
    balances: [balance, {...balance, refusal: null}],
    deposits: [deposit],
    payouts: [payout],
    waiting: [payout],
    endpoints: [endpoint],
    has_keys: false,
    has_users: false,
    has_addresses: false,
    has_whitelisted: false,
    has_payment_requests: true,
    underpaid_since: text,
    underpaid_count: 1,
  }
  const request: PaymentRequestDetail = {
    ...{external_id: text, currency: text, address: text, amount: text, tolerance: text, expires_at: at},
    metadata: {[text]: text},
    return_url: text,
    ...{status: 'awaiting', explanation: text, amount_received: text, amount_pending: text, shortfall: text},
    ...{amount_missing: text, late: true, txid: text, paid_at: at, created_at: at, cancelled_at: at},
    receipts: [
      {
        ...{txid: text, output_index: 0, sender: text, amount: text, status: 'final', confirmations: 1, late: true},
        ...{settlement_id: text, created_at: at},
      },
    ],
    ...{chain: 'ETH', token: text, page_token: text, due: '1', events},
    not_counted: [{txid: text, what: text, why: text, at}],
  }
  const amounts = [text, text]
  const week = {
    days: [text, text],
    series: [
      ...['balance', 'deposit', 'payout', 'seen_to_final'].map(series => {
        return {
          series,
          about: series === 'seen_to_final' ? text : `${text}:${text}`,
          counts: [1, 2],
          amounts,
          amounts_at_end: amounts,
        }
      }),
      {series: 'requests', about: 'paid', counts: [1, 2], amounts, amounts_at_end: amounts},
      {series: 'delivered', about: text, counts: [1, 2], amounts, amounts_at_end: amounts},
    ],
  }
  const moved = {about: `${text}:${text}`, count: 1, past_count: 2, amount: text, past_amount: text}
  const today: Today = {
    compared_with: at,
    series: [
      {series: 'deposit', ...moved},
      {series: 'requests', ...moved},
    ],
  }
  const statement: Statement = {
    ...{chain: 'ETH', token: text, opening_balance: text, deposits: text, deposits_lost: text, payouts: text},
    ...{fees: text, adjustments: text, closing_balance: text, held_back: text, payouts_under_way: text},
  }
  const line: StatementLine = {
    ...{created_at: at, chain: 'ETH', token: text, type: 'deposit', amount: text, deposit_id: text, user_id: text},
    ...{external_ref: text, external_id: text, payout_id: null, txid: text},
  }
  const money = {week, today, statement, line}
  return {chain, chains, me, delivery, deposit, payout, parts, endpoint, key, address, audit, overview, request, money}
}

/** What a list was asked for: this text in each filter, or nothing. */
const listOf = (text?: string) => ({
  query: text === undefined ? {} : {sender: text, from: text, currency: text, before: text},
  names: ['currency', 'from', 'sender'] as const,
  problems: text === undefined ? [] : [text],
  currencies: text === undefined ? [] : [[text, text] as const],
})

/** Every page that shows text of others. */
function viewsOf(text: string): View[] {
  const {chain, chains, me, delivery, deposit, payout, parts, endpoint, key, address, audit, overview, request, money} =
    thingsOf(text)
  const {week, today, statement, line} = money
  return [
    overviewPage({overview, today, chains, me, apiUrl: text}),
    chartsPage({charts: week, days: 30, endpoints: [endpoint], chains}),
    statementsPage({
      ...{
        merchant: text,
        isOver: false,
        days: {from: text, to: text},
        months: [{name: text, month: text, days: {from: text, to: text}}],
        query: {},
      },
      statements: [statement],
      lines: {items: [line], next: text},
    }),
    depositPage(deposit, chain),
    depositsPage({...listOf(text), page: {items: [deposit], next: null}, chains, hasPaymentRequests: true}, [text]),
    paymentRequestsPage({...listOf(text), page: {items: [request], next: text}}, {bps: 50, isSaved: true}, [text]),
    paymentRequestPage({found: request, chain, pageUrl: text, code: null}),
    newPaymentRequestPage({
      ...{currencies: [{name: text, display_name: text}], bps: 50, hours: text, prefix: text, error: text},
      typed: {currency: text, amount: text, reference: text},
    }),
    payoutPage(payout, chain, payoutParts(parts)),
    payoutPartsPage(parts),
    userPage({
      user: {id: text, external_ref: text, metadata: {}, created_at: at, addresses: [{chain: 'ETH', address: text}]},
      deposits: {items: [deposit], next: text},
      notCredited: [{chain: text, what: text, why: text, sender: text, txid: text, at}],
      chains,
    }),
    payoutAddressesPage({addresses: [address], chains, me, payoutTimeoutMs: 1000}),
    payoutAddressPage(chain, address, {address: text}, {error: text, mayBeOffCurve: true}),
    newApiKeyPage({label: text}, text),
    createdApiKeyPage({id: text, secret: text, apiUrl: text, old: key}),
    revokeKeyPage(key, text),
    endpointPage(endpoint, text),
    editEndpointPage(endpoint, {url: text}, text),
    deliveryPage({...delivery, body: text}, text),
    auditLogPage({...listOf(text), page: {items: [audit, {...audit, action: 'reset.create'}], next: text}}),
    searchPage({
      text,
      found: [
        {kind: 'delivery', id: text, endpoint_id: text, label: text, at},
        {kind: 'payment_request', id: text, endpoint_id: null, label: text, at},
      ],
      hasPaymentRequests: true,
    }),
  ]
}

/** What people read on a page. */
const readingOf = (view: View) =>
  page(view)
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ')

/** The elements of each page, and their attributes without their values. */
const markupOf = (text: string) =>
  viewsOf(text).map(view =>
    page({...view, person: {email: text, merchant: text, isTest: true}})
      .match(/<[^>]*>/g)!
      .map(tag => tag.replaceAll(/="[^"]*"/g, '')),
  )

test('no field of a merchant, a payer or a webhook becomes markup', () => {
  const harmless = markupOf('harmless')
  fc.assert(
    fc.property(field, text => {
      expect(markupOf(text)).toEqual(harmless)
    }),
    {numRuns: 50},
  )
})

describe('what pages say', () => {
  const {chain, chains, me, delivery, deposit, payout, parts, endpoint, key, address, audit, overview} = thingsOf('x')
  const soon = new Date(Date.now() + 48 * 3_600_000).toISOString()
  const payoutOf = (changes: Partial<PayoutDetail>, items: PayoutPart[] = []) => {
    const changed = {...payout, waiting: null, error: null, ...changes}
    return payoutPage(changed, chain, payoutParts({payout: changed, query: {}, page: {items, next: null}}))
  }
  const payoutText = (...of: Parameters<typeof payoutOf>) => readingOf(payoutOf(...of))

  test('a payout whose address counts as whitelisted later waits for that time, and not for the operator', () => {
    const waiting = {code: 'address_not_whitelisted' as const, message: 'the operator has to act', since: at}
    expect(payoutText({waiting, whitelisted_at: null})).toContain('The operator has to act.')
    const text = payoutText({waiting, whitelisted_at: soon})
    expect(text).toContain(`on the whitelist from ${soon.slice(0, 10)} ${soon.slice(11, 19)} UTC on.`)
    expect(text).not.toContain('has to act')
  })

  test('a page says how long payouts wait for the whitelist, unless their address has a time from which it counts', () => {
    const text = (whitelisted_at: string | null) =>
      readingOf(
        payoutAddressesPage({
          addresses: [{...address, whitelisted_at}],
          chains,
          me,
          payoutTimeoutMs: 72 * 3_600_000,
        }),
      )
    expect(text(null)).toContain('and fail after 72 hours.')
    expect(text(soon)).toContain(`wait until ${soon.slice(0, 10)}`)
    expect(text(soon)).not.toContain('fail')
  })

  test('a cancelled payout is called cancelled, and nothing about it is a failure or still to come', () => {
    const text = payoutText({
      status: 'failed',
      error: {code: 'cancelled', message: 'cancelled by the merchant'},
      finished_at: at,
      txid: null,
      events: [],
    })
    expect(text).toContain('It was cancelled by the merchant, and nothing was paid.')
    expect(text).not.toMatch(/failed|none yet/i)
  })

  test('a payout says what it is made of: deposits and payments are told apart, and debts say why', () => {
    const [deposit, receipt, debt] = parts.page.items as [PayoutPart, PayoutPart, PayoutPart]
    const items = [
      {...debt, amount: '-5', reason: 'deposit_lost' as const, deposit_id: 'dep_1'},
      {...debt, amount: '1', reason: 'paid_after_all' as const},
      {...deposit, external_ref: 'ada', deposit_id: 'dep_2', status: 'reorged' as const},
      {...receipt, external_id: 'acme-1'},
    ]
    const text = payoutText({gross: '14'}, items)
    expect(text).toContain('Together this is the gross: 14 x.')
    for (const row of [
      '-5 x debt A reorganisation took it away after an earlier payout had begun to pay it',
      '1 x credit An earlier payout was paid twice',
      'x x reorged ada',
      'x x final Payment request acme-1',
    ])
      expect(text).toContain(row)
    const links = [...page(payoutOf({}, items)).matchAll(/href="\/(deposits|users)\/([^"]*)"/g)].map(([, ...to]) => to)
    expect(links).toEqual([
      ['deposits', 'dep_1'],
      ['deposits', 'dep_2'],
      ['users', 'x'],
    ])
  })

  test('a payout that still collects its deposits does not show a part of them as the whole, and one that failed is made of nothing', () => {
    const collecting = payoutText({deposit_count: 250, collected_count: 100}, parts.page.items)
    expect(collecting).toContain('It is still collecting: 100 of 250 deposits so far.')
    expect(collecting).not.toContain('Together')
    const failed = payoutText({status: 'failed', collected_count: 100})
    expect(failed).toContain('Nothing any more: its deposits are in the balance again, or in a later payout.')
    expect(failed).not.toMatch(/Together|still collecting/)
  })

  test('events say who got them, as it was then; deliveries of a deleted endpoint are no links', () => {
    const event = {id: 'x', type: 'payout.failed', created_at: at}
    expect(payoutText({events: [{...event, deliveries: []}]})).toContain(
      'No webhook endpoint got events of this type then.',
    )
    const view = payoutOf({events: [{...event, deliveries: [{...delivery, endpoint_deleted: true}]}]})
    expect(page(view)).not.toContain('/deliveries/')
  })

  test('one confirmation is no plural, and a reference of spaces can be clicked on', () => {
    const one = {...deposit, external_ref: '  '}
    const view = depositsPage(
      {...listOf(), page: {items: [one], next: null}, chains: () => ({...chain, needed: 1}), hasPaymentRequests: false},
      [],
    )
    expect(readingOf(view)).toContain('1 of 1 confirmation ')
    expect(page(view)).toContain('href="/users/x">blank reference</a>')
  })

  test('each address says which tokens are credited there, and so does the list of deposits while it is empty', () => {
    const both = {...chain, tokens: ['ETH', 'USDC']}
    const addresses = [{chain: 'ETH' as const, address: 'x'}]
    const user = {id: 'x', external_ref: 'x', metadata: {}, created_at: at, addresses}
    const none = {items: [], next: null}
    expect(readingOf(userPage({user, deposits: none, notCredited: [], chains: () => both}))).toContain(
      'Accepts ETH and USDC.',
    )
    const empty = {...listOf(), page: {items: [], next: null}, chains: () => both, hasPaymentRequests: false}
    expect(readingOf(depositsPage(empty, ['ETH']))).toContain('ETH, USDC')
  })

  test('payments of payment requests are mentioned where they are missing, if there are any', () => {
    for (const hasPaymentRequests of [true, false]) {
      const deposits = depositsPage({...listOf(), page: {items: [], next: null}, chains, hasPaymentRequests}, [])
      for (const view of [deposits, searchPage({text: 'x', found: [], hasPaymentRequests})])
        expect(readingOf(view).includes('is not listed among the deposits')).toBe(hasPaymentRequests)
    }
  })

  test('of two keys with one label, the older one is told apart, and revoking shows which key it is', () => {
    const newer = {...key, id: 'newer', created_at: '2026-11-26T03:41:09.000Z'}
    const [, first, second] = page(apiKeysPage([newer, key])).split('<tr role="row" id=')
    expect([first, second].map(row => row!.includes('There is a newer key with this label'))).toEqual([false, true])
    expect(readingOf(revokeKeyPage(newer))).toMatch(/Id newer Made 2026-11-26 03:41:09 UTC Last used x /)
  })

  test('an endpoint that was never contacted is not called healthy', () => {
    const fine = {...endpoint, disabled_at: null, failing_since: null, failed: 0}
    expect(readingOf(endpointPage({...fine, was_tried: false}))).toContain('nothing sent yet')
    expect(readingOf(endpointPage(fine))).toContain('healthy')
  })

  const chartOf = (series: string, about: string, values: number[]) => ({
    ...{series, about, counts: values},
    ...{amounts: values.map(String), amounts_at_end: values.map(String)},
  })
  const chartsOf = (...series: ReturnType<typeof chartOf>[]) =>
    chartsPage({charts: {days: ['2026-11-01', '2026-11-02'], series}, days: 30, endpoints: [endpoint], chains})

  test('an endpoint that fails is seen in the charts before a delivery has failed for good, with the share that succeeded', () => {
    const failing = chartsOf(chartOf('delivered', 'x', [3, 1]), chartOf('failed_attempts', 'x', [0, 4]))
    expect(readingOf(failing)).toContain('at most 5 attempts, on 2026-11-02 Succeeded: 50.0 %; 20.0 % today')
    expect(page(failing)).toContain('<title>2026-11-02: 4 attempts failed</title>')
    expect(readingOf(chartsOf(chartOf('failed_attempts', 'x', [0, 4])))).toContain('Succeeded: 0.0 %; 0.0 % today')
  })

  test('a balance below zero is drawn, and the values at the top, in the middle and at the bottom stand beside it', () => {
    const shown = chartsOf(chartOf('balance', 'ETH:USDC', [30, -10]))
    expect(readingOf(shown)).toContain('at most 30 USDC, on 2026-11-01; at least -10 USDC, on 2026-11-02 30 10 -10')
    expect(page(shown)).toContain('points="0,75.00 0,0.00 10,0.00 10,100.00 20,100.00 20,75.00"')
    expect(readingOf(shown)).toContain(`USDC on ${chain.name}: balance`)
  })

  test('sending again what failed says how much that was, and that pending deliveries need nothing', () => {
    expect([0, 1, 2].map(sentAgain)).toEqual([
      'No delivery has failed since then, so nothing is sent again. Pending ones are tried again by themselves.',
      'One delivery is sent again.',
      '2 deliveries are sent again.',
    ])
  })

  test('what Node says of a connection is put into words', () => {
    const error = 'getaddrinfo ENOTFOUND nobody.example'
    const attempts = [{attempted_at: at, duration_ms: 1, response_status: null, error}]
    const text = readingOf(deliveryPage({...delivery, body: '{}', attempts}))
    expect(text).toContain('the host name was not found')
    expect(text).not.toContain('getaddrinfo')
  })

  test('the audit log says that the operator made an invitation or a reset, and for whom; nobody else can look like it', () => {
    const text = (changes: Partial<AuditEntry>) =>
      readingOf(
        auditLogPage({...listOf(), page: {items: [{...audit, detail: 'by the operator', ...changes}], next: null}}),
      )
    expect(text({action: 'invitation.create', person: null, target: null, ip: null})).toContain('the operator 2026-')
    expect(text({action: 'reset.create', person: 'ada@acme.test', ip: null})).toMatch(
      /ada @acme.test the operator 2026-/,
    )
    expect(text({action: 'api_key.create', person: 'ada@acme.test'})).toMatch(/by the operator ada @acme.test/)
    expect(text({outcome: 'wrong_code'})).toContain('wrong code')
  })

  test('the overview says that an endpoint was disabled because of its answers, and nothing of one that was disabled by hand', () => {
    const shown = (disabled_reason: string | null) =>
      readingOf(
        overviewPage({
          today: undefined,
          overview: {
            ...overview,
            endpoints: [{...endpoint, disabled_at: disabled_reason === null ? null : at, disabled_reason}],
          },
          chains,
          me,
          apiUrl: 'x',
        }),
      )
    expect(shown('gone')).toMatch(
      /Nothing is sent to x since .*It responded with nothing but 410 \(gone\) for a minute/,
    )
    expect(shown('failing')).toMatch(/Nothing is sent to x since .*after five days without a success/)
    for (const reason of ['merchant', null]) expect(shown(reason)).not.toContain('Nothing is sent to')
  })

  test('the overview gathers what needs a hand: endpoints that fail, payouts that wait, and requests with too little', () => {
    const shown = (changes: Partial<Overview>) =>
      overviewPage({overview: {...overview, ...changes}, today: undefined, chains, me, apiUrl: 'x'})
    const some = shown({
      endpoints: [{...endpoint, disabled_at: null}],
      waiting: [{...payout, waiting: {code: 'custody_unavailable', message: 'custody does not answer', since: at}}],
      underpaid_since: '2026-11-16',
      underpaid_count: 3,
    })
    expect(readingOf(some)).toMatch(
      /Needs a hand Nothing gets to x since 2026-11-25 03:41:09 UTC\..* A payout of x x on ETH waits\. Custody does not answer\. 3 payment requests/,
    )
    expect(page(some)).toContain('href="/payment-requests?status=underpaid&amp;from=2026-11-16"')
    expect(readingOf(shown({endpoints: [], waiting: [], underpaid_count: 0}))).not.toContain('Needs a hand')
  })

  test('setting up is not over before a payout address is on the whitelist, and the present step has the main button', () => {
    const done = {...overview, has_keys: true, has_users: true, has_addresses: true}
    const shown = (changes: Partial<Overview>) =>
      overviewPage({overview: {...done, ...changes}, today: undefined, chains, me, apiUrl: 'x'})
    expect(page(shown({}))).toContain('<a class="button " href="/payout-addresses">See the command</a>')
    expect(readingOf(shown({has_whitelisted: true}))).not.toContain('Have it put on the whitelist')
    expect(page(shown({has_keys: false}))).toContain(
      '<a class="button quiet" href="/payout-addresses">See the command</a>',
    )
  })
})
