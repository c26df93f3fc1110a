// What the page of a payment request shows at one moment: between the service and the script in the browser. Its texts
// are in the language of the page.
import type {WalletTransaction} from '../../chains/family.ts'

export type State =
  | 'awaiting'
  | 'seen'
  | 'partial'
  | 'paid'
  | 'overpaid'
  | 'late'
  | 'expired'
  | 'cancelled'
  | 'underpaid'

/** A line of the receipt: what it says, and where people see that. */
export type ReceiptLine = [label: string, value: string, url: string | null]

export interface Shown {
  state: State
  external_id: string
  heading: string
  text: string
  /** How far what was seen is on its way; null where nothing is. It changes with each block, and is not announced. */
  more: string | null
  /** What to send now, in whole coins, and the URI for it; null if nothing is due. */
  due: string | null
  uri: string | null
  /** What the QR code holds: the URI or, of a token, the address alone. Null if nothing is due. */
  code: string | null
  /** What a wallet in the browser is asked to send; null if nothing is due, and where wallets have no such way. */
  wallet: WalletTransaction | null
  /** Until it expires, and how much of its whole time that is (0 to 1); null where nothing is due. */
  seconds_left: number | null
  time_left: number | null
  /** How much of the way to final what was seen has behind it (0 to 1); null where nothing is on the way. */
  progress: number | null
  txid: string | null
  /** Where people see the transaction; null without such a site. */
  transaction_url: string | null
  /** The txid in fewer characters. */
  transaction: string | null
  /** Once it is paid. */
  receipt: ReceiptLine[] | null
  /** When to ask again, where no stream tells. */
  poll_seconds: number
}
