// Webhook endpoints: where events are posted to, and how that goes.
import {type EventType, eventTypes, isOnlyIfAsked} from '../../../base/event-types.ts'
import {type Html, html} from '../../../base/html.ts'
import {
  alert,
  apiDocs,
  button,
  card,
  choices,
  copyable,
  decide,
  eventType,
  facts,
  field,
  formId,
  link,
  live,
  status,
  table,
  when,
} from '../../components.ts'
import type {Endpoint} from '../data.ts'
import {type Fields, many, one, type View} from '../view.ts'
import {question} from './notices.ts'

const whenSent: Record<EventType, string> = {
  'deposit.pending': 'A payment was seen. Show it; do not credit it yet.',
  'deposit.confirmed': 'It is final: credit your user.',
  'deposit.reorged':
    'A payment that was pending left the chain (a reorganisation): no longer show it. It may come back.',
  'payout.completed': 'You were paid.',
  'payout.failed': 'Nothing was paid, and the deposits are in the balance again.',
  'payment_request.detected': 'Money was seen. It is not final, or not enough, yet.',
  'payment_request.partially_paid': 'More is final, and it is not enough yet.',
  'payment_request.paid': 'What is final is enough: deliver.',
  'payment_request.underpaid': 'It has ended with less than it needs.',
  'payment_request.expired': 'It has expired, and nothing came that counts as a payment.',
  'payment_request.cancelled': 'You cancelled it.',
  'payment_request.reopened': 'What had come left the chain (a reorganisation): it is not paid any more.',
  'webhook_endpoint.disabled': 'Another of your endpoints was disabled, because of its answers.',
}
const reasons: Record<string, string> = {
  merchant: 'You disabled it.',
  gone: 'It responded with nothing but 410 (gone) for a minute, so it was disabled.',
  failing: 'It was disabled after five days without a success.',
}

export function health({disabled_at, failing_since, failed, was_tried}: Endpoint): Html {
  if (disabled_at !== null) return status('disabled', 'bad')
  if (failing_since !== null) return status('failing', 'bad')
  if (!was_tried) return status('nothing sent yet', 'soft')
  return failed > 0 ? status('some failed', 'wait') : status('healthy', 'good')
}

/** What its owner has to know: it was not disabled by hand. */
export const disabledAlert = ({id, url, disabled_at, disabled_reason}: Endpoint): Html | undefined =>
  disabled_at === null || disabled_reason === 'merchant'
    ? undefined
    : html`<p class="alert">Nothing is sent to ${link(`/webhooks/${id}`, url)} since ${when(disabled_at)}. ${reasons[disabled_reason ?? ''] ?? disabled_reason}</p>`

export const failingAlert = ({id, url, disabled_at, failing_since}: Endpoint): Html | undefined =>
  failing_since === null || disabled_at !== null
    ? undefined
    : html`<p class="alert">Nothing gets to ${link(`/webhooks/${id}`, url)} since ${when(failing_since)}. ${link(`/webhooks/${id}/deliveries`, 'See what it responds')}; after five days without a success it is disabled.</p>`

export const lastDay = ({delivered, failed, pending}: Endpoint) =>
  `${delivered} delivered, ${failed} failed for good, ${pending} still being tried`

export const emptyWebhooks = html`<p><strong>No webhook endpoint yet.</strong></p><p>Sluice posts an event to your server when a deposit is seen and when it is final, and when a payout ends.</p><p>${button('/webhooks/new', 'Add an endpoint')}</p>`

export const webhooksPage = (endpoints: Endpoint[]): View => ({
  title: 'Webhooks',
  section: '/webhooks',
  isLive: true,
  actions: button('/webhooks/new', 'Add an endpoint'),
  lead: html`What your server has to do with an event is in the ${apiDocs('API reference')}.`,
  body: card({body: live('endpoints', '/webhooks/part', endpointTable(endpoints))}),
})

export const endpointTable = (endpoints: Endpoint[]): Html =>
  table({
    caption: 'Webhook endpoints',
    columns: ['URL', {name: 'Health', kind: 'state'}, 'Events', 'Last 24 hours'],
    rows: endpoints.map(endpoint => ({
      id: endpoint.id,
      cells: [
        html`<a class="clip" href="/webhooks/${endpoint.id}">${endpoint.url}</a>`,
        health(endpoint),
        endpoint.event_types.length === eventTypes.length ? 'all' : endpoint.event_types.join(', '),
        lastDay(endpoint),
      ],
    })),
    empty: emptyWebhooks,
  })

interface Form {
  title: string
  action: string
  button: string
  back: readonly [path: string, name: string]
  typed: Fields
  error?: string
}

const endpointForm = ({title, action, button, back, typed, error}: Form): View => ({
  title,
  section: '/webhooks',
  parent: back,
  body: html`<section class="card narrow">${alert(error)}<form method="post" action="${action}">${formId()}${field({
    label: 'URL',
    name: 'url',
    type: 'url',
    value: one(typed.url),
    maxlength: 2048,
    isFirst: true,
    autocomplete: 'off',
    help: 'It has to respond with 2xx within 15 seconds.',
  })}${choices(
    'Events',
    'event_types',
    eventTypes.map(type => ({value: type, label: html`<code>${type}</code>`, help: whenSent[type]})),
    many(typed.event_types),
  )}${decide(button, back[0])}</form></section>`,
})

export const newEndpointPage = (typed: Fields, error?: string): View =>
  endpointForm({
    title: 'Add a webhook endpoint',
    action: '/webhooks',
    button: 'Add the endpoint',
    back: ['/webhooks', 'Webhooks'],
    typed: {
      ...typed,
      event_types: typed.event_types ?? eventTypes.filter(type => !isOnlyIfAsked(type)),
    },
    error,
  })

