// Makes blocks on an engine, and reads them and its state from it.
import {gunzipSync, gzipSync} from 'node:zlib'
import {type Hex, keccak256, numberToHex} from 'viem'
import {z} from 'zod'
import {RpcError} from '../engine.ts'
import type {Anvil} from './anvil.ts'
import {Block, FullBlock} from './journal.ts'

const State = z.looseObject({
  blocks: z.array(z.looseObject({header: z.looseObject({number: z.string()})})),
  transactions: z.array(z.unknown()),
})

/** A block to be made: with these transactions, or, if undefined, with those in the mempool. */
export type BlockToMake = {timestamp: number; coinbase: string; raw?: string[]}

/** The caller's error, not the engine's, which stays. */
export class Refused extends Error {
  constructor(cause: Error) {
    super(cause.message, {cause})
  }
}

/** A call that changes no block, and that anvil may refuse. */
export async function ask(engine: Anvil, method: string, params: unknown[]): Promise<unknown> {
  try {
    return await engine.call(method, params)
  } catch (error) {
    throw error instanceof RpcError ? new Refused(error) : error
  }
}

/** Makes a block and reads all of it. */
export async function execute(engine: Anvil, plan: BlockToMake): Promise<FullBlock> {
  await build(engine, plan)
  const block = await blockAt(engine, 'latest')
  const txids = block.transactions.map(transaction => transaction.hash)
  if (plan.raw && String(txids) !== String(plan.raw.map(raw => keccak256(raw as Hex))))
    throw new Error(`block ${Number(block.number)} has other transactions than planned`)
  if (txids.length === 0) return {block, raw: [], receipts: [], callTraces: [], traces: []}
  const [raw, receipts, callTraces, traces] = await Promise.all([
    Promise.all(txids.map(txid => engine.call('eth_getRawTransactionByHash', [txid]))),
    engine.call('eth_getBlockReceipts', [block.number]),
    engine.call('debug_traceBlockByHash', [block.hash, {tracer: 'callTracer'}]),
    engine.call('trace_block', [block.number]),
  ])
  return FullBlock.parse({block, raw, receipts, callTraces, traces})
}

export async function build(engine: Anvil, {timestamp, coinbase, raw}: BlockToMake): Promise<void> {
  for (const transaction of raw ?? []) await engine.call('eth_sendRawTransaction', [transaction])
  if (engine.coinbase !== coinbase) await engine.call('anvil_setCoinbase', [coinbase])
  engine.coinbase = coinbase
  await engine.call('evm_mine', [{timestamp}])
  engine.mined++
}

export async function blockAt(engine: Anvil, height: number | 'latest'): Promise<Block> {
  const at = typeof height === 'number' ? numberToHex(height) : height
  return Block.parse(await engine.call('eth_getBlockByNumber', [at, true]))
}

/** The engine's state with its last block only: accounts do not grow with the chain, blocks would. */
export async function dump(engine: Anvil, height: number): Promise<Uint8Array> {
  const dumped = z.string().parse(await engine.call('anvil_dumpState'))
  const state = State.parse(JSON.parse(gunzipSync(Buffer.from(dumped.slice(2), 'hex')).toString()))
  const blocks = state.blocks.filter(({header}) => Number(header.number) === height)
  return gzipSync(JSON.stringify({...state, blocks, transactions: []}))
}
