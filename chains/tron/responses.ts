// What a node's HTTP API sends, as far as it is read here. Promises: the id of a block is computed from its header, and
// the id of a transaction from its raw data; a response that names another one is refused. Fields that a node leaves
// out because they have their default are there.
import {z} from 'zod'
import {sha256} from './address.ts'
import {blockId, type Header} from './block.ts'
import {addressOrNone, type ContractResult, contractResults, type Transaction} from './transaction.ts'

/** Numbers above 2^53 arrive as bigint (parseJson), or as text, as newer nodes can be told to send them. */
const Long = z.union([z.int(), z.bigint(), z.string().regex(/^-?\d{1,19}$/)]).transform(BigInt)
const LongOrZero = Long.default(0n)
const Hex = z.string().regex(/^([0-9a-f]{2})*$/i)
/** 21 bytes. */
const Address = z.string().regex(/^41[0-9a-f]{40}$/i)
const Hash = z.string().regex(/^[0-9a-f]{64}$/)

const bytes = (hex: string) => Buffer.from(hex, 'hex')

/** A block without its transactions. */
export interface BlockHeader extends Header {
  hash: string
}

export interface Block extends BlockHeader {
  transactions: Transaction[]
}

const RawHeader = z
  .object({
    number: LongOrZero, // the first block has none
    timestamp: LongOrZero,
    txTrieRoot: Hex.default(''),
    parentHash: Hash,
    witness_address: Hex.default(''),
    witness_id: LongOrZero,
    version: LongOrZero,
    accountStateRoot: Hex.default(''),
  })
  .transform((raw): Header => {
    return {
      height: Number(raw.number),
      time: Number(raw.timestamp),
      txTrieRoot: raw.txTrieRoot,
      parentHash: raw.parentHash,
      witness: raw.witness_address,
      witnessId: raw.witness_id,
      version: raw.version,
      accountStateRoot: raw.accountStateRoot,
    }
  })

const headerFields = {blockID: Hash, block_header: z.object({raw_data: RawHeader})}

function withHash<T extends {blockID: string; block_header: {raw_data: Header}}>(
  {blockID, block_header: {raw_data}}: T,
  {addIssue}: z.RefinementCtx,
): BlockHeader {
  if (blockId(raw_data) !== blockID) addIssue(`block ${raw_data.height} has not the id ${blockID} that it is given`)
  return {...raw_data, hash: blockID}
}

export const BlockHeader = z.object(headerFields).transform(withHash)

const SignedTransaction = z
  .object({
    txID: Hash,
    raw_data_hex: Hex,
    signature: z.array(Hex).default([]),
    ret: z.array(z.object({contractRet: z.enum(contractResults).catch('UNKNOWN').default('DEFAULT')})).default([]),
  })
  .transform(({txID, raw_data_hex, signature, ret}, {addIssue}): Transaction => {
    const rawData = bytes(raw_data_hex)
    if (sha256(rawData).toString('hex') !== txID) addIssue(`transaction ${txID} has another id`)
    return {txid: txID, rawData, signatures: signature.map(bytes), result: ret[0]?.contractRet}
  })

export const Block = z
  .object({...headerFields, transactions: z.array(SignedTransaction).default([])})
  .transform((block, context): Block => ({...withHash(block, context), transactions: block.transactions}))

/** What came of a transaction. Nothing in a block's header covers it: the node is believed. */
export interface Info {
  txid: string
  height: number
  /** Of its block, in ms. */
  time: number
  /** All that it cost its owner, in sun. */
  fee: bigint
  hasFailed: boolean
  /** The contract that was called, as the 21 bytes of its address. */
  contract: Uint8Array
  internals: Internal[]
  logs: Log[]
}

/** A call of one contract by another, which may move value. */
export interface Internal {
  from: Uint8Array
  to: Uint8Array
  /** call, create, suicide, or something that moves nothing to anybody. */
  note: string
  isRejected: boolean
  /** Of the native coin if it has no token. */
  values: {amount: bigint; token: string}[]
}

export interface Log {
  /** The contract's 20 bytes, without 41. */
  address: Uint8Array
  topics: Uint8Array[]
  data: Uint8Array
}

const Internal = z
  .object({
    caller_address: Hex.default(''),
    transferTo_address: Hex.default(''),
    note: Hex.default(''),
    rejected: z.boolean().default(false),
    callValueInfo: z.array(z.object({callValue: LongOrZero, tokenId: z.string().default('')})).default([]),
  })
  .transform((internal): Internal => {
    return {
      from: bytes(internal.caller_address),
      to: bytes(internal.transferTo_address),
      note: bytes(internal.note).toString(),
      isRejected: internal.rejected,
      values: internal.callValueInfo.map(({callValue: amount, tokenId: token}) => ({amount, token})),
    }
  })

