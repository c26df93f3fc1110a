// The JSON-RPC API of a Solana node, served from a local chain: what is read here, and what wallets need to build and
// send a payment. Promises: responses and error codes are those of Agave. Blocks are shown at commitment confirmed or
// finalized (the default) alone.
import {getBase58Decoder, getBase58Encoder} from '@solana/kit'
import {z} from 'zod'
import {RpcError} from '../engine.ts'
import type {SolanaLocalChain} from './chain.ts'
import {genesisHash} from './constants.ts'
import type {Included, LocalBlock, TokenBalance} from './journal.ts'
import {Rejected} from './machine.ts'
import {Malformed} from './transaction.ts'
import {Trouble} from './trouble.ts'

const base58 = (bytes: Uint8Array) => getBase58Decoder().decode(bytes)
const longestRange = 500_000

const Commitment = z.enum(['processed', 'confirmed', 'finalized'])
const Config = z
  .looseObject({
    commitment: Commitment.default('finalized'),
    minContextSlot: z.int().optional(),
    transactionDetails: z.enum(['full', 'accounts', 'signatures', 'none']).default('full'),
    maxSupportedTransactionVersion: z.int().optional(),
    encoding: z.string().optional(),
    skipPreflight: z.boolean().default(false),
    sigVerify: z.boolean().default(false),
    replaceRecentBlockhash: z.boolean().default(false),
    before: z.string().optional(),
    limit: z.int().min(1).max(1000).optional(),
  })
  .prefault({})
type Config = z.infer<typeof Config>
const Slot = z.int().min(0)
const Address = z.string().refine(text => /^[1-9A-HJ-NP-Za-km-z]{32,44}$/.test(text), 'is no address of Solana')

export class SolanaApi {
  readonly #chain: SolanaLocalChain
  trouble = new Trouble()
  /** The node has no blocks below this height. */
  firstHeight = 0

  constructor(chain: SolanaLocalChain) {
    this.#chain = chain
  }

  has(method: string): boolean {
    return Object.hasOwn(methods, method)
  }

  /** Throws RpcError. */
  answer(method: string, params: unknown[]): unknown {
    const call = methods[method]
    if (!call) throw new RpcError({code: -32601, message: 'Method not found'})
    this.trouble.meet(method)
    const last = params.at(-1)
    const config = Config.parse(typeof last === 'object' && last !== null && !Array.isArray(last) ? last : undefined)
    const {trouble, firstHeight} = this
    const knows = (txid: string) => trouble.knows(txid)
    const view = new View(this.#chain, config, {lag: trouble.lag(), firstHeight, knows})
    const answered = call(view, params)
    return method === 'getBlocks' ? this.trouble.leave(answered as number[]) : answered
  }
}

/** A chain as a call sees it. */
class View {
  readonly chain: SolanaLocalChain
  readonly config: Config
  readonly lag: number
  readonly firstHeight: number
  readonly knows: (txid: string) => boolean

  constructor(
    chain: SolanaLocalChain,
    config: Config,
    {lag, firstHeight, knows}: Pick<View, 'lag' | 'firstHeight' | 'knows'>,
  ) {
    this.knows = knows
    this.chain = chain
    this.config = config
    this.lag = lag
    this.firstHeight = firstHeight
    const {slot} = this.top
    if (config.minContextSlot !== undefined && slot < config.minContextSlot)
      throw new RpcError({
        code: -32016,
        message: 'Minimum context slot has not been reached',
        data: {contextSlot: slot},
      })
  }

  get height(): number {
    return this.heightAt(this.config.commitment)
  }

  /** The newest block that it sees. */
  get top(): LocalBlock {
    return this.chain.block(this.height)
  }

  heightAt(commitment: z.infer<typeof Commitment>): number {
    return Math.max(0, this.chain.heightAt(commitment) - this.lag)
  }

  /** An answer that is true at a slot. */
  at(value: unknown, {slot} = this.top): object {
    return {context: {apiVersion: '3.1.0', slot}, value}
  }

  assertShown(): void {
    if (this.config.commitment === 'processed')
      throw new RpcError({code: -32602, message: 'Method does not support commitment below `confirmed`'})
  }

  block(slot: number): LocalBlock {
    this.assertShown()
    const first = this.chain.block(this.firstHeight)
    if (slot < first.slot)
      throw new RpcError({
        code: -32001,
        message: `Block ${slot} cleaned up, does not exist on node. First available block: ${first.slot}`,
      })
    if (slot > this.top.slot) throw new RpcError({code: -32004, message: `Block not available for slot ${slot}`})
    const block = this.chain.journal.blockIn(slot)
    if (block) return block
    throw new RpcError({
      code: -32007,
      message: `Slot ${slot} was skipped, or missing due to ledger jump to recent snapshot`,
    })
  }

