// sluice trigger: sends the signed example of an event, to a program on the developer's machine, or by the service to
// the endpoints of the merchant. Nothing happens to money; the event says `test: true`.
import {pause} from '../http.ts'
import type {Delivery, Event, EventType, Sluice} from '../index.ts'
import {forward} from './forward.ts'

const patienceMs = 20_000
const pollMs = 300

export interface Triggering {
  sluice: Sluice
  baseUrl: string
  type: EventType
  /** Where it goes; absent: to each endpoint of the merchant that gets this type. */
  forwardTo: string | undefined
  secret: string
  say(line: string): void
}

/** Resolves to whether all took it. Rejects if there is nobody to send it to. */
export async function trigger({sluice, baseUrl, type, forwardTo, secret, say}: Triggering): Promise<boolean> {
  if (forwardTo !== undefined) {
    const {isTaken, text} = await forward(await exampleOf(baseUrl, type), forwardTo, secret)
    say(`${type}  ${forwardTo}  ${text}`)
    return isTaken
  }
  const endpoints = (await sluice.webhookEndpoints.list()).filter(
    ({enabled, event_types}) => enabled && event_types.includes(type),
  )
  if (endpoints.length === 0)
    throw new Error(`no endpoint of yours gets ${type}: give --forward-to, or register an endpoint for it`)
  let isTaken = true
  for (const {id, url} of endpoints) {
    const delivery = await delivered(sluice, id, await sluice.webhookEndpoints.test(id, type))
    say(`${type}  ${url}  ${outcome(delivery)}`)
    isTaken &&= delivery.status === 'delivered'
  }
  return isTaken
}

/** The delivery once it was tried, or as it is when that takes long. */
async function delivered(sluice: Sluice, endpoint: string, made: Delivery): Promise<Delivery> {
  for (const until = Date.now() + patienceMs; ; await pause(pollMs)) {
    const {items} = await sluice.webhookEndpoints.deliveries(endpoint, {limit: 20}).page()
    const now = items.find(({id}) => id === made.id) ?? made
    if (now.attempts.length > 0 || Date.now() > until) return now
  }
}

function outcome({attempts}: Delivery): string {
  const last = attempts.at(-1)
  if (!last) return `not tried in ${patienceMs / 1000} s`
  if (last.error === null) return `${last.response_status} in ${last.duration_ms} ms`
  return last.error
}

/** The example of the API's document, as a new event. */
async function exampleOf(baseUrl: string, type: EventType): Promise<Event> {
  const response = await fetch(new URL('openapi.json', `${baseUrl.replace(/\/+$/, '')}/`))
  if (!response.ok) throw new Error(`${response.url} answered ${response.status}`)
  const {webhooks} = (await response.json()) as {webhooks: Record<EventType, Webhook>}
  const {example} = webhooks[type].post.requestBody.content['application/json']
  const id = `evt_test_${crypto.randomUUID().replaceAll('-', '')}`
  return {...example, id, created_at: new Date().toISOString(), test: true}
}
interface Webhook {
  post: {requestBody: {content: {'application/json': {example: Event}}}}
}
