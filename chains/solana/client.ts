// The only code that calls Solana nodes: helius-sdk, which works with every standard RPC URL. Promises: every request
// ends in time, with a response of the expected shape or an error of a known kind; no message has the URL or the key. A
// node that asks for fewer requests gets none for a while.
//
// Blocks are read through the SDK's transport, without its conversion of responses: that takes 20 times as long for a
// busy block (measured).
import {setTimeout as sleep} from 'node:timers/promises'
import {
  address,
  type Base64EncodedWireTransaction,
  createSolanaRpcSubscriptions,
  type RpcTransport,
  type Signature,
} from '@solana/kit'
import {createHttpTransport} from '@solana/rpc-transport-http'
import {createHelius, type HeliusClient} from 'helius-sdk'
import {z} from 'zod'
import {PermanentError, RetryableError} from '../../base/errors.ts'
import {parseJson} from '../../base/json.ts'
import {storable} from '../../base/text.ts'
import {withoutPassword} from '../basic-auth.ts'
import {Failover} from '../failover.ts'
import type {NodeHead} from '../family.ts'
import {NodeRest} from '../node-rest.ts'
import {readResponse, whyUnanswered} from '../read-response.ts'
import {
  type Account,
  Accounts,
  Amount,
  Balance,
  type Block,
  type Effect,
  Effects,
  Failure,
  type Header,
  Key,
  Latest,
  type Mention,
  Mentions,
  OwnedAccounts,
  RawBlock,
  RawHeader,
  RecentFees,
  Simulated,
  type Simulation,
  type Status,
  Statuses,
} from './responses.ts'
import type {SolanaEndpoint, SolanaSettings} from './settings.ts'

export type {Account, Block, Header, Latest, Simulation, Status}

/** Other commitments have no blocks (processed), or are of no use. */
export type Commitment = 'confirmed' | 'finalized'

/** The node does not have the block any more. */
export class Pruned extends PermanentError {
  override name = 'Pruned'
}

/**
 * The node shows no block in this slot: it was skipped there, is not confirmed yet, is not there after a snapshot, or
 * is not in the node's archive. The codes do not tell these apart reliably.
 */
const notShown = [-32004, -32007, -32009, -32014]
const pruned = -32001
/**
 * The node does not know transactions of this version, although every version was allowed; or it does not know the
 * method or its parameters.
 */
const misused = [-32015, -32600, -32601, -32602]
/** A node takes no longer range of slots (getBlocks). */
const slotsPerRequest = 500_000

/** A node gives no more in one response. */
export const mentionsPerRequest = 1000
export const accountsPerRequest = 100

/** More than wallets, token accounts and mints have; a program's account may have some megabytes. */
const dataSlice = {offset: 0, length: 16_384}

interface Options {
  /** The timeout of each request. */
  timeoutMs?: number
}

/** One node. */
export class SolanaNode {
  readonly #helius: HeliusClient
  readonly #transport: RpcTransport
  readonly #timeoutMs: number
  readonly #rest = new NodeRest()

