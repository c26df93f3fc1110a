// What the page of a payment request says. Promises: the page asks for nothing that is paid or seen already, and for
// nothing after the request has expired; amounts are exact.

import {z} from 'zod'
import {isColour} from '../../base/colour.ts'
import {formatUnits, parseUnits} from '../../base/units.ts'
import {type ChainSettings, familyOf, formsOf} from '../../chains/families.ts'
import {codeFor} from '../../chains/payment-code.ts'
import {isMainNetwork} from '../../chains/registry.ts'
import {chainCode} from '../../reading/fields.ts'
import type {ReceiptLine, Shown, State} from './shown.ts'
import type {Voice} from './voice.ts'

const secondsBetweenPolls = 2.5
/** For a request that only late money can change. */
const secondsBetweenLatePolls = 15
/** For one that is paid: somebody may pay it once more. */
const secondsBetweenPaidPolls = 60

/** What app.payment_page says. */
export const Payment = z.object({
  chain: chainCode,
  token: z.string(),
  merchant_name: z.string(),
  brand: z.object({
    accent: z.string().refine(isColour).nullable(),
    site_url: z.string().nullable(),
    help_url: z.string().nullable(),
    has_logo: z.boolean(),
    sites: z.array(z.string()),
  }),
  address: z.string(),
  amount: z.string(),
  status: z.enum(['awaiting', 'detected', 'paid', 'expired', 'underpaid', 'cancelled']),
  amount_received: z.string(),
  amount_pending: z.string(),
  amount_missing: z.string(),
  confirmations: z.int().nullable(),
  late: z.boolean(),
  txid: z.string().nullable(),
  expires_at: z.iso.datetime(),
  late_at: z.iso.datetime().nullable(),
  external_id: z.string(),
  return_url: z.string().nullable(),
  created_at: z.iso.datetime(),
  paid_at: z.iso.datetime().nullable(),
  /** CAIP-2 id; null for a chain that was never followed. */
  network: z.string().nullable(),
  /** By the newest blocks; null while there are too few. */
  pace: z.object({block_ms: z.number(), final_after: z.number()}).nullable(),
  receipts: z.array(z.object({txid: z.string(), amount: z.string()})),
  /** Another token, or the token on another chain, came to the address. */
  has_other: z.boolean(),
  /** What was seen of it is in no block any more. */
  has_lost: z.boolean(),
  /** Something that is not final yet came late. */
  late_is_pending: z.boolean(),
})
export type Payment = z.infer<typeof Payment>

export async function shownOf(payment: Payment, settings: ChainSettings, voice: Voice): Promise<Shown> {
  const {status, token, address, txid, amount_missing: missing} = payment
  const {decimals} = settings.chain.assets.find(asset => asset.token === token)!
  const [expiresAt, createdAt] = [payment.expires_at, payment.created_at].map(iso => Date.parse(iso)) as [
    number,
    number,
  ]
  const msLeft = expiresAt - Date.now()
  const surplus = parseUnits(payment.amount_received, decimals) - parseUnits(payment.amount, decimals)
  const state = stateOf(payment, msLeft <= 0, surplus > 0n)
  const isDue = msLeft > 0 && (state === 'awaiting' || state === 'partial')
  const due = {token, address, amount: parseUnits(missing, decimals)}
  const forms = await formsOf(settings)
  const uri = isDue ? forms.paymentUri(settings, due) : null
  const way = isSeen(payment) ? wayOf(payment, settings) : undefined
  const [heading, ...sentences] = texts[state](payment, {
    voice,
    way,
    isOver: msLeft <= 0,
    surplus: `${formatUnits(surplus, decimals)} ${token}`,
  })
  return {
    state,
    external_id: payment.external_id,
    heading,
    text: [
      ...sentences,
      ...(payment.has_lost && isDue ? [voice.say('left_chain')] : []),
      ...(payment.has_other ? [voice.say('other_came')] : []),
    ].join(' '),
    more: way ? howFar(way, voice) : null,
    due: isDue ? missing : null,
    uri,
    code: uri && codeFor(settings, due, uri),
    wallet: (isDue && forms.walletTransaction?.(settings, due)) || null,
    seconds_left: isDue ? Math.ceil(msLeft / 1000) : null,
    time_left: isDue ? Math.min(1, msLeft / Math.max(1, expiresAt - createdAt)) : null,
    progress: way?.progress ?? null,
    txid,
    transaction_url: txid && transactionUrl(settings, txid),
    transaction: txid && shortened(txid),
    receipt: status === 'paid' ? receiptOf(payment, settings, voice) : null,
    poll_seconds: secondsBetween(payment, isDue),
  }
}

