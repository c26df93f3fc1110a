// The interface of a family of chains, for code that is independent of the family. Each family is a folder here and one
// line in families.ts. Its node client is one more line in clients.ts.
import type {Variables} from '../base/variables.ts'
import type {CommonSettings} from './chain-settings.ts'
import type {Chain} from './registry.ts'

export interface ChainFamily<C extends Chain = Chain, S extends CommonSettings = CommonSettings> {
  /** The variables of a chain of this family. */
  variables(chain: C, mainnet: boolean): Variables<S>
  /** The first node or server that the settings name for the chain, if any. */
  endpoint(settings: S): string | undefined
  /** The variable that names it, for messages. */
  endpointVariable(chain: C): string
  /**
   * What a setting needs that is not set, so that the chain has no node although one is meant; undefined if nothing is
   * lacking.
   */
  lacking?(settings: S): string | undefined
  /** The variables that make another process read the chain with these settings; '' for each that is not set. */
  reading(settings: S): Record<string, string>
  /** The network's name among those of the chain, for messages. */
  networkName(settings: S): string
  /** What wallets and exchanges call tokens of the chain, such as ERC-20; absent where there are none. */
  tokenStandard?: string
  /** Where people see a transaction of the network, with {txid} in its place; undefined if there is no such site. */
  explorer?(settings: S): string | undefined
  /** How many confirmations make a payment final, where a number decides that. */
  confirmations?(settings: S): number
  /**
   * What keeps two attempts of an outgoing payment from being mined: they share a nonce or an output; or each expires,
   * and custody signs another one only when those before can never be mined.
   */
  attemptsExcludeBy: 'nonce' | 'output' | 'expiry'
  /** Set where attempts expire. */
  expiry?: Expiry
  /** Whether its indexer computes so much all the time that it shares its process with no other. Absent: never. */
  isBusy?(settings: S): boolean
  /** Whether its indexer shows unconfirmed payments. */
  showsUnconfirmed: boolean
  /**
   * Set if newly mined coins arrive as transfers: the text that stands for their sender, and the number of blocks
   * before they can be spent.
   */
  coinbase?: {sender: string; maturity: number}
  /**
   * Whether the case of letters in an address of ours has no meaning. If so, it is looked up in lower case
   * (app.match_key).
   */
  foldsAddresses: boolean
  /** Who pays for a sweep of the native coin: the address that is swept, or the treasury. */
  nativeSweepsPaidBy: 'address' | 'treasury'
  /**
   * Adds a token to the settings of a chain, as if they had named it; nothing if they know it already. Absent where
   * there are no tokens.
   */
  addToken?(settings: S, token: AddedToken): void
  /**
   * What an address is, in its display form, if it is certainly no wallet. `chains`: the settings of all chains of the
   * family.
   */
  noWallet?(address: string, chains: S[]): string | undefined
  /** Loaded only when needed, because loading takes longer than most commands run. */
  forms(): Promise<Forms<C, S>>
}

/** As in the settings of the family. */
export type SweepWay = {by: string; [field: string]: unknown}

export interface InspectedToken {
  /** As the indexer writes it. */
  contract: string
  /** Undefined if the contract has none, or one that is no text. */
  name: string | undefined
  symbol: string | undefined
  decimals: number
  codeHash: string
  /** The ways in which it can be swept, as in the settings of the family; the best first. */
  sweeps: SweepWay[]
  /** What was found, for people. */
  facts(sweep: SweepWay): Record<string, string>
}

/** A token that an operator added to the running service; amounts in base units. */
export interface AddedToken {
  token: string
  name: string
  displayName: string
  decimals: number
  contract: string
  /** As in the settings of the family. */
  sweep: unknown
  minPayout: bigint
  sweepMin: bigint
  payoutLimit: bigint | undefined
  dailyLimit: bigint | undefined
}

/** How long a signed transaction may be mined. */
export interface Expiry {
  /** What gives the last block that may hold one. */
  endsBy: 'height' | 'time'
  /**
   * The most blocks, or ms by the time of the blocks, from the newest block when one is signed to its end, as custody
   * signs or the protocol allows.
   */
  longest: number
  /** By this many ms after one is signed, the chain is past its end, unless it stands still. */
  longestMs: number
}

/** How a family writes addresses, payments and ids. No I/O. */
export interface Forms<C extends Chain = Chain, S extends CommonSettings = CommonSettings> {
  /**
   * Converts an address as people write it to its display form, the only form in which it is stored and compared.
   * `own`: an address of ours on that chain; both must be on the same network. Throws AddressError if it is not an
   * address of the chain, RetryableError if `own` is needed and does not exist yet.
   */
  displayForm(chain: C, address: string, own: string | undefined): string
  /**
   * Why an address is rather mistyped than meant, if it is not sure: where addresses have no checksum. It follows the
   * address in a sentence.
   */
  doubt?(address: string): Promise<string | undefined>
  /** The display form of an address that came from the chain itself. */
  display(address: string): string
  /** A payment URI for wallets, with the exact amount; only the address if wallets have no such form. */
  paymentUri(settings: S, payment: Payment): string
  /** As a transaction that a wallet in the browser is asked to send; absent where wallets have no such way. */
  walletTransaction?(settings: S, payment: Payment): WalletTransaction | undefined
  /** The id of a signed transaction, given in hex as custody returns it. Throws if the bytes are not a transaction. */
  txid(raw: string): string
}

export interface Payment {
  token: string
  /** In its display form. */
  address: string
  /** In base units. */
  amount: bigint
}

/** For eth_sendTransaction of an EIP-1193 wallet: hexadecimal numbers, and an address with its checksum. */
export interface WalletTransaction {
  chain_id: string
  to: string
  value: string
  data: string
}

/** A node that is asked for its newest block. */
export interface NodeHead {
  height(): Promise<number>
  close(): unknown
}

/** The text is not an address of the chain. The message is written to follow the address in a sentence. */
export class AddressError extends Error {
  override name = 'AddressError'
  readonly code: 'invalid_address' | 'invalid_checksum' | 'off_curve'

  constructor(code: AddressError['code'], message: string) {
    super(message)
    this.code = code
  }
}
