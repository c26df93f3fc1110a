// What a node's JSON-RPC API sends, as far as it is read here. Promises: amounts are exact; in a block, each key of a
// transaction has its balance before and after it.
import {z} from 'zod'
import {exactly} from '../../base/json.ts'

/** 32 bytes in base58. */
export const Key = z.string().regex(/^[1-9A-HJ-NP-Za-km-z]{32,44}$/)
const Slot = z.int().min(0)
/** Numbers above 2^53 arrive as bigint (parseJson). Checked by hand: a block has some ten thousand. */
const Lamports = z.custom<number | bigint>(
  value => typeof value === 'bigint' || (typeof value === 'number' && Number.isSafeInteger(value)),
  'is no exact amount',
)
export const Amount = z.union([z.int(), z.bigint()]).transform(BigInt)

/** A block without its transactions. */
export interface Header {
  slot: number
  height: number
  hash: string
  parentSlot: number
  parentHash: string
  /** In seconds. */
  time: number
}

export interface Block extends Header {
  transactions: Transaction[]
}

export interface Transaction {
  txid: string
  /** The static keys, then those of lookup tables: writable, then read-only. */
  keys: string[]
  /** The first keys; the first of them pays the fee. */
  signers: string[]
  hasFailed: boolean
  /** In lamports. */
  fee: bigint
  /** By key, in lamports. */
  before: (number | bigint)[]
  after: (number | bigint)[]
  /** Of the keys that are token accounts; undefined if the node does not say. */
  tokensBefore: TokenBalance[] | undefined
  tokensAfter: TokenBalance[] | undefined
}

export interface TokenBalance {
  /** The token account among the keys. */
  index: number
  mint: string
  /** Undefined if the node does not say. */
  owner: string | undefined
  amount: bigint
}

const headerFields = {
  blockHeight: z.int().min(0),
  blockTime: z.int(),
  blockhash: Key,
  parentSlot: Slot,
  previousBlockhash: Key,
}
type RawHeader = z.infer<z.ZodObject<typeof headerFields>>

const headerOf = (raw: RawHeader) => ({
  height: raw.blockHeight,
  hash: raw.blockhash,
  parentSlot: raw.parentSlot,
  parentHash: raw.previousBlockhash,
  time: raw.blockTime,
})

/** The node does not say which slot it is of: the caller knows. */
export const RawHeader = z.object(headerFields).transform(headerOf)

const TokenBalances = z
  .array(
    z.object({
      accountIndex: z.int().min(0),
      mint: Key,
      owner: Key.nullish().transform(owner => owner ?? undefined),
      uiTokenAmount: z.object({amount: z.string().regex(/^\d{1,20}$/)}),
    }),
  )
  .nullish()
  .transform(balances =>
    balances?.map(({accountIndex: index, mint, owner, uiTokenAmount}): TokenBalance => {
      return {index, mint, owner, amount: BigInt(uiTokenAmount.amount)}
    }),
  )

const RawTransaction = z
  .object({
    transaction: z.object({
      signatures: z.tuple([z.string()], z.string()),
      accountKeys: z.array(z.object({pubkey: z.string(), signer: z.boolean()})),
    }),
    meta: z.object({
      err: z.unknown().optional(),
      fee: Amount,
      preBalances: z.array(Lamports),
      postBalances: z.array(Lamports),
      preTokenBalances: TokenBalances,
      postTokenBalances: TokenBalances,
    }),
  })
  .transform(({transaction: {signatures, accountKeys}, meta}, {addIssue}): Transaction => {
    const {preBalances: before, postBalances: after} = meta
    if (before.length !== accountKeys.length || after.length !== accountKeys.length)
      addIssue(`transaction ${signatures[0]} has no balance for each of its keys`)
    const tokens = [...(meta.preTokenBalances ?? []), ...(meta.postTokenBalances ?? [])]
    if (tokens.some(({index}) => index >= accountKeys.length))
      addIssue(`transaction ${signatures[0]} has tokens on none of its keys`)
    return {
      txid: signatures[0],
      keys: accountKeys.map(({pubkey}) => pubkey),
      signers: accountKeys.filter(({signer}) => signer).map(({pubkey}) => pubkey),
      hasFailed: meta.err !== null && meta.err !== undefined,
      fee: meta.fee,
      before,
      after,
      tokensBefore: meta.preTokenBalances,
      tokensAfter: meta.postTokenBalances,
    }
  })

export const RawBlock = z
  .object({...headerFields, transactions: z.array(RawTransaction)})
  .transform(({transactions, ...raw}) => ({...headerOf(raw), transactions}))

/** The last valid height of a transaction that names the newest blockhash is this many above that block. */
export const validBlocks = 150

/** The newest block at a commitment. */
export interface Latest {
  slot: number
  height: number
  hash: string
}