const Log = z
  .object({address: Hex, topics: z.array(Hex).default([]), data: Hex.default('')})
  .transform(({address, topics, data}): Log => {
    return {address: bytes(address).subarray(-20), topics: topics.map(bytes), data: bytes(data)}
  })

export const Info = z
  .object({
    id: Hash,
    blockNumber: LongOrZero,
    blockTimeStamp: LongOrZero,
    fee: LongOrZero,
    result: z.string().default(''),
    contract_address: Hex.default(''),
    internal_transactions: z.array(Internal).default([]),
    log: z.array(Log).default([]),
  })
  .transform((info): Info => {
    return {
      txid: info.id,
      height: Number(info.blockNumber),
      time: Number(info.blockTimeStamp),
      fee: info.fee,
      hasFailed: info.result === 'FAILED',
      contract: bytes(info.contract_address),
      internals: info.internal_transactions,
      logs: info.log,
    }
  })

export interface Account {
  balance: bigint
  /** Coins of its own besides: staked, lent or not, or unstaked and not back yet; in sun. */
  staked: bigint
  isContract: boolean
}

const Frozen = z.object({type: z.string().default('BANDWIDTH'), amount: LongOrZero})
const Unfrozen = z.object({
  type: z.string().default('BANDWIDTH'),
  unfreeze_amount: LongOrZero,
  unfreeze_expire_time: LongOrZero,
})

/** What an account has staked for each resource, lent or not; and what it unstaked, and when that is free, in ms. */
export interface AccountStake {
  energy: bigint
  bandwidth: bigint
  unstaking: {resource: 'energy' | 'bandwidth'; amount: bigint; freeMs: number}[]
}

export const AccountStake = z
  .object({
    frozenV2: z.array(Frozen).default([]),
    unfrozenV2: z.array(Unfrozen).default([]),
    delegated_frozenV2_balance_for_bandwidth: LongOrZero,
    account_resource: z.object({delegated_frozenV2_balance_for_energy: LongOrZero}).optional(),
  })
  .transform((account): AccountStake => {
    const frozen = (type: string) =>
      account.frozenV2.reduce((sum, one) => (one.type === type ? sum + one.amount : sum), 0n)
    return {
      energy: frozen('ENERGY') + (account.account_resource?.delegated_frozenV2_balance_for_energy ?? 0n),
      bandwidth: frozen('BANDWIDTH') + account.delegated_frozenV2_balance_for_bandwidth,
      unstaking: account.unfrozenV2.map(({type, unfreeze_amount: amount, unfreeze_expire_time: at}) => {
        return {resource: type === 'ENERGY' ? 'energy' : 'bandwidth', amount, freeMs: Number(at)}
      }),
    }
  })

export const Account = z
  .object({balance: LongOrZero, type: z.string().default('Normal')})
  .and(AccountStake)
  .transform(({balance, type, energy, bandwidth, unstaking}): Account => {
    const staked = unstaking.reduce((sum, {amount}) => sum + amount, energy + bandwidth)
    return {balance, staked, isContract: type === 'Contract'}
  })

/**
 * How many bytes an account may send for nothing: those that come back each day, and those that coins are staked for.
 */
export const FreeBytes = z
  .object({freeNetLimit: LongOrZero, freeNetUsed: LongOrZero, NetLimit: LongOrZero, NetUsed: LongOrZero})
  .transform(free => ({daily: free.freeNetLimit - free.freeNetUsed, staked: free.NetLimit - free.NetUsed}))

/** How much energy an account has left of what its own stake and what it was lent give it a day. */
export const Energy = z
  .object({
    EnergyLimit: LongOrZero,
    EnergyUsed: LongOrZero,
    TotalEnergyLimit: LongOrZero,
    TotalEnergyWeight: LongOrZero,
  })
  .transform(({EnergyLimit, EnergyUsed, TotalEnergyLimit, TotalEnergyWeight}) => ({
    left: EnergyLimit > EnergyUsed ? EnergyLimit - EnergyUsed : 0n,
    /** All who stake share `network` energy a day, by the TRX that each has staked: `staked` together. */
    network: TotalEnergyLimit,
    staked: TotalEnergyWeight,
  }))
export type Energy = z.infer<typeof Energy>

export const Lendable = z.object({max_size: LongOrZero})

/** Whom an account lends to. */
export const Borrowers = z.object({toAccounts: z.array(Address).default([])})

