// The client of a local chain, whichever family it is of: what all of them can do, for the command line and the demo.
import {type BitcoinClient, connectBitcoin} from './bitcoin/client.ts'
import {connect, type LocalChainClient} from './evm.ts'
import type {Devnet} from './file.ts'

/** The chains that can be local. */
export const localCodes = ['ETH', 'POLYGON', 'BTC'] as const
export type LocalCode = (typeof localCodes)[number]

export function isLocal(code: string): code is LocalCode {
  return (localCodes as readonly string[]).includes(code)
}

/** Rejects when nothing or something else answers where the chain was served. */
export async function connectTo(devnet: Pick<Devnet, 'chain' | 'rpc_url'>): Promise<LocalChainClient | BitcoinClient> {
  return devnet.chain === 'BTC' ? await connectBitcoin(devnet.rpc_url) : await connect(devnet.rpc_url)
}
