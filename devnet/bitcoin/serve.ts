// Serves a local Bitcoin chain: to Electrum clients, and by JSON-RPC.
import type {Open, ServeOptions, Serving} from '../family.ts'
import {BitcoinChain} from './chain.ts'
import {ElectrumServer} from './electrum-server.ts'
import {BitcoinJournal} from './journal.ts'
import {findBitcoind, type NodeKind} from './node.ts'
import {BitcoinRpcServer} from './rpc-server.ts'

/** On this node; where none is named on bitcoind if there is one, else on bcoin. */
export function openBitcoin(node: NodeKind | undefined): Open {
  return file => {
    const journal = new BitcoinJournal(file)
    return {journal, serve: options => serve(node ?? (findBitcoind() ? 'bitcoind' : 'bcoin'), journal, options)}
  }
}

async function serve(node: NodeKind, journal: BitcoinJournal, options: ServeOptions): Promise<Serving> {
  const {directory, log} = options
  const chain = await BitcoinChain.open(node, directory, journal)
  const servers = {electrum_port: new ElectrumServer(chain, {log}), rpc_port: new BitcoinRpcServer(chain, options)}
  const listen = async (name: keyof typeof servers) => {
    const port = await servers[name].listen(Number(journal.meta(name) ?? Number.NaN) || undefined)
    journal.setMeta(name, String(port))
    return port
  }
  const [electrumPort, rpcPort] = [await listen('electrum_port'), await listen('rpc_port')]
  log.info({height: chain.head.height, node, electrumPort, rpcPort}, 'the local chain serves')
  const [electrum_url, rpc_url] = [`tcp://127.0.0.1:${electrumPort}`, `http://127.0.0.1:${rpcPort}`]
  return {
    where: {
      chain: 'BTC',
      network: 'regtest',
      node,
      electrum_url,
      rpc_url,
      url: electrum_url,
      control_url: rpc_url,
      identity: {BTC_NETWORK: 'regtest'},
      source: {BTC_ELECTRUM_URLS: electrum_url, BTC_RPC_URL: rpc_url},
    },
    mine: () => chain.mine(1),
    close: async () => {
      for (const server of Object.values(servers)) server.close()
      await chain.close()
    },
  }
}
