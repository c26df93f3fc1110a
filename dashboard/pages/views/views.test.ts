// Whatever a merchant, a payer or a webhook's response puts into a field is shown as text: the markup of a page does not depend on it.
import fc from 'fast-check'
import {expect, test} from 'vitest'
import {page} from '../../layout.ts'
import type {ShownChain} from '../chains.ts'
import type {Endpoint, Me, Overview} from '../data.ts'
import type {View} from '../view.ts'
import {createdApiKeyPage, newApiKeyPage, revokeKeyPage} from './api-keys.ts'
import {auditLogPage} from './audit-log.ts'
import {deliveryPage} from './deliveries.ts'
import {depositPage} from './deposits.ts'
import {overviewPage} from './overview.ts'
import {payoutAddressesPage, payoutAddressPage} from './payout-addresses.ts'
import {payoutPage} from './payouts.ts'
import {searchPage} from './search.ts'
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
  transactionUrl: () => `https://e/${text}`,
})

/** Every page that shows text of others, with this text in each of its fields. */
function viewsOf(text: string): View[] {
  const chain = shownChain(text)
  const chains = () => chain
  const me: Me = {
    email: text,
    name: text,
    merchant_name: text,
    merchant_prefix: text,
    fee_bps: 50,
    suspended: true,
    chains: [text],
    is_fresh: true,
  }
  const delivery = {
    id: text,
    endpoint_id: text,
    endpoint_url: text,
    event_id: text,
    event_type: text,
    status: 'failed' as const,
    created_at: at,
    next_attempt_at: at,
    finished_at: at,
    attempts: 1,
    response_status: 500,
    error: text,
  }
  const events = [{id: text, type: text, created_at: at, deliveries: [delivery]}]
  const deposit = {
    id: text,
    chain: 'ETH',
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
    events,
    payout: {id: text, status: 'paying' as const, created_at: at},
  }
  const payout = {
    id: text,
    status: 'pending' as const,
    chain: 'ETH',
    token: text,
    gross: text,
    fee: text,
    net: text,
    address: text,
    txid: text,
    created_at: at,
    waiting: {code: text, message: text, since: at},
    error: {code: text, message: text},
    fee_bps: 50,
    sweep_first: true,
    deposit_count: 1,
    sweeping_at: at,
    swept_at: null,
    paying_at: at,
    finished_at: null,
    events,
  }
  const endpoint: Endpoint = {
    id: text,
    url: text,
    event_types: [text],
    created_at: at,
    disabled_at: at,
    disabled_reason: text,
    failing_since: at,
    previous_secret_expires_at: at,
    delivered: 1,
    failed: 1,
    pending: 1,
  }
  const key = {id: text, label: text, scopes: [text], created_at: at, last_used_on: text, revoked_at: null}
  const address = {chain: 'ETH', address: text, updated_at: at, whitelist: 'missing' as const, active_at: at}
  const balance = {
    ...{chain: 'ETH', token: text, gross: text, fee: text, net: text},
    ...{deposit_count: 1, has_address: false, refusal: text},
  }
  const overview: Overview = {
    balances: [balance, {...balance, refusal: null}],
    deposits: [deposit],
    payouts: [payout],
    endpoints: [endpoint],
    has_keys: false,
    has_users: false,
    has_addresses: false,
  }
  return [
    overviewPage({overview, chains, me, apiUrl: text}),
    depositPage(deposit, chain),
    payoutPage(payout, chain),
    userPage(
      {id: text, external_ref: text, created_at: at, addresses: [{chain: 'ETH', address: text}]},
      {items: [deposit], next: text},
      chains,
    ),
    payoutAddressesPage([address], chains, me),
    payoutAddressPage(chain, address, {address: text}, text),
    newApiKeyPage({label: text}, text),
    createdApiKeyPage({id: text, secret: text, apiUrl: text, old: key}),
    revokeKeyPage(key, text),
    endpointPage(endpoint, text),
    editEndpointPage(endpoint, {url: text}, text),
    deliveryPage(
      {...delivery, body: text, tries: [{attempted_at: at, duration_ms: 1, response_status: null, error: text}]},
      text,
    ),
    auditLogPage(
      {before: text},
      {items: [{at, person: text, action: text, target: text, detail: text, ip: text, outcome: text}], next: text},
    ),
    searchPage(text, [{kind: 'delivery', id: text, endpoint_id: text, label: text}]),
  ]
}

/** The elements of each page, and their attributes without their values. */
const markupOf = (text: string) =>
  viewsOf(text).map(view =>
    page({...view, person: {email: text, merchant: text}})
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
