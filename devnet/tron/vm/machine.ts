// The virtual machine of a local Tron chain: runs the code of contracts, by java-tron's rules (EnergyCost, Program and
// VM of its source; parameters as in test/recorded/tron, with the Cancun operations). Promises: the same call on the
// same state gives the same outcome; a failed call changes nothing. It differs from java-tron in this:
//     time is counted in operations, so that what takes too long does so everywhere;
//     there are no tokens of Tron's own (TRC-10: 0xd0 is unknown, the rest sees none), no operations on stakes and
//     votes (0xd5 to 0xdf), and few of the contracts that the network has in itself (built-in.ts);
//     the main network adds 1 to the energy of MLOAD, MSTORE and MSTORE8, and 25,000 to an end in favour of a new
//     account, by later proposals than the recordings'.
// It is our own: libraries run contracts asynchronously, while a local chain and its tests are synchronous, and they
// have Ethereum's costs, calls and failures. machine.test.ts compares it with anvil, recorded.test.ts with java-tron.

import {blockId} from '../../../chains/tron/block.ts'
import {genesis} from '../constants.ts'
import type {State} from '../state.ts'
import {callOperations} from './calls.ts'
import {type Execution, Failure, Frame, type Message, type Outcome, type Surroundings, wholeFactor} from './frame.ts'
import {localOperations, type Operation} from './operations.ts'
import {addressIn, bytesOfWord} from './words.ts'

const mostSteps = 2_000_000

const operations: (Operation | undefined)[] = Array.from({length: 256})
for (const [code, operation] of [...localOperations(blockId(genesis)), ...callOperations()])
  operations[code] = operation

interface Options {
  txid: Uint8Array
  origin: bigint
  surroundings: Surroundings
  energyPrice: bigint
}

/** The contracts that one transaction runs. */
export class Machine implements Execution {
  readonly txid: Uint8Array
  readonly origin: bigint
  readonly surroundings: Surroundings
  readonly energyPrice: bigint
  internalCount = 0
  #steps = 0

  constructor({txid, origin, surroundings, energyPrice}: Options) {
    this.txid = txid
    this.origin = origin
    this.surroundings = surroundings
    this.energyPrice = energyPrice
  }

  run(message: Message, state: State): Outcome {
    const factor = wholeFactor + this.surroundings.energyFactor(addressIn(message.address))
    const frame = new Frame(message, {state, execution: this, factor})
    try {
      while (!frame.isStopped) this.#step(frame)
      return frame.outcome()
    } catch (failure) {
      if (!(failure instanceof Failure) || (failure.result === 'OUT_OF_TIME' && message.depth > 0)) throw failure
      const used = failure.keepsEnergy ? frame.used : message.energy
      return {...frame.outcome(), failure, data: new Uint8Array(), used, logs: [], removed: []}
    }
  }

  #step(frame: Frame): void {
    const code = frame.message.code[frame.pc] ?? 0
    const operation = operations[code]
    if (!operation) {
      const hex = Buffer.from(bytesOfWord(BigInt(code), 1)).toString('hex')
      throw new Failure('ILLEGAL_OPERATION', `Invalid operation code: opCode[${hex}];`)
    }
    const {name, pops, pushes, isCall} = operation
    frame.checkStack(pops, pushes)
    const energy = operation.energy(frame)
    const penalty = isCall ? frame.callPenalty : Math.floor((energy * frame.factor) / wholeFactor) - energy
    frame.spend(isCall ? energy : energy + penalty, penalty, name)
    this.#steps += 1
    if (this.#steps > mostSteps) throw new Failure('OUT_OF_TIME', `CPU timeout for '${name}' operation executing`)
    frame.pc += 1
    operation.run(frame)
  }
}
