// The HTTP API of a Tron node, served from a local chain: what is read here, and what wallets need to build and send a
// payment. Promises: responses have the shapes of java-tron. Fields with their defaults are left out; what is not found
// is an empty object, or an empty list, with status 200, and so is an error, as {"Error": …}; addresses are in hex.
import {z} from 'zod'
import {bytesOf as addressBytes, addressOf} from '../../chains/tron/address.ts'
import {contractTypes, parseRawData, parseTransaction, type Transaction} from '../../chains/tron/transaction.ts'
import type {TronLocalChain} from './chain.ts'
import {isContractAddress} from './constants.ts'
import {parameters, Rejected, usedBandwidth} from './execute.ts'
import type {Included, LocalBlock} from './journal.ts'

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

const Height = z.object({num: z.int().default(0)})
const Id = z.object({value: z.string()})
const Which = z.object({id_or_num: z.union([z.string(), z.int()]).optional(), detail: z.boolean().default(false)})
const Range = z.object({startNum: z.int().default(0), endNum: z.int().default(0)})
const Address = z.object({address: z.string().regex(/^41[0-9a-f]{40}$/)})
const Raw = z.object({transaction: z.string()})

const textOf = (address: string) => addressOf(Buffer.from(address, 'hex'))

/** Undefined if there is no such path. */
export function answer(chain: TronLocalChain, path: string, body: string): object | undefined {
  const [, solid, method = ''] = /^\/wallet(solidity)?\/(\w+)$/.exec(path) ?? []
  const answers = solid ? reads : {...reads, ...others}
  if (!Object.hasOwn(answers, method)) return undefined
  try {
    return answers[method]!(chain, body ? JSON.parse(body) : {}, solid ? chain.solidHeight : chain.head.height)
  } catch (error) {
    return {Error: `class ${(error as Error).name} : ${(error as Error).message}`}
  }
}

/** Sees the blocks up to the height `top`. */
type Answer = (chain: TronLocalChain, question: unknown, top: number) => object

const reads: Record<string, Answer> = {
  getnowblock: (chain, _, top) => blockJson(chain.block(top)),
  getblock(chain, question, top) {
    const {id_or_num: which = top, detail} = Which.parse(question)
    const height = /^\d{1,19}$/.test(String(which)) ? Number(which) : chain.journal.find(String(which))?.height
    return height === undefined || height > top ? {} : blockJson(chain.block(height), detail)
  },
  getblockbynum(chain, question, top) {
    const {num} = Height.parse(question)
    return num > top ? {} : blockJson(chain.block(num))
  },
  getblockbylimitnext(chain, question, top) {
    const {startNum, endNum} = Range.parse(question)
    if (endNum <= startNum || endNum - startNum > 100) return {}
    const last = Math.min(endNum - 1, top)
    const block = Array.from({length: Math.max(0, last - startNum + 1)}, (_, i) => blockJson(chain.block(startNum + i)))
    return {block}
  },
  gettransactioninfobyblocknum(chain, question, top) {
    const {num} = Height.parse(question)
    if (num > top) return []
    const block = chain.block(num)
    return block.transactions.map(included => infoJson(block, included))
  },
  gettransactionbyid(chain, question, top) {
    const included = find(chain, Id.parse(question).value, top)
    return included ? transactionJson(included.included.transaction) : {}
  },
  gettransactioninfobyid(chain, question, top) {
    const found = find(chain, Id.parse(question).value, top)
    return found ? infoJson(found.block, found.included) : {}
  },
  getaccount(chain, question, top) {
    const {address} = Address.parse(question)
    const isContract = isContractAddress(textOf(address))
    const account = chain.journal.account(textOf(address), top)
    const type = isContract && {type: 'Contract'}
    return account || isContract ? {address, ...type, ...(account?.balance && {balance: Number(account.balance)})} : {}
  },
  getaccountresource(chain, question, top) {
    const account = chain.journal.account(textOf(Address.parse(question).address), top)
    const used = account && usedBandwidth(account, chain.block(top).header.time)
    return account ? {...(used && {freeNetUsed: used}), freeNetLimit: Number(parameters.getFreeNetLimit)} : {}
  },
}

