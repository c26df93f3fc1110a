// The nodes of a chain must be of one network. The first is compared with the settings (resume.ts); here the others are
// compared with it, because the word of each counts for a transaction that expired.
import type {Failover} from '../chains/failover.ts'
import {Waiting} from './waits.ts'

type NetworkOf<Node> = (node: Node) => Promise<string>

/**
 * The network of a node that is on another one than the node that is asked now; undefined if there is none. Rejects if
 * a node is away.
 */
export async function otherNetwork<Node>(
  nodes: Failover<Node>,
  networkOf: NetworkOf<Node>,
  networkOfOther: (node: Node) => Promise<string | undefined> = networkOf,
): Promise<string | undefined> {
  if (!nodes.others.length) return undefined
  const network = await nodes.ask(networkOf)
  const others = await Promise.all(nodes.others.map(networkOfOther))
  return others.find(other => other !== undefined && other !== network)
}

/** Before the chain is followed. A node that is away is compared when its word counts. Throws Waiting. */
export async function assertOneNetwork<Node>(nodes: Failover<Node>, networkOf: NetworkOf<Node>): Promise<void> {
  const other = await otherNetwork(nodes, networkOf, node => networkOf(node).catch(() => undefined))
  if (other === undefined) return
  const message = `the second node is on ${other}, and the first one is not; check the setting that ends in _RPC_URL_2`
  throw new Waiting('wrong_network', message)
}
