// A node of a local Solana chain in this process, which can lie.

import {exactly} from '../../../base/json.ts'
import {SolanaApi} from '../../../devnet/solana/api.ts'
import type {SolanaLocalChain} from '../../../devnet/solana/chain.ts'
import {RpcProxy} from '../rpc-proxy.ts'

export interface LyingNode {
  /** What it does wrong is set by its `behave`, and in the `trouble` of the endpoint. */
  node: RpcProxy
  endpoint: SolanaApi
}

export async function startNode(chain: SolanaLocalChain): Promise<LyingNode> {
  const endpoint = new SolanaApi(chain)
  const node = await RpcProxy.start({call: async (method, params) => numbersIn(endpoint.answer(method, params))})
  return {node, endpoint}
}

/** As JSON has them; none of the amounts is above 2^53, but the faucet's. */
const numbersIn = (value: unknown): unknown => JSON.parse(JSON.stringify(value ?? null, exactly))
