// Deliveries of events to webhook endpoints.

import {type Html, html, type Part} from '../../../base/html.ts'
import {deliveryStatuses} from '../../../reading/webhooks.ts'
import {
  alert,
  card,
  command,
  copyable,
  eventType,
  facts,
  formId,
  link,
  live,
  notice,
  type Step,
  status,
  type Tone,
  table,
  time,
  timeLine,
  timesOf,
  when,
} from '../../components.ts'
import {local, zone} from '../../zone.ts'
import type {Delivery, DeliveryDetail, Endpoint, Event} from '../data.ts'
import type {FilterName, Listed} from '../filters.ts'
import type {View} from '../view.ts'
import {downloads, filters, liveWhereNewest, moreFilters, pager} from './lists.ts'
import {pathOf as pathOfThing} from './paths.ts'

const tones: Record<Delivery['status'], Tone> = {pending: 'wait', delivered: 'good', failed: 'bad'}
const deliveryState = (state: Delivery['status']) => status(state, tones[state])

const pathOf = ({id, endpoint_id}: Delivery) => `/webhooks/${endpoint_id}/deliveries/${id}`

/** What went wrong, for people: what Node says of a connection is for programs. */
const failures: readonly (readonly [RegExp, string])[] = [
  [/ENOTFOUND|EAI_AGAIN/, 'the host name was not found'],
  [/ECONNREFUSED/, 'nothing listens there: the connection was refused'],
  [/ECONNRESET/, 'the connection was cut'],
]
const inWords = (error: string): string => failures.find(([pattern]) => pattern.test(error))?.[1] ?? error

/** What the endpoint said last. */
function answer({attempts}: Delivery): string {
  const last = attempts.at(-1)
  if (!last) return 'not sent'
  return last.error === null ? `responded with ${last.response_status}` : inWords(last.error)
}

const endpointOf = (delivery: Delivery): Part =>
  delivery.endpoint_deleted
    ? html`${delivery.endpoint_url} <span class="soft">(deleted)</span>`
    : link(pathOf(delivery), delivery.endpoint_url)

/** An event, and where it was sent, as a step of what it is about. */
export const deliverySteps = ({type, created_at, deliveries}: Event): Step[] => [
  {
    at: created_at,
    title: html`Event ${eventType(type)}`,
    tone: 'soft',
    text:
      deliveries.length === 0
        ? 'No webhook endpoint got events of this type then.'
        : html`<ul class="sent">${deliveries.map(
            delivery =>
              html`<li>${deliveryState(delivery.status)} ${endpointOf(delivery)}<br><span class="soft small">${answer(delivery)}</span></li>`,
          )}</ul>`,
  },
]

/** Asks the page to look again in some seconds: a delivery is no news of its own. */
const lookAgain = (deliveries: readonly Delivery[]) =>
  deliveries.some(
    ({status, next_attempt_at: at}) => status === 'pending' && (at === null || Date.parse(at) < Date.now() + 10_000),
  ) && html`<span data-soon></span>`

const about = ({about: thing}: Delivery): Part =>
  thing && html`<a class="clip" href="${pathOfThing(thing)}">${thing.label}</a>`

interface List extends Listed<Delivery> {
  endpoint: Endpoint
  names: readonly FilterName[]
}

const listPath = ({id}: Endpoint) => `/webhooks/${id}/deliveries`

export const deliveryList = ({endpoint, query, page}: Pick<List, 'endpoint' | 'query' | 'page'>): Html =>
  html`${lookAgain(page.items)}${table({
    caption: 'Deliveries, the newest first',
    columns: [
      'Event',
      {name: 'Status', kind: 'state'},
      'Response',
      'Attempts',
      timesOf('Since'),
      timesOf('Next attempt'),
    ],
    rows: page.items.map(delivery => ({
      id: delivery.id,
      cells: [
        html`<a href="${pathOf(delivery)}">${eventType(delivery.event_type)}</a>${delivery.about && html`<div class="about small">${about(delivery)}</div>`}`,
        deliveryState(delivery.status),
        html`<span class="clip">${answer(delivery)}</span>`,
        delivery.attempts.length,
        time(delivery.created_at),
        delivery.next_attempt_at && time(delivery.next_attempt_at),
      ],
    })),
    empty: Object.values(query).some(Boolean)
      ? html`<p>No delivery matches.</p>`
      : html`<p><strong>Nothing was sent yet.</strong></p><p>Send a test on the ${link(`/webhooks/${endpoint.id}`, 'page of the endpoint')}.</p>`,
  })}${pager(listPath(endpoint), query, page.next)}`

