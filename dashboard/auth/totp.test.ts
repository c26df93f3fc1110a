import {expect, test} from 'vitest'
import {codeAt, newRecoveryCodes, newSecret, recoveryCodeHash, secretUri, stepOf} from './totp.ts'

/** 12345678901234567890 in base32: the secret of the examples of RFC 6238, whose codes have eight digits. */
const secret = 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ'

test.each([
  [59, '94287082'],
  [1_111_111_109, '07081804'],
  [1_111_111_111, '14050471'],
  [1_234_567_890, '89005924'],
  [2_000_000_000, '69279037'],
  [20_000_000_000, '65353130'],
])('at %i s the code is the one of RFC 6238', (seconds, code) => {
  expect(codeAt(secret, Math.floor(seconds / 30))).toBe(code.slice(2))
})

test('a code counts in its half minute and the ones beside it, by its own step', () => {
  const now = 1_234_567_890_000
  const step = now / 30_000
  for (const near of [-1, 0, 1]) expect(stepOf(secret, codeAt(secret, step + near), now)).toBe(step + near)
  for (const far of [-2, 2]) expect(stepOf(secret, codeAt(secret, step + far), now)).toBeUndefined()
  for (const none of ['', '12345', 'abcdef', '1234567']) expect(stepOf(secret, none, now)).toBeUndefined()
})

test('a secret has 160 bits, and its URI names the account', () => {
  const made = newSecret()
  expect(made).toMatch(/^[A-Z2-7]{32}$/)
  expect(secretUri(made, 'a+b@acme.test')).toBe(`otpauth://totp/Sluice:a%2Bb%40acme.test?secret=${made}&issuer=Sluice`)
})

test('there are ten recovery codes, and each is known however it is typed', () => {
  const codes = newRecoveryCodes()
  expect(new Set(codes).size).toBe(10)
  for (const code of codes) expect(code).toMatch(/^([a-z2-7]{4}-){3}[a-z2-7]{4}$/)
  const [code] = codes
  expect(recoveryCodeHash(` ${code!.toUpperCase().replaceAll('-', ' ')} `)).toEqual(recoveryCodeHash(code!))
})