/** What one account lends another. */
export const Loan = z
  .object({delegatedResource: z.array(z.object({frozen_balance_for_energy: LongOrZero})).default([])})
  .transform(({delegatedResource}) => ({
    energy: delegatedResource.reduce((sum, {frozen_balance_for_energy: amount}) => sum + amount, 0n),
  }))

/** What transactions cost now, in sun. */
export interface Prices {
  /** For each byte that is not free. */
  byte: bigint
  /** For each unit of energy that is burnt. */
  energy: bigint
  /** More, for a payment that makes an account. */
  activation: bigint
}

const Parameters = z.object({chainParameter: z.array(z.object({key: z.string(), value: LongOrZero}))})

export const UnstakingDays = Parameters.transform(
  ({chainParameter}) => chainParameter.find(({key}) => key === 'getUnfreezeDelayDays')?.value ?? 0n,
)

/** A parameter without a value is 0. */
export const Prices = Parameters.transform(({chainParameter}, {addIssue}): Prices => {
  const values = new Map(chainParameter.map(({key, value}) => [key, value]))
  const of = (key: string) => {
    const value = values.get(key)
    if (value === undefined) addIssue(`no parameter ${key}`)
    return value ?? 0n
  }
  return {
    byte: of('getTransactionFee'),
    energy: of('getEnergyFee'),
    activation: of('getCreateAccountFee') + of('getCreateNewAccountFeeInSystemContract'),
  }
})

/** What a call of a contract would do at a block, by what a node tried; nothing was sent. */
export interface Tried {
  /**
   * Undefined: it would do what it says. Otherwise why not; `isSure` if that is the call's fault, and no limit's;
   * `ranOutOfTime` if the node stopped it by its own clock, as a busy one does with any call.
   */
  failure: {words: string; isSure: boolean; ranOutOfTime: boolean} | undefined
  /** All that it would use, with what a busy contract costs more. */
  energy: bigint
  returned: Uint8Array
  logs: Log[]
}

/** A node says of a call that would fail that the question succeeded: the transaction that it made of it tells. */
export const Tried = z
  .object({
    result: z.object({result: z.boolean().default(false), code: z.string().default(''), message: Hex.default('')}),
    energy_used: LongOrZero,
    constant_result: z.array(Hex).default([]),
    logs: z.array(Log).default([]),
    transaction: z.object({ret: z.array(z.object({ret: z.string().optional()})).default([])}).optional(),
  })
  .transform(({result: {result, code, message}, energy_used, constant_result, logs, transaction}): Tried => {
    const words = bytes(message).toString()
    const returned = bytes(constant_result[0] ?? '')
    const hasFailed = !result || transaction?.ret.some(({ret}) => ret === 'FAILED')
    const failure = {
      words: [code, words, revertReason(returned)].filter(Boolean).join(': ').slice(0, 300),
      isSure: words.startsWith('REVERT opcode'),
      ranOutOfTime: words.includes('OutOfTimeException'),
    }
    return {failure: hasFailed ? failure : undefined, energy: energy_used, returned, logs}
  })

/** The text of Error(string), which require and revert give; empty if there is none. */
function revertReason(returned: Buffer): string {
  if (returned.subarray(0, 4).toString('hex') !== '08c379a0') return ''
  const length = Number(BigInt(`0x${returned.subarray(36, 68).toString('hex') || '0'}`))
  return returned.subarray(68, 68 + Math.min(length, 200)).toString()
}

/** The code of a contract as it runs, and who made it. */
export const ContractInfo = z
  .object({
    runtimecode: Hex.default(''),
    smart_contract: z.object({origin_address: Hex.default('')}).default({origin_address: ''}),
  })
  .transform(({runtimecode, smart_contract}) => {
    return {code: bytes(runtimecode), creator: addressOrNone(bytes(smart_contract.origin_address))}
  })
export type ContractInfo = z.infer<typeof ContractInfo>

/** What a node says of a transaction that it was given. */
export const Broadcast = z
  .object({result: z.boolean().default(false), code: z.string().default(''), message: z.string().default('')})
  .transform(({result, code, message}): string | undefined =>
    result || code === 'SUCCESS' || code === 'DUP_TRANSACTION_ERROR' ? undefined : `${code}: ${message}`.slice(0, 200),
  )

/** Whether a transaction in a block did what it says. */
export function isExecuted({result}: {result?: ContractResult}, {hasFailed}: Pick<Info, 'hasFailed'>): boolean {
  return !hasFailed && (result === undefined || result === 'DEFAULT' || result === 'SUCCESS')
}
