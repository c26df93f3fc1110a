// The nodes of a chain must be of one network. The first is compared with the settings (resume.ts); here the others are compared with it, because the
// word of each counts for a transaction that expired.
import type {Failover} from '../chains/failover.ts'
import {Waiting} from './start.ts'

type NetworkOf<Node> = (node: Node) => Promise<string>

/** The network of a node that is on another one than the node that is asked now; undefined if there is none. Rejects if a node is away. */
export async function otherNetwork<Node>(
  nodes: Failover<Node>,
  networkOf: NetworkOf<Node>,
): Promise<string | undefined> {
  const network = await nodes.ask(networkOf)
  const others = await Promise.all(nodes.others.map(networkOf))
  return others.find(other => other !== network)
}

/** Before the chain is followed. A node that is away is compared when its word counts. Throws Waiting. */
export async function assertOneNetwork<Node>(nodes: Failover<Node>, networkOf: NetworkOf<Node>): Promise<void> {
  const network = await nodes.ask(networkOf)
  const reachable = await otherNetwork(nodes, node => networkOf(node).catch(() => network))
  if (reachable === undefined) return
  throw new Waiting(
    'wrong_network',
    `the second node is on ${reachable}, and the first one on ${network}; check the setting that ends in _RPC_URL_2`,
  )
}
