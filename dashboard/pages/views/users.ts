// Users: a merchant's customers, and their addresses.

import {type Html, html} from '../../../base/html.ts'
import type {Deposit} from '../../../reading/deposits.ts'
import type {User} from '../../../reading/users.ts'
import {
  apiDocs,
  card,
  command,
  copyable,
  facts,
  link,
  live,
  short,
  table,
  time,
  timesOf,
  when,
} from '../../components.ts'
import type {Chains, ShownChain} from '../chains.ts'
import type {NotCredited, Page} from '../data.ts'
import type {FilterName, Listed} from '../filters.ts'
import {referenceOf, sentence, type View} from '../view.ts'
import {depositTable} from './deposits.ts'
import {downloads, moreFilters, pager} from './lists.ts'

export const createUserLine = (apiUrl: string) => `curl ${apiUrl}/v1/users -H "Authorization: Bearer $SLUICE_API_KEY" \\
  -H 'Content-Type: application/json' -d '{"external_ref":"customer-42"}'`

/** "ETH and USDC" */
const list = new Intl.ListFormat('en')
export const acceptedTokens = ({tokens}: ShownChain): Html =>
  html`<span class="soft small">Accepts ${list.format(tokens)}. Do not send anything else: another token is not credited.</span>`

interface List extends Listed<User> {
  names: readonly FilterName[]
  apiUrl: string
}

export const usersPage = ({query, page, apiUrl, ...list}: List): View => ({
  title: 'Users',
  section: '/users',
  body: html`${moreFilters({...list, query, what: 'Made', path: '/users', isOpen: true})}
${card({
  body: html`${table({
    caption: 'Users, the newest first',
    columns: ['Reference', 'Addresses', 'Id', timesOf('Made')],
    rows: page.items.map(user => ({
      id: user.id,
      cells: [
        html`<a class="clip" href="/users/${user.id}">${referenceOf(user.external_ref)}</a>`,
        user.addresses.map(({chain}) => chain).join(', ') || 'none',
        short(user.id),
        time(user.created_at),
      ],
    })),
    empty: Object.values(query).some(Boolean)
      ? html`<p>No user matches these filters.</p>`
      : html`<p><strong>No users yet.</strong></p><p>A user is one of your customers, and has an address of its own on each chain. Make one with the API (${apiDocs('API reference')}):</p>${command(createUserLine(apiUrl))}`,
  })}${downloads('/users', query)}${pager('/users', query, page.next)}`,
})}${
  page.items.length > 0 &&
  html`<p class="soft small">Your server makes users with the API (${apiDocs('API reference')}):</p>${command(createUserLine(apiUrl))}`
}`,
})

interface One {
  user: User
  deposits: Page<Deposit>
  notCredited: readonly NotCredited[]
  chains: Chains
}

export const userPage = ({user, deposits, notCredited, chains}: One): View => ({
  title: referenceOf(user.external_ref),
  section: '/users',
  parent: ['/users', 'Users'],
  isLive: true,
  body: html`<div class="columns">${card({
    title: 'Addresses',
    body: user.addresses.length
      ? facts(
          user.addresses.map(
            ({chain, address}) =>
              [
                chains(chain).name,
                html`${copyable(address, `address on ${chain}`)}<div>${acceptedTokens(chains(chain))}</div>`,
              ] as const,
          ),
        )
      : html`<p>None yet. Ask for them with <code>POST /v1/users/${user.id}/addresses</code>.</p>`,
  })}${card({
    title: 'Details',
    body: facts([
      ['Reference', user.external_ref],
      ['Id', copyable(user.id, 'id')],
      ['Made', when(user.created_at)],
      ...Object.entries(user.metadata).map(([name, text]) => [name, text] as const),
    ]),
  })}</div>${card({
    title: 'Deposits',
    action: deposits.next !== null && link(`/deposits?user=${user.id}`, 'All of them'),
    body: live('deposits', `/users/${user.id}/part`, userDeposits(deposits, chains)),
  })}${notCredited.length > 0 && card({title: 'Came, and is not credited', body: notCreditedTable(notCredited)})}`,
})

const notCreditedTable = (rows: readonly NotCredited[]): Html =>
  table({
    caption: 'Payments that are not credited, the newest first',
    columns: ['What', 'Chain', 'Why', 'Sender', 'Transaction', timesOf('Seen')],
    rows: rows.map(({what, chain, why, sender, txid, at}) => ({
      cells: [html`<span class="clip">${what}</span>`, chain, sentence(why), short(sender), short(txid), time(at)],
    })),
    empty: null,
  })

export const userDeposits = ({items}: Page<Deposit>, chains: Chains) =>
  depositTable(items, chains, html`<p>None yet. What is paid to one of these addresses appears here.</p>`, true)
