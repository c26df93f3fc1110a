// What payouts need from the Bitcoin network, through an Electrum server or a bitcoind: fee rates and broadcasting.
// Only the indexer decides what became of a transaction. Promises: a request ends in a response, or a RetryableError,
// within its timeout.
import {z} from 'zod'
import {PermanentError} from '../../../base/errors.ts'
import {type Logger, silent} from '../../../base/log.ts'
import {parseTransaction} from '../../../chains/bitcoin/block.ts'
import {openBitcoind, openElectrum} from '../../../chains/bitcoin/client.ts'
import {type Electrum, ElectrumError} from '../../../chains/bitcoin/electrum.ts'
import {RpcError} from '../../../chains/bitcoin/rpc.ts'
import type {BitcoinSettings} from '../../../chains/bitcoin/settings.ts'

/** In sat per virtual byte. */
export interface FeeRates {
  /** The rate for one of the next blocks; undefined if the node has not seen enough to estimate. */
  estimate: number | undefined
  /** The lowest rate that nodes relay. */
  floor: number
}

/** A transaction that waits for a block. */
export interface Waiting {
  vsize: number
  /** In sat; 0 if it is unknown. */
  fee: bigint
}

export interface BitcoinNode {
  feeRates(): Promise<FeeRates>
  /** Undefined if the node has no such transaction. */
  waiting(txid: string): Promise<Waiting | undefined>
  /** The error for each transaction, undefined if it was taken or is already there. Neither proves anything. */
  broadcast(raws: string[]): Promise<(string | undefined)[]>
  close(): void
}

const timeoutMs = 10_000
const targetBlocks = 3

/** Converts from coins per 1,000 virtual bytes. A value below zero means "unknown". */
const Rate = z.number().transform(rate => (rate < 0 ? undefined : rate * 1e5))
const Txid = z.string()
const Raw = z.string().regex(/^([0-9a-f]{2})+$/)

export function openNode(settings: BitcoinSettings, log: Logger): BitcoinNode {
  return settings.source === 'electrum' ? ofElectrum(settings, log) : ofBitcoind(settings)
}

/** Opens the node for one question of a command, and closes it. Throws PermanentError if it cannot be asked. */
export async function askOnce<T>(settings: BitcoinSettings, ask: (node: BitcoinNode) => Promise<T>): Promise<T> {
  const node = openNode(settings, silent())
  try {
    return await ask(node)
  } catch (error) {
    throw new PermanentError(
      `the node or server of ${settings.chain.code} cannot be asked: ${(error as Error).message}`,
    )
  } finally {
    node.close()
  }
}

function ofElectrum(settings: BitcoinSettings, log: Logger): BitcoinNode {
  const server = openElectrum(settings, log, {timeoutMs})
  return {
    feeRates: async () => {
      const [estimate, floor] = await Promise.all([
        server.request('blockchain.estimatefee', [targetBlocks], Rate),
        server.request('blockchain.relayfee', [], Rate),
      ])
      return {estimate, floor: floor ?? 0}
    },
    waiting: txid => waitingAt(server, txid),
    broadcast: async raws =>
      said(await server.batch(calls('blockchain.transaction.broadcast', raws), Txid), ElectrumError),
    close: () => server.close(),
  }
}

/** Its fee: the sum of its inputs, read from their transactions, minus the sum of its outputs. */
async function waitingAt(server: Electrum, txid: string): Promise<Waiting | undefined> {
  const get = async (txids: string[]) => {
    const responses = await server.batch(calls('blockchain.transaction.get', txids), Raw)
    const raws = responses.filter(raw => typeof raw === 'string')
    return raws.map(raw => ({size: raw.length / 2, ...parseTransaction(Buffer.from(raw, 'hex'))}))
  }
  const [found] = await get([txid])
  if (found?.txid !== txid) return
  const made = new Map<string, bigint>()
  for (const parent of await get([...new Set(found.inputs.map(({outpoint}) => outpoint.slice(0, 64)))]))
    for (const [vout, {value}] of parent.outputs.entries()) made.set(`${parent.txid}:${vout}`, value)
  const values = found.inputs.map(({outpoint}) => made.get(outpoint))
  const paid = found.outputs.reduce((sum, {value}) => sum + value, 0n)
  const fee = values.reduce<bigint>((sum, value) => sum + (value ?? 0n), -paid)
  return {vsize: Math.ceil((3 * found.strippedSize + found.size) / 4), fee: values.includes(undefined) ? 0n : fee}
}

const Estimate = z.object({feerate: Rate.optional()})
const Entry = z.object({
  vsize: z.int(),
  fees: z.object({base: z.number().transform(coins => BigInt(Math.round(coins * 1e8)))}),
})
/** bcoin's response has fewer fields. */
const Mempool = z.object({mempoolminfee: Rate, minrelaytxfee: Rate.optional()})

function ofBitcoind(settings: BitcoinSettings): BitcoinNode {
  const node = openBitcoind(settings, {timeoutMs})
  return {
    feeRates: async () => {
      const [{feerate}, {mempoolminfee = 0, minrelaytxfee = 0}] = await Promise.all([
        node.call('estimatesmartfee', [targetBlocks], Estimate),
        node.call('getmempoolinfo', [], Mempool),
      ])
      return {estimate: feerate, floor: Math.max(mempoolminfee, minrelaytxfee)}
    },
    waiting: async txid => {
      const [entry] = await node.batch([{method: 'getmempoolentry', params: [txid]}], Entry)
      return entry && !(entry instanceof RpcError) ? {vsize: entry.vsize, fee: entry.fees.base} : undefined
    },
    broadcast: async raws => said(await node.batch(calls('sendrawtransaction', raws), Txid), RpcError),
    close: () => void node.close(),
  }
}

function calls(method: string, raws: string[]): {method: string; params: unknown[]}[] {
  return raws.map(raw => ({method, params: [raw]}))
}

function said(
  responses: (string | Error)[],
  Refusal: abstract new (...given: never[]) => Error,
): (string | undefined)[] {
  return responses.map(response =>
    response instanceof Refusal && !isThere(response.message) ? response.message.slice(0, 200) : undefined,
  )
}

/** Nodes use different messages for a transaction that they already have, in the mempool or in a block. */
function isThere(message: string): boolean {
  return /already (in|known)|already-(in|known)|outputs already in utxo set/i.test(message)
}
