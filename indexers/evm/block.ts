// A block of an EVM chain as it is fetched: what it is matched by (transfers.ts), and what proves that it is whole (whole.ts).
import type {EvmBlock, EvmTransaction} from './transfers.ts'

/** The sender of what nobody sent, and the recipient of what nobody gets. */
export const nobody = `0x${'0'.repeat(40)}`

/** As evm-processor hands it on, which knows no withdrawals. */
export interface StreamedBlock extends EvmBlock {
  transactions: FetchedTransaction[]
  header: {
    height: number
    hash: string
    parentHash: string
    /** Milliseconds. */
    timestamp: number
    receiptsRoot: string
    /** Whom its fees are paid to. */
    miner: string
    /** Below zero where the block has none. */
    baseFeePerGas: bigint
  }
}

export interface FetchedBlock extends StreamedBlock {
  header: StreamedBlock['header'] & {withdrawalsRoot?: string}
  withdrawals: Withdrawal[]
}

interface FetchedTransaction extends EvmTransaction {
  /** EIP-2718; 0 or less for none. */
  type: number
  cumulativeGasUsed: bigint
  /** Of its receipt; computed where the node's is not handed on. */
  logsBloom?: string
}

/** What the consensus layer pays to an address, without a transaction (EIP-4895). */
export interface Withdrawal {
  index: bigint
  validatorIndex: bigint
  address: string
  gwei: bigint
}

/** The part of a node's answer to eth_getBlockByNumber, or by hash, that has withdrawals; absent where the chain has none. */
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
