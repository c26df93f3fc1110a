// What every chain's reader hands over: blocks, and what in them may concern addresses of ours. What does is decided in SQL (look-up.ts).

/** A block as every chain's reader hands it over. */
export interface ReadBlock {
  height: number
  hash: string
  parentHash: string
  time: Date
  /** Every transfer in it that may be to us; which are is decided here. */
  candidates: Candidate[]
  /** Where transactions are of an address and have a nonce: all of them; which are of addresses of ours is decided here. */
  sent: SentTransaction[]
  /** Where transactions spend outputs: each that may concern us. */
  spends: SpendingTransaction[]
  /** Who sent these transactions of it, where the source has to ask for that; its candidates' senders hold for what is left out. Asked only of what is ours, because it takes time. */
  sendersOf?(txids: string[]): Promise<Map<string, string>>
}

export interface Candidate {
  txid: string
  outputIndex: number
  /** Token code, or the contract's address where the token is none of ours. */
  token: string
  /** In base units, above 0. */
  amount: bigint
  sender: string
  /** The recipient in the form of app.address.match_key. */
  recipientKey: string
}

export interface SentTransaction {
  txid: string
  /** The sender in the form of custody.address.match_key. */
  senderKey: string
  nonce: number
  /** False if it was reverted. */
  executed: boolean
  /** What it cost, in base units of the native coin. */
  fee: bigint
}

export interface SpendingTransaction {
  txid: string
  /** What it spends: txid:vout, in the order of its inputs. */
  outpoints: string[]
  /** What its outputs hold together, in base units. */
  outputSum: bigint
  /** In hex. */
  raw?: string
}

/** Of which chain rows are written. */
export interface WriteOptions {
  chain: string
  /** The form in which people see an address that came in the form of a match key. */
  display: (address: string) => string
}

/** Where a row of a block is. */
export function at({height, hash, time}: ReadBlock) {
  return {blockHeight: height, blockHash: hash, blockTime: time}
}

/** Every transaction that spends outputs, with its block. */
export function spendsIn(blocks: ReadBlock[]): ({block: ReadBlock} & SpendingTransaction)[] {
  return blocks.flatMap(block => block.spends.map(transaction => ({block, ...transaction})))
}