function secondsBetween(payment: Payment, isDue: boolean): number {
  if (isDue || isSeen(payment)) return secondsBetweenPolls
  return payment.status === 'paid' ? secondsBetweenPaidPolls : secondsBetweenLatePolls
}

/** Whether nothing is on its way any more, and nothing needs to come. */
export const isSettled = (payment: Payment): boolean => payment.status === 'paid' && !isSeen(payment)

/** The network in words that cannot be mistaken: Tron (TRC-20), or Tron nile (TRC-20) where coins are worth nothing. */
export function networkOf({network, token}: Payment, settings: ChainSettings): string {
  const {chain} = settings
  const {tokenStandard, networkName} = familyOf(chain)
  const name = isTest(network) ? `${chain.displayName} ${networkName(settings)}` : chain.displayName
  return token === chain.assets[0].token || !tokenStandard ? name : `${name} (${tokenStandard})`
}

/** `network`: its CAIP-2 id. */
export const isTest = (network: string | null): boolean => network !== null && !isMainNetwork(network)

const transactionUrl = (settings: ChainSettings, txid: string) =>
  familyOf(settings).explorer?.(settings)?.replace('{txid}', txid) ?? null

const shortened = (txid: string) => (txid.length > 24 ? `${txid.slice(0, 10)}…${txid.slice(-8)}` : txid)

/** From the first confirmation to final. */
interface Way {
  confirmations: number
  /** By the settings or, where no number decides, by how far the final block is behind now; undefined if unknown. */
  needed: number | undefined
  /** Until it is final, at the pace of the last blocks; undefined if unknown. */
  msLeft: number | undefined
  progress: number
}

function wayOf({confirmations, pace}: Payment, settings: ChainSettings): Way {
  const set = familyOf(settings).confirmations?.(settings)
  const needed = set ?? (pace && pace.final_after > 0 ? pace.final_after : undefined)
  const count = Math.min(confirmations ?? 0, needed ?? Number.POSITIVE_INFINITY)
  return {
    confirmations: count,
    needed,
    msLeft: needed && pace ? Math.max(1, needed - count) * pace.block_ms : undefined,
    progress: needed ? (0.9 * count) / needed : 0, // never full: only a final block ends it
  }
}

/** About how long it takes from seen to final; undefined if unknown. */
export const msToFinal = (payment: Payment, settings: ChainSettings) =>
  wayOf({...payment, confirmations: 0}, settings).msLeft

function receiptOf(payment: Payment, settings: ChainSettings, {say, time, isolated}: Voice): ReceiptLine[] {
  const {token, paid_at} = payment
  const line = (label: string, value: string): ReceiptLine => [label, value, null]
  return [
    line(say('paid_to'), payment.merchant_name),
    line(say('your_reference'), payment.external_id),
    line(say('asked'), `${payment.amount} ${token}`),
    line(say('received_in_all'), `${payment.amount_received} ${token}`),
    ...(paid_at ? [line(say('paid_on'), time(paid_at))] : []),
    line(say('network'), networkOf(payment, settings)),
    line(say('address'), payment.address),
    ...payment.receipts.map(
      ({txid, amount}): ReceiptLine => [
        `${say('transaction')} (${isolated(`${amount} ${token}`)})`,
        txid,
        transactionUrl(settings, txid),
      ],
    ),
  ]
}

