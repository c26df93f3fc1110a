// What an EVM node says about its chain, beside the stream of blocks. The final block is the node's finalized block. If
// the node does not serve that tag, the operator can set N confirmations instead.
import {refusedToken} from '../../chains/evm/check-tokens.ts'
import type {EvmSettings} from '../../chains/evm/settings.ts'
import {caip2} from '../../chains/registry.ts'
import type {ChainView} from '../family.ts'
import type {Node} from './node.ts'

/**
 * A block is later than the one below it, and the chain's rules bind its time to the moment when it is made. Only the
 * database's clock may differ. (Many nodes cannot trace calls that are an hour old, so with a larger margin some chains
 * could not be followed at all.)
 */
const blockTimes = {medianOf: 1, marginMs: 600_000}

export function viewOf(node: Node, settings: EvmSettings): ChainView {
  const {finality, traces} = settings
  return {
    refusal: () => refusedToken(settings),
    network: async () => caip2('eip155', await node.chainId()),
    blockAt: height => node.block(height),
    hashesAt: heights => node.hashes(heights),
    hashAt: async height => (await node.block(height))?.hash,
    lacks: height => node.lacks(height, traces),
    blockTimes,
    confirmations: finality === 'tag' ? 1 : finality,
    async finalBlock() {
      if (finality === 'tag') return node.block('finalized')
      const head = await node.block('latest')
      return head && node.block(Math.max(head.height - finality + 1, 0))
    },
  }
}
