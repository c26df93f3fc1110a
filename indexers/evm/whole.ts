// Checks whether a node returned a complete block. Promises: anything omitted, added or changed in a receipt's status or logs, in their order, or in
// the withdrawals is found, because the header has the roots of both. If call traces are read, it checks that every transaction has one.
//
// The bridge to Polygon (Bor's state sync) writes logs for which nobody sent a transaction. Nodes tell of them in a last transaction, from and
// to the zero address. Since PIP-74 that is one of type 0x7f, and its receipt is under the root as any other's; before, neither root nor bloom
// know of it, and its hash is made from the block's. So where the last one has that hash, the receipts without it may have the root, too. This
// is not weaker than a height of the fork for each network would be: from the fork on the header commits to the bridge's receipt, so that the
// others alone do not have its root. What a bridge's receipt says before the fork is believed: no header proves it.
import {RetryableError} from '../../base/errors.ts'
import {type FetchedBlock, nobody} from './block.ts'
import {logsBloom} from './bloom.ts'
import type {EvmLog} from './transfers.ts'
import {emptyRoot, keccak256, orderedTrieRoot, rlp} from './trie.ts'

const bridgeHashPrefix = Buffer.from('matic-bor-receipt-').toString('hex')

/** Throws RetryableError where it did not. */
export function assertWhole(block: FetchedBlock, isTraced: boolean): void {
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

/** As EIP-2718 and EIP-658 have them; undefined where logs are not in the order of their transactions. */
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

/** As EIP-4895 has them. */
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
  throw new RetryableError(`the node did not give the ${what} of block ${height} (${hash}) as its header has them`)
}

const bare = (hex: string): string => (hex.startsWith('0x') ? hex.slice(2).toLowerCase() : hex)
