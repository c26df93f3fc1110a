// A merchant's logo, for a page that its customers see. Promises: what is kept and shown is an image made here, of the
// pixels alone, whatever was sent; nothing large is decoded.
import {convertIndexedToRgb, decode as decodePng, encode as encodePng} from 'fast-png'
import jpeg from 'jpeg-js'
import {Refusal} from './form.ts'

const mostBytes = 512 * 1024
/** On each side, of what is sent, and of what is kept. */
const mostPixels = 2000
const keptPixels = 256

interface Pixels {
  width: number
  height: number
  /** Red, green, blue, alpha. */
  data: Uint8Array
}

/** A PNG of at most 256 pixels on each side. Throws a Refusal for anything that is no PNG or JPEG of a sane size. */
export function logoOf(file: Buffer): Buffer {
  if (file.length > mostBytes) throw new Refusal(`The logo must have at most ${mostBytes / 1024} KiB.`)
  const isPng = file.subarray(0, 8).equals(Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'))
  const isJpeg = file.subarray(0, 3).equals(Buffer.from([0xff, 0xd8, 0xff]))
  if (!isPng && !isJpeg) throw new Refusal('The logo must be a PNG or a JPEG.')
  let pixels: Pixels
  try {
    pixels = isPng ? ofPng(file) : ofJpeg(file)
  } catch (error) {
    throw error instanceof Refusal ? error : new Refusal('The logo cannot be read: the file is broken.')
  }
  const {width, height, data} = shrunk(pixels)
  return Buffer.from(encodePng({width, height, data, channels: 4, depth: 8}))
}

function ofPng(file: Buffer): Pixels {
  requireSize(file.readUInt32BE(16), file.readUInt32BE(20)) // of IHDR, which comes first (RFC 2083)
  const image = decodePng(file)
  const {width, height, depth, palette} = image
  const channels = palette ? palette[0]!.length : image.channels
  const samples = palette ? convertIndexedToRgb(image) : image.data
  const sample = (at: number) => (depth === 16 ? samples[at]! >> 8 : samples[at]!)
  const data = new Uint8Array(width * height * 4)
  for (let pixel = 0; pixel < width * height; pixel++) {
    const from = pixel * channels
    const isGrey = channels < 3
    const alpha = channels === 2 ? sample(from + 1) : channels === 4 ? sample(from + 3) : 255
    data.set([sample(from), sample(from + (isGrey ? 0 : 1)), sample(from + (isGrey ? 0 : 2)), alpha], pixel * 4)
  }
  return {width, height, data}
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
  throw new Refusal(`The logo must have at most ${mostPixels} pixels on each side.`)
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
