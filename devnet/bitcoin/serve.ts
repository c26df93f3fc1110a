// Serves a local Bitcoin chain: to Electrum clients, and by JSON-RPC.
import type {ChainCode} from '../../chains/registry.ts'
import type {Opened, ServeOptions, Serving} from '../family.ts'
import {listenAgain} from '../listen.ts'
import {BitcoinChain} from './chain.ts'
import {ElectrumServer} from './electrum-server.ts'
import {faucet} from './faucet.ts'
import {BitcoinJournal} from './journal.ts'
import {findBitcoind, type NodeKind} from './node.ts'
import {regtest} from './regtest.ts'
import {BitcoinRpcServer} from './rpc-server.ts'

/** Serves it on this node; by default on bitcoind if it is there, else on bcoin. */
export function open(code: ChainCode, file: string, node: NodeKind | undefined): Opened {
  const journal = new BitcoinJournal(file, code)
  return {journal, serve: options => serve(code, node ?? (findBitcoind() ? 'bitcoind' : 'bcoin'), journal, options)}
}

async function serve(
  code: ChainCode,
  node: NodeKind,
  journal: BitcoinJournal,
  {directory, blockIntervalMs, log}: ServeOptions,
): Promise<Serving> {
  const chain = await BitcoinChain.open(node, directory, journal)
  const info = {
    chain: code,
    node,
    block_interval_ms: blockIntervalMs,
    confirmations: regtest(code).confirmations,
    faucet_address: faucet.address,
  }
  const electrum = new ElectrumServer(chain, {log})
  const rpc = new BitcoinRpcServer(chain, info, log)
  const electrumPort = await listenAgain(journal, 'electrum_port', electrum)
  const rpcPort = await listenAgain(journal, 'rpc_port', rpc)
  log.info({height: chain.head.height, node, electrumPort, rpcPort}, 'the local chain is ready')
  const [url, control_url] = [`tcp://127.0.0.1:${electrumPort}`, `http://127.0.0.1:${rpcPort}`]
  return {
    where: {
      node,
      url,
      control_url,
      identity: {[`${code}_NETWORK`]: 'regtest'},
      source: {[`${code}_ELECTRUM_URLS`]: url, [`${code}_RPC_URL`]: control_url},
    },
    mine: () => chain.mine(1),
    close: async () => {
      electrum.close()
      rpc.close()
      await chain.close()
    },
  }
}