export const Latest = z
  .object({
    context: z.object({slot: Amount}),
    value: z.object({blockhash: Key, lastValidBlockHeight: Amount}),
  })
  .transform(
    ({context, value}): Latest => ({
      slot: Number(context.slot),
      height: Number(value.lastValidBlockHeight) - validBlocks,
      hash: value.blockhash,
    }),
  )

/** A balance, and the slot at which it was read. */
export const Balance = z
  .object({context: z.object({slot: Amount}), value: Amount})
  .transform(({context, value}) => ({slot: Number(context.slot), lamports: value}))

export interface Account {
  lamports: bigint
  /** The program that it belongs to. */
  owner: string
  executable: boolean
  data: Uint8Array
}

const RawAccount = z.object({
  lamports: Amount,
  owner: Key,
  executable: z.boolean(),
  data: z.tuple([z.base64(), z.literal('base64')]).transform(([text]) => new Uint8Array(Buffer.from(text, 'base64'))),
})

/** Undefined where there is no account at an address. */
const Context = z.object({slot: Amount})
export const Accounts = z
  .object({context: Context, value: z.array(RawAccount.nullable())})
  .transform(({context, value}) => ({
    slot: Number(context.slot),
    accounts: value.map((account): Account | undefined => account ?? undefined),
  }))

/** An account of an owner, at its address. */
export const OwnedAccounts = z
  .object({context: Context, value: z.array(z.object({pubkey: Key, account: RawAccount}))})
  .transform(({context, value}) => ({
    slot: Number(context.slot),
    accounts: value.map(({pubkey, account}) => ({...account, address: pubkey})),
  }))

/** What a node knows of a transaction. */
export interface Status {
  slot: number
  hasFailed: boolean
  finalized: boolean
}

/** Undefined for each transaction that the node does not know. */
export const Statuses = z
  .object({
    value: z.array(
      z.object({slot: Amount, err: z.unknown().optional(), confirmationStatus: z.string().nullish()}).nullable(),
    ),
  })
  .transform(({value}) =>
    value.map((status): Status | undefined =>
      status
        ? {
            slot: Number(status.slot),
            hasFailed: status.err !== null && status.err !== undefined,
            finalized: status.confirmationStatus === 'finalized',
          }
        : undefined,
    ),
  )

/** A transaction in an account's history. */
export interface Mention {
  txid: string
  slot: number
}

/** The newest first. */
export const Mentions = z.array(
  z
    .object({signature: z.string(), slot: Amount})
    .transform(({signature, slot}): Mention => ({txid: signature, slot: Number(slot)})),
)

/** What a transaction did to an account: the lamports before and after it, and the tokens, if it is a token account. */
export interface Effect {
  lamports: Change
  tokens: Change
}
interface Change {
  before: bigint
  after: bigint
}

/** By key. */
export const Effects = z
  .object({
    transaction: z.object({message: z.object({accountKeys: z.array(z.string())})}),
    meta: z.object({
      preBalances: z.array(Amount),
      postBalances: z.array(Amount),
      preTokenBalances: TokenBalances,
      postTokenBalances: TokenBalances,
      loadedAddresses: z.object({writable: z.array(z.string()), readonly: z.array(z.string())}).nullish(),
    }),
  })
  .nullable()
  .transform(found => {
    if (!found) return undefined
    const {meta, transaction} = found
    const loaded = meta.loadedAddresses
    const keys = [...transaction.message.accountKeys, ...(loaded?.writable ?? []), ...(loaded?.readonly ?? [])]
    const held = (balances: TokenBalance[] | undefined, at: number) =>
      balances?.find(({index}) => index === at)?.amount ?? 0n
    return new Map(
      keys.flatMap((key, i): [string, Effect][] => {
        const [before, after] = [meta.preBalances[i], meta.postBalances[i]]
        if (before === undefined || after === undefined) return []
        const tokens = {before: held(meta.preTokenBalances, i), after: held(meta.postTokenBalances, i)}
        return [[key, {lamports: {before, after}, tokens}]]
      }),
    )
  })

/** How a transaction would end. */
export interface Simulation {
  /** As Agave writes a TransactionError: a name, or one with what it is about; null if it would succeed. */
  error: unknown
  /** What programs said, the last one last. */
  logs: string[]
}

export const Simulated = z
  .object({value: z.object({err: z.unknown(), logs: z.array(z.string()).nullable()})})
  .transform(({value}): Simulation => ({error: withoutBigints(value.err ?? null), logs: value.logs ?? []}))

/** The SDK makes a bigint of every number. */
const withoutBigints = (value: unknown): unknown => JSON.parse(JSON.stringify(value, exactly))

/** What was paid lately for a compute unit, in millionths of a lamport. */
export const RecentFees = z.array(z.object({prioritizationFee: Amount}).transform(fee => fee.prioritizationFee))

export const Failure = z.object({code: z.int(), message: z.string()})
