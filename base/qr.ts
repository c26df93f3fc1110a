// QR codes. Promises: one SVG document that needs nothing else, dark on white whatever is behind it, with the four
// modules of white around it that readers rely on (ISO/IEC 18004).
import {encodeQR} from 'qr'
import {Html} from './html.ts'

export function qrSvg(text: string): string {
  const rows = encodeQR(text, 'raw', {ecc: 'medium', border: 4})
  const size = rows.length
  const path = rows.map(darkRuns).join('')
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size} ${size}" shape-rendering="crispEdges"><path fill="#fff" d="M0 0h${size}v${size}H0z"/><path fill="#000" d="${path}"/></svg>`
}

/** As a part of a page. */
export const qrMarkup = (text: string): Html => new Html(qrSvg(text))

/** Neighbours are drawn as one: between two that only touch, a scaled picture may show a gap. */
function darkRuns(row: boolean[], y: number): string {
  const text = row.map(dark => (dark ? '#' : ' ')).join('')
  return [...text.matchAll(/#+/g)].map(({0: {length}, index}) => `M${index} ${y}h${length}v1h-${length}z`).join('')
}