export const deliveriesPage = (list: List, {done, failed}: {done?: string; failed?: string} = {}): View => ({
  title: 'Deliveries',
  section: '/webhooks',
  parent: [`/webhooks/${list.endpoint.id}`, list.endpoint.url],
  isLive: list.query.before === undefined,
  body: html`${notice(done)}${alert(failed)}${filters(listPath(list.endpoint), list.query, [{name: 'status', label: 'Status', values: deliveryStatuses}])}${moreFilters({...list, what: 'Since', path: listPath(list.endpoint)})}${card(
    {
      body: html`${liveWhereNewest('deliveries', listPath(list.endpoint), list.query, deliveryList(list))}${downloads(listPath(list.endpoint), list.query)}`,
    },
  )}${redeliverAll(list.endpoint)}`,
})

/** What became of the form below: how many it sent again. */
export const sentAgain = (count: number): string =>
  count === 0
    ? 'No delivery has failed since then, so nothing is sent again. Pending ones are tried again by themselves.'
    : `${count === 1 ? 'One delivery is' : `${count} deliveries are`} sent again.`

const redeliverAll = (endpoint: Endpoint) =>
  card({
    title: 'Send again what failed',
    body: html`<p>Every delivery that failed, of events since a time. This is how you get what happened while the endpoint was disabled. Pending deliveries are tried again by themselves.</p>
<form class="row" method="post" action="/webhooks/${endpoint.id}/redeliver-failed">${formId()}<label class="field"><span>Since (${zone()})</span><input type="datetime-local" name="since" step="1" required value="${local(new Date(Date.now() - 86_400_000).toISOString()).replace(' ', 'T')}"></label><button class="quiet">Send again</button></form>`,
  })

export const deliveryPage = (delivery: DeliveryDetail, error?: string): View => ({
  title: delivery.event_type,
  section: '/webhooks',
  parent: [`/webhooks/${delivery.endpoint_id}/deliveries`, 'Deliveries'],
  isLive: true,
  actions: html`<form method="post" action="${pathOf(delivery)}/redeliver">${formId()}<button class="quiet">Send it again</button></form>`,
  body: html`${alert(error)}${live('delivery', `${pathOf(delivery)}/part`, deliveryPart(delivery))}${request(delivery)}`,
})

export const deliveryPart = (delivery: DeliveryDetail): Html =>
  html`${lookAgain([delivery])}<div class="columns">${card({
    title: 'Attempts',
    action: html`<span role="status">${deliveryState(delivery.status)}</span>`,
    body: timeLine([
      ...(delivery.next_attempt_at
        ? [{at: null, title: 'Next attempt', text: when(delivery.next_attempt_at), tone: 'wait'} as const]
        : []),
      ...delivery.attempts.toReversed().map(({attempted_at, duration_ms, response_status, error}) => ({
        at: attempted_at,
        title: error === null ? `Responded with ${response_status}` : inWords(error),
        text: `${error && response_status !== null ? `Status ${response_status}, after` : 'After'} ${duration_ms} ms.`,
        tone: error === null ? ('good' as const) : ('bad' as const),
      })),
      ...(delivery.attempts.length || delivery.next_attempt_at
        ? []
        : [{at: null, title: 'Nothing was sent: the endpoint was disabled', tone: 'bad'} as const]),
    ]),
  })}${card({
    title: 'Details',
    body: facts([
      ['Endpoint', link(`/webhooks/${delivery.endpoint_id}`, delivery.endpoint_url)],
      delivery.about !== null && ['About', about(delivery)],
      ['Event id', copyable(delivery.event_id, 'event id')],
      ['Delivery id', copyable(delivery.id, 'delivery id')],
      ['Since', when(delivery.created_at)],
      ['Ended', delivery.finished_at ? when(delivery.finished_at) : 'not yet'],
    ]),
  })}</div>`

const request = (delivery: DeliveryDetail) =>
  card({
    title: 'Request',
    body: html`<p class="soft">Each attempt posts this. Verify the signature over the raw body, before you parse it.</p>
${facts([
  [html`<code>POST</code>`, html`<code>${delivery.endpoint_url}</code>`],
  [html`<code>content-type</code>`, html`<code>application/json</code>`],
  [
    html`<code>webhook-id</code>`,
    html`<code>${delivery.event_id}</code><br><span class="soft small">The same in each attempt: handle an event once.</span>`,
  ],
  [
    html`<code>webhook-timestamp</code>`,
    html`<span class="soft">The second of the attempt: refuse a message whose time is minutes off.</span>`,
  ],
  [
    html`<code>webhook-signature</code>`,
    html`<code>v1,…</code><br><span class="soft small">HMAC-SHA256 over “id.timestamp.body”, in base64. The key is what follows <code>whsec_</code> in the endpoint’s secret, decoded from base64. During a rotation there are two signatures.</span>`,
  ],
])}
<h3>Body</h3><p class="soft small">Shown with line breaks; it is sent without.</p>${command(indented(delivery.body), 'body')}`,
  })

/** For people; what is sent has no line breaks. */
function indented(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2)
  } catch {
    return json
  }
}
