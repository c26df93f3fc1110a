// sluice trigger: sends the signed example of an event, to a program on the developer's machine, or by the service to
// the endpoints of the merchant. Nothing happens to money; the event says `test: true`.
import {pause} from '../http.ts'
import {type Delivery, type Event, type EventType, type Sluice, SluiceError} from '../index.ts'
import {forward, shown} from './forward.ts'

const patienceMs = 20_000
const pollMs = 300
const timeoutMs = 30_000

export interface Triggering {
  sluice: Sluice
  baseUrl: string
  type: EventType
  /** Where it goes; absent: to each endpoint of the merchant that gets this type. */
  forwardTo: string | undefined
  secret: string
  signal: AbortSignal
  say(line: string): void
}

/** Resolves to whether all took it. Rejects if there is nobody to send it to. */
export async function trigger({sluice, baseUrl, type, forwardTo, secret, signal, say}: Triggering): Promise<boolean> {
  if (forwardTo !== undefined) {
    const {isTaken, text} = await forward(await exampleOf(baseUrl, type, signal), forwardTo, secret, signal)
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
    const delivery = await delivered(sluice, id, await sluice.webhookEndpoints.test(id, type), signal)
    say(`${type}  ${shown(url)}  ${shown(outcome(delivery))}`)
    isTaken &&= delivery.status === 'delivered'
  }
  return isTaken
}

/** The delivery once it was tried, or as it is when that takes long. */
async function delivered(sluice: Sluice, endpoint: string, made: Delivery, signal: AbortSignal): Promise<Delivery> {
  for (const until = Date.now() + patienceMs; ; await pause(pollMs, signal)) {
    const {items} = await sluice.webhookEndpoints.deliveries(endpoint, {limit: 20}).page(null, signal)
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
async function exampleOf(baseUrl: string, type: EventType, signal: AbortSignal): Promise<Event> {
  const url = new URL('openapi.json', `${baseUrl.replace(/\/+$/, '')}/`)
  const timeout = AbortSignal.timeout(timeoutMs)
  const document = await fetch(url, {signal: AbortSignal.any([timeout, signal])})
    .then(async response => (await response.json()) as {webhooks?: Partial<Record<EventType, Webhook>>})
    .catch((error: Error) => {
      throw new SluiceError(`${url} cannot be read: ${(error.cause as Error | undefined)?.message ?? error.message}`)
    })
  const example = document.webhooks?.[type]?.post.requestBody.content['application/json'].example
  if (!example) throw new SluiceError(`${url} has no example of ${type}: is SLUICE_URL that of the service?`)
  const id = `evt_test_${crypto.randomUUID().replaceAll('-', '')}`
  return {...example, id, created_at: new Date().toISOString(), test: true}
}
interface Webhook {
  post: {requestBody: {content: {'application/json': {example: Event}}}}
}
