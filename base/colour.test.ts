import fc from 'fast-check'
import {expect, test} from 'vitest'
import {contrast, textOn} from './colour.ts'

test('contrasts are those of WCAG', () => {
  expect(contrast('#ffffff', '#000000')).toBeCloseTo(21, 5)
  expect(contrast('#777777', '#ffffff')).toBeCloseTo(4.48, 2)
  expect(contrast('#0000ff', '#ffffff')).toBeCloseTo(8.59, 2)
  expect(contrast('#ff0000', '#ffffff')).toBeCloseTo(4, 2)
  expect(contrast('#abcdef', '#abcdef')).toBe(1)
})

test('on every colour black or white can be read', () => {
  const colour = fc.integer({min: 0, max: 0xffffff}).map(value => `#${value.toString(16).padStart(6, '0')}`)
  fc.assert(fc.property(colour, given => contrast(given, textOn(given)) >= 4.5))
})
