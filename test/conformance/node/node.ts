// What the checks of a node need of it, whoever wrote it. To add a family: write its driver (../evm/node.ts is one),
// and name it in families.ts. A driver holds the truth: it asks the node by itself, or through the clients of chains/,
// and never the indexer. It pays from the account of one key.
import {type ChainCode, isMainNetwork} from '../../../chains/registry.ts'
import type {BlockRef} from '../../../indexers/cursor.ts'

export interface Asset {
  token: string
  decimals: number
  /** What a check pays at a time, in base units: enough to be swept and paid out. */
  usual: bigint
}

export interface Output {
  to: string
  amount: bigint
}

/** A signed transaction. */
export interface Signed {
  txid: string
  raw: string
}

export interface NodeOptions {
  chain: ChainCode
  url: string
  key: string
  /** What the operator has set; the driver's settings are added. */
  environment: NodeJS.ProcessEnv
  mayReorganise: boolean
}

/** Something that a check needs, or why it is not possible here. */
export type Possible<T> = T | {why: string}

export interface NodeUnderTest {
  /** The settings with which the service follows it. */
  settings: Record<string, string>
  coin: Asset
  /** One for each way of sweeping. */
  tokens: Possible<Asset[]>
  /** What the treasury needs for the network fees of the checks, in base units of the coin. */
  float: bigint
  /**
   * What the treasury stakes for the sweep of a token, in base units of the coin. Absent where nothing is staked.
   */
  stake?(): Promise<Possible<{amount: bigint}>>
  newAddress(): string
  head(): Promise<BlockRef>
  /** A payment of one asset to one address. */
  pay(output: Output, asset: Asset): Promise<Signed>
  /** One transaction that pays each of these in coins. */
  payMany: Possible<(outputs: Output[]) => Promise<Signed>>
  /** A payment that gets into a block and fails there. */
  fail: Possible<(output: Output) => Promise<Signed>>
  /** Sends it, also for the second time. */
  submit(signed: Signed): Promise<void>
  /** The block that has it, whether it succeeded there or failed; undefined if none has. */
  placeOf(signed: Signed): Promise<BlockRef | undefined>
  balance(address: string, asset: Asset): Promise<bigint>
  /** Makes a node produce a block that produces none without transactions. */
  stir(): Promise<void>
  /** Takes the newest blocks off, down to this height. Their transactions are gone. */
  rewind: Possible<(height: number) => Promise<void>>
  close(): Promise<void>
}

export interface NodeFamily {
  open(options: NodeOptions): Promise<NodeUnderTest>
}

/** Takes a CAIP-2 id. Nothing is checked, or sent, where coins are worth money. */
export function refuseMainNetwork(network: string): void {
  if (isMainNetwork(network))
    throw new Error(`the node is on ${network}, whose coins are worth money; use a test network`)
}
