// Finds the transfers and the sent transactions in an EVM block. Promises: value counts only if the transaction
// succeeded and, for internal calls, no enclosing call was reverted. The output index depends only on the position
// inside the transaction, so it stays the same if the transaction is mined again in another block. Zero amounts,
// delegate calls and ERC-721 transfers are ignored.
import type {Candidate, SentTransaction} from '../block.ts'

/** topic0 of Transfer(address,address,uint256), ERC-20 (EIP-20). */
export const transferTopic = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'
/**
 * The system address. It logs each movement of the native coin as a Transfer (EIP-7708), which is read from
 * transactions and calls already.
 */
const systemAddress = '0xfffffffffffffffffffffffffffffffffffffffe'

export interface EvmTransaction {
  transactionIndex: number
  hash: string
  from: string
  to?: string | null
  value: bigint
  nonce: number
  status?: number
  gasUsed: bigint
  effectiveGasPrice: bigint
}

export interface EvmLog {
  transactionIndex: number
  address: string
  topics: string[]
  data: string
}

/**
 * A frame of a call trace. All frames of a transaction are needed, the outermost first, in the order of their calls.
 */
export interface EvmFrame {
  transactionIndex: number
  traceAddress: number[]
  error?: string | null
  type: string
  action?: {
    callType?: string
    from?: string
    to?: string
    value?: bigint
    address?: string
    refundAddress?: string
    balance?: bigint
  }
  result?: {address?: string}
}

export interface EvmBlock {
  transactions: EvmTransaction[]
  /** All logs of the block, in order: positions are counted over all of them. */
  logs: EvmLog[]
  traces: EvmFrame[]
}

const firstInternal = 1_000_000

/**
 * Every transfer of a block: values of transactions, ERC-20 logs, and internal calls. `tokens`: token code by contract.
 */
export function transfersOf(block: EvmBlock, native: string, tokens: Map<string, string>): Candidate[] {
  const succeeded = new Map<number, EvmTransaction>()
  const found: Candidate[] = []
  for (const transaction of block.transactions) {
    if (transaction.status !== 1) continue
    succeeded.set(transaction.transactionIndex, transaction)
    const {hash: txid, from: sender, to, value: amount} = transaction
    if (to && amount > 0n)
      found.push({txid, outputIndex: 0, kind: 'native', token: native, amount, sender, recipientKey: to.toLowerCase()})
  }
  inTransactions(block.logs, succeeded, (log, {hash: txid}, position) => {
    const transfer = tokenTransfer(log)
    if (!transfer) return
    const contract = log.address.toLowerCase()
    if (contract === systemAddress) return // its logs keep their positions: the roots in headers cover them
    const token = tokens.get(contract) ?? contract
    found.push({txid, outputIndex: 1 + position, kind: 'token', token, ...transfer})
  })
  const reverted = revertedFrames(block.traces)
  inTransactions(block.traces, succeeded, (frame, {hash: txid}, position) => {
    const moved = frame.traceAddress.length > 0 && !reverted.has(frame) ? valueMoved(frame) : undefined
    if (moved) found.push({txid, outputIndex: firstInternal + position, kind: 'internal', token: native, ...moved})
  })
  return found
}

/** Every transaction of a block, with its sender and nonce. */
export function sentIn({transactions}: EvmBlock): SentTransaction[] {
  return transactions.map(({hash: txid, from, nonce, status, gasUsed, effectiveGasPrice}) => {
    return {txid, senderKey: from.toLowerCase(), nonce, executed: status === 1, fee: gasUsed * effectiveGasPrice}
  })
}

/** Calls back for every item of a successful transaction, with its position among the items of that transaction. */
function inTransactions<T extends {transactionIndex: number}>(
  items: T[],
  succeeded: Map<number, EvmTransaction>,
  each: (item: T, transaction: EvmTransaction, position: number) => void,
): void {
  let index = -1
  let position = 0
  for (const item of items) {
    position = item.transactionIndex === index ? position + 1 : 0
    index = item.transactionIndex
    const transaction = succeeded.get(index)
    if (transaction) each(item, transaction, position)
  }
}

type Moved = Pick<Candidate, 'amount' | 'sender' | 'recipientKey'>

// Three topics: ERC-721 has the same topic0, and its token id as a fourth topic. Address poisoning uses zero amounts.
function tokenTransfer({topics, data}: EvmLog): Moved | undefined {
  const [topic, from, to] = topics
  if (topic !== transferTopic || topics.length !== 3 || data.length !== 66) return
  const amount = BigInt(data)
  if (amount > 0n) return {amount, sender: `0x${from!.slice(26)}`, recipientKey: `0x${to!.slice(26).toLowerCase()}`}
}

// A call inside a reverted one has no error of its own, neither in callTracer nor in trace_block. So its ancestors are
// checked.
function revertedFrames(frames: EvmFrame[]): Set<EvmFrame> {
  const reverted = new Set<EvmFrame>()
  let index = -1
  let failed: number[] | undefined // path of the outermost reverted frame around the current one
  for (const frame of frames) {
    const {transactionIndex, traceAddress: path} = frame
    if (transactionIndex !== index || (failed && !failed.every((step, depth) => path[depth] === step)))
      failed = undefined
    index = transactionIndex
    if (!failed && frame.error) failed = path
    if (failed) reverted.add(frame)
  }
  return reverted
}

function valueMoved({type, action = {}, result}: EvmFrame): Moved | undefined {
  const call = type === 'call' && action.callType === 'call'
  const recipient = call ? action.to : type === 'create' ? result?.address : action.refundAddress
  const amount = type === 'suicide' ? action.balance : call || type === 'create' ? action.value : undefined
  const sender = type === 'suicide' ? action.address : action.from
  if (recipient && sender && amount && amount > 0n) return {amount, sender, recipientKey: recipient.toLowerCase()}
}
