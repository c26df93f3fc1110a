// One observation of what some of our addresses hold on a chain, the same for every family. families.ts has each
// family's code.
import type pg from 'pg'
import type {CommonSettings} from '../../chains/chain-settings.ts'

/** What a family of chains provides for the audit: a folder here, and one line in families.ts. */
export interface AuditFamily<S extends CommonSettings> {
  /** The statement that a comparison checks. */
  claim: string
  /** Opens the observer of a chain that has a node. */
  ask(db: pg.Client, settings: S): Asked
}

/** An address whose balance on the chain differs from the ledger. Amounts in base units. */
export interface Difference {
  address: string
  token: string
  /** txid:vout; empty on chains without outputs. */
  outpoint: string
  ledger: bigint
  chain: bigint
  /** The block of the difference, if the chain gives it. */
  height?: number
}

export interface Observation {
  /** The final height of the ledger that was compared. */
  height: number
  differences: Difference[]
  /** What could not be read, and why. It is neither right nor wrong. */
  unread: string[]
}

/** Observes a chain. A request that fails is a RetryableError, never a match. */
export interface Asked {
  /** The number of addresses per observation. */
  batch: number
  poll(addresses: string[]): Promise<Observation>
  /** A block below which an address that was handed out at that time cannot have been paid; undefined if unknown. */
  heightAt(time: Date): Promise<number | undefined>
  close(): Promise<void> | void
}
