import {expect, test} from 'vitest'
import {ratesOf} from './rates.ts'

const bounds = {minFeeRate: 2, maxFeeRate: 100}

test('an offer is what the node estimates, within what the operator allows, and with room to be outbid', () => {
  expect(ratesOf({estimate: 12.5, floor: 1}, bounds)).toEqual({first: 12.5, replacing: 12.5})
  expect(ratesOf({estimate: 1.1, floor: 1}, bounds)).toEqual({first: 2, replacing: 2})
  expect(ratesOf({estimate: 500, floor: 1}, bounds)).toEqual({first: 80, replacing: 100})
})

test('a node that estimates nothing is offered the least', () => {
  expect(ratesOf({estimate: undefined, floor: 1}, bounds)).toEqual({first: 2, replacing: 2})
})

test('nothing is offered below what nodes relay, and nothing at all where the operator does not allow that much', () => {
  expect(ratesOf({estimate: undefined, floor: 7}, bounds)).toEqual({first: 7, replacing: 7})
  expect(ratesOf({estimate: 3, floor: 90}, bounds)).toEqual({first: 90, replacing: 90})
  expect(ratesOf({estimate: 3, floor: 100.5}, bounds)).toBeUndefined()
})
