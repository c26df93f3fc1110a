// Contracts, and calls that only ask, as java-tron shows them.
import {keccak256} from 'viem/utils'
import {z} from 'zod'
import {addressOf, bytesOf} from '../../../chains/tron/address.ts'
import {callData, reference, transactionOf} from '../../../chains/tron/transaction.ts'
import type {TronLocalChain} from '../chain.ts'
import {ask} from '../invoke.ts'
import {Rejected} from '../rejected.ts'
import type {State} from '../state.ts'
import {type Failure, hasFailed, type Outcome} from '../vm/frame.ts'
import {internalJson, logJson, rawDataJson} from './blocks.ts'
import {interfaceJson} from './interface.ts'

const dryRunLifetimeMs = 60_000
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
const keccak = (bytes: Uint8Array) => keccak256(bytes, 'bytes')
const Address = z.string().transform(address => addressOf(Buffer.from(address, 'hex')))
const Data = z
  .string()
  .regex(/^(0x)?([0-9a-f]{2})*$/i)
  .transform(data => Buffer.from(data.replace(/^0x/, ''), 'hex'))

export const DryRun = z
  .object({
    owner_address: Address,
    contract_address: Address,
    function_selector: z.string().default(''),
    parameter: Data.default(Buffer.alloc(0)),
    data: Data.default(Buffer.alloc(0)),
    call_value: z.int().min(0).default(0).transform(BigInt),
  })
  .transform(({owner_address: from, contract_address: contract, call_value: value, ...call}) => {
    const selector = keccak(Buffer.from(call.function_selector)).subarray(0, 4)
    const data = call.function_selector ? Buffer.concat([selector, call.parameter]) : call.data
    return {from, contract, value, data}
  })

/** What a call would give after the block at a height. */
export function dryRunJson(chain: TronLocalChain, call: z.infer<typeof DryRun>, height: number): object {
  const rawData = rawDataOf(chain, call, height)
  const {txid} = transactionOf(rawData, [])
  const place = {txid: Buffer.from(txid, 'hex'), surroundings: chain.surroundings(height)}
  let outcome: Outcome
  try {
    outcome = ask({state: chain.state(height), owner: call.from, ...place}, call)
  } catch (error) {
    if (!(error instanceof Rejected)) throw error
    return {result: {code: error.code, message: hex(Buffer.from(error.message))}}
  }
  return outcomeJson(outcome, {visible: false, txID: txid, ...rawDataJson(rawData)})
}

function rawDataOf(chain: TronLocalChain, call: z.infer<typeof DryRun>, height: number): Uint8Array {
  const {solidHeight} = chain
  const named = Math.min(height, solidHeight)
  const expiration = chain.block(height).header.time + dryRunLifetimeMs
  return callData({...reference(named, chain.block(named).hash), expiration, timestamp: Date.now()}, call)
}

function outcomeJson(outcome: Outcome, transaction: object): object {
  const {failure, data, used, penalty, logs, internals} = outcome
  if (failure) {
    const message = `class org.tron.core.vm.program.Program$${exceptionOf(failure)} : ${failure.message}`
    return {result: {code: 'OTHER_ERROR', message: hex(Buffer.from(message))}}
  }
  const failed = hasFailed(outcome)
  return {
    result: {result: true, ...(failed && {message: hex(Buffer.from('REVERT opcode executed'))})},
    energy_used: used,
    ...(penalty && {energy_penalty: penalty}),
    constant_result: [hex(data)],
    ...(logs.length && {logs: logs.map(logJson)}),
    ...(internals.length && {internal_transactions: internals.map(internalJson)}),
    transaction: {ret: [failed ? {ret: 'FAILED'} : {}], ...transaction},
  }
}

/** What java-tron calls it inside, such as OutOfEnergyException. */
function exceptionOf({result}: Failure): string {
  if (result === 'UNKNOWN') return 'BytecodeExecutionException'
  if (result === 'TRANSFER_FAILED') return 'TransferException'
  const words = result.split('_').map(word => word.charAt(0) + word.slice(1).toLowerCase())
  return `${words.join('')}Exception`
}

export function contractJson(state: State, address: string): object {
  const contract = state.contract(address)
  if (!contract) return {}
  const {created, creator, code} = contract
  return {
    ...(created && {bytecode: hex(created.bytecode)}),
    ...(created?.percent !== 0 && {consume_user_resource_percent: created?.percent ?? 100}),
    ...(created?.name && {name: created.name}),
    origin_address: hex(bytesOf(creator)),
    abi: interfaceJson(created?.abi ?? new Uint8Array()),
    ...(created && {origin_energy_limit: created.energyLimit}),
    contract_address: hex(bytesOf(address)),
    code_hash: hex(keccak(code)),
    version: 1,
  }
}

export function contractInfoJson(chain: TronLocalChain, address: string, height: number): object {
  const state = chain.state(height)
  const contract = state.contract(address)
  if (!contract) return {}
  const factor = chain.energyFactor(address)
  return {
    runtimecode: hex(contract.code),
    smart_contract: contractJson(state, address),
    contract_state: factor ? {energy_factor: factor} : {},
  }
}
