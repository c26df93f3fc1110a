// API keys. A secret is shown once, on the page after it was made.

import {type Html, html} from '../../../base/html.ts'
import {type Scope, scopes} from '../../../base/scopes.ts'
import {
  alert,
  apiDocs,
  button,
  card,
  choices,
  command,
  copyable,
  day,
  decide,
  facts,
  field,
  formId,
  link,
  short,
  status,
  table,
  time,
  timesOf,
  when,
} from '../../components.ts'
import type {ApiKey} from '../data.ts'
import {type Fields, many, one, type View} from '../view.ts'
import {question} from './notices.ts'

const allows: Record<Scope, string> = {
  read: 'See users, deposits, balances, payouts and everything else.',
  users: 'Make and change users, and add addresses.',
  payouts: 'Pay balances out, and change payout addresses. Give it only to what moves money.',
  payments: 'Make and cancel payment requests.',
  webhooks: 'Change webhook endpoints, rotate their secrets, send tests and redeliver.',
}
/** Of a shop that only asks for addresses: who steals its key can move no money. */
const usual: Scope[] = ['read', 'users']
const parent = ['/api-keys', 'API keys'] as const
const frame = {section: '/api-keys', parent}

const nameOf = ({label, id}: ApiKey) => label ?? id
const lastUsed = ({last_used_on}: ApiKey) => (last_used_on ? day(last_used_on) : 'never')

/** After a rotation two keys have one label: which of them is the old one must be seen at once. */
const isReplaced = (key: ApiKey, keys: ApiKey[]) =>
  keys.some(
    ({label, revoked_at, created_at}) =>
      revoked_at === null && label !== null && label === key.label && created_at > key.created_at,
  )

const change = (key: ApiKey): Html =>
  key.revoked_at === null
    ? html`<span class="buttons">${button(`/api-keys/${key.id}/rotate`, html`Rotate<span class="unseen"> ${nameOf(key)}</span>`, 'quiet')}${button(`/api-keys/${key.id}/revoke`, html`Revoke<span class="unseen"> ${nameOf(key)}</span>`, 'quiet danger')}</span>`
    : html`since ${time(key.revoked_at)}`

export const apiKeysPage = (keys: ApiKey[]): View => ({
  title: 'API keys',
  section: '/api-keys',
  actions: button('/api-keys/new', 'Create a key'),
  body: card({
    body: table({
      caption: 'API keys, those that work first',
      columns: ['Label', {name: 'State', kind: 'state'}, 'Scopes', 'Last used', timesOf('Made'), 'Change'],
      rows: keys.map(key => ({
        id: key.id,
        isOld: key.revoked_at !== null,
        cells: [
          html`<strong class="clip">${key.label ?? 'no label'}</strong>${short(key.id)}${key.revoked_at === null && isReplaced(key, keys) && html`<div class="soft small">There is a newer key with this label.</div>`}`,
          key.revoked_at === null ? status('works', 'good') : status('revoked', 'soft'),
          key.scopes.length === scopes.length ? 'all' : key.scopes.join(', '),
          lastUsed(key),
          time(key.created_at),
          change(key),
        ],
      })),
      empty: html`<p><strong>No keys yet.</strong></p><p>Your server sends a key with each request to the API. Create one, then try it with the line that you are shown.</p><p>${button('/api-keys/new', 'Create a key')}</p>`,
    }),
  }),
})

export const newApiKeyPage = (typed: Fields, error?: string): View => ({
  ...frame,
  title: 'Create an API key',
  body: html`<section class="card narrow">${alert(error)}<form method="post" action="/api-keys">${formId()}${field({
    label: 'Label',
    name: 'label',
    value: one(typed.label),
    maxlength: 100,
    isFirst: true,
    autocomplete: 'off',
    help: 'What uses it, such as “shop, production”.',
  })}${choices(
    'What it may do',
    'scopes',
    scopes.map(scope => ({value: scope, label: html`<code>${scope}</code>`, help: allows[scope]})),
    typed.scopes === undefined ? usual : many(typed.scopes),
  )}${decide('Create the key', '/api-keys')}</form></section>`,
})

interface Made {
  id: string
  secret: string
  apiUrl: string
  /** The key that it replaces. */
  old?: ApiKey
}

export const createdApiKeyPage = ({id, secret, apiUrl, old}: Made): View => ({
  ...frame,
  title: old ? 'The new key' : 'Your new key',
  body: html`<section class="card narrow"><p role="status" class="notice"><strong>Copy the secret now.</strong> It is shown here once, and never again.</p>
<div class="secret">${copyable(secret, 'secret')}</div><p class="soft">Store it where your server finds its secrets, not in its code. The key’s id is <code>${id}</code>.</p>
<h2>Try it</h2>${command(`curl ${apiUrl}/v1/balances -H "Authorization: Bearer ${secret}"`)}
${
  old
    ? html`<p>Deploy it. Then ${link(`/api-keys/${old.id}/revoke`, 'revoke the old one')}, which works until you do.</p>`
    : html`<p>Next, ${link('/users', 'make a user')}: it gets the addresses at which your customer pays.</p>`
}<p>What else a key can do is in the ${apiDocs('API reference')}.</p><p>${link('/api-keys', 'I have stored it: to the keys')}</p></section>`,
})

export const rotateKeyPage = (key: ApiKey, error?: string): View =>
  question({
    ...frame,
    title: `Rotate ${nameOf(key)}`,
    text: html`<p>A second key is made, with the same label and scopes (${key.scopes.join(', ')}). The present one works until you revoke it, so there is no downtime: deploy the new one, then revoke the old one.</p>`,
    action: `/api-keys/${key.id}/rotate`,
    button: 'Make the new key',
    error,
  })

export const revokeKeyPage = (key: ApiKey, error?: string): View =>
  question({
    ...frame,
    title: `Revoke ${nameOf(key)}`,
    text: html`<p>This key stops working at once, for ever: whatever still uses it is refused. Make sure that it is the one you mean.</p>${facts(
      [
        ['Id', html`<code>${key.id}</code>`],
        ['Made', when(key.created_at)],
        ['Last used', lastUsed(key)],
      ],
    )}`,
    action: `/api-keys/${key.id}/revoke`,
    button: 'Revoke the key',
    isDestructive: true,
    error,
  })
