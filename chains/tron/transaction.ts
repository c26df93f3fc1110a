// Transactions of Tron, from and to bytes. Promises: the id is the hash of the raw data, which covers everything but
// signatures and results; what a transaction does is read from these bytes alone, never from a node's words about them.
import {addressOf, bytesOf, sha256} from './address.ts'
import {encode, MalformedError, Message} from './protobuf.ts'

/** The types of contracts that are read here; each transaction has exactly one contract. */
export const contractTypes = {
  transfer: 1,
  transferAsset: 2,
  accountUpdate: 10,
  setAccountId: 19,
  trigger: 31,
  shieldedTransfer: 51,
  stake: 54,
  unstake: 55,
  reclaim: 56,
  delegate: 57,
  undelegate: 58,
} as const

/** The results of contracts by their names in nodes' responses. */
export const contractResults = [
  'DEFAULT',
  'SUCCESS',
  'REVERT',
  'BAD_JUMP_DESTINATION',
  'OUT_OF_MEMORY',
  'PRECOMPILED_CONTRACT',
  'STACK_TOO_SMALL',
  'STACK_TOO_LARGE',
  'ILLEGAL_OPERATION',
  'STACK_OVERFLOW',
  'OUT_OF_ENERGY',
  'OUT_OF_TIME',
  'JVM_STACK_OVER_FLOW',
  'UNKNOWN',
  'TRANSFER_FAILED',
  'INVALID_CODE',
] as const
export type ContractResult = (typeof contractResults)[number]

/** A transaction as blocks hold it, and as it is broadcast (then without a result). */
export interface Transaction {
  txid: string
  rawData: Uint8Array
  signatures: Uint8Array[]
  /** What came of its contract; absent before it is in a block. */
  result?: ContractResult
}

/** What a transaction says. */
export interface RawData {
  /**
   * The low two bytes of the height of the block that it names, and eight bytes of that block's hash: only chains with
   * that block can hold it.
   */
  refBytes: Uint8Array
  refHash: Uint8Array
  /** In ms: no block may hold it whose parent's time is at or past this. */
  expiration: number
  /** In ms. Nodes do not check it. */
  timestamp: number
  /** The most that energy may cost, in sun. */
  feeLimit: bigint
  /** Paid for with a fee of its own. */
  memo: Uint8Array
  contract: Contract
}

export interface Contract {
  type: number
  permission: number
  /** The address that it acts for; undefined if it does not say. */
  owner: string | undefined
  /** Its message, by its type. */
  message: Message
}

export function parseTransaction(bytes: Uint8Array): Transaction {
  const message = new Message(bytes)
  return transactionOf(message.bytes(1), message.all(2))
}

export function transactionOf(rawData: Uint8Array, signatures: Uint8Array[], result?: ContractResult): Transaction {
  return {txid: sha256(rawData).toString('hex'), rawData, signatures, ...(result && {result})}
}

/** The bytes of a whole transaction. The root in a block's header covers them. */
export function encodeTransaction({rawData, signatures, result}: Transaction): Uint8Array {
  const ret = result && encode([[3, BigInt(contractResults.indexOf(result))]])
  return encode([
    [1, rawData],
    [2, signatures],
    [5, ret ? [ret] : []],
  ])
}

/** The same in hex, as it is broadcast: without a result. */
export function rawOf({txid, rawData, signatures}: Transaction): string {
  return Buffer.from(encodeTransaction({txid, rawData, signatures})).toString('hex')
}

/** Throws MalformedError. */
export function parseRawData(bytes: Uint8Array): RawData {
  const raw = new Message(bytes)
  const contracts = raw.all(11)
  if (contracts.length !== 1) throw new MalformedError(`a transaction with ${contracts.length} contracts`)
  return {
    refBytes: raw.bytes(1),
    refHash: raw.bytes(4),
    expiration: Number(raw.integer(8)),
    timestamp: Number(raw.integer(14)),
    feeLimit: raw.integer(18),
    memo: raw.bytes(10),
    contract: parseContract(contracts[0]!),
  }
}

/** Contracts whose first field is not their owner, and the field that is. */
const ownerFields = new Map<number, number | undefined>([
  [contractTypes.transferAsset, 2],
  [contractTypes.accountUpdate, 2],
  [contractTypes.setAccountId, 2],
  [contractTypes.shieldedTransfer, undefined],
])

