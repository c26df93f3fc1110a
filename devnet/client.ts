// The clients of the local chains, whichever family they are of, for the command line and the demo.
import path from 'node:path'
import {type BitcoinClient, connectBitcoin} from './bitcoin/client.ts'
import {connect, type LocalChainClient} from './evm/client.ts'
import {type Devnet, readDevnet} from './file.ts'

/** The chains that can be local. */
export const localCodes = ['ETH', 'POLYGON', 'BTC'] as const
export type LocalCode = (typeof localCodes)[number]

export function isLocal(code: string): code is LocalCode {
  return (localCodes as readonly string[]).includes(code)
}

export type AnyClient = LocalChainClient | BitcoinClient

/** The local chain of a service, which is found by its SLUICE_HOME. Rejects where none runs. */
export async function findLocalChain(home: string, code: LocalCode): Promise<AnyClient> {
  const devnet = readDevnet(path.join(home, 'devnet', code.toLowerCase()))
  const client = devnet && (await connectTo(devnet).catch(() => undefined))
  // Another program, or another service's chain, may have got the port of one that was killed.
  if (client?.chain !== code)
    throw new Error(`no local ${code} chain runs in ${home}; start the service, or set SLUICE_HOME to its directory`)
  return client
}

/** Rejects when nothing or something else answers where the chain was served. */
export async function connectTo(devnet: Pick<Devnet, 'chain' | 'rpc_url'>): Promise<AnyClient> {
  return devnet.chain === 'BTC' ? await connectBitcoin(devnet.rpc_url) : await connect(devnet.rpc_url)
}
