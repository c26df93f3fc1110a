// The time zone in which a page shows times: of the merchant whose page is being made, UTC where there is none. It
// belongs to the request, so that no view has to hand it on.
import {AsyncLocalStorage} from 'node:async_hooks'

const zones = new AsyncLocalStorage<string>()

/** What `work` makes, now or later, shows times in this zone. */
export const inZone = (zone: string, work: () => void): void => zones.run(zone, work)

export const zone = (): string => zones.getStore() ?? 'UTC'

/** 2026-11-25 03:41:09, in the zone of the page. */
export function local(iso: string): string {
  if (zone() === 'UTC') return `${iso.slice(0, 10)} ${iso.slice(11, 19)}`
  return formatOf(zone()).format(new Date(iso))
}

/** 2026-11-25. */
export const today = (): string => local(new Date().toISOString()).slice(0, 10)

const formats = new Map<string, Intl.DateTimeFormat>()
/** Sweden writes dates as ISO 8601 does. */
function formatOf(timeZone: string): Intl.DateTimeFormat {
  const found = formats.get(timeZone)
  if (found) return found
  const format = new Intl.DateTimeFormat('sv-SE', {timeZone, dateStyle: 'short', timeStyle: 'medium'})
  formats.set(timeZone, format)
  return format
}
