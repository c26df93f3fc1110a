// What an EVM node tells of its chain beside the stream of blocks. Final is the node's finalized block, or, where the operator says so because
// the node does not serve that tag, the block with N confirmations.
import type {EvmSettings} from '../../service/settings.ts'
import type {ChainView} from '../resume.ts'
import type {Node} from './node.ts'

export function viewOf(node: Node, {finality}: EvmSettings): ChainView {
  return {
    network: async () => caip2(await node.chainId()),
    blockAt: height => node.block(height),
    hashesAt: heights => node.hashes(heights),
    hashAt: async height => (await node.block(height))?.hash,
    confirmations: finality === 'tag' ? 1 : finality,
    async finalBlock() {
      if (finality === 'tag') return node.block('finalized')
      const head = await node.block('latest')
      return head && node.block(Math.max(head.height - finality + 1, 0))
    },
  }
}

export const caip2 = (chainId: number): string => `eip155:${chainId}`
