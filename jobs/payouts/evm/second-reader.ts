// Reads what custody signed on an EVM chain with the parser of viem (../second-reader.ts); custody's own bytes come
// from viem's serialiser. Promises: no field goes unread; the signature is of the account whose nonce it uses, and the
// authorisation inside a sweep (EIP-3009) is of the address whose token moves.
import {
  decodeFunctionData,
  getAddress,
  type Hex,
  keccak256,
  parseAbi,
  parseTransaction,
  recoverTransactionAddress,
  recoverTypedDataAddress,
  serializeTransaction,
} from 'viem'
import {erc20} from '../../../chains/evm/settings.ts'
import type {Facts, Reading} from '../context.ts'
import type {Signed} from '../custody-client.ts'
import {amountOf, readBy} from '../second-reader.ts'
import type {Evm} from './node.ts'
import type {EvmAttempt} from './plan-attempt.ts'

export async function readSigned(chain: Evm, planned: EvmAttempt, signed: Signed): Promise<Reading> {
  const {outgoingPayment, kind} = planned
  const {token, source, recipient, feePayer, nonce} = outgoingPayment
  const {says, to, value, data} = await readBy('viem', () => read(signed.raw as Hex))
  const signer = getAddress(feePayer)
  const common = {...offered(signed), signer, nonce: String(nonce), chain: String(chain.settings.chainId)}
  const asked = {...common, 'access list': 'empty', txid: signed.txid, bytes: 'all read'}
  const amount = String(amountOf(planned, signed))
  if (kind === 'cancel' || token === chain.native) {
    const paid = kind === 'cancel' ? signer : getAddress(recipient)
    return {
      asked: {...asked, recipient: paid, amount, data: 'none'},
      says: {...says, recipient: to, amount: value, data},
    }
  }
  const from = getAddress(source)
  const contract = getAddress(erc20(chain.settings, token).contract)
  const moves = {contract, value: '0', from, recipient: getAddress(recipient), amount}
  const isOwn = from === signer
  const called = await readBy('viem', () => (isOwn ? transferIn(data, from) : receiveIn(chain, token, data)))
  const authorised = {'authorised by': from, valid: 'always', authorisation: nonceOf(outgoingPayment.id)}
  return {asked: {...asked, ...moves, ...(isOwn ? {} : authorised)}, says: {...says, contract: to, value, ...called}}
}

/** What custody says that it offers, which is stored with the attempt. */
function offered({feeDetails, maxFee}: Signed): Facts {
  const {max_fee_per_gas, max_priority_fee_per_gas, gas_limit} = feeDetails
  return {
    'fee for a unit of gas': String(max_fee_per_gas),
    'priority fee': String(max_priority_fee_per_gas),
    gas: String(gas_limit),
    'highest fee': String(maxFee),
  }
}

async function read(raw: Hex): Promise<{says: Facts; to: string; value: string; data: Hex | 'none'}> {
  const transaction = parseTransaction(raw)
  const {type} = transaction
  if (type !== 'eip1559') throw new Error(`its type is ${type}`)
  const {r, s, yParity, chainId, nonce, to, value, data, accessList, ...fees} = transaction
  const {maxFeePerGas = 0n, maxPriorityFeePerGas = 0n, gas = 0n} = fees
  const unsigned = {type, chainId, nonce, to, value, data, maxFeePerGas, maxPriorityFeePerGas, gas}
  const again = serializeTransaction(unsigned, {r: r!, s: s!, yParity: yParity!})
  return {
    says: {
      chain: String(chainId),
      nonce: String(nonce ?? 0),
      signer: await recoverTransactionAddress({serializedTransaction: raw as `0x02${string}`}),
      'fee for a unit of gas': String(maxFeePerGas),
      'priority fee': String(maxPriorityFeePerGas),
      gas: String(gas),
      'highest fee': String(maxFeePerGas * gas),
      'access list': accessList?.length ? 'there' : 'empty',
      txid: keccak256(raw),
      bytes: again === raw ? 'all read' : 'more than is read',
    },
    to: to ? getAddress(to) : 'nobody',
    value: String(value ?? 0n),
    data: data ?? 'none',
  }
}

const abi = parseAbi([
  'function transfer(address to, uint256 value)',
  'function receiveWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)',
])

function transferIn(data: Hex | 'none', from: string): Facts {
  const {functionName, args} = decodeFunctionData({abi, data: data as Hex})
  if (functionName !== 'transfer') throw new Error(`it calls ${functionName}`)
  return {from, recipient: args[0], amount: String(args[1])}
}

/** Every attempt of a sweep has the same one, so only one can succeed. */
const nonceOf = (outgoingPaymentId: string): Hex => keccak256(`0x${outgoingPaymentId.replaceAll('-', '')}`)

const types = {
  ReceiveWithAuthorization: [
    {name: 'from', type: 'address'},
    {name: 'to', type: 'address'},
    {name: 'value', type: 'uint256'},
    {name: 'validAfter', type: 'uint256'},
    {name: 'validBefore', type: 'uint256'},
    {name: 'nonce', type: 'bytes32'},
  ],
} as const

async function receiveIn({settings}: Evm, token: string, data: Hex | 'none'): Promise<Facts> {
  const {functionName, args} = decodeFunctionData({abi, data: data as Hex})
  if (functionName !== 'receiveWithAuthorization') throw new Error(`it calls ${functionName}`)
  const {contract, sweep} = erc20(settings, token)
  if (sweep.by !== 'eip3009') throw new Error(`${token} takes no authorisations`)
  const [from, to, value, validAfter, validBefore, nonce, v, r, s] = args
  const signer = await recoverTypedDataAddress({
    domain: {...sweep.domain, chainId: settings.chainId, verifyingContract: getAddress(contract)},
    types,
    primaryType: 'ReceiveWithAuthorization',
    message: {from, to, value, validAfter, validBefore, nonce},
    signature: {r, s, yParity: v - 27},
  })
  const isAlways = validAfter === 0n && validBefore === 2n ** 256n - 1n
  return {
    from,
    recipient: to,
    amount: String(value),
    'authorised by': signer,
    authorisation: nonce,
    valid: isAlways ? 'always' : `from ${validAfter} to ${validBefore}`,
  }
}
