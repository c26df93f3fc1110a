// Electrum servers. Each is believed as long as it does not contradict itself. Promises: a server whose response cannot
// be true is dropped, and another one is asked. The contradiction is recorded, because all servers may be like that.
import {RetryableError} from '../../base/errors.ts'
import {MalformedError} from '../../chains/bitcoin/block.ts'
import type {Electrum} from '../../chains/bitcoin/electrum.ts'

/** A server's response about a transaction contradicts the transaction itself, or the header of the block. */
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

  /** Runs `ask`, which checks the responses and throws MalformedError if one cannot be true. */
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
