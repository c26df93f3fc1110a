import {readFileSync} from 'node:fs'
import {Webhook} from 'standardwebhooks'
import {expect, test} from 'vitest'
import {newSecret} from '../../test/support/webhooks.ts'
import {signedHeaders} from './sign.ts'

const body = '{"type" : "deposit.confirmed", "note" : "Grüße ✓"}'

test('a signed message verifies with the standardwebhooks package', () => {
  const secret = newSecret()
  const headers = signedHeaders('evt_1', body, [secret])
  expect(new Webhook(secret).verify(body, headers)).toEqual(JSON.parse(body))
  expect(() => new Webhook(secret).verify(`${body} `, headers)).toThrow()
  expect(() => new Webhook(newSecret()).verify(body, headers)).toThrow()
})

test('during a rotation the message verifies with either secret', () => {
  const [present, previous] = [newSecret(), newSecret()]
  const headers = signedHeaders('evt_1', body, [present, previous])
  expect(headers['webhook-signature']).toMatch(/^v1,\S{44} v1,\S{44}$/)
  for (const secret of [present, previous]) new Webhook(secret).verify(body, headers)
})

test('the signature equals the example of the Standard Webhooks specification', () => {
  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
  const headers = signedHeaders('msg_p5jXN8AQM9LWM0D4loKWxJek', '{"test": 2432232314}', [secret], 1614265330_000)
  expect(headers).toEqual({
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  })
})

test('the worked example of docs/api.md is what is sent', () => {
  const guide = readFileSync(new URL('../../docs/api.md', import.meta.url), 'utf8')
  const shown = (name: string) => new RegExp(`^${name}  +(.+)$`, 'm').exec(guide)![1]!
  const [id, timestamp, text] = [shown('webhook-id'), shown('webhook-timestamp'), shown('body')]
  expect(shown('signed')).toBe(`${id}.${timestamp}.${text}`)
  expect(signedHeaders(id, text, [shown('secret')], Number(timestamp) * 1000)).toEqual({
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': shown('webhook-signature'),
  })
})