const others: Record<string, Answer> = {
  getchainparameters: () => ({
    chainParameter: Object.entries(parameters).map(([key, value]) => ({key, value: Number(value)})),
  }),
  broadcasthex(chain, question) {
    const {transaction: raw} = Raw.parse(question)
    const parsed = parseTransaction(Buffer.from(raw, 'hex'))
    const about = {txid: parsed.txid, transaction: JSON.stringify(transactionJson(parsed))}
    try {
      chain.submit(raw)
      return {result: true, code: 'SUCCESS', message: '', ...about}
    } catch (error) {
      const code = error instanceof Rejected ? error.code : 'OTHER_ERROR'
      return {result: false, code, message: (error as Error).message, ...about}
    }
  },
}

function find(chain: TronLocalChain, txid: string, top: number): {block: LocalBlock; included: Included} | undefined {
  const height = chain.journal.heightOf(txid)
  if (height === undefined || height > top) return undefined
  const block = chain.block(height)
  return {block, included: block.transactions.find(({transaction}) => transaction.txid === txid)!}
}

function blockJson({hash, header, transactions}: LocalBlock, detail = true): object {
  const {height, time, txTrieRoot, parentHash, witness, version} = header
  return {
    blockID: hash,
    block_header: {
      raw_data: {
        ...(height && {number: height}),
        txTrieRoot,
        ...(witness && {witness_address: witness}),
        parentHash,
        ...(version && {version: Number(version)}),
        ...(time && {timestamp: time}),
      },
    },
    ...(detail &&
      transactions.length && {transactions: transactions.map(({transaction}) => transactionJson(transaction))}),
  }
}

function transactionJson({txid, rawData, signatures, result}: Transaction): object {
  const {refBytes, refHash, expiration, timestamp, feeLimit, memo, contract} = parseRawData(rawData)
  return {
    ...(result && {ret: [{contractRet: result}]}),
    signature: signatures.map(hex),
    txID: txid,
    raw_data: {
      contract: [contractJson(contract)],
      ref_block_bytes: hex(refBytes),
      ref_block_hash: hex(refHash),
      expiration,
      ...(memo.length && {data: hex(memo)}),
      ...(timestamp && {timestamp}),
      ...(feeLimit && {fee_limit: Number(feeLimit)}),
    },
    raw_data_hex: hex(rawData),
  }
}

function contractJson({type, message}: ReturnType<typeof parseRawData>['contract']): object {
  const isTransfer = type === contractTypes.transfer
  const name = isTransfer ? 'TransferContract' : 'TriggerSmartContract'
  const amount = Number(message.integer(3))
  const value = {
    owner_address: hex(message.bytes(1)),
    ...(isTransfer
      ? {to_address: hex(message.bytes(2)), amount}
      : {contract_address: hex(message.bytes(2)), data: hex(message.bytes(4)), ...(amount && {call_value: amount})}),
  }
  return {parameter: {value, type_url: `type.googleapis.com/protocol.${name}`}, type: name}
}

function infoJson({header}: LocalBlock, {transaction, executed}: Included): object {
  const {result, fee, freeBytes, energy, contract, internals, logs} = executed
  return {
    id: transaction.txid,
    ...(fee && {fee: Number(fee)}),
    blockNumber: header.height,
    blockTimeStamp: header.time,
    contractResult: [''],
    ...(contract && {contract_address: hex(addressBytes(contract))}),
    receipt: {
      ...(freeBytes && {net_usage: freeBytes}),
      ...(energy && {energy_usage_total: Number(energy)}),
      ...(contract && {result}),
    },
    ...(result !== 'SUCCESS' && {result: 'FAILED'}),
    ...(logs.length && {
      log: logs.map(log => ({address: hex(log.address), topics: log.topics.map(hex), data: hex(log.data)})),
    }),
    ...(internals.length && {internal_transactions: internals.map(internalJson)}),
  }
}

function internalJson({from, to, note, isRejected, values}: Included['executed']['internals'][number]): object {
  return {
    caller_address: hex(from),
    transferTo_address: hex(to),
    callValueInfo: values.map(({amount}) => (amount ? {callValue: Number(amount)} : {})),
    note: hex(Buffer.from(note)),
    ...(isRejected && {rejected: true}),
  }
}
