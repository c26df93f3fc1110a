// Decodes an uploaded image and encodes its pixels again, in a thread of its own that logo.ts ends if it takes long.
// Promises: no more is inflated than the image's own size needs, and only the chunks that make pixels are read.
import {parentPort, workerData} from 'node:worker_threads'
import {inflateSync} from 'node:zlib'
import {convertIndexedToRgb, type DecodedPng, decode as decodePng, encode as encodePng} from 'fast-png'
import jpeg from 'jpeg-js'

/** On each side, of what is sent, and of what is kept. */
const mostPixels = 2000
const keptPixels = 256
const signature = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1')

/** What the thread says: the PNG, or why there is none. */
export type Made = {png: Uint8Array} | {refusal: string}

class Refused extends Error {}

interface Pixels {
  width: number
  height: number
  /** Red, green, blue, alpha. */
  data: Uint8Array
}

parentPort?.postMessage(made(Buffer.from(workerData as Uint8Array)))

function made(file: Buffer): Made {
  const isPng = file.subarray(0, 8).equals(signature)
  const isJpeg = file.subarray(0, 3).equals(Buffer.from([0xff, 0xd8, 0xff]))
  if (!isPng && !isJpeg) return {refusal: 'The logo must be a PNG or a JPEG.'}
  try {
    const {width, height, data} = shrunk(isPng ? ofPng(file) : ofJpeg(file))
    return {png: encodePng({width, height, data, channels: 4, depth: 8})}
  } catch (error) {
    return {refusal: error instanceof Refused ? error.message : 'The logo cannot be read: the file is broken.'}
  }
}

function ofPng(file: Buffer): Pixels {
  const image = decodePng(checkedPng(file))
  const {width, height} = image
  const {samples, channels, most} = samplesOf(image)
  const data = new Uint8Array(width * height * 4)
  for (let pixel = 0; pixel < width * height; pixel++) {
    const own = samples.subarray(pixel * channels, (pixel + 1) * channels)
    const eight = (at: number) => (most === 255 ? own[at]! : own[at]! >> 8)
    const grey = channels < 3
    const isClear = image.transparency?.every((value, at) => value === own[at]) ?? false
    const alpha = isClear ? 0 : channels === 2 ? eight(1) : channels === 4 ? eight(3) : 255
    data.set([eight(0), eight(grey ? 0 : 1), eight(grey ? 0 : 2), alpha], pixel * 4)
  }
  return {width, height, data}
}

/** A sample for each channel of each pixel. Those below a byte are packed: as indexes of a palette, of greys too. */
function samplesOf(image: DecodedPng) {
  const {depth, palette} = image
  const levels = 2 ** depth
  const greys = Array.from({length: levels}, (_, level) => Array(3).fill(Math.round((level * 255) / (levels - 1))))
  const colours = palette ?? (depth < 8 ? greys : undefined)
  if (!colours) return {samples: image.data, channels: image.channels, most: depth === 16 ? 65_535 : 255}
  const samples = convertIndexedToRgb({...image, palette: colours as typeof palette})
  if (!palette) image.transparency = image.transparency?.map(level => greys[level]?.[0] ?? level)
  if (!palette && image.transparency) image.transparency = Uint16Array.from({length: 3}, () => image.transparency![0]!)
  return {samples, channels: colours[0]!.length, most: 255}
}

/** The chunks that make pixels (RFC 2083), each kind where it must be, of an image that inflates to its own size. */
function checkedPng(file: Buffer): Buffer {
  const kept: Buffer[] = [signature]
  const pixels: Buffer[] = []
  let expected = 0
  for (let at = 8; at < file.length; ) {
    const length = file.readUInt32BE(at)
    const type = file.toString('latin1', at + 4, at + 8)
    const chunk = file.subarray(at, at + 12 + length)
    if (chunk.length < 12 + length || (type === 'IHDR') !== (at === 8)) throw new Error('out of order')
    if (type === 'IHDR') expected = mostInflated(chunk.subarray(8))
    if (type === 'IDAT') pixels.push(chunk.subarray(8, 8 + length))
    if (['IHDR', 'PLTE', 'tRNS', 'IDAT', 'IEND'].includes(type)) kept.push(chunk)
    at += 12 + length
  }
  inflateSync(Buffer.concat(pixels), {maxOutputLength: expected})
  return Buffer.concat(kept)
}

/** Bytes of all rows, each with its filter; interlaced ones have some more. */
function mostInflated(header: Buffer): number {
  const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)]
  requireSize(width, height)
  return (width * 8 + 8) * height + 64 * 1024
}

function ofJpeg(file: Buffer): Pixels {
  const image = jpeg.decode(file, {
    useTArray: true,
    maxResolutionInMP: (mostPixels * mostPixels) / 1e6,
    maxMemoryUsageInMB: 128,
  })
  requireSize(image.width, image.height)
  return image
}

function requireSize(width: number, height: number): void {
  if (width > 0 && height > 0 && width <= mostPixels && height <= mostPixels) return
  throw new Refused(`The logo must have at most ${mostPixels} pixels on each side.`)
}

/** Each pixel is the mean of those that it stands for. */
function shrunk(image: Pixels): Pixels {
  const scale = Math.min(1, keptPixels / Math.max(image.width, image.height))
  if (scale === 1) return image
  const [width, height] = [Math.max(1, Math.round(image.width * scale)), Math.max(1, Math.round(image.height * scale))]
  const data = new Uint8Array(width * height * 4)
  const bound = (n: number, size: number, whole: number) => Math.floor((n * whole) / size)
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      const sum = [0, 0, 0, 0]
      const [left, right] = [bound(x, width, image.width), bound(x + 1, width, image.width)]
      const [top, bottom] = [bound(y, height, image.height), bound(y + 1, height, image.height)]
      for (let row = top; row < bottom; row++)
        for (let column = left; column < right; column++) {
          const at = (row * image.width + column) * 4
          const alpha = image.data[at + 3]!
          for (let channel = 0; channel < 3; channel++) sum[channel]! += image.data[at + channel]! * alpha
          sum[3]! += alpha
        }
      const count = (right - left) * (bottom - top)
      const colour = sum.slice(0, 3).map(total => (sum[3] ? total / sum[3] : 0))
      data.set([...colour, sum[3]! / count].map(Math.round), (y * width + x) * 4)
    }
  return {width, height, data}
}
