// Checks whether a node returned a complete block. Promises: anything omitted, added or changed in a receipt's status
// or logs, in their order, or in the withdrawals is found, because the header has the roots of both. If call traces are
// read, it checks that every transaction has one.
//
// The bridge to Polygon (Bor's state sync) writes logs without a sent transaction. Nodes return them in a last
// transaction, from and to the zero address. Since PIP-74 this transaction has type 0x7f, and the root covers its
// receipt like any other. Before PIP-74, neither root nor bloom cover it, and its hash is computed from the block's. So
// if the last transaction has that hash, the root may also be that of the receipts without it. This is as strong as a
// fixed fork height for each network: from the fork on, the header commits to the bridge's receipt, so the other
// receipts alone do not have the header's root. A bridge receipt from before the fork is believed: no header proves it.
import {RetryableError} from '../../base/errors.ts'
import {type FetchedBlock, nobody} from './block.ts'
import {logsBloom} from './bloom.ts'
import type {EvmLog} from './transfers.ts'
import {emptyRoot, keccak256, orderedTrieRoot, rlp} from './trie.ts'

const bridgeHashPrefix = Buffer.from('matic-bor-receipt-').toString('hex')

/** Throws RetryableError if the node returned an incomplete block. */
export function verifyBlock(block: FetchedBlock, isTraced: boolean): void {
  if (!haveReceiptsRoot(block)) refuse('receipts', block)
  const root = bare(block.header.withdrawalsRoot ?? emptyRoot)
  if (orderedTrieRoot(encodedWithdrawals(block)) !== root) refuse('withdrawals', block)
  if (isTraced && !areTraced(block)) refuse('call traces', block)
}

function haveReceiptsRoot(block: FetchedBlock): boolean {
  const root = bare(block.header.receiptsRoot)
  const receipts = encodedReceipts(block)
  if (!receipts) return false
  if (orderedTrieRoot(receipts) === root) return true
  const hasBridges = block.transactions.at(-1)?.hash === bridgeHash(block.header)
  return hasBridges && orderedTrieRoot(receipts.slice(0, -1)) === root
}

/** The hash of the bridge's transaction in a block before PIP-74. */
export function bridgeHash({height, hash}: FetchedBlock['header']): string {
  return `0x${keccak256(bridgeHashPrefix + height.toString(16).padStart(16, '0') + bare(hash))}`
}

interface Receipts {
  transactions: Pick<
    FetchedBlock['transactions'][0],
    'transactionIndex' | 'type' | 'status' | 'cumulativeGasUsed' | 'logsBloom'
  >[]
  logs: EvmLog[]
}

/** The receipts, encoded by EIP-2718 and EIP-658; undefined if logs are not in the order of their transactions. */
export function encodedReceipts({transactions, logs}: Receipts): string[] | undefined {
  let next = 0
  const receipts = transactions.map(({transactionIndex, type, status, cumulativeGasUsed, logsBloom: bloom}) => {
    const first = next
    while (logs[next]?.transactionIndex === transactionIndex) next++
    const own = logs.slice(first, next)
    const payload = rlp.list(
      rlp.number(status ?? 0),
      rlp.number(cumulativeGasUsed),
      rlp.bytes(bare(bloom ?? logsBloom(own))),
      rlp.list(...own.map(encodedLog)),
    )
    return type > 0 ? type.toString(16).padStart(2, '0') + payload : payload
  })
  if (next === logs.length) return receipts
}

function encodedLog({address, topics, data}: EvmLog): string {
  const words = rlp.list(...topics.map(topic => rlp.bytes(bare(topic))))
  return rlp.list(rlp.bytes(bare(address)), words, rlp.bytes(bare(data)))
}

/** The withdrawals, encoded by EIP-4895. */
export function encodedWithdrawals({withdrawals}: Pick<FetchedBlock, 'withdrawals'>): string[] {
  return withdrawals.map(({index, validatorIndex, address, gwei}) =>
    rlp.list(rlp.number(index), rlp.number(validatorIndex), rlp.bytes(bare(address)), rlp.number(gwei)),
  )
}

function areTraced({transactions, traces}: FetchedBlock): boolean {
  const traced = new Set(traces.map(frame => frame.transactionIndex))
  return transactions.every(({transactionIndex, from}) => traced.has(transactionIndex) || from === nobody) // the bridge's transaction is not
}

function refuse(what: string, {header: {height, hash}}: FetchedBlock): never {
  throw new RetryableError(`the node returned incomplete or wrong ${what} of block ${height} (${hash})`)
}

const bare = (hex: string): string => (hex.startsWith('0x') ? hex.slice(2).toLowerCase() : hex)
