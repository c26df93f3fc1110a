// Several nodes of one chain, of which one is asked. Promises: it is asked as long as it works, because two nodes may
// show two forks, or lag behind each other; after some failures in a row the next one is.

/** After as many failures in a row the next node is asked. */
const failuresBeforeNext = 5

export class Failover<Node> {
  readonly #nodes: readonly Node[]
  #at = 0
  #failures = 0

  constructor(nodes: readonly Node[]) {
    this.#nodes = nodes
  }

  get all(): readonly Node[] {
    return this.#nodes
  }

  /** The other nodes than the one that is asked now. */
  get others(): Node[] {
    return this.#nodes.filter((_, i) => i !== this.#at)
  }

  /**
   * Asks the node that is asked now. If `ask` rejects, also because it does not believe a response, that counts as a
   * failure of the node.
   */
  async ask<T>(ask: (node: Node) => Promise<T>): Promise<T> {
    const node = this.#nodes[this.#at]!
    try {
      const result = await ask(node)
      this.#failures = 0
      return result
    } catch (error) {
      if (node === this.#nodes[this.#at] && ++this.#failures >= failuresBeforeNext) {
        this.#at = (this.#at + 1) % this.#nodes.length
        this.#failures = 0
      }
      throw error
    }
  }
}