  constructor(endpoint: SolanaEndpoint, timeoutMs: number) {
    this.#timeoutMs = timeoutMs
    const {apiKey} = endpoint
    const {url, headers} = withoutPassword(endpoint.url)
    const fullUrl = apiKey ? `${url}?api-key=${apiKey}` : url // as the SDK writes it
    const transport = createHttpTransport({
      url: fullUrl,
      headers: {...headers},
      fromJson: text => parseJson(text) as never,
    })
    this.#transport = request => this.#send(transport, request)
    const asked: RpcTransport = async request => accepted(await this.#transport(request))
    this.#helius = createHelius({baseUrl: url, ...(apiKey && {apiKey}), transport: () => asked})
  }

  /** The hash of the first block, which names the network. */
  async genesis(): Promise<string> {
    return await this.#ask('getGenesisHash', this.#helius.getGenesisHash(), Key)
  }

  async latest(commitment: Commitment): Promise<Latest> {
    return await this.#ask('getLatestBlockhash', this.#helius.getLatestBlockhash({commitment}), Latest)
  }

  /** The slots, from one to another, that have a block: a hint, because nodes leave some out. */
  async slots(from: number, to: number, commitment: Commitment): Promise<number[]> {
    const last = Math.min(to, from + slotsPerRequest - 1)
    if (last < from) return []
    const asked = this.#helius.getBlocks(BigInt(from), BigInt(last), {commitment})
    const slots = await this.#ask('getBlocks', asked, z.array(Amount))
    return slots.map(Number).filter(slot => slot >= from && slot <= last)
  }

  /**
   * The block of a slot, without its transactions; undefined if the node shows none, which proves nothing. Throws
   * Pruned.
   */
  async header(slot: number, commitment: Commitment): Promise<Header | undefined> {
    const header = await this.#inSlot(slot, {commitment, transactionDetails: 'none'}, RawHeader)
    return header && {slot, ...header}
  }

  /** The block of a slot; undefined if the node shows none, which proves nothing. Throws Pruned. */
  async block(slot: number, commitment: Commitment): Promise<Block | undefined> {
    const block = await this.#inSlot(slot, {commitment, transactionDetails: 'accounts'}, RawBlock)
    return block && {slot, ...block}
  }

  /** The lowest slot whose block the node still has. */
  async firstSlot(): Promise<number> {
    return Number(await this.#ask('getFirstAvailableBlock', this.#helius.getFirstAvailableBlock(), Amount))
  }

  /** At this slot or a later one. */
  async balance(of: string, commitment: Commitment, minSlot = 0): Promise<{slot: number; lamports: bigint}> {
    const asked = this.#helius.getBalance(address(of), {commitment, minContextSlot: BigInt(minSlot)})
    return await this.#ask('getBalance', asked, Balance)
  }

  /** All of them at one slot; undefined where there is none. At most `accountsPerRequest`. */
  async accounts(
    of: string[],
    commitment: Commitment,
    minSlot = 0,
  ): Promise<{slot: number; accounts: (Account | undefined)[]}> {
    const options = {commitment, encoding: 'base64', dataSlice, minContextSlot: BigInt(minSlot)} as const
    const asked = this.#helius.getMultipleAccounts(
      of.map(each => address(each)),
      options,
    )
    const found = await this.#ask('getMultipleAccounts', asked, Accounts)
    if (found.accounts.length !== of.length) throw new RetryableError('the node did not answer for each address')
    return found
  }

  /** Undefined if there is none. */
  async account(at: string, commitment: Commitment): Promise<Account | undefined> {
    return (await this.accounts([at], commitment)).accounts[0]
  }

  /** The token accounts of an owner that are of this mint. */
  async accountsOf(owner: string, mint: string, commitment: Commitment) {
    const options = {commitment, encoding: 'base64', dataSlice: {offset: 0, length: 512}} as const
    const asked = this.#helius.getTokenAccountsByOwner(address(owner), {mint: address(mint)}, options)
    return await this.#ask('getTokenAccountsByOwner', asked, OwnedAccounts)
  }

  /** What the node knows of transactions, also of old ones if it keeps their history. */
  async statuses(txids: string[]): Promise<(Status | undefined)[]> {
    const asked = this.#helius.getSignatureStatuses(txids as Signature[], {searchTransactionHistory: true})
    const statuses = await this.#ask('getSignatureStatuses', asked, Statuses)
    if (statuses.length !== txids.length) throw new RetryableError('the node did not answer for each transaction')
    return statuses
  }

  /**
   * The newest final transactions that name an account, the newest first; below another one if it is given. Nodes leave
   * some out.
   */
  async mentions(of: string, before?: string): Promise<Mention[]> {
    const options = {
      commitment: 'finalized',
      limit: mentionsPerRequest,
      ...(before && {before: before as Signature}),
    } as const
    const asked = this.#helius.getSignaturesForAddress(address(of), options)
    return await this.#ask('getSignaturesForAddress', asked, Mentions)
  }

  /**
   * What a final transaction did to an account; undefined if the node does not show it, or it does not name the
   * account.
   */
  async effect(txid: string, on: string): Promise<Effect | undefined> {
    const options = {commitment: 'finalized', encoding: 'json', maxSupportedTransactionVersion: 255 as 0} as const // the type is of the past
    const asked = this.#helius.getTransaction(txid as Signature, options)
    return (await this.#ask('getTransaction', asked, Effects))?.get(on)
  }

  /** The least that an account with so many bytes of data must hold, in lamports. */
  async rentMinimum(bytes = 0): Promise<bigint> {
    const asked = this.#helius.getMinimumBalanceForRentExemption(BigInt(bytes))
    return await this.#ask('getMinimumBalanceForRentExemption', asked, Amount)
  }

  /**
   * What was paid in each of the last blocks for a compute unit, at least, in millionths of a lamport, by transactions
   * that change these accounts.
   */
  async recentFees(accounts: string[]): Promise<bigint[]> {
    const asked = this.#helius.getRecentPrioritizationFees(accounts.map(each => address(each)))
    return await this.#ask('getRecentPrioritizationFees', asked, RecentFees)
  }

  /**
   * How a transaction, in base64, would end in the next block, whoever signed it and whichever block it names. A proof
   * of nothing.
   */
  async simulate(raw: string): Promise<Simulation> {
    const options = {
      encoding: 'base64',
      commitment: 'confirmed',
      sigVerify: false,
      replaceRecentBlockhash: true,
    } as const
    const asked = this.#helius.simulateTransaction(raw as Base64EncodedWireTransaction, options)
    return await this.#ask('simulateTransaction', asked, Simulated)
  }

  /**
   * Gives a signed transaction, in base64, to the network, unchecked. Returns the node's error; undefined if it has it.
   * Neither proves anything.
   */
  async send(raw: string): Promise<string | undefined> {
    const options = {encoding: 'base64', skipPreflight: true, maxRetries: 0n} as const
    try {
      await this.#helius.sendTransaction(raw as Base64EncodedWireTransaction, options)
      return undefined
    } catch (error) {
      if (codeOf(error) === undefined) throw failed('sendTransaction', error)
      return messageOf(error)
    }
  }

  async #ask<T>(method: string, asked: Promise<unknown>, schema: z.ZodType<T>): Promise<T> {
    const response = await asked.catch(error => {
      throw failed(method, error)
    })
    return readResponse(method, response, schema)
  }

  async #inSlot<T>(slot: number, options: object, schema: z.ZodType<T>): Promise<T | undefined> {
    const all = {...options, encoding: 'json', rewards: false, maxSupportedTransactionVersion: 255}
    const payload = {jsonrpc: '2.0', id: 1, method: 'getBlock', params: [slot, all]}
    const response = await this.#transport<{result?: unknown; error?: unknown} | null>({payload})
    const error = response?.error ?? undefined
    if (error !== undefined) {
      const code = codeOf(error)
      if (code !== undefined && notShown.includes(code)) return undefined
      throw failed('getBlock', error)
    }
    return response?.result == null ? undefined : readResponse('getBlock', response.result, schema)
  }

