// Serves a local chain of the EVM family.

import type {Open, ServeOptions, Serving} from '../family.ts'
import {LocalChain} from './chain.ts'
import {type LocalChainCode, USDC_ADDRESS} from './constants.ts'
import {Journal} from './journal.ts'
import {RpcServer} from './rpc-server.ts'

export function openEvm(code: LocalChainCode): Open {
  return file => {
    const journal = new Journal(file, code)
    return {journal, serve: options => serve(code, journal, options)}
  }
}

async function serve(code: LocalChainCode, journal: Journal, options: ServeOptions): Promise<Serving> {
  const chain = await LocalChain.open(code, options.directory, journal)
  const server = new RpcServer(chain, options)
  const port = await server.listen(Number(journal.meta('port') ?? Number.NaN) || undefined)
  journal.setMeta('port', String(port))
  options.log.info({height: chain.head.height, port}, 'the local chain serves')
  const [url, control_url] = [`ws://127.0.0.1:${port}`, `http://127.0.0.1:${port}`]
  return {
    where: {
      chain: code,
      chain_id: chain.chainId,
      rpc_url: url,
      usdc_address: USDC_ADDRESS,
      url,
      control_url,
      identity: {[`${code}_CHAIN_ID`]: String(chain.chainId), [`${code}_USDC_ADDRESS`]: USDC_ADDRESS},
      source: {[`${code}_RPC_URL`]: url, [`${code}_FINALITY`]: 'tag', [`${code}_TRACES`]: 'debug'},
    },
    mine: () => chain.mine(1),
    close: async () => {
      server.close()
      await chain.close()
    },
  }
}
