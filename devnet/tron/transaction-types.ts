// The types of transactions that a local Tron chain takes: their numbers, and how nodes show them.
import {Message} from '../../chains/tron/protobuf.ts'
import {contractTypes} from '../../chains/tron/transaction.ts'
import {interfaceJson} from './json/interface.ts'

export const types = {
  transfer: contractTypes.transfer,
  create: 30,
  trigger: contractTypes.trigger,
  freeze: contractTypes.stake,
  unfreeze: contractTypes.unstake,
  withdraw: contractTypes.reclaim,
  delegate: contractTypes.delegate,
  undelegate: contractTypes.undelegate,
} as const

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
const ifSet = <T>(key: string, value: T): object => (value ? {[key]: value} : {})
const owner = (message: Message) => ({owner_address: hex(message.bytes(1))})
const resource = (message: Message, field: number) => ifSet('resource', message.integer(field) === 1n && 'ENERGY')

/** A type's name, and its fields. Those with their defaults are left out. */
interface Shown {
  name: string
  value(message: Message): object
}

export const shown = new Map<number, Shown>([
  [
    types.transfer,
    {
      name: 'TransferContract',
      value: message => ({
        ...owner(message),
        to_address: hex(message.bytes(2)),
        ...ifSet('amount', Number(message.integer(3))),
      }),
    },
  ],
  [
    types.trigger,
    {
      name: 'TriggerSmartContract',
      value: message => ({
        ...ifSet('data', hex(message.bytes(4))),
        ...owner(message),
        contract_address: hex(message.bytes(2)),
        ...ifSet('call_value', Number(message.integer(3))),
      }),
    },
  ],
  [
    types.create,
    {name: 'CreateSmartContract', value: message => ({...owner(message), new_contract: created(message)})},
  ],
  [
    types.freeze,
    {
      name: 'FreezeBalanceV2Contract',
      value: message => ({
        ...resource(message, 3),
        ...ifSet('frozen_balance', Number(message.integer(2))),
        ...owner(message),
      }),
    },
  ],
  [
    types.unfreeze,
    {
      name: 'UnfreezeBalanceV2Contract',
      value: message => ({
        ...resource(message, 3),
        ...owner(message),
        ...ifSet('unfreeze_balance', Number(message.integer(2))),
      }),
    },
  ],
  [types.withdraw, {name: 'WithdrawExpireUnfreezeContract', value: owner}],
  [types.delegate, {name: 'DelegateResourceContract', value: loan}],
  [types.undelegate, {name: 'UnDelegateResourceContract', value: loan}],
])

function loan(message: Message): object {
  return {
    balance: Number(message.integer(3)),
    ...resource(message, 2),
    receiver_address: hex(message.bytes(4)),
    ...owner(message),
  }
}

function created(message: Message): object {
  const contract = new Message(message.bytes(2))
  return {
    bytecode: hex(contract.bytes(4)),
    ...ifSet('consume_user_resource_percent', Number(contract.integer(6))),
    ...ifSet('name', Buffer.from(contract.bytes(7)).toString()),
    origin_address: hex(contract.bytes(1)),
    ...(contract.bytes(3).length && {abi: interfaceJson(contract.bytes(3))}),
    ...ifSet('origin_energy_limit', Number(contract.integer(8))),
    ...ifSet('call_value', Number(contract.integer(5))),
  }
}
