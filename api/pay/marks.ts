// Pictures of the payment page, drawn here: marks of coins and networks, and of the states of a payment. Promises: none
// says what no word beside it says, so screen readers skip them all.
import {html} from '../../base/html.ts'

/** A letter that people know the coin by, on its colour; white reads on each with 4.5 : 1. */
const letters: Record<string, [letter: string, colour: string]> = {
  BTC: ['B', '#a75a00'],
  ETH: ['E', '#4a5fc1'],
  POL: ['P', '#7b3fe4'],
  POLYGON: ['P', '#7b3fe4'],
  TRX: ['T', '#c3202f'],
  TRON: ['T', '#c3202f'],
  SOL: ['S', '#0d7a5f'],
  USDC: ['$', '#2268b8'],
  USDT: ['₮', '#1a7a5e'],
  EURC: ['€', '#2350a0'],
  DAI: ['D', '#8f6400'],
}

const markOf = (name: string, x: number) => {
  const [letter, colour] = letters[name] ?? [name.slice(0, 1), '#5a6570']
  return html`<circle cx="${x}" cy="16" r="14" fill="${colour}"/><text x="${x}" y="21" text-anchor="middle" font-size="15" font-weight="700" fill="#fff">${letter}</text>`
}

/** A coin; before a token, which is on several networks, its network. */
export const mark = (chain: string, token: string, isNative: boolean) =>
  isNative
    ? html`<svg class="mark" viewBox="0 0 32 32" width="32" height="32" aria-hidden="true">${markOf(token, 16)}</svg>`
    : html`<svg class="mark" viewBox="0 0 50 32" width="50" height="32" aria-hidden="true">${markOf(chain, 34)}<circle cx="16" cy="16" r="16" class="gap"/>${markOf(token, 16)}</svg>`

/** How much of the time is left, as a ring; the script moves it. */
const ring = (left: number) =>
  html`<circle cx="24" cy="24" r="20" class="track"/><circle cx="24" cy="24" r="20" class="ring" id="ring" pathLength="1" stroke-dasharray="1" stroke-dashoffset="${(1 - left).toFixed(3)}" transform="rotate(-90 24 24)"/>`

/** One picture for each state, of which the style shows the one of data-state. */
export const picture = (left: number) =>
  html`<svg class="picture" viewBox="0 0 48 48" width="48" height="48" aria-hidden="true">${ring(left)}<path class="of-awaiting" d="M17 14h14M17 34h14M19 14c0 5 5 6 5 10s-5 5-5 10M29 14c0 5-5 6-5 10s5 5 5 10"/><path class="of-partial of-underpaid" d="M24 14v12M24 32v.5"/><path class="of-seen turning" d="M24 4a20 20 0 0 1 20 20"/><path class="of-seen" d="M24 14v10l7 5"/><path class="of-paid of-overpaid of-late" d="M14 25l7 7 13-15"/><path class="of-expired" d="M24 14v10h8"/><path class="of-cancelled" d="M16 16l16 16M32 16 16 32"/></svg>`

export const copyPicture = html`<svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true"><path d="M9 9V5a1 1 0 0 1 1-1h9a1 1 0 0 1 1 1v10a1 1 0 0 1-1 1h-4M5 9h9a1 1 0 0 1 1 1v9a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1v-9a1 1 0 0 1 1-1z"/></svg>`
