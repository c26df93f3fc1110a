#!/usr/bin/env node
// sluice, for a merchant's developer: an API key is all it needs. (For operators the service has its own command.)
import {parseArgs} from 'node:util'
import {type EventType, eventTypes, Sluice} from '../index.ts'
import {secretOf, shown} from './forward.ts'
import {listen, show} from './listen.ts'
import {trigger} from './trigger.ts'

const help = `usage: sluice listen  [--forward-to URL] [--events TYPE,…] [--since TIME]
       sluice listen  --forward-to URL --replay EVENT
       sluice trigger TYPE [--forward-to URL]

listen   shows the events of your account as they happen, and posts each to a program on this machine, signed as the
         service signs them, until Ctrl-C. It reads them from the API: no tunnel is needed.
         --events   only these types
         --since    first those since a time (2026-01-31T12:00:00Z), or since 30s, 10m, 2h or 1d ago
         --replay   sends this event only, again
trigger  sends an example of an event: to a program on this machine, or, without --forward-to, by the service to your
         endpoints. It says "test": true, and no money moves.

SLUICE_API_KEY   your API key: its scope read is enough for listen; trigger to endpoints needs webhooks
SLUICE_URL       where the service is, such as https://pay.example (default: http://127.0.0.1:8080)

Types: ${eventTypes.join(', ')}

Example:
  sluice listen --forward-to http://localhost:3000/webhooks
`

class UsageError extends Error {}

const over = new AbortController()

/** Resolves to the exit code. */
async function run(given: string[]): Promise<number> {
  const {values, positionals} = read(given)
  const [command, type] = positionals
  if (values.help || command === undefined) {
    console.log(help)
    return values.help ? 0 : 2
  }
  const {apiKey, baseUrl} = settings()
  const forwardTo = values['forward-to'] === undefined ? undefined : urlOf(values['forward-to'])
  const {signal} = over
  const shared = {sluice: new Sluice({apiKey, baseUrl}), forwardTo, secret: secretOf(apiKey), signal, say: console.log}
  if (command === 'trigger') return (await trigger({...shared, baseUrl, type: typeOf(type ?? '')})) ? 0 : 1
  if (forwardTo) console.log(`Webhook secret: ${shared.secret} (the same each time with this API key)`)
  if (values.replay !== undefined) {
    if (!forwardTo) throw new UsageError('--replay needs --forward-to')
    return (await show(await shared.sluice.events.get(values.replay), shared)) ? 0 : 1
  }
  const types = values.events === undefined ? [...eventTypes] : values.events.split(',').map(typeOf)
  const since = values.since === undefined ? undefined : timeOf(values.since)
  console.log(`Reading the events of ${baseUrl}${forwardTo ? `, for ${forwardTo}` : ''}. Ctrl-C ends it.`)
  await listen({...shared, types, since})
  return 0
}

const options = {
  'forward-to': {type: 'string'},
  events: {type: 'string'},
  since: {type: 'string'},
  replay: {type: 'string'},
  help: {type: 'boolean', short: 'h'},
} as const
const optionsOf = new Map([
  ['listen', Object.keys(options)],
  ['trigger', ['forward-to', 'help']],
])

function read(given: string[]) {
  try {
    const {values, positionals} = parseArgs({args: given, options, allowPositionals: true})
    const [command] = positionals
    if (command === undefined || values.help) return {values, positionals}
    const known = optionsOf.get(command)
    if (!known) throw new Error(`there is no command ${command}`)
    const wrong = Object.keys(values).find(name => !known.includes(name))
    if (wrong) throw new Error(`${command} has no option --${wrong}`)
    if (positionals.length > (command === 'trigger' ? 2 : 1))
      throw new Error(`${positionals.at(-1)} is too much; --help shows how to use it`)
    return {values, positionals}
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}

function settings(): {apiKey: string; baseUrl: string} {
  const {SLUICE_API_KEY: apiKey, SLUICE_URL: baseUrl = 'http://127.0.0.1:8080'} = process.env
  if (!apiKey) throw new UsageError('set SLUICE_API_KEY to your API key: your dashboard, or your operator, makes one')
  return {apiKey: apiKey.trim(), baseUrl: urlOf(baseUrl, 'SLUICE_URL must be a URL such as https://pay.example')}
}

function urlOf(text: string, wrong = `${text} is not a URL such as http://localhost:3000/webhooks`): string {
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return text
  throw new UsageError(wrong)
}

function typeOf(text: string): EventType {
  const type = eventTypes.find(each => each === text.trim())
  if (type) return type
  throw new UsageError(`${text || 'nothing'} is no type of event; there are ${eventTypes.join(', ')}`)
}

const secondsOf: Record<string, number> = {s: 1, m: 60, h: 3600, d: 86_400}

function timeOf(text: string): Date {
  const [, count, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? []
  const isDate = /^\d{4}-\d\d-\d\d/.test(text)
  const time = unit ? new Date(Date.now() - Number(count) * secondsOf[unit]! * 1000) : new Date(isDate ? text : '')
  if (Number.isNaN(time.getTime())) throw new UsageError(`${text} is no time such as 2026-01-31T12:00:00Z or 10m`)
  return time
}

process.once('SIGINT', () => over.abort())
process.stdout.on('error', () => process.exit()) // the reader closed the pipe

try {
  process.exitCode = await run(process.argv.slice(2))
} catch (error) {
  if (!over.signal.aborted) {
    console.error(`sluice: ${shown((error as Error).message, 1000)}`)
    process.exitCode = error instanceof UsageError ? 2 : 1
  }
}
