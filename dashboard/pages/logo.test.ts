// What becomes of an uploaded logo: pixels, and nothing else.

import fc from 'fast-check'
import {decode, encode} from 'fast-png'
import jpeg from 'jpeg-js'
import {expect, test} from 'vitest'
import {logoOf} from './logo.ts'

const png = (image: Parameters<typeof encode>[0]) => Buffer.from(encode(image))
const filled = (length: number, ...pixel: number[]) => Uint8Array.from({length}, (_, n) => pixel[n % pixel.length]!)
const firstPixel = (file: Buffer) => [...decode(logoOf(file)).data.slice(0, 4)]

test('a PNG of each kind, and a JPEG, become a PNG with the same pixels', () => {
  const size = {width: 3, height: 2}
  expect(firstPixel(png({...size, data: filled(24, 10, 20, 30, 40), channels: 4}))).toEqual([10, 20, 30, 40])
  expect(firstPixel(png({...size, data: filled(18, 10, 20, 30), channels: 3}))).toEqual([10, 20, 30, 255])
  expect(firstPixel(png({...size, data: filled(6, 99), channels: 1}))).toEqual([99, 99, 99, 255])
  expect(firstPixel(png({...size, data: filled(12, 99, 7), channels: 2}))).toEqual([99, 99, 99, 7])
  const deep = Uint16Array.from({length: 24}, (_, n) => [0x0aff, 0x14ff, 0x1eff, 0x28ff][n % 4]!)
  expect(firstPixel(png({...size, data: deep, channels: 4, depth: 16}))).toEqual([10, 20, 30, 40])
  const [red, green, blue] = firstPixel(
    jpeg.encode({width: 16, height: 16, data: filled(1024, 200, 100, 50, 255)}, 95).data,
  )
  expect([red! > 190, Math.abs(green! - 100) < 10, Math.abs(blue! - 50) < 10]).toEqual([true, true, true])
})

test('a large one is made smaller, with its proportions, and nothing but pixels is kept', () => {
  const text = {Comment: 'where it was made'}
  const file = png({width: 1000, height: 500, data: filled(2_000_000, 1, 2, 3, 255), channels: 4, text})
  expect(file.includes('where it was made')).toBe(true)
  const kept = logoOf(file)
  const {width, height, data} = decode(kept)
  expect([width, height, ...data.slice(0, 4)]).toEqual([256, 128, 1, 2, 3, 255])
  expect(kept.includes('where it was made')).toBe(false)
})

test('what is no PNG or JPEG of a sane size is refused in words', () => {
  const refusals: [Buffer, RegExp][] = [
    [Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script>x()</script></svg>'), /must be a PNG or a JPEG/],
    [Buffer.from('GIF89a'), /must be a PNG or a JPEG/],
    [Buffer.alloc(0), /must be a PNG or a JPEG/],
    [Buffer.alloc(600 * 1024), /at most 512 KiB/],
    [png({width: 2001, height: 1, data: filled(8004, 0), channels: 4}), /at most 2000 pixels/],
    [png({width: 2, height: 2, data: filled(16, 0), channels: 4}).subarray(0, 40), /broken/],
    [Buffer.from([0xff, 0xd8, 0xff, 0xe0, 0, 16]), /broken/],
  ]
  for (const [file, why] of refusals) expect(() => logoOf(file)).toThrow(why)
})

test('a broken file is refused, or is an image, and never another error', () => {
  const whole = png({width: 8, height: 8, data: filled(256, 1, 2, 3, 4), channels: 4})
  fc.assert(
    fc.property(fc.nat(whole.length - 1), fc.nat(255), (at, value) => {
      const changed = Buffer.from(whole)
      changed[at] = value
      try {
        decode(logoOf(changed))
      } catch (error) {
        expect((error as Error).name).toBe('Refusal')
      }
    }),
  )
})
