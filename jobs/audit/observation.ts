// One look at what a chain holds of some addresses of ours, whatever its family: families.ts has how each looks.
import type pg from 'pg'
import type {CommonSettings} from '../../chains/chain-settings.ts'

/** What a family of chains is to the audit: a folder here, and one line in families.ts. */
export interface AuditFamily<S extends CommonSettings> {
  /** What a comparison claims of a chain. */
  claim: string
  /** Opens what a chain that has a node is asked by. */
  ask(db: pg.Client, settings: S): Asked
}

/** An address holds something else on the chain than the ledger says. Amounts in base units. */
export interface Difference {
  address: string
  token: string
  /** txid:vout; empty on chains without outputs. */
  outpoint: string
  ledger: bigint
  chain: bigint
  /** The block that it is in, where the chain tells. */
  height?: number
}

export interface Observation {
  /** The final height that the ledger was of. */
  height: number
  differences: Difference[]
  /** What could not be read, and why. It is neither right nor wrong. */
  unread: string[]
}

/** Whom a chain is asked by. Each question is answered, or a RetryableError, and never a match. */
export interface Asked {
  /** So many addresses are worth one look. */
  batch: number
  poll(addresses: string[]): Promise<Observation>
  /** A block before which nothing can have been paid to an address that was handed out then; undefined if that is not known. */
  heightAt(time: Date): Promise<number | undefined>
  close(): Promise<void> | void
}
