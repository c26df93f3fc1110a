// What payouts ask a Bitcoin network, through an Electrum server or a bitcoind: what a place in a block costs, and to pass transactions on.
// Never what became of a transaction: that is the indexer's. Promises: a question has an answer, or a RetryableError, within its timeout.
import {z} from 'zod'
import {Electrum, ElectrumError} from '../../../service/bitcoin/electrum.ts'
import {Bitcoind, RpcError} from '../../../service/bitcoin/rpc.ts'
import type {Logger} from '../../../service/log.ts'
import type {BitcoinSettings} from '../../../service/settings.ts'

/** In sat per virtual byte. */
export interface FeeRates {
  /** For a place in one of the next blocks; undefined where the node has not seen enough to say. */
  estimate: number | undefined
  /** What is refused below. */
  floor: number
}

export interface Node {
  feeRates(): Promise<FeeRates>
  /** What is said of each transaction, undefined where it was taken or is there already, proves nothing. */
  broadcast(raws: string[]): Promise<(string | undefined)[]>
  close(): void
}

const timeoutMs = 10_000
const targetBlocks = 3

/** From coins per 1,000 virtual bytes. Below zero stands for nothing. */
const Rate = z.number().transform(rate => (rate < 0 ? undefined : rate * 1e5))
const Txid = z.string()

export function openNode(settings: BitcoinSettings, log: Logger): Node {
  return settings.source === 'electrum' ? openElectrum(settings, log) : openBitcoind(settings.rpcUrl!)
}

function openElectrum({chain, network, electrumUrls, electrumCa}: BitcoinSettings, log: Logger): Node {
  const {genesis} = chain.networks[network]
  const server = new Electrum({urls: electrumUrls, genesis, log, timeoutMs, ...(electrumCa && {ca: electrumCa})})
  return {
    feeRates: async () => {
      const [estimate, floor] = await Promise.all([
        server.request('blockchain.estimatefee', [targetBlocks], Rate),
        server.request('blockchain.relayfee', [], Rate),
      ])
      return {estimate, floor: floor ?? 0}
    },
    broadcast: async raws =>
      said(await server.batch(calls('blockchain.transaction.broadcast', raws), Txid), ElectrumError),
    close: () => server.close(),
  }
}

const Estimate = z.object({feerate: Rate.optional()})
/** bcoin says less. */
const Mempool = z.object({mempoolminfee: Rate, minrelaytxfee: Rate.optional()})

function openBitcoind(url: string): Node {
  const node = new Bitcoind(url, {timeoutMs})
  return {
    feeRates: async () => {
      const [{feerate}, {mempoolminfee = 0, minrelaytxfee = 0}] = await Promise.all([
        node.call('estimatesmartfee', [targetBlocks], Estimate),
        node.call('getmempoolinfo', [], Mempool),
      ])
      return {estimate: feerate, floor: Math.max(mempoolminfee, minrelaytxfee)}
    },
    broadcast: async raws => said(await node.batch(calls('sendrawtransaction', raws), Txid), RpcError),
    close: () => void node.close(),
  }
}

function calls(method: string, raws: string[]): {method: string; params: unknown[]}[] {
  return raws.map(raw => ({method, params: [raw]}))
}

function said(answers: (string | Error)[], Refusal: abstract new (...given: never[]) => Error): (string | undefined)[] {
  return answers.map(answer =>
    answer instanceof Refusal && !isThere(answer.message) ? answer.message.slice(0, 200) : undefined,
  )
}

/** Nodes differ in their words for what they have already, in the mempool or in a block. */
function isThere(message: string): boolean {
  return /already (in|known)|already-(in|known)|outputs already in utxo set/i.test(message)
}
