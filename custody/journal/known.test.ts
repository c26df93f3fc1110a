// What custody keeps in memory of its journal, on chains whose transactions expire: each attempt is a first signature
// on its day, because those before are dead.
import {expect, test} from 'vitest'
import {Known} from './known.ts'

let count = 0
function entry(subject: string, at: string, {amount = '10', expires = true, token = 'MADE', stream = 'MADEUP'} = {}) {
  count++
  return {
    stream,
    seq: count,
    kind: 'pay',
    subject_id: subject,
    merchant_id: 'm',
    token,
    amount,
    destination: 'd',
    source: 's',
    sender: 's',
    nonce: expires ? null : count,
    max_fee: '2',
    txid: `t${count}`,
    details: expires ? {lifetime: {from: 0, end: 1, clock_ms: 0}} : {},
    signed_at: at,
    hash: count.toString(16).padStart(64, '0'),
  }
}

const monday = '2026-11-23T10:00:00.000Z'
const tuesday = '2026-11-24T10:00:00.000Z'

const seen = (known: Known) =>
  [monday, tuesday].map(day => [
    known.paidOn(day, 'MADEUP', 'MADE', 'other'),
    known.firstExpiring(day, 'MADEUP', 'MADE'),
    known.promisedOn(day, 'MADEUP'),
    known.paid('MADEUP', 'MADE', 'm'),
    known.attemptsOf('a'),
    known.attemptsOf('b'),
  ])

test('a payment counts once on each day on which one of its transactions that expire was signed, and once for its merchant', () => {
  const known = new Known()
  known.note(entry('a', monday))
  known.note(entry('a', monday))
  known.note(entry('b', monday, {amount: '5'}))
  expect(known.paidOn(monday, 'MADEUP', 'MADE', '')).toBe(15n)
  expect(known.paidOn(monday, 'MADEUP', 'MADE', 'a')).toBe(5n)
  known.note(entry('a', tuesday))
  expect(known.paidOn(tuesday, 'MADEUP', 'MADE', '')).toBe(10n)
  expect(known.paid('MADEUP', 'MADE', 'm')).toBe(15n)
  expect(known.promisedOn(tuesday, 'MADEUP')).toHaveLength(1)
})

test('where nothing expires, a payment counts only on the day of its first signature', () => {
  const known = new Known()
  known.note(entry('a', monday, {expires: false}))
  known.note(entry('a', tuesday, {expires: false}))
  expect([known.paidOn(tuesday, 'MADEUP', 'MADE', ''), known.firstExpiring(monday, 'MADEUP', 'MADE')]).toEqual([
    0n,
    undefined,
  ])
})

test('the first entry of the day that expires is known by its number in its stream', () => {
  const known = new Known()
  known.note(entry('a', monday, {expires: false}))
  known.note(entry('x', monday, {stream: 'ETH'}))
  known.note(entry('b', monday))
  known.note(entry('c', monday))
  expect(known.firstExpiring(monday, 'MADEUP', 'MADE')).toBe(2)
  known.note(entry('c', tuesday))
  expect(known.firstExpiring(tuesday, 'MADEUP', 'MADE')).toBe(4)
})

test('forgetting the last entries leaves what was known before them', () => {
  const known = new Known()
  const entries = [
    entry('a', monday),
    entry('a', monday),
    entry('b', monday, {amount: '5', expires: false}),
    entry('b', monday, {amount: '5'}),
    entry('a', monday),
  ]
  const before = entries.map(one => {
    const was = seen(known)
    known.note(one)
    return was
  })
  for (const [i, one] of [...entries.entries()].toReversed()) {
    known.forget(one)
    expect(seen(known), `${i}`).toEqual(before[i])
  }
})

test('gas counts with the highest fee of its nonce, also once a cancel offers more: either may be mined', () => {
  const known = new Known()
  const promised = () => known.promisedOn(monday, 'MADEUP').map(({fee, gas}) => [fee, gas])
  const fund = {...entry('f', monday, {amount: '1000', expires: false}), kind: 'fund', max_fee: '40'}
  known.note(fund)
  expect(promised()).toEqual([[40n, 1000n]])
  const cancel = {
    ...entry('f', monday, {amount: '0', expires: false}),
    kind: 'cancel',
    nonce: fund.nonce,
    max_fee: '45',
  }
  known.note(cancel)
  expect(promised()).toEqual([[45n, 1000n]])
  known.forget(cancel)
  expect(promised()).toEqual([[40n, 1000n]])
})
