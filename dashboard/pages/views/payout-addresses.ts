// Where payouts go, and whether the operator's whitelist has it.

import {type Html, html} from '../../../base/html.ts'
import type {PayoutAddressState} from '../../../reading/balances.ts'
import {
  alert,
  button,
  card,
  choices,
  command,
  copyable,
  decide,
  field,
  formId,
  notice,
  status,
  table,
  time,
  timesOf,
  when,
} from '../../components.ts'
import type {Chains, ShownChain} from '../chains.ts'
import type {Me} from '../data.ts'
import {counted, type Fields, many, one, type View} from '../view.ts'

export function whitelistState({whitelisted, whitelisted_at}: PayoutAddressState): Html {
  if (whitelisted) return status('on the whitelist', 'good')
  return whitelisted_at === null ? status('not on the whitelist', 'bad') : status('on the whitelist soon', 'wait')
}

/**
 * What has to be done before something is paid there. Only the operator can: nobody who gets into this dashboard can
 * add an address.
 */
export function whitelistText(row: PayoutAddressState, me: Me, payoutTimeoutMs: number): Html | undefined {
  const {chain, address, whitelisted, whitelisted_at} = row
  if (whitelisted) return undefined
  if (whitelisted_at !== null)
    return html`<p class="notice wait">Payouts on ${chain} wait until ${when(whitelisted_at)}: from then on the whitelist has this address.</p>`
  return html`<div class="notice wait"><p>Payouts on ${chain} wait until the operator puts this address on the whitelist, and fail after ${duration(payoutTimeoutMs)}. Send the operator this command:</p>${command(
    `sluice whitelist add --merchant ${me.merchant_prefix} --chain ${chain} --address ${address}`,
    'command for the operator',
  )}</div>`
}

/** "24 hours": no unit that it is not a whole number of. */
function duration(ms: number): string {
  if (ms % 3_600_000 === 0) return counted(ms / 3_600_000, 'hour')
  return ms % 60_000 === 0 ? counted(ms / 60_000, 'minute') : counted(ms / 1000, 'second')
}

interface List {
  addresses: PayoutAddressState[]
  chains: Chains
  me: Me
  payoutTimeoutMs: number
  /** The chain whose address was just saved. */
  saved?: string
}

/** A link could say so, too: the address was saved only if it is new. */
const isNew = ({updated_at: at}: PayoutAddressState) => Date.parse(at) > Date.now() - 60_000

/** Every chain that is enabled, or has an address. */
function rowsOf({addresses, me}: List): [chain: string, address: PayoutAddressState | undefined][] {
  const codes = new Set([...me.chains, ...addresses.map(({chain}) => chain)])
  return [...codes].sort().map(code => [code, addresses.find(({chain}) => chain === code)])
}

export const payoutAddressesPage = (list: List): View => ({
  title: 'Payout addresses',
  section: '/payout-addresses',
  lead: 'Payouts of a chain go to one address of yours. The operator confirms it by a whitelist that this dashboard cannot change.',
  body: html`${list.addresses.map(row => row.chain === list.saved && isNew(row) && notice(`The payout address on ${row.chain} is saved: payouts that are requested from now on go to ${row.address}.`))}${card(
    {
      body: table({
        caption: 'Payout addresses, by chain',
        columns: ['Network', {name: 'Whitelist', kind: 'state'}, 'Address', timesOf('Changed'), 'Change'],
        rows: rowsOf(list).map(([chain, row]) => ({
          id: chain,
          cells: [
            html`<strong>${chain}</strong> <span class="soft small">${list.chains(chain).name}</span>`,
            row ? whitelistState(row) : status('no address', 'soft'),
            row ? copyable(row.address, `address on ${chain}`) : null,
            row ? time(row.updated_at) : null,
            button(
              `/payout-addresses/${chain}`,
              html`${row ? 'Change' : 'Register'}<span class="unseen"> the address on ${chain}</span>`,
              'quiet',
            ),
          ],
        })),
        empty: html`<p>No chain is enabled for this account: ask the operator.</p>`,
      }),
    },
  )}${list.addresses.map(row => whitelistText(row, list.me, list.payoutTimeoutMs))}`,
})

export const payoutAddressPage = (
  chain: ShownChain,
  now: PayoutAddressState | undefined,
  typed: Fields,
  {error, mayBeOffCurve}: {error?: string | undefined; mayBeOffCurve: boolean},
): View => ({
  title: `Payout address on ${chain.code}`,
  section: '/payout-addresses',
  parent: ['/payout-addresses', 'Payout addresses'],
  body: html`<section class="card narrow">${alert(error)}<p>Payouts on ${chain.name} will go there. A change applies to payouts that are requested later, and the operator has to put the new address on the whitelist.</p>
${now && html`<p class="soft">Now: ${copyable(now.address, 'present address')}</p>`}
<form method="post" action="/payout-addresses/${chain.code}">${formId()}${field({
    label: 'New address',
    name: 'address',
    value: one(typed.address),
    maxlength: 128,
    autocomplete: 'off',
    isFirst: true,
    help: 'Copy it from your wallet. Check its first and last letters.',
  })}${
    mayBeOffCurve
      ? choices(
          'If it is meant',
          'allow_off_curve',
          [{value: 'true', label: 'It is no point of the curve, and right: the vault of a multisignature wallet'}],
          many(typed.allow_off_curve),
        )
      : undefined
  }${decide('Save the address', '/payout-addresses')}</form></section>`,
})