function parseContract(bytes: Uint8Array): Contract {
  const contract = new Message(bytes)
  const type = Number(contract.integer(1))
  const message = new Message(new Message(contract.bytes(2)).bytes(2))
  const field = ownerFields.has(type) ? ownerFields.get(type) : 1
  const owner = field === undefined ? undefined : addressOrNone(message.bytes(field))
  return {type, permission: Number(contract.integer(5)), owner, message}
}

/** Undefined if the bytes are no address. */
export function addressOrNone(bytes: Uint8Array): string | undefined {
  return bytes.length === 21 && bytes[0] === 0x41 ? addressOf(bytes) : undefined
}

// Making them
// ---------------------------------------------------------------------------------------------------------------------

/** What every transaction names. */
export type Frame = Pick<RawData, 'refBytes' | 'refHash' | 'expiration' | 'timestamp'> &
  Partial<Pick<RawData, 'feeLimit' | 'memo'>>

/** The two fields of a transaction that name a block. */
export function reference(height: number, hash: string): Pick<Frame, 'refBytes' | 'refHash'> {
  const low = Buffer.alloc(2)
  low.writeUInt16BE(height % 0x1_0000)
  return {refBytes: low, refHash: Buffer.from(hash.slice(16, 32), 'hex')}
}

/** The largest int64: a larger amount would be written as another one. */
export const largestAmount = 2n ** 63n - 1n

/** The raw data of a payment of the native coin, in sun. */
export function transferData(frame: Frame, {from, to, amount}: {from: string; to: string; amount: bigint}): Uint8Array {
  if (amount < 0n || amount > largestAmount) throw new RangeError(`a transaction cannot move ${amount} sun`)
  const message = encode([
    [1, bytesOf(from)],
    [2, bytesOf(to)],
    [3, amount],
  ])
  return rawDataOf(frame, 'TransferContract', contractTypes.transfer, message)
}

/** The raw data of a call of a contract, which gets `value` sun with it. */
export function callData(
  frame: Frame,
  {from, contract, value, data}: {from: string; contract: string; value: bigint; data: Uint8Array},
): Uint8Array {
  const message = encode([
    [1, bytesOf(from)],
    [2, bytesOf(contract)],
    [3, value],
    [4, data],
  ])
  return rawDataOf(frame, 'TriggerSmartContract', contractTypes.trigger, message)
}

/** What may be staked for, and lent, by its number on the wire. */
export const resources = {bandwidth: 0n, energy: 1n} as const
export type StakedFor = keyof typeof resources

/** What is done with an account's stake. Amounts are in sun. */
export type Staking = {owner: string} & (
  | {kind: 'stake' | 'unstake'; amount: bigint; resource: StakedFor}
  | {kind: 'delegate' | 'undelegate'; amount: bigint; resource: StakedFor; receiver: string}
  | {kind: 'reclaim'}
)

const stakingNames = {
  stake: 'FreezeBalanceV2Contract',
  unstake: 'UnfreezeBalanceV2Contract',
  reclaim: 'WithdrawExpireUnfreezeContract',
  delegate: 'DelegateResourceContract',
  undelegate: 'UnDelegateResourceContract',
} as const

/**
 * The raw data of what is done with a stake, as of Stake 2.0. A delegate locks nothing: it may be taken back at once.
 */
export function stakingData(frame: Frame, staking: Staking): Uint8Array {
  const {kind, owner} = staking
  return rawDataOf(frame, stakingNames[kind], contractTypes[kind], encode([[1, bytesOf(owner)], ...fieldsOf(staking)]))
}

function fieldsOf(staking: Staking): [number, bigint | Uint8Array][] {
  if (staking.kind === 'reclaim') return []
  const {amount, resource: named} = staking
  const resource = resources[named]
  if (amount <= 0n || amount > largestAmount) throw new RangeError(`nobody can stake ${amount} sun`)
  if (!('receiver' in staking))
    return [
      [2, amount],
      [3, resource],
    ]
  return [
    [2, resource],
    [3, amount],
    [4, bytesOf(staking.receiver)],
  ]
}

/** The raw data of a transaction with this contract, given its message. */
export function rawDataOf(frame: Frame, name: string, type: number, message: Uint8Array): Uint8Array {
  const parameter = encode([
    [1, Buffer.from(`type.googleapis.com/protocol.${name}`)],
    [2, message],
  ])
  const contract = encode([
    [1, BigInt(type)],
    [2, parameter],
  ])
  return encode([
    [1, frame.refBytes],
    [4, frame.refHash],
    [8, BigInt(frame.expiration)],
    [10, frame.memo],
    [11, contract],
    [14, BigInt(frame.timestamp)],
    [18, frame.feeLimit],
  ])
}
