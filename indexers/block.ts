// What every chain's reader returns: blocks, and everything in them that may concern addresses of ours. SQL decides
// what does (look-up.ts).

/** A block as every chain's reader returns it. */
export interface ReadBlock {
  height: number
  hash: string
  parentHash: string
  time: Date
  /** Every transfer in the block that may be to us; look-up.ts decides which are. */
  candidates: Candidate[]
  /** On chains where a transaction has a sender: all transactions; look-up.ts decides which are ours. */
  sent: SentTransaction[]
  /** On chains where transactions spend outputs: each transaction that may concern us. */
  spends: SpendingTransaction[]
  /**
   * The senders of these transactions, if the source must ask for them. A missing one keeps its candidate's sender.
   * Slow, so asked only for ours.
   */
  sendersOf?(txids: string[]): Promise<Map<string, string>>
}

/**
 * What moved value: the transaction itself, or a call inside it, in the native coin; the contract or program of a
 * token; the rules of the chain, without a transaction.
 */
export type TransferKind = 'native' | 'internal' | 'token' | 'protocol'

export interface Candidate {
  txid: string
  /** Its position in the transaction. Only the family's reader knows which number stands for what. */
  outputIndex: number
  kind: TransferKind
  /** Token code, or the contract's address if the token is not in the settings. */
  token: string
  /** In base units, above 0. */
  amount: bigint
  sender: string
  /** The recipient as in app.address.match_key. */
  recipientKey: string
  /**
   * Whether it is where the treasury spends nothing: then it is none of the treasury's money. Slow, so asked only for
   * the treasury.
   */
  isOutOfReach?(): boolean
}

export interface SentTransaction {
  txid: string
  /** The sender as in custody.address.match_key. */
  senderKey: string
  /** Absent on chains without nonces. */
  nonce?: number
  /** False if it was reverted. */
  executed: boolean
  /** Its network fee, in base units of the native coin; 0 if this sender does not pay it. */
  fee: bigint
  /** Which of its senders this is, where a transaction has several; absent: the first. */
  position?: number
}

export interface SpendingTransaction {
  txid: string
  /** The outputs that it spends: txid:vout, in the order of its inputs. */
  outpoints: string[]
  /** The sum of its outputs, in base units. */
  outputSum: bigint
  /** In hex. */
  raw?: string
}

/** What a chain's own coin is called, and by its contract each token; any other is called by its contract. */
export interface TokenCodes {
  native: string
  tokens: ReadonlyMap<string, string>
}

/** For which chain rows are written. */
export interface WriteOptions {
  chain: string
  /** Turns a match key into the address's display form. */
  display: (address: string) => string
}

/** The place of a block's rows: its height, hash and time. */
export function at({height, hash, time}: ReadBlock) {
  return {blockHeight: height, blockHash: hash, blockTime: time}
}

/** Every transaction that spends outputs, with its block. */
export function spendsIn(blocks: ReadBlock[]): ({block: ReadBlock} & SpendingTransaction)[] {
  return blocks.flatMap(block => block.spends.map(transaction => ({block, ...transaction})))
}
