// A block of an EVM chain as it is fetched: the fields that transfers.ts matches, and the fields that prove that the
// block is complete (verify-block.ts).
import type {EvmBlock, EvmTransaction} from './transfers.ts'

/** The zero address: the sender of value that no account sent, and the recipient of value that no account receives. */
export const nobody = `0x${'0'.repeat(40)}`

/** A block as evm-processor returns it. evm-processor does not read withdrawals. */
export interface StreamedBlock extends EvmBlock {
  transactions: FetchedTransaction[]
  header: {
    height: number
    hash: string
    parentHash: string
    /** Milliseconds. */
    timestamp: number
    receiptsRoot: string
    /** The recipient of its fees. */
    miner: string
    /** Negative if the block has none. */
    baseFeePerGas: bigint
  }
}

export interface FetchedBlock extends StreamedBlock {
  header: StreamedBlock['header'] & {withdrawalsRoot?: string}
  withdrawals: Withdrawal[]
}

interface FetchedTransaction extends EvmTransaction {
  /** EIP-2718 type; 0 or less: no typed transaction. */
  type: number
  cumulativeGasUsed: bigint
  /** The bloom filter of its receipt; computed here if evm-processor drops the node's. */
  logsBloom?: string
}

/** A payment by the consensus layer to an address, without a transaction (EIP-4895). */
export interface Withdrawal {
  index: bigint
  validatorIndex: bigint
  address: string
  gwei: bigint
}

/** The withdrawals in a node's response to eth_getBlockByNumber or eth_getBlockByHash; absent if the chain has none. */
export interface RpcWithdrawals {
  withdrawals?: {index: string; validatorIndex: string; address: string; amount: string}[] | null
  withdrawalsRoot?: string | null
}

export function readWithdrawals({withdrawals, withdrawalsRoot}: RpcWithdrawals) {
  return {
    withdrawalsRoot: withdrawalsRoot ?? undefined,
    withdrawals: (withdrawals ?? []).map(({index, validatorIndex, address, amount}): Withdrawal => {
      return {index: BigInt(index), validatorIndex: BigInt(validatorIndex), address, gwei: BigInt(amount)}
    }),
  }
}
