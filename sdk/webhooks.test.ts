// What an endpoint receives is taken if the service signed it lately, and nothing else: the signatures are made by the
// service's own code.
import fc from 'fast-check'
import {afterEach, expect, test, vi} from 'vitest'
import {signedHeaders} from '../jobs/webhooks/sign.ts'
import {newSecret} from '../test/support/webhooks.ts'
import {type EventOf, type Refusal, verify, WebhookError} from './index.ts'

const secret = newSecret()
const body = '{"type" : "deposit.confirmed", "id" : "evt_1", "amount" : "0.1", "note" : "Grüße ✓"}'
const signed = (text = body, at = Date.now()) => signedHeaders('evt_1', text, [secret], at)
afterEach(() => vi.useRealTimers())

function refusal(...args: Parameters<typeof verify>): Refusal {
  try {
    verify(...args)
  } catch (error) {
    if (error instanceof WebhookError) return error.reason
    throw error
  }
  throw new Error('it was taken')
}

test('an event of the service is taken from text or bytes, with headers of the web or of Node', () => {
  const event = verify(body, new Headers(signed()), secret) as EventOf<'deposit.confirmed'>
  expect(event.amount).toBe('0.1')
  expect(verify(new TextEncoder().encode(body), signed(), secret)).toEqual(event)
  const ofNode = Object.fromEntries(Object.entries(signed()).map(([name, value]) => [name.toUpperCase(), [value]]))
  expect(verify(Buffer.from(body), ofNode, secret)).toEqual(event)
})

test('after a rotation either secret verifies', () => {
  const old = newSecret()
  const headers = signedHeaders('evt_1', body, [secret, old])
  for (const each of [secret, old]) expect(verify(body, headers, each).type).toBe('deposit.confirmed')
})

test('a body with any other byte, another id or another time is refused', () =>
  fc.assert(
    fc.property(fc.nat(body.length - 1), fc.string({minLength: 1, maxLength: 1}), (at, character) => {
      fc.pre(body[at] !== character)
      const changed = body.slice(0, at) + character + body.slice(at + 1)
      expect(refusal(changed, signed(), secret)).toBe('wrong_signature')
    }),
  ))

test('each reason is told apart', () => {
  expect(refusal(body, {}, secret)).toBe('missing_headers')
  expect(refusal(body, {...signed(), 'webhook-signature': undefined}, secret)).toBe('missing_headers')
  expect(refusal(body, signed(), newSecret())).toBe('wrong_signature')
  expect(refusal(body, {...signed(), 'webhook-id': 'evt_2'}, secret)).toBe('wrong_signature')
  expect(refusal(body, signed(), 'whsec_')).toBe('wrong_signature')
  for (const text of ['not json', '[]', '7', 'null', '{"id":"evt_1"}'])
    expect(refusal(text, signed(text), secret), text).toBe('not_an_event')
})

test('a message older or newer than five minutes is refused, to the second', () => {
  const now = 1_800_000_000_000
  vi.useFakeTimers({now, toFake: ['Date']})
  for (const seconds of [0, 299, 300, -300])
    expect(verify(body, signed(body, now - seconds * 1000), secret).id).toBe('evt_1')
  for (const seconds of [301, 86_400, -301])
    expect(refusal(body, signed(body, now - seconds * 1000), secret)).toBe('wrong_time')
  expect(refusal(body, {...signed(), 'webhook-timestamp': 'soon'}, secret)).toBe('wrong_time')
})

test('what the program itself does wrong is no refusal of a message, and says what to do', () => {
  expect(() => verify(JSON.parse(body), signed(), secret)).toThrow('rawBody must be the text or the bytes as they came')
  for (const none of [undefined, '', 'secret'] as string[])
    expect(() => verify(body, signed(), none), none).toThrow('secret must be that of the endpoint, whsec_')
})