export const editEndpointPage = (endpoint: Endpoint, typed: Fields, error?: string): View =>
  endpointForm({
    title: 'Change the endpoint',
    action: `/webhooks/${endpoint.id}/edit`,
    button: 'Save',
    back: [`/webhooks/${endpoint.id}`, endpoint.url],
    typed: {url: typed.url ?? endpoint.url, event_types: typed.event_types ?? endpoint.event_types},
    error,
  })

export const webhookSecretPage = (id: string, secret: string, isRotated: boolean): View => ({
  title: isRotated ? 'The new secret' : 'The endpoint is added',
  section: '/webhooks',
  parent: ['/webhooks', 'Webhooks'],
  body: html`<section class="card narrow"><p role="status" class="notice"><strong>Copy the secret now.</strong> It is shown here once, and never again.</p>
<div class="secret">${copyable(secret, 'secret')}</div><p>Your server verifies the signature of each event with it (<a href="https://www.standardwebhooks.com" rel="noreferrer" target="_blank">Standard Webhooks<span class="unseen"> (opens a new tab)</span></a>).
${isRotated && 'For 24 hours events are signed with the old secret, too: deploy the new one in that time.'}</p>${!isRotated && html`<p>Next, send a test from the page of the endpoint: it shows what your server responds.</p>`}<p>${link(`/webhooks/${id}`, 'I have stored it: to the endpoint')}</p></section>`,
})

export const endpointPage = (endpoint: Endpoint, error?: string): View => {
  const path = `/webhooks/${endpoint.id}`
  return {
    title: endpoint.url,
    section: '/webhooks',
    parent: ['/webhooks', 'Webhooks'],
    isLive: true,
    body: html`${alert(error)}${live('endpoint', `${path}/part`, endpointPart(endpoint))}
<div class="columns">${card({title: 'Send a test', body: testForm(endpoint)})}${card({
      title: 'Change it',
      body: html`<ul class="choices-list"><li><a href="${path}/edit">URL and events</a></li><li><a href="${path}/rotate">Rotate the secret</a></li>
<li><a href="${path}/${endpoint.disabled_at === null ? 'disable' : 'enable'}">${endpoint.disabled_at === null ? 'Disable' : 'Enable'}</a></li><li><a class="danger" href="${path}/delete">Delete</a></li></ul>`,
    })}</div>`,
  }
}

export const endpointPart = (endpoint: Endpoint): Html =>
  card({
    title: 'Health',
    action: html`<span role="status">${health(endpoint)}</span>`,
    body: facts([
      endpoint.disabled_at !== null && [
        'Disabled',
        html`since ${when(endpoint.disabled_at)}. ${reasons[endpoint.disabled_reason ?? ''] ?? endpoint.disabled_reason} ${link(`/webhooks/${endpoint.id}/enable`, 'Enable it')}`,
      ],
      endpoint.disabled_at === null &&
        endpoint.failing_since !== null && [
          'Failing',
          html`since ${when(endpoint.failing_since)}; after five days without a success it is disabled`,
        ],
      ['Last 24 hours', html`${lastDay(endpoint)}<br>${link(`/webhooks/${endpoint.id}/deliveries`, 'Deliveries')}`],
      ['Events', endpoint.event_types.map(type => html`${eventType(type)} `)],
      endpoint.previous_secret_expires_at !== null && [
        'Old secret',
        html`signs, too, until ${when(endpoint.previous_secret_expires_at)}`,
      ],
      ['Added', when(endpoint.created_at)],
      ['Id', copyable(endpoint.id, 'id')],
    ]),
  })

const testForm = ({id}: Endpoint) =>
  html`<p class="soft">A signed example, to this endpoint alone. Its body has <code>"test": true</code>: nothing happened, and nobody must be credited.</p>
<form class="row" method="post" action="/webhooks/${id}/test">${formId()}<label class="field"><span>Event</span><select name="type">${eventTypes.map(type => html`<option${type === 'deposit.confirmed' && html` selected`}>${type}</option>`)}</select></label><button>Send</button></form>`

interface Change {
  verb: string
  text: Html
  isDestructive?: boolean
}

/** What is asked before an endpoint is changed. */
export const endpointChanges = {
  rotate: {
    verb: 'Rotate the secret',
    text: html`<p>A new secret is made, and shown once. For 24 hours events are signed with both, so that you have time to deploy the new one.</p>`,
  },
  enable: {
    verb: 'Enable the endpoint',
    text: html`<p>It gets the events that happen from now on. What happened meanwhile is stored as failed deliveries: send them again from the list of deliveries.</p>`,
  },
  disable: {
    verb: 'Disable the endpoint',
    text: html`<p>Nothing is sent to it until you enable it. Its pending deliveries fail; you can send them again later.</p>`,
    isDestructive: true,
  },
  delete: {
    verb: 'Delete the endpoint',
    text: html`<p>Nothing is sent to it any more, and its deliveries can no longer be seen. This cannot be undone.</p>`,
    isDestructive: true,
  },
} satisfies Record<string, Change>
export type EndpointChange = keyof typeof endpointChanges

export function changeEndpointPage(endpoint: Endpoint, change: EndpointChange, error?: string): View {
  const {verb, text, isDestructive}: Change = endpointChanges[change]
  const path = `/webhooks/${endpoint.id}`
  return question({
    title: verb,
    section: '/webhooks',
    parent: [path, endpoint.url],
    text,
    action: `${path}/${change}`,
    button: verb,
    isDestructive,
    error,
  })
}
