// What final means on an EVM chain: the node's finalized block, or, where the operator says so because the node does not serve that tag, the
// block with N confirmations.
import type {EvmSettings} from '../../service/settings.ts'
import type {FinalitySource} from '../finality.ts'
import type {Node} from './node.ts'

export function finalityOf(node: Node, {finality}: EvmSettings): FinalitySource {
  return {
    confirmations: finality === 'tag' ? 1 : finality,
    async finalBlock() {
      if (finality === 'tag') return node.block('finalized')
      const head = await node.block('latest')
      return head && node.block(Math.max(head.height - finality + 1, 0))
    },
    async hashAt(height) {
      return (await node.block(height))?.hash
    },
  }
}