  included(txid: string): {block: LocalBlock; included: Included} | undefined {
    const height = this.chain.journal.heightOf(txid)
    if (height === undefined || height > this.height || !this.knows(txid)) return undefined
    const block = this.chain.block(height)
    return {block, included: block.transactions.find(each => each.txid === txid)!}
  }
}

const methods: Record<string, (view: View, params: unknown[]) => unknown> = {
  getHealth: () => 'ok',
  getVersion: () => ({'solana-core': '3.1.0', 'feature-set': 0}),
  getGenesisHash: () => genesisHash,
  getSlot: ({top}) => top.slot,
  getBlockHeight: ({height}) => height,
  getFirstAvailableBlock: ({chain, firstHeight}) => chain.block(firstHeight).slot,
  getBlocks(view, [from, to]) {
    view.assertShown()
    const first = Slot.parse(from)
    const last = Math.min(typeof to === 'number' ? Slot.parse(to) : Number.POSITIVE_INFINITY, view.top.slot)
    if (last - first > longestRange) throw new RpcError({code: -32602, message: 'Slot range too large; max 500000'})
    return view.chain.journal.slots(Math.max(first, view.chain.block(view.firstHeight).slot), last)
  },
  getBlock: (view, [slot]) => blockJson(view, view.block(Slot.parse(slot))),
  getLatestBlockhash: view => view.at({blockhash: view.top.hash, lastValidBlockHeight: view.height + 150}),
  isBlockhashValid(view, [hash]) {
    const last = view.chain.lastBlockFor(z.string().parse(hash))
    return view.at(last !== undefined && view.height < last)
  },
  getBalance: (view, [address]) => view.at(view.chain.account(Address.parse(address), view.height)?.lamports ?? 0n),
  getAccountInfo: (view, [address]) => view.at(accountJson(view, Address.parse(address))),
  getMultipleAccounts(view, [addresses]) {
    const all = z.array(Address).max(100).parse(addresses)
    return view.at(all.map(address => accountJson(view, address)))
  },
  getTokenAccountsByOwner(view, [owner, filter]) {
    const {mint} = z.object({mint: Address}).parse(filter)
    const found = view.chain.tokenAccounts(Address.parse(owner), mint, view.height)
    return view.at(found.map(([pubkey]) => ({pubkey, account: accountJson(view, pubkey)})))
  },
  getMinimumBalanceForRentExemption: ({chain}, [bytes]) => chain.rentMinimum(z.int().min(0).parse(bytes)),
  getRecentPrioritizationFees({chain}) {
    const {height} = chain.head
    const slots = Array.from({length: Math.min(150, height)}, (_, i) => chain.block(height - i).slot)
    return slots.map(slot => ({slot, prioritizationFee: 0}))
  },
  getSignatureStatuses(view, [txids]) {
    const seen = new View(view.chain, {...view.config, commitment: 'processed'}, view)
    return seen.at(
      z
        .array(z.string())
        .parse(txids)
        .map(txid => statusJson(seen, txid)),
    )
  },
  getTransaction(view, [txid]) {
    const found = view.included(z.string().parse(txid))
    return found
      ? {slot: found.block.slot, blockTime: found.block.time, ...transactionJson(view, found.included)}
      : null
  },
  getSignaturesForAddress(view, [address]) {
    view.assertShown()
    const {before, limit = 1000} = view.config
    const known = view.chain.journal.mentions(Address.parse(address), view.height)
    const all = known.filter(({txid}) => view.knows(txid))
    const start = before === undefined ? 0 : all.findIndex(({txid}) => txid === before) + 1
    const from = before !== undefined && start === 0 ? all.length : start // of an unknown one, there are none
    return all.slice(from, from + limit).map(({txid}) => {
      const {block, included} = view.included(txid)!
      return {signature: txid, slot: block.slot, err: included.error, memo: null, blockTime: block.time}
    })
  },
  simulateTransaction(view, [text]) {
    const {sigVerify: signatures, replaceRecentBlockhash, encoding} = view.config
    if (signatures && replaceRecentBlockhash)
      throw new RpcError({code: -32602, message: 'sigVerify may not be used with replaceRecentBlockhash'})
    try {
      const transaction = view.chain.parse(bytesOf(z.string().parse(text), encoding))
      view.chain.check(transaction, {signatures, blockhash: !replaceRecentBlockhash})
      return view.at({err: null, logs: [], accounts: null, unitsConsumed: 0, returnData: null})
    } catch (error) {
      if (!(error instanceof Rejected) || error.error === 'SignatureFailure') throw asRpcError(error)
      return view.at(simulated(error))
    }
  },
  sendTransaction({chain, config}, [text]) {
    const raw = bytesOf(z.string().parse(text), config.encoding)
    try {
      if (!config.skipPreflight) chain.check(chain.parse(raw))
      return chain.submit(raw)
    } catch (error) {
      throw asRpcError(error)
    }
  },
}

function accountJson({chain, height}: View, address: string): object | null {
  const account = chain.account(address, height)
  if (!account) return null
  const {lamports, owner, executable, data} = account
  const text = [Buffer.from(data).toString('base64'), 'base64']
  return {lamports, owner, executable, data: text, rentEpoch: 2n ** 64n - 1n, space: data.length}
}

function bytesOf(text: string, encoding: string | undefined): Uint8Array {
  if (encoding === 'base64') return Buffer.from(text, 'base64')
  return new Uint8Array(getBase58Encoder().encode(text))
}

/** What is wrong with a transaction, as the RPC says it. */
export function asRpcError(error: unknown): unknown {
  if (error instanceof Malformed) return new RpcError({code: -32602, message: `invalid transaction: ${error.message}`})
  if (!(error instanceof Rejected)) return error
  if (error.error === 'SignatureFailure')
    return new RpcError({code: -32003, message: 'Transaction signature verification failure'})
  return new RpcError({
    code: -32002,
    message: `Transaction simulation failed: ${error.message}`,
    data: simulated(error),
  })
}

function simulated({error: err, logs}: Rejected): object {
  return {err, logs, accounts: null, unitsConsumed: 0, returnData: null}
}

function statusJson(view: View, txid: string): object | null {
  const found = view.included(txid)
  if (!found) return null
  const {height, slot} = found.block
  const confirmationStatus = (['finalized', 'confirmed', 'processed'] as const).find(
    each => height <= view.heightAt(each),
  )
  const confirmations = confirmationStatus === 'finalized' ? null : view.height - height
  const err = found.included.error
  return {slot, confirmations, err, status: err ? {Err: err} : {Ok: null}, confirmationStatus}
}

function blockJson(view: View, block: LocalBlock): object {
  const {transactionDetails} = view.config
  const transactions = block.transactions.filter(({txid}) => view.knows(txid))
  const details =
    transactionDetails === 'signatures'
      ? {signatures: transactions.map(({txid}) => txid)}
      : transactionDetails !== 'none' && {transactions: transactions.map(each => transactionJson(view, each))}
  return {
    blockHeight: block.height,
    blockTime: block.time,
    blockhash: block.hash,
    parentSlot: block.parentSlot,
    previousBlockhash: block.parentHash,
    ...details,
    ...(view.config.rewards !== false && {rewards: []}),
  }
}

function transactionJson({chain, config}: View, included: Included): object {
  const {message, keys, writable, staticKeys, signatures} = chain.parse(included.raw)
  const {version, header} = message
  const most = config.maxSupportedTransactionVersion
  if (version !== 'legacy' && (most === undefined || most < version))
    throw new RpcError({
      code: -32015,
      message: `Transaction version (${version}) is not supported by the requesting client`,
    })
  const {error: err, fee, before, after} = included
  const meta = {
    err,
    status: err ? {Err: err} : {Ok: null},
    fee,
    preBalances: before,
    postBalances: after,
    preTokenBalances: included.tokensBefore.map(tokenJson),
    postTokenBalances: included.tokensAfter.map(tokenJson),
  }
  const ofVersion = most !== undefined && {version}
  if (config.transactionDetails === 'accounts') {
    const accountKeys = keys.map((pubkey, i) => ({
      pubkey,
      signer: i < header.numSignerAccounts,
      writable: writable[i],
      source: i < staticKeys ? 'transaction' : 'lookupTable',
    }))
    return {transaction: {signatures, accountKeys}, meta, ...ofVersion}
  }
  const loaded = keys.slice(staticKeys)
  const loadedAddresses = {
    writable: loaded.filter((_, i) => writable[staticKeys + i]),
    readonly: loaded.filter((_, i) => !writable[staticKeys + i]),
  }
  const whole = {...meta, logMessages: included.logs, computeUnitsConsumed: included.units, loadedAddresses}
  if (config.encoding === 'base64')
    return {transaction: [Buffer.from(included.raw).toString('base64'), 'base64'], meta: whole, ...ofVersion}
  return {transaction: {signatures, message: messageJson(message)}, meta: whole, ...ofVersion}
}

function messageJson(message: ReturnType<SolanaLocalChain['parse']>['message']): object {
  const {header, staticAccounts, lifetimeToken, instructions} = message
  return {
    header: {
      numRequiredSignatures: header.numSignerAccounts,
      numReadonlySignedAccounts: header.numReadonlySignerAccounts,
      numReadonlyUnsignedAccounts: header.numReadonlyNonSignerAccounts,
    },
    accountKeys: staticAccounts,
    recentBlockhash: lifetimeToken,
    instructions: instructions.map(({programAddressIndex, accountIndices = [], data}) => ({
      programIdIndex: programAddressIndex,
      accounts: accountIndices,
      data: base58(new Uint8Array(data ?? [])),
      stackHeight: 1,
    })),
  }
}

function tokenJson({index, mint, owner, program, amount, decimals}: TokenBalance): object {
  const uiTokenAmount = {amount: String(amount), decimals, uiAmountString: String(amount)}
  return {accountIndex: index, mint, owner, programId: program, uiTokenAmount}
}