// A request that has just expired may still have its old status for a moment.
function stateOf(payment: Payment, isOver: boolean, hasSurplus: boolean): State {
  const {status, late, late_is_pending, amount_missing} = payment
  if (status === 'paid') return hasSurplus ? 'overpaid' : late ? 'late' : 'paid'
  if (status === 'detected' && amount_missing === '0') return late_is_pending ? 'late' : 'seen'
  if (status === 'detected') return 'partial'
  if (status === 'underpaid' && isSeen(payment)) return 'late'
  return status === 'awaiting' && isOver ? 'expired' : status
}

/** Something that may become final. Too little to count as a payment is not shown. */
const isSeen = ({amount_pending, status}: Payment) => amount_pending !== '0' && status !== 'awaiting'

interface More {
  voice: Voice
  /** Of what was seen. */
  way: Way | undefined
  /** The request has expired. */
  isOver: boolean
  /** What was paid above the amount. */
  surplus: string
}

const texts: Record<State, (payment: Payment, more: More) => [heading: string, ...sentences: string[]]> = {
  awaiting: (_payment, {voice: {say}}) => [say('awaiting')],
  seen: (payment, more) => [
    more.voice.say('seen'),
    ...soFar(payment, more),
    ...untilLate(payment, more.voice),
    more.voice.say('close_page'),
  ],
  partial: (payment, more) => [
    more.voice.say('partial'),
    ...soFar(payment, more),
    stillMissing(payment, more.voice),
    ...untilLate(payment, more.voice),
    ...(more.isOver ? [more.voice.say('ask_before')] : []),
  ],
  paid: (payment, more) => [
    more.voice.say('paid'),
    ...soFar(payment, more),
    ...(payment.amount_received === payment.amount ? [] : [more.voice.say('enough')]),
  ],
  overpaid: (payment, more) => [
    more.voice.say('paid'),
    ...soFar(payment, more),
    more.voice.say('surplus', {amount: more.surplus}),
    ...(payment.late ? [more.voice.say('was_late')] : []),
  ],
  late: (payment, more) =>
    payment.status === 'paid'
      ? [more.voice.say('paid_late'), ...soFar(payment, more), more.voice.say('enough'), more.voice.say('was_late')]
      : [more.voice.say('seen_late'), ...soFar(payment, more), more.voice.say('will_count')],
  expired: (_payment, {voice: {say}}) => [say('expired'), say('send_nothing'), say('still_counts')],
  cancelled: (_payment, {voice: {say}}) => [say('cancelled'), say('send_nothing'), say('still_counts')],
  underpaid: (payment, more) => [
    more.voice.say('underpaid'),
    ...soFar(payment, more),
    stillMissing(payment, more.voice),
    more.voice.say('underpaid_text'),
  ],
}

/** The request has ended, and money that was sent before is in no block. */
function untilLate({late_at}: Payment, {say, time}: Voice): string[] {
  return late_at === null ? [] : [say('in_time', {time: time(late_at)})]
}

/** What was received and seen so far, if anything was. */
function soFar(payment: Payment, {voice: {say}, way}: More): string[] {
  const {amount_received: received, amount_pending: pending, token} = payment
  return [
    ...(received === '0' ? [] : [say('received', {amount: `${received} ${token}`})]),
    ...(way ? [say('seen_amount', {amount: `${pending} ${token}`})] : []),
  ]
}

const stillMissing = ({amount_missing, token}: Payment, {say}: Voice) =>
  say('missing', {amount: `${amount_missing} ${token}`})

/** How far what was seen is on its way to final. */
function howFar({confirmations: count, needed, msLeft}: Way, {say, duration}: Voice): string {
  const left = msLeft === undefined ? [] : [say('about_left', {time: duration(msLeft)})]
  const counted = needed ? say('confirmations_of', {count, needed}) : say('confirmations', {count})
  return [count ? counted : say('in_no_block'), ...left].join(' ')
}
