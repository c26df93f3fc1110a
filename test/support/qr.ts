// Reads QR codes with a decoder that shares no code with the one that draws ours.
import {readFile} from 'node:fs/promises'
import {fileURLToPath} from 'node:url'
import {prepareZXingModule, type ReadResult, readBarcodes} from 'zxing-wasm/reader'

const pixelsPerModule = 4

interface Pixels {
  data: Uint8ClampedArray
  width: number
  height: number
}

/** The one code in a picture: PNG, or pixels. Throws unless there is exactly one. */
export async function readQr(picture: Uint8Array | Pixels): Promise<ReadResult> {
  const wasmBinary = await readFile(fileURLToPath(import.meta.resolve('zxing-wasm/reader/zxing_reader.wasm')))
  // By default it would download its WebAssembly.
  await prepareZXingModule({
    overrides: {wasmBinary: wasmBinary.buffer as ArrayBuffer},
    equalityFn: () => true,
    fireImmediately: true,
  })
  const found = await readBarcodes(picture, {formats: ['QRCode'], tryInvert: false, tryRotate: false})
  if (found.length !== 1) throw new Error(`there are ${found.length} QR codes in the picture`)
  return found[0]!
}

/** The code in an SVG document of filled rectangles without a background (transparent, here grey). */
export function readQrSvg(svg: string): Promise<ReadResult> {
  const size = Number(/viewBox="0 0 (\d+) \1"/.exec(svg)![1])
  const width = size * pixelsPerModule
  const data = new Uint8ClampedArray(width * width * 4).fill(128)
  for (const [, color, shapes] of svg.matchAll(/<path fill="#(fff|000)" d="([^"]+)"\/>/g)) {
    const rest = shapes!.replace(/M(\d+) (\d+)h(\d+)v(\d+)(?:H0|h-\3)z/g, (_shape, ...numbers) => {
      const [x, y, w, h] = numbers.slice(0, 4).map(number => Number(number) * pixelsPerModule) as [
        number,
        number,
        number,
        number,
      ]
      for (let row = y; row < y + h; row++)
        data.fill(color === 'fff' ? 255 : 0, (row * width + x) * 4, (row * width + x + w) * 4)
      return ''
    })
    if (rest) throw new Error(`this drawing has other shapes than rectangles: ${rest.slice(0, 40)}`)
  }
  return readQr({data, width, height: width})
}
