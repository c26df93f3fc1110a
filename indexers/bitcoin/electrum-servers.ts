// Electrum servers, each believed as long as it does not contradict itself. Promises: one whose answer cannot be true is dropped, so that another
// one is asked; and that is told, because all of them may be like that.
import {RetryableError} from '../../base/errors.ts'
import {MalformedError} from '../../chains/bitcoin/block.ts'
import type {Electrum} from '../../chains/bitcoin/electrum.ts'

/** What a server answers about a transaction contradicts what it, or the header of the block, says. */
export class Contradiction extends MalformedError {
  readonly txid: string

  constructor(txid: string, message: string) {
    super(message)
    this.txid = txid
  }
}

type Tell = (contradiction: {txid?: string; message: string}) => Promise<void>

export class ElectrumServers {
  readonly electrum: Electrum
  readonly #tell: Tell

  constructor(electrum: Electrum, tell: Tell) {
    this.electrum = electrum
    this.#tell = tell
  }

  /** What is asked and judged by `ask`, which throws MalformedError where it cannot be true. */
  async trusting<T>(ask: (electrum: Electrum) => Promise<T>): Promise<T> {
    const {electrum} = this
    const {generation} = electrum
    try {
      return await ask(electrum)
    } catch (error) {
      if (!(error instanceof MalformedError)) throw error
      electrum.drop(error.message, generation)
      const txid = error instanceof Contradiction ? error.txid : undefined
      await this.#tell({txid, message: error.message})
      throw new RetryableError(`the Electrum server was dropped: ${error.message}`)
    }
  }
}
