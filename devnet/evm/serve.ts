// Serves a local chain of the EVM family.
import type {ChainCode} from '../../chains/registry.ts'
import type {Opened, ServeOptions, Serving} from '../family.ts'
import {listenAgain} from '../listen.ts'
import {LocalChain} from './chain.ts'
import {chainIds, faucet, finalizedDepth, type LocalChainCode} from './constants.ts'
import {Journal} from './journal.ts'
import {EvmRpcServer} from './rpc-server.ts'
import {tokenSettings} from './tokens.ts'

export function open(code: ChainCode, file: string): Opened {
  if (!isLocalChainCode(code)) throw new Error(`devnet/evm/constants.ts has no chain id for a local ${code} chain`)
  const journal = new Journal(file, code)
  return {journal, serve: options => serve(code, journal, options)}
}

function isLocalChainCode(code: string): code is LocalChainCode {
  return code in chainIds
}

async function serve(code: LocalChainCode, journal: Journal, options: ServeOptions): Promise<Serving> {
  const {directory, blockIntervalMs, log} = options
  const chain = await LocalChain.open(code, directory, journal)
  const node = 'anvil'
  const info = {
    chain: code,
    node,
    block_interval_ms: blockIntervalMs,
    confirmations: finalizedDepth + 1,
    faucet_address: faucet.address,
  }
  const server = new EvmRpcServer(chain, info, log)
  const port = await listenAgain(journal, 'port', server)
  log.info({height: chain.head.height, port}, 'the local chain is ready')
  const url = `ws://127.0.0.1:${port}`
  return {
    where: {
      node,
      url,
      control_url: `http://127.0.0.1:${port}`,
      identity: {
        [`${code}_CHAIN_ID`]: String(chain.chainId),
        ...tokenSettings(code, contract => chain.has(contract)),
      },
      source: {[`${code}_RPC_URL`]: url, [`${code}_FINALITY`]: 'tag', [`${code}_TRACES`]: 'debug'},
    },
    mine: () => chain.mine(1),
    close: async () => {
      server.close()
      await chain.close()
    },
  }
}
