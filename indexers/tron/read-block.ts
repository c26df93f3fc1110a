// What a Tron block says about addresses. Promises: what a transaction does is read from its bytes; what came of it,
// and what contracts moved, is what the node says, because nothing in a block commits to it. A failed transaction moves
// nothing.
//
// The position of a transfer in its transaction: 0 for what the transaction itself pays; 1 + n for the n-th internal
// transaction that can move value, rejected ones included, so that a position never depends on what came of others;
// 1000000 + n for the n-th log; 2000000 + n for a TRC-10 token of the n-th internal transaction.
import {type Block, type Info, type Internal, isExecuted, type Log} from '../../chains/tron/responses.ts'
import {transferIn} from '../../chains/tron/token-transfers.ts'
import {
  addressOrNone,
  type Contract,
  contractTypes,
  parseRawData,
  type Transaction,
} from '../../chains/tron/transaction.ts'
import type {Candidate, ReadBlock, TokenCodes, TransferKind} from '../block.ts'

const logOffset = 1_000_000
const assetOffset = 2_000_000
/** The internal transactions that can move value. */
const moving = ['call', 'create', 'suicide']
const maxAmount = 10n ** 78n - 1n

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

/** `infos` has one for each of the block's transactions. */
export function readBlock(block: Block, infos: ReadonlyMap<string, Info>, codes: TokenCodes): ReadBlock {
  const {height, hash, parentHash, time} = block
  const read = block.transactions.map(transaction => {
    const info = infos.get(transaction.txid)!
    return {
      info,
      transaction,
      contract: parseRawData(transaction.rawData).contract,
      executed: isExecuted(transaction, info),
    }
  })
  return {
    height,
    hash,
    parentHash,
    time: new Date(time),
    candidates: read.flatMap(({executed, transaction, contract, info}) =>
      executed ? candidatesOf(transaction, contract, {info, codes}) : [],
    ),
    sent: read.flatMap(({transaction: {txid}, contract: {owner}, info: {fee}, executed}) =>
      owner ? [{txid, senderKey: owner, executed, fee}] : [],
    ),
    spends: [],
  }
}

function candidatesOf(
  {txid}: Transaction,
  contract: Contract,
  {info, codes: {native, tokens}}: {info: Info; codes: TokenCodes},
): Candidate[] {
  const moved = [
    ...own(contract, native),
    ...info.internals
      .filter(({note}) => moving.includes(note))
      .flatMap((internal, n) => (internal.isRejected ? [] : movedBy(internal, n, native))),
    ...info.logs.flatMap((log, n) => logged(log, n, tokens)),
  ]
  return moved.flatMap(({from, to, outputIndex, kind, token, amount}): Candidate[] => {
    const recipientKey = addressOrNone(to)
    if (!recipientKey || amount <= 0n || amount > maxAmount) return []
    return [{txid, outputIndex, kind, token, amount, sender: addressOrNone(from) ?? 'unknown', recipientKey}]
  })
}

interface Moved {
  from: Uint8Array
  to: Uint8Array
  outputIndex: number
  kind: TransferKind
  token: string
  amount: bigint
}

/** What a transaction itself pays. Value that comes with a call goes to the contract. */
function own({type, message}: Contract, native: string): Moved[] {
  if (type === contractTypes.transfer)
    return [
      {
        from: message.bytes(1),
        to: message.bytes(2),
        outputIndex: 0,
        kind: 'native',
        token: native,
        amount: message.integer(3),
      },
    ]
  if (type !== contractTypes.transferAsset) return []
  const token = assetCode(Buffer.from(message.bytes(1)).toString())
  return [
    {from: message.bytes(2), to: message.bytes(3), outputIndex: 0, kind: 'token', token, amount: message.integer(4)},
  ]
}

function movedBy({from, to, values}: Internal, n: number, native: string): Moved[] {
  const coins = values.reduce((sum, {amount, token}) => (token ? sum : sum + amount), 0n)
  const assets = values.filter(({token}) => token)
  return [
    {from, to, outputIndex: 1 + n, kind: 'internal', token: native, amount: coins},
    ...assets.slice(0, 1).map(({token, amount}) => {
      return {from, to, outputIndex: assetOffset + n, kind: 'token' as const, token: assetCode(token), amount}
    }),
  ]
}

/** A TRC-10 token by its number; by its name in hex where the network has no numbers yet. */
const assetCode = (id: string) => `TRC10:${/^\d{1,19}$/.test(id) ? id : hex(Buffer.from(id))}`

function logged(log: Log, n: number, tokens: ReadonlyMap<string, string>): Moved[] {
  const transfer = transferIn(log)
  if (!transfer) return []
  const {contract, ...moved} = transfer
  return [{...moved, outputIndex: logOffset + n, kind: 'token', token: tokens.get(contract) ?? contract}]
}

/**
 * Whether a node left internal transactions out: a contract other than the called one wrote a log, so there was a call,
 * and none is named. (A node saves internal transactions only if it is told to.)
 */
export function hidesInternals({hasFailed, contract, internals, logs}: Info): boolean {
  if (hasFailed || internals.length || contract.length !== 21) return false
  return logs.some(({address}) => hex(address) !== hex(contract.subarray(1)))
}
