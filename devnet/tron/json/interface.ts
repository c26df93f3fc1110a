// The interface of a contract (its ABI), as the transaction has it that created it, and as java-tron shows it.
import {Message} from '../../../chains/tron/protobuf.ts'

const types = ['', 'Constructor', 'Function', 'Event', 'Fallback', 'Receive', 'Error']
const mutabilities = ['', 'Pure', 'View', 'Nonpayable', 'Payable']

const textOf = (message: Message, field: number) => Buffer.from(message.bytes(field)).toString()

/** Fields with their defaults are left out. */
function fields(values: Record<string, unknown>): object {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value))
}

function parametersOf(entry: Message, field: number): object[] | undefined {
  const found = entry.all(field).map(bytes => {
    const parameter = new Message(bytes)
    return fields({indexed: parameter.integer(1) !== 0n, name: textOf(parameter, 2), type: textOf(parameter, 3)})
  })
  return found.length ? found : undefined
}

export function interfaceJson(bytes: Uint8Array): object {
  const entrys = new Message(bytes).all(1).map(each => {
    const entry = new Message(each)
    return fields({
      anonymous: entry.integer(1) !== 0n,
      constant: entry.integer(2) !== 0n,
      name: textOf(entry, 3),
      inputs: parametersOf(entry, 4),
      outputs: parametersOf(entry, 5),
      type: types[Number(entry.integer(6))],
      payable: entry.integer(7) !== 0n,
      stateMutability: mutabilities[Number(entry.integer(8))],
    })
  })
  return entrys.length ? {entrys} : {}
}
