// The contracts that block 1 of every local Tron chain creates (contracts/*.sol), and calls of them.
import {type Abi, decodeAbiParameters, encodeAbiParameters, encodeFunctionData, type Hex, parseAbi} from 'viem'
import {bytesOf} from '../../chains/tron/address.ts'
import {blockId} from '../../chains/tron/block.ts'
import {encode} from '../../chains/tron/protobuf.ts'
import {type Frame, rawDataOf, rawOf, reference, type Transaction} from '../../chains/tron/transaction.ts'
import {faucet, genesis, issuer, issuerKey} from './constants.ts'
import compiled from './contracts.json' with {type: 'json'}
import {createdAddress} from './invoke.ts'
import {sign} from './keys.ts'
import {types} from './transaction-types.ts'

const abi = parseAbi([
  'function disperse(address[],uint256[])',
  'function transfer(address,uint256) returns (bool)',
  'function balanceOf(address) view returns (uint256)',
])
/** In base units. */
const usdtSupply = 10n ** 18n

const bytesOfHex = (hex: string) => Buffer.from(hex.replace(/^0x/, ''), 'hex')
const evmAddress = (address: string): Hex => `0x${Buffer.from(bytesOf(address).subarray(1)).toString('hex')}`

export function disperseData(outputs: {to: string; amount: bigint}[]): Uint8Array {
  const args = [outputs.map(({to}) => evmAddress(to)), outputs.map(({amount}) => amount)] as const
  return bytesOfHex(encodeFunctionData({abi, functionName: 'disperse', args}))
}

export function tokenTransferData(to: string, amount: bigint): Uint8Array {
  return bytesOfHex(encodeFunctionData({abi, functionName: 'transfer', args: [evmAddress(to), amount]}))
}

export function tokenBalanceData(address: string): Uint8Array {
  return bytesOfHex(encodeFunctionData({abi, functionName: 'balanceOf', args: [evmAddress(address)]}))
}

/** What a call with tokenBalanceData returned. */
export function tokenBalance(returned: Uint8Array): bigint {
  return decodeAbiParameters([{type: 'uint256'}], returned)[0]
}

/** What the issuer of USDT calls, such as addBlackList, setParams or pause; addresses in base58check. */
export function issuerData(functionName: string, args: readonly (string | bigint)[] = []): Uint8Array {
  const words = args.map(arg => (typeof arg === 'string' ? evmAddress(arg) : arg))
  return bytesOfHex(encodeFunctionData({abi: compiled.TronUsdt.abi as Abi, functionName, args: words}))
}

/** The raw data of a transaction that creates a contract, whose caller pays for all energy. */
export function creationData(
  frame: Frame,
  {from, name, bytecode}: {from: string; name: string; bytecode: Uint8Array},
): Uint8Array {
  const contract = encode([
    [1, bytesOf(from)],
    [4, bytecode],
    [6, 100n],
    [7, Buffer.from(name)],
    [8, 10_000_000n],
  ])
  const message = encode([
    [1, bytesOf(from)],
    [2, contract],
  ])
  return rawDataOf(frame, 'CreateSmartContract', types.create, message)
}

/** Of what is always the same, whatever the parameters are. */
const creationFeeLimit = 15_000_000_000n

/** Signed at a time that is the same on every chain, and so are its id and the address of its contract. */
function creation(name: keyof typeof compiled, args: Uint8Array = new Uint8Array()): Transaction {
  const times = {timestamp: 1, expiration: 1}
  const frame = {...reference(0, blockId(genesis)), ...times, feeLimit: creationFeeLimit}
  const bytecode = Buffer.concat([bytesOfHex(compiled[name].bytecode), args])
  return sign(creationData(frame, {from: issuer, name, bytecode}), issuerKey)
}

let transactions: Record<'disperse' | 'token' | 'usdt', Transaction> | undefined

/** The transactions that create them. */
function creations() {
  const parameters = [{type: 'address'}, {type: 'uint256'}] as const
  transactions ??= {
    disperse: creation('Disperse'),
    token: creation('UnknownToken'),
    usdt: creation('TronUsdt', bytesOfHex(encodeAbiParameters(parameters, [evmAddress(faucet), usdtSupply]))),
  }
  return transactions
}

/** The first transactions of block 1, in hex. */
export function firstTransactions(): string[] {
  return Object.values(creations()).map(rawOf)
}

/** Where they create them: what constants.ts must say. */
export function firstContracts(): Record<string, string> {
  const addressOf = ({txid}: Transaction) => createdAddress(Buffer.from(txid, 'hex'), issuer)
  return Object.fromEntries(Object.entries(creations()).map(([name, made]) => [name, addressOf(made)]))
}
