// Stand-ins for contracts: a local Tron chain has no virtual machine. Each does with a call what its Solidity would.
import {decodeFunctionData, encodeFunctionData, parseAbi} from 'viem'
import {addressOf, bytesOf} from '../../chains/tron/address.ts'
import type {Internal, Log} from '../../chains/tron/responses.ts'
import type {Accounts} from './accounts.ts'
import {contracts} from './constants.ts'

const abi = parseAbi(['function disperse(address[],uint256[])', 'function transfer(address,uint256) returns (bool)'])
const transferTopic = Buffer.from('ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef', 'hex')

export interface Call {
  from: string
  contract: string
  /** In sun; the contract has it already. */
  value: bigint
  data: Uint8Array
}

export interface Called {
  reverted: boolean
  energy: bigint
  internals: Internal[]
  logs: Log[]
}

const evmAddress = (address: string): `0x${string}` => `0x${Buffer.from(bytesOf(address).subarray(1)).toString('hex')}`
const tronAddress = (address: string): string => addressOf(Buffer.from(`41${address.slice(2)}`, 'hex'))

export function disperseData(outputs: {to: string; amount: bigint}[]): Uint8Array {
  const args = [outputs.map(({to}) => evmAddress(to)), outputs.map(({amount}) => amount)] as const
  return Buffer.from(encodeFunctionData({abi, functionName: 'disperse', args}).slice(2), 'hex')
}

export function tokenTransferData(to: string, amount: bigint): Uint8Array {
  const args = [evmAddress(to), amount] as const
  return Buffer.from(encodeFunctionData({abi, functionName: 'transfer', args}).slice(2), 'hex')
}

/** Calls a contract; undefined if there is none at the address. */
export function callContract(accounts: Accounts, call: Call): Called | undefined {
  const isDisperse = call.contract === contracts.disperse
  if (!isDisperse && call.contract !== contracts.token) return undefined
  try {
    return isDisperse ? disperse(accounts, call) : transferToken(call)
  } catch {
    return {reverted: true, energy: 1000n, internals: [], logs: []} // it does not understand the call
  }
}

function disperse(accounts: Accounts, {contract, value, data}: Call): Called {
  const {functionName, args} = decode(data)
  if (functionName !== 'disperse' || args[0].length !== args[1].length) throw new RangeError('no call of this contract')
  const outputs = args[0].map((address, i) => ({to: tronAddress(address), amount: args[1][i]!}))
  const reverted = outputs.reduce((sum, {amount}) => sum + amount, 0n) > value
  const internals = outputs.map(({to, amount}): Internal => {
    const values = [{amount, token: ''}]
    return {from: bytesOf(contract), to: bytesOf(to), note: 'call', isRejected: reverted, values}
  })
  if (!reverted)
    for (const {to, amount} of outputs) {
      accounts.add(contract, -amount)
      accounts.add(to, amount)
    }
  return {reverted, energy: 20_000n + 10_000n * BigInt(outputs.length), internals, logs: []}
}

function transferToken({from, contract, data}: Call): Called {
  const {functionName, args} = decode(data)
  if (functionName !== 'transfer') throw new RangeError('no call of this contract')
  const word = (hex: string) => Buffer.from(hex.slice(2).padStart(64, '0'), 'hex')
  const topics = [transferTopic, word(evmAddress(from)), word(args[0])]
  const logs = [{address: bytesOf(contract).subarray(1), topics, data: word(`0x${args[1].toString(16)}`)}]
  return {reverted: false, energy: 14_650n, internals: [], logs}
}

function decode(data: Uint8Array) {
  return decodeFunctionData({abi, data: `0x${Buffer.from(data).toString('hex')}`})
}
