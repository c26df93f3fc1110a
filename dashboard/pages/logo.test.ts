// What becomes of an uploaded logo: pixels, and nothing else.
import {crc32, deflateSync} from 'node:zlib'

import fc from 'fast-check'
import {decode, encode} from 'fast-png'
import jpeg from 'jpeg-js'
import {expect, test} from 'vitest'
import {logoOf} from './logo.ts'

const png = (image: Parameters<typeof encode>[0]) => Buffer.from(encode(image))
const filled = (length: number, ...pixel: number[]) => Uint8Array.from({length}, (_, n) => pixel[n % pixel.length]!)
const firstPixel = async (file: Buffer) => [...decode(await logoOf(file)).data.slice(0, 4)]

test('a PNG of each kind, and a JPEG, become a PNG with the same pixels', async () => {
  const size = {width: 3, height: 2}
  expect(await firstPixel(png({...size, data: filled(24, 10, 20, 30, 40), channels: 4}))).toEqual([10, 20, 30, 40])
  expect(await firstPixel(png({...size, data: filled(18, 10, 20, 30), channels: 3}))).toEqual([10, 20, 30, 255])
  expect(await firstPixel(png({...size, data: filled(6, 99), channels: 1}))).toEqual([99, 99, 99, 255])
  expect(await firstPixel(png({...size, data: filled(12, 99, 7), channels: 2}))).toEqual([99, 99, 99, 7])
  const deep = Uint16Array.from({length: 24}, (_, n) => [0x0aff, 0x14ff, 0x1eff, 0x28ff][n % 4]!)
  expect(await firstPixel(png({...size, data: deep, channels: 4, depth: 16}))).toEqual([10, 20, 30, 40])
  const [red, green, blue] = await firstPixel(
    jpeg.encode({width: 16, height: 16, data: filled(1024, 200, 100, 50, 255)}, 95).data,
  )
  expect([red! > 190, Math.abs(green! - 100) < 10, Math.abs(blue! - 50) < 10]).toEqual([true, true, true])
})

test('a large one is made smaller, with its proportions, and nothing but pixels is kept', async () => {
  const text = {Comment: 'where it was made'}
  const file = png({width: 1000, height: 500, data: filled(2_000_000, 1, 2, 3, 255), channels: 4, text})
  expect(file.includes('where it was made')).toBe(true)
  const kept = await logoOf(file)
  const {width, height, data} = decode(kept)
  expect([width, height, ...data.slice(0, 4)]).toEqual([256, 128, 1, 2, 3, 255])
  expect(kept.includes('where it was made')).toBe(false)
})

test('what is no PNG or JPEG of a sane size is refused in words', async () => {
  const refusals: [Buffer, RegExp][] = [
    [Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script>x()</script></svg>'), /must be a PNG or a JPEG/],
    [Buffer.from('GIF89a'), /must be a PNG or a JPEG/],
    [Buffer.alloc(0), /must be a PNG or a JPEG/],
    [Buffer.alloc(600 * 1024), /at most 512 KiB/],
    [png({width: 2001, height: 1, data: filled(8004, 0), channels: 4}), /at most 2000 pixels/],
    [png({width: 2, height: 2, data: filled(16, 0), channels: 4}).subarray(0, 40), /broken/],
    [Buffer.from([0xff, 0xd8, 0xff, 0xe0, 0, 16]), /broken/],
  ]
  for (const [file, why] of refusals) await expect(logoOf(file), String(why)).rejects.toThrow(why)
})

test('a broken file is refused, or is an image, and never another error', async () => {
  const whole = png({width: 8, height: 8, data: filled(256, 1, 2, 3, 4), channels: 4})
  await fc.assert(
    fc.asyncProperty(fc.nat(whole.length - 1), fc.nat(255), async (at, value) => {
      const changed = Buffer.from(whole)
      changed[at] = value
      try {
        decode(await logoOf(changed))
      } catch (error) {
        expect((error as Error).name).toBe('Refusal')
      }
    }),
    {numRuns: 25},
  )
})

/** A chunk of a PNG (RFC 2083). */
function chunk(type: string, data: Buffer): Buffer {
  const head = Buffer.alloc(4)
  head.writeUInt32BE(data.length)
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const sum = Buffer.alloc(4)
  sum.writeUInt32BE(crc32(body))
  return Buffer.concat([head, body, sum])
}
function header(width: number, height: number, depth: number, colourType: number): Buffer {
  const data = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, depth, colourType, 0, 0, 0])
  data.writeUInt32BE(width, 0)
  data.writeUInt32BE(height, 4)
  return chunk('IHDR', data)
}
const signature = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1')
const pngOf = (...chunks: Buffer[]) => Buffer.concat([signature, ...chunks, chunk('IEND', Buffer.alloc(0))])

test('greys of less than a byte, and colours that stand for nothing, are read right', async () => {
  const bits = pngOf(header(8, 1, 1, 0), chunk('IDAT', deflateSync(Buffer.from([0, 0b10100000]))))
  const {data} = decode(await logoOf(bits))
  expect([...data.slice(0, 16)]).toEqual([255, 255, 255, 255, 0, 0, 0, 255, 255, 255, 255, 255, 0, 0, 0, 255])
  const clear = pngOf(
    header(4, 1, 8, 2),
    chunk('tRNS', Buffer.from([0, 9, 0, 8, 0, 7])),
    chunk('IDAT', deflateSync(Buffer.from([0, 9, 8, 7, 1, 2, 3, 9, 8, 7, 4, 5, 6]))),
  )
  expect([...decode(await logoOf(clear)).data]).toEqual([...[9, 8, 7, 0, 1, 2, 3, 255], ...[9, 8, 7, 0, 4, 5, 6, 255]])
})

test('what inflates to more than its pixels, or names its size twice, is refused before it takes memory', async () => {
  const large = deflateSync(Buffer.alloc(50_000_000))
  await expect(logoOf(pngOf(header(10, 10, 8, 6), chunk('IDAT', large)))).rejects.toThrow(/broken/)
  const small = chunk('IDAT', deflateSync(Buffer.alloc(410)))
  await expect(logoOf(pngOf(header(10, 10, 8, 6), header(3000, 3000, 8, 6), small))).rejects.toThrow(/broken/)
  expect(decode(await logoOf(pngOf(header(10, 10, 8, 6), chunk('iCCP', large.subarray(0, 99)), small))).width).toBe(10)
})

test('an image that takes long to decode is refused after some seconds, and nobody waits for it meanwhile', async () => {
  const segment = (marker: number, ...bytes: number[]) => [0xff, marker, 0, bytes.length + 2, ...bytes]
  const scan = [...segment(0xda, 1, 1, 0, 1, 255, 0x10), 0, 0]
  const slow = Buffer.from([
    ...[0xff, 0xd8],
    ...segment(0xdb, 0, ...Array(64).fill(1)),
    ...segment(0xc2, 8, 0x07, 0xd0, 0x07, 0xd0, 1, 1, 0x11, 0),
    ...segment(0xc4, 0x10, 1, ...Array(15).fill(0), 0xf0),
    ...Array(300).fill(scan).flat(),
    ...[0xff, 0xd9],
  ])
  let turns = 0
  const timer = setInterval(() => turns++, 50)
  await expect(logoOf(slow)).rejects.toThrow(/takes too long/)
  clearInterval(timer)
  expect(turns).toBeGreaterThan(10)
})
