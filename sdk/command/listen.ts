// sluice listen: brings a merchant's events to a program on the developer's machine. It reads them from the API, so
// that nothing of this machine is reachable from outside. Promises: each event is posted once, in the order in which
// they happened, none skipped while it runs, however often the service is away; what the program does not take is said,
// and not tried again.
import {pause} from '../http.ts'
import {ApiError, beforeAllEvents, type Event, type EventType, type Page, type Sluice, SluiceError} from '../index.ts'
import {forward, shown} from './forward.ts'

export interface Listening {
  sluice: Sluice
  /** What to read. */
  types: EventType[]
  /** Where events go; absent: they are only shown. */
  forwardTo: string | undefined
  secret: string
  /** Events from this time on come first. */
  since: Date | undefined
  signal: AbortSignal
  say(line: string): void
  pauseMs?: number
}

/** Until the signal. Rejects if the service refuses, such as for a wrong key. */
export async function listen({sluice, types, forwardTo, secret, since, signal, say, pauseMs = 1000}: Listening) {
  let after = await placeBefore(sluice, types, since, signal)
  while (!signal.aborted)
    try {
      for await (const event of sluice.events.follow({after, type: types, signal, pauseMs})) {
        await show(event, {forwardTo, secret, signal, say})
        after = event.id
      }
    } catch (error) {
      if (signal.aborted) return
      if (!(error instanceof SluiceError) || isFinal(error)) throw error
      say(`The service cannot be read: ${shown(error.message, 1000)}. Trying again.`)
      await pause(pauseMs, signal).catch(() => {})
    }
}

/** Posts one event, and says how it was answered. Resolves to whether it was taken. */
export async function show(
  event: Event,
  {forwardTo, secret, signal, say}: Pick<Listening, 'forwardTo' | 'secret' | 'signal' | 'say'>,
): Promise<boolean> {
  const what = `${new Date().toTimeString().slice(0, 8)}  ${shown(event.type).padEnd(30)}  ${shown(event.id)}`
  if (forwardTo === undefined) {
    say(what)
    return true
  }
  const {isTaken, text} = await forward(event, forwardTo, secret, signal)
  say(`${what}  ${text}${isTaken ? '' : ` (again: --replay ${shown(event.id)})`}`)
  return isTaken
}

/** The id of the event behind which to begin. */
async function placeBefore(sluice: Sluice, types: EventType[], since: Date | undefined, signal: AbortSignal) {
  const list = sluice.events.list({type: types, limit: since ? 200 : 1})
  for (let cursor: string | null = null; ; ) {
    const page: Page<Event> = await list.page(cursor, signal)
    const older = page.items.find(({created_at}) => !since || Date.parse(created_at) < since.getTime())
    if (older) return older.id
    if (!page.nextCursor || page.nextCursor === cursor) return beforeAllEvents
    cursor = page.nextCursor
  }
}

/** Whether the same request would be refused again. */
const isFinal = (error: SluiceError): boolean =>
  error instanceof ApiError && [400, 401, 403, 404].includes(error.status) && error.code !== 'unexpected_answer'
