// The only place that connects to Electrum servers and to bitcoind.
import {z} from 'zod'
import {type Logger, silent} from '../../base/log.ts'
import type {NodeHead} from '../family.ts'
import {Electrum} from './electrum.ts'
import {Bitcoind} from './rpc.ts'
import type {BitcoinSettings} from './settings.ts'

interface Options {
  /** The timeout of each request. */
  timeoutMs?: number
}

/** The servers of a chain that is read from Electrum. */
export function openElectrum(settings: BitcoinSettings, log: Logger, options?: Options): Electrum {
  const {chain, network, electrumUrls, electrumCa} = settings
  const {genesis} = chain.networks[network]
  return new Electrum({urls: electrumUrls, genesis, log, ...(electrumCa && {ca: electrumCa}), ...options})
}

/** The node of a chain that is read from bitcoind. */
export function openBitcoind({rpcUrl}: BitcoinSettings, options?: Options): Bitcoind {
  return new Bitcoind(rpcUrl!, options)
}

const Tip = z.object({height: z.int()})

export function openHead(settings: BitcoinSettings, timeoutMs: number): NodeHead {
  if (settings.source === 'node') {
    const node = openBitcoind(settings, {timeoutMs})
    return {height: () => node.call('getblockcount', [], z.int()), close: () => node.close()}
  }
  const server = openElectrum(settings, silent(), {timeoutMs})
  return {
    height: async () => (await server.request('blockchain.headers.subscribe', [], Tip)).height,
    close: () => server.close(),
  }
}
