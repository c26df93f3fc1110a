// What a family of chains is to whoever knows only that there are families. Each is a folder here, and one line in families.ts; what of it asks
// nodes is one more in clients.ts.
import type {Variables} from '../base/variables.ts'
import type {CommonSettings} from './chain-settings.ts'
import type {Chain} from './registry.ts'

export interface ChainFamily<C extends Chain = Chain, S extends CommonSettings = CommonSettings> {
  /** The variables of one of its chains. */
  variables(chain: C, mainnet: boolean): Variables<S>
  /** Where a chain is read, if a source of its own is named: the first one. */
  endpoint(settings: S): string | undefined
  /** The variable that names it, for people. */
  endpointVariable(chain: C): string
  /** The variables with which another process reads the chain as it is read with these settings; what is not set is ''. */
  reading(settings: S): Record<string, string>
  /** What tells the network from others of the chain, for people. */
  networkName(settings: S): string
  /** What all attempts of an outgoing payment use, so that at most one of them is ever mined. */
  attemptsExcludeBy: 'nonce' | 'output'
  /** Whether its indexer tells of payments that are in no block yet. */
  showsUnconfirmed: boolean
  /** New coins, where they come as transfers: what stands for their sender, and for how many blocks nodes do not let them be spent. */
  coinbase?: {sender: string; maturity: number}
  /** Whether upper and lower case make no difference in an address of ours: then it is looked up in lower case (app.match_key). */
  foldsAddresses: boolean
  /** Loaded when it is needed: that takes longer than most commands run. */
  forms(): Promise<Forms<C, S>>
}

/** How a family writes things. No I/O. */
export interface Forms<C extends Chain = Chain, S extends CommonSettings = CommonSettings> {
  /**
   * An address as people write it, in the only form in which it is stored and compared. `own`: an address of ours on that chain, whose network
   * it must be of. Throws AddressError where it is none of the chain, RetryableError where there is no address of ours yet.
   */
  displayForm(chain: C, address: string, own: string | undefined): string
  /** An address that came from the chain itself, in that form. */
  display(address: string): string
  /** What tells a wallet what to pay; the address alone where wallets know no form for it. The amount in it is exact. */
  paymentUri(settings: S, payment: Payment): string
  /** The id of the signed transaction of these bytes, in hex as custody answers. Throws where they are none. */
  txid(raw: string): string
}

export interface Payment {
  token: string
  /** In its display form. */
  address: string
  /** In base units. */
  amount: bigint
}

/** A node, asked for its newest block. */
export interface NodeHead {
  height(): Promise<number>
  close(): unknown
}

/** What somebody wrote is no address of the chain; the message goes on after the address. */
export class AddressError extends Error {
  override name = 'AddressError'
  readonly code: 'invalid_address' | 'invalid_checksum'

  constructor(code: AddressError['code'], message: string) {
    super(message)
    this.code = code
  }
}
