// The HTTP API of a Tron node, served from a local chain: what is read here, and what wallets need to build and send a
// payment. Promises: responses have the shapes of java-tron. Fields with their defaults are left out; what is not found
// is an empty object, or an empty list, with status 200, and so is an error, as {"Error": …}; addresses are in hex.
import {z} from 'zod'
import {addressOf} from '../../chains/tron/address.ts'
import {parseTransaction, rawOf, type Transaction, transactionOf} from '../../chains/tron/transaction.ts'
import type {TronLocalChain} from './chain.ts'
import {parameters} from './constants.ts'
import type {Included, LocalBlock} from './journal.ts'
import {accountJson, borrowersJson, lendableJson, loanJson, resourcesJson} from './json/accounts.ts'
import {blockJson, infoJson, transactionJson} from './json/blocks.ts'
import {contractInfoJson, contractJson, DryRun, dryRunJson} from './json/contracts.ts'
import {Rejected} from './rejected.ts'

const Height = z.object({num: z.int().default(0)})
const Id = z.object({value: z.string()})
const Which = z.object({id_or_num: z.union([z.string(), z.int()]).optional(), detail: z.boolean().default(false)})
const Range = z.object({startNum: z.int().default(0), endNum: z.int().default(0)})
const Address = z
  .string()
  .regex(/^41[0-9a-f]{40}$/)
  .transform(address => addressOf(Buffer.from(address, 'hex')))
const Owner = z.object({address: Address})
const Contract = z.object({value: Address})
const Loan = z.object({fromAddress: Address, toAddress: Address})
const Lendable = z.object({owner_address: Address, type: z.int().min(0).max(1).default(0)})
const Raw = z.object({transaction: z.string()})
const Signed = z.object({raw_data_hex: z.string(), signature: z.array(z.string())})

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
  getaccount: (chain, question, top) => accountJson(chain.state(top), Owner.parse(question).address),
  getaccountresource: (chain, question, top) => {
    const {time} = chain.block(top).header
    return resourcesJson(chain.state(top), Owner.parse(question).address, time)
  },
  triggerconstantcontract: (chain, question, top) => dryRunJson(chain, DryRun.parse(question), top),
  getdelegatedresourcev2(chain, question, top) {
    const {fromAddress, toAddress} = Loan.parse(question)
    return loanJson(chain.state(top), {from: fromAddress, to: toAddress})
  },
  getdelegatedresourceaccountindexv2: (chain, question, top) =>
    borrowersJson(chain.state(top), Contract.parse(question).value),
  getcandelegatedmaxsize(chain, question, top) {
    const {owner_address, type} = Lendable.parse(question)
    const resource = type ? 'energy' : 'bandwidth'
    return lendableJson(chain.state(top), owner_address, {resource, now: chain.block(top).header.time})
  },
}

const others: Record<string, Answer> = {
  getchainparameters: () => ({
    chainParameter: Object.entries(parameters).map(([key, value]) => ({key, value: Number(value)})),
  }),
  getcontract: (chain, question, top) => contractJson(chain.state(top), Contract.parse(question).value),
  getcontractinfo: (chain, question, top) => contractInfoJson(chain, Contract.parse(question).value, top),
  broadcasthex(chain, question) {
    const {transaction: raw} = Raw.parse(question)
    const parsed = parseTransaction(Buffer.from(raw, 'hex'))
    return {...submit(chain, parsed), transaction: JSON.stringify(transactionJson(parsed))}
  },
  broadcasttransaction(chain, question) {
    const {raw_data_hex, signature} = Signed.parse(question)
    const bytes = (hex: string) => Buffer.from(hex.replace(/^0x/, ''), 'hex')
    const {message, ...rest} = submit(chain, transactionOf(bytes(raw_data_hex), signature.map(bytes)))
    return {...rest, ...(message && {message: Buffer.from(message).toString('hex')})} // here it is in hex
  },
}

function submit(chain: TronLocalChain, transaction: Transaction) {
  const {txid} = transaction
  try {
    chain.submit(rawOf(transaction))
    return {result: true, code: 'SUCCESS', message: '', txid}
  } catch (error) {
    const code = error instanceof Rejected ? error.code : 'OTHER_ERROR'
    return {result: false, code, message: (error as Error).message, txid}
  }
}

function find(chain: TronLocalChain, txid: string, top: number): {block: LocalBlock; included: Included} | undefined {
  const height = chain.journal.heightOf(txid)
  if (height === undefined || height > top) return undefined
  const block = chain.block(height)
  return {block, included: block.transactions.find(({transaction}) => transaction.txid === txid)!}
}
