// Fetches blocks for evm-processor while an EVM chain catches up. It requests plain batches of blocks and receipts,
// checks them, and returns only the few fields that we read. A database transaction takes all blocks that were fetched
// during the previous commit. Promises: the blocks have exactly the requested heights, in order. Each is complete
// (verify-block.ts); an incomplete one is requested again. Why not evm-processor's own stage: it validates and maps
// every field of every transaction, ten blocks per transaction (both rates are in bench/RESULTS.md). evm-processor
// still reads the blocks near the head, and call traces.

import {setTimeout as sleep} from 'node:timers/promises'
import type {RpcClient} from '@subsquid/rpc-client'
import {RetryableError} from '../../base/errors.ts'
import {type FetchedBlock, type RpcWithdrawals, readWithdrawals} from './block.ts'
import type {EvmLog} from './transfers.ts'
import {verifyBlock} from './verify-block.ts'

const blocksPerCall = 25
const callsInFlight = 5
const blocksPerTransaction = 500
const attempts = 10

/** Yields the blocks from one height to another in ascending batches. */
export async function* fetchRange(client: RpcClient, from: number, to: number): AsyncIterable<FetchedBlock[]> {
  const inFlight: {done: boolean; blocks: Promise<FetchedBlock[]>}[] = []
  let next = from
  const fill = () => {
    while (next <= to && inFlight.length < callsInFlight + blocksPerTransaction / blocksPerCall) {
      if (inFlight.filter(call => !call.done).length >= callsInFlight) return
      const call = {done: false, blocks: fetchBlocks(client, next, Math.min(next + blocksPerCall - 1, to))}
      call.blocks.then(
        () => {
          call.done = true
          fill()
        },
        () => {},
      )
      inFlight.push(call)
      next += blocksPerCall
    }
  }
  fill()
  while (inFlight.length) {
    const batch = await inFlight.shift()!.blocks
    while (inFlight[0]?.done && batch.length < blocksPerTransaction) batch.push(...(await inFlight.shift()!.blocks))
    fill()
    yield batch
  }
}

async function fetchBlocks(client: RpcClient, from: number, to: number): Promise<FetchedBlock[]> {
  const heights = Array.from({length: to - from + 1}, (_, i) => from + i)
  const calls = heights.flatMap(height => {
    const at = `0x${height.toString(16)}`
    return [
      {method: 'eth_getBlockByNumber', params: [at, true]},
      {method: 'eth_getBlockReceipts', params: [at]},
    ]
  })
  for (let attempt = 1; ; attempt++) {
    try {
      const responses = await client.batchCall(calls)
      return heights.map((height, i) => assemble(height, responses[2 * i], responses[2 * i + 1]))
    } catch (error) {
      if (attempt === attempts) throw error
      await sleep(100 * attempt)
    }
  }
}

interface RpcBlock extends RpcWithdrawals {
  number: string
  hash: string
  parentHash: string
  timestamp: string
  receiptsRoot: string
  miner: string
  baseFeePerGas?: string
  transactions: {hash: string; from: string; to: string | null; value: string; nonce: string}[]
}

interface RpcReceipt {
  blockHash: string
  transactionHash: string
  type?: string
  status: string
  gasUsed: string
  cumulativeGasUsed: string
  effectiveGasPrice: string
  logsBloom?: string
  logs: {address: string; topics: string[]; data: string}[]
}

// Written by hand, without a schema: this runs for every transaction of the chain, and a schema took most of the time.
function assemble(height: number, block: RpcBlock | null, receipts: RpcReceipt[] | null): FetchedBlock {
  if (!block || Number(block.number) !== height || !Array.isArray(block.transactions)) {
    throw new RetryableError(`the node returned no block ${height}`)
  }
  if (!Array.isArray(receipts) || receipts.length !== block.transactions.length) {
    throw new RetryableError(`the node did not return all receipts of block ${height}`)
  }
  const logs: EvmLog[] = []
  const transactions = block.transactions.map((transaction, transactionIndex) => {
    const receipt = receipts[transactionIndex]!
    if (receipt.blockHash !== block.hash || receipt.transactionHash !== transaction.hash) {
      throw new RetryableError(`the node returned receipts of another block for block ${height}`)
    }
    for (const {address, topics, data} of receipt.logs) logs.push({transactionIndex, address, topics, data})
    const {hash, from, to, value, nonce} = transaction
    const {type = 0, status, gasUsed, cumulativeGasUsed, effectiveGasPrice, logsBloom} = receipt
    return {
      transactionIndex,
      hash,
      from,
      to,
      value: BigInt(value),
      nonce: Number(nonce),
      type: Number(type),
      status: Number(status),
      gasUsed: BigInt(gasUsed),
      cumulativeGasUsed: BigInt(cumulativeGasUsed),
      effectiveGasPrice: BigInt(effectiveGasPrice),
      logsBloom,
    }
  })
  const {hash, parentHash, timestamp, receiptsRoot, miner, baseFeePerGas = -1} = block
  const {withdrawals, withdrawalsRoot} = readWithdrawals(block)
  const header = {height, hash, parentHash, timestamp: Number(timestamp) * 1000, receiptsRoot, withdrawalsRoot, miner}
  const fetched = {
    header: {...header, baseFeePerGas: BigInt(baseFeePerGas)},
    transactions,
    logs,
    traces: [],
    withdrawals,
  }
  verifyBlock(fetched, false)
  return fetched
}
