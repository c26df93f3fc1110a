// The text of the page of a payment request. Promises: the page asks for nothing that is paid or seen already, and for
// nothing after the request has expired; amounts are exact.

import {z} from 'zod'
import {isColour} from '../../base/colour.ts'
import {formatUnits, parseUnits} from '../../base/units.ts'
import {type ChainSettings, familyOf, formsOf} from '../../chains/families.ts'
import {codeFor} from '../../chains/payment-code.ts'
import {chainCode} from '../../reading/fields.ts'
import type {Shown, State} from './shown.ts'

const secondsBetweenPolls = 2.5
/** For a request that only late money can change. */
const secondsBetweenLatePolls = 15

/** What app.payment_page says. */
export const Payment = z.object({
  chain: chainCode,
  token: z.string(),
  display_name: z.string(),
  merchant_name: z.string(),
  brand: z.object({
    accent: z.string().refine(isColour).nullable(),
    site_url: z.string().nullable(),
    help_url: z.string().nullable(),
    has_logo: z.boolean(),
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
})
export type Payment = z.infer<typeof Payment>

export async function shownOf(payment: Payment, settings: ChainSettings): Promise<Shown> {
  const {status, token, address, txid, amount_missing: missing} = payment
  const {decimals} = settings.chain.assets.find(asset => asset.token === token)!
  const secondsLeft = Math.ceil((Date.parse(payment.expires_at) - Date.now()) / 1000)
  const surplus = parseUnits(payment.amount_received, decimals) - parseUnits(payment.amount, decimals)
  const state = stateOf(payment, secondsLeft <= 0, surplus > 0n)
  const isDue = secondsLeft > 0 && (state === 'awaiting' || state === 'partial')
  const due = {token, address, amount: parseUnits(missing, decimals)}
  const uri = isDue ? (await formsOf(settings)).paymentUri(settings, due) : null
  const family = familyOf(settings)
  const explorer = family.explorer?.(settings)
  const [heading, ...sentences] = texts[state](payment, {
    isOver: secondsLeft <= 0,
    surplus: formatUnits(surplus, decimals),
    needed: family.confirmations?.(settings),
  })
  return {
    state,
    heading,
    text: sentences.join(' '),
    due: isDue ? missing : null,
    uri,
    code: uri && codeFor(settings, due, uri),
    seconds_left: isDue ? secondsLeft : null,
    txid,
    transaction_url: (txid && explorer?.replace('{txid}', txid)) || null,
    transaction: txid && shortened(txid),
    poll_seconds: status === 'paid' ? null : isDue || isSeen(payment) ? secondsBetweenPolls : secondsBetweenLatePolls,
  }
}

const shortened = (txid: string) => (txid.length > 24 ? `${txid.slice(0, 10)}…${txid.slice(-8)}` : txid)

// A request that has just expired may still have its old status for a moment.
function stateOf(payment: Payment, isOver: boolean, hasSurplus: boolean): State {
  const {status, late, amount_missing} = payment
  if (status === 'paid') return hasSurplus ? 'overpaid' : late ? 'late' : 'paid'
  if (status === 'detected') return amount_missing === '0' ? 'seen' : 'partial'
  if (status === 'underpaid' && isSeen(payment)) return 'late'
  return status === 'awaiting' && isOver ? 'expired' : status
}

/** Something that may become final. Too little to count as a payment is not shown. */
const isSeen = ({amount_pending, status}: Payment) => amount_pending !== '0' && status !== 'awaiting'

interface More {
  /** The request has expired. */
  isOver: boolean
  /** What was paid above the amount. */
  surplus: string
  /** How many confirmations make a payment final, where a number decides that. */
  needed: number | undefined
}

const texts: Record<State, (payment: Payment, more: More) => [heading: string, ...sentences: string[]]> = {
  awaiting: ({amount_missing, token}) => [
    'Waiting for your payment',
    `Send ${amount_missing} ${token} to the address below. This page tells when it is seen.`,
  ],
  seen: (payment, {needed}) => [
    'Payment seen',
    soFar(payment, needed),
    ...untilLate(payment),
    'You may close this page.',
  ],
  partial: (payment, {isOver, needed}) => [
    'Not all is paid yet',
    soFar(payment, needed),
    `Still missing: ${payment.amount_missing} ${payment.token}.`,
    ...untilLate(payment),
    ...(isOver ? ['The request has ended: please ask the merchant before you send more.'] : []),
  ],
  paid: payment => ['Paid', soFar(payment), ...(payment.amount_received === payment.amount ? [] : [isEnough])],
  overpaid: (payment, {surplus}) => [
    'Paid',
    soFar(payment),
    `That is ${surplus} ${payment.token} more than was asked for; only the merchant can return it.`,
    ...(payment.late ? [wasLate] : []),
  ],
  late: (payment, {needed}) =>
    payment.status === 'paid'
      ? ['Paid late', soFar(payment), wasLate]
      : ['Payment seen, after the end', soFar(payment, needed), willCount],
  expired: () => [
    'This request has expired',
    'Please send nothing any more, and ask the merchant for a new one.',
    'What you have sent already still counts when it arrives.',
  ],
  cancelled: () => [
    'This request was cancelled',
    'Please send nothing any more, and ask the merchant for a new one.',
    'What you have sent already still counts when it arrives.',
  ],
  underpaid: payment => [
    'Too little was paid',
    soFar(payment),
    `The request has ended. Please send nothing any more, and ask the merchant how to go on.`,
  ],
}
const isEnough = 'That is enough: nothing more is due.'
const wasLate = 'What came after this request had ended, or was in no block in time, counts all the same.'
const willCount = 'What came after this request had ended counts once it is final.'

/** The request has ended, and money that was sent before is in no block. */
function untilLate({late_at}: Payment): string[] {
  return late_at === null
    ? []
    : [`It was sent in time, and is late unless a block has it by ${late_at.slice(0, 16).replace('T', ' ')} UTC.`]
}

/** What was received and seen so far, if anything was. */
function soFar(payment: Payment, needed?: number): string {
  const {amount_received: received, amount_pending: pending, token} = payment
  const parts = [
    ...(received === '0' ? [] : [`${received} ${token} received`]),
    ...(isSeen(payment) ? [`${pending} ${token} seen, ${confirmed(payment.confirmations, needed)}`] : []),
  ]
  return `${parts.join('; ')}.`
}

function confirmed(confirmations: number | null, needed?: number): string {
  if (!confirmations) return 'in no block yet'
  if (needed) return `with ${Math.min(confirmations, needed)} of ${needed} confirmations`
  return confirmations === 1 ? 'with 1 confirmation' : `with ${confirmations} confirmations`
}
