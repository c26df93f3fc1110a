// Every language of the payment page says everything, with the same values in it.
import {expect, test} from 'vitest'
import {en, type Words} from './languages/en.ts'
import {languageCodes, languages, voiceFor} from './voice.ts'

const keys = Object.keys(en) as (keyof Words)[]
const braces = (text: string) => [...text.matchAll(/\{\w+\}/g)].map(([found]) => found).toSorted()
/** Where a language has the English word, and means it. */
const same: Partial<Record<string, (keyof Words)[]>> = {fr: ['transaction']}

test.each(languageCodes)('%s has each text, in its own words, with the values of the English one', code => {
  const words = languages[code]
  expect(Object.keys(words).toSorted()).toEqual(keys.toSorted())
  for (const key of keys) {
    expect(braces(words[key]), `${code}.${key}`).toEqual(braces(en[key]))
    expect(words[key].trim(), `${code}.${key}`).toBe(words[key])
    if (code !== 'en' && !same[code]?.includes(key)) expect(words[key], `${code}.${key}`).not.toBe(en[key])
  }
})

test.each(languageCodes)('%s writes times and durations its own way, with the digits that wallets have', code => {
  const {time, duration, say, isRightToLeft} = voiceFor(code, undefined)
  expect(time('2026-11-30T21:59:07.000Z')).toMatch(/^[^٠-٩]*59.* UTC$/)
  for (const ms of [1, 59_000, 5 * 60_000, 3 * 3_600_000]) expect(duration(ms)).toMatch(/^[^٠-٩]*[0-9]+[^٠-٩]*$/)
  const filled = say('only', {token: 'USDC', network: 'Tron (TRC-20)'})
  expect(filled).toContain(isRightToLeft ? '\u2068Tron (TRC-20)\u2069' : 'Tron (TRC-20)')
})

test('durations are rounded up, in the greatest unit that says enough', () => {
  const {duration} = voiceFor('en', undefined)
  expect([1, 89_000, 89_001, 5_399_000, 5_401_000].map(duration)).toEqual([
    '1 sec',
    '89 sec',
    '2 min',
    '90 min',
    '2 hr',
  ])
})
