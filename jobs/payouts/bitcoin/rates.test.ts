import {expect, test} from 'vitest'
import {ratesOf} from './rates.ts'

const bounds = {minFeeRate: 2, maxFeeRate: 100}

test("an offer is the node's estimate, within the operator's limits, with room for replacements", () => {
  expect(ratesOf({estimate: 12.5, floor: 1}, bounds)).toEqual({first: 12.5, replacing: 12.5})
  expect(ratesOf({estimate: 1.1, floor: 1}, bounds)).toEqual({first: 2, replacing: 2})
  expect(ratesOf({estimate: 500, floor: 1}, bounds)).toEqual({first: 80, replacing: 100})
})

test('without an estimate of the node the offer is the minimum', () => {
  expect(ratesOf({estimate: undefined, floor: 1}, bounds)).toEqual({first: 2, replacing: 2})
})

test("an offer is never below what nodes relay, and there is none if the operator's cap is lower", () => {
  expect(ratesOf({estimate: undefined, floor: 7}, bounds)).toEqual({first: 7, replacing: 7})
  expect(ratesOf({estimate: 3, floor: 90}, bounds)).toEqual({first: 90, replacing: 90})
  expect(ratesOf({estimate: 3, floor: 100.5}, bounds)).toBeUndefined()
})