  async #send<T>(transport: RpcTransport, request: Parameters<RpcTransport>[0]): Promise<T> {
    this.#rest.assertOver()
    const signal = AbortSignal.timeout(this.#timeoutMs)
    try {
      const response = await transport<T>({...request, signal})
      this.#rest.note(200)
      return response as T
    } catch (error) {
      const status = statusOf(error)
      if (status !== undefined) {
        this.#rest.note(status)
        throw new RetryableError(`the node answered with status ${status}`)
      }
      const how = error instanceof SyntaxError ? 'sent no JSON' : 'does not answer'
      throw new RetryableError(`the node ${how}: ${signal.aborted ? 'TimeoutError' : whyUnanswered(error)}`)
    }
  }
}

/** A node's error, as it came. */
class NodeError extends Error {
  readonly code: number

  constructor({code, message}: z.infer<typeof Failure>) {
    super(message)
    this.code = code
  }
}

/** The response, if it is no error. The SDK has words of its own for the errors that it knows, and fails at others. */
function accepted<T>(response: T): T {
  const refused = z.object({error: Failure}).safeParse(response)
  if (refused.success) throw new NodeError(refused.data.error)
  return response
}

function codeOf(error: unknown): number | undefined {
  const code = Failure.safeParse(error).data?.code
  return code !== undefined && code < 0 ? code : undefined // others are the SDK's own
}

function statusOf(error: unknown): number | undefined {
  return z.object({context: z.object({statusCode: z.int()})}).safeParse(error).data?.context.statusCode
}

const messageOf = (error: unknown) => storable(String((error as {message?: unknown}).message).slice(0, 200))

function failed(method: string, error: unknown): Error {
  if (error instanceof RetryableError) return error
  const code = codeOf(error)
  const message = `the node refused ${method} (${code ?? (error as Error).name}): ${messageOf(error)}`
  if (code === pruned) return new Pruned(message)
  return code !== undefined && misused.includes(code) ? new PermanentError(message) : new RetryableError(message)
}

/** The nodes of a chain. */
export class SolanaNodes extends Failover<SolanaNode> {
  constructor({endpoints}: Pick<SolanaSettings, 'endpoints'>, {timeoutMs = 10_000}: Options = {}) {
    super(endpoints.map(endpoint => new SolanaNode(endpoint, timeoutMs)))
  }
}

const connectAgainMs = 2000

/**
 * Tells of the slots that a node announces over its websocket. Promises: a connection that fails is made again; what
 * was missed meanwhile is not told.
 */
export class SlotFeed {
  readonly #waiting = new Set<() => void>()
  #isTold = false

  /** Until the signal. */
  constructor(wsUrl: string, signal?: AbortSignal) {
    void this.#listen(wsUrl, signal ?? new AbortController().signal)
  }

  /** Resolves with the next slot, or the signal. Undefined while no slots are told. */
  next(signal: AbortSignal): Promise<void> | undefined {
    if (!this.#isTold) return
    return new Promise<void>(resolve => {
      this.#waiting.add(resolve)
      signal.addEventListener('abort', () => this.#waiting.delete(resolve) && resolve(), {once: true})
    })
  }

  async #listen(wsUrl: string, abortSignal: AbortSignal): Promise<void> {
    while (!abortSignal.aborted) {
      try {
        const slots = await createSolanaRpcSubscriptions(wsUrl).slotNotifications().subscribe({abortSignal})
        for await (const _ of slots) {
          this.#isTold = true
          this.#tell()
        }
      } catch {
        // it is polled, too
      }
      this.#isTold = false
      this.#tell()
      await sleep(connectAgainMs, undefined, {ref: false})
    }
  }

  #tell(): void {
    for (const resolve of this.#waiting) resolve()
    this.#waiting.clear()
  }
}

export function openHead(settings: Pick<SolanaSettings, 'endpoints'>, timeoutMs: number): NodeHead {
  const nodes = new SolanaNodes(settings, {timeoutMs})
  return {
    height: async () => (await nodes.ask(node => node.latest('confirmed'))).height,
    close() {},
  }
}
