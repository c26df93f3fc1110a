// The only code that calls Tron nodes, over their HTTP API. Promises: every request ends in time, with a response of
// the expected shape or a RetryableError; no message has the URL or the key. A node that asks for fewer requests gets
// none for a while. One node is asked as long as it works, because two may show two forks, or lag behind each other;
// after some failures in a row the other one is.
import {z} from 'zod'
import {most} from '../../base/bigints.ts'
import {eachOf} from '../../base/each-of.ts'
import {RetryableError} from '../../base/errors.ts'
import {parseJson} from '../../base/json.ts'
import {withoutPassword} from '../basic-auth.ts'
import {Failover} from '../failover.ts'
import type {NodeHead} from '../family.ts'
import {NodeRest} from '../node-rest.ts'
import {readResponse, whyUnanswered} from '../read-response.ts'
import {addressOf, bytesOf} from './address.ts'
import {
  Account,
  AccountStake,
  Block,
  BlockHeader,
  Borrowers,
  Broadcast,
  ContractInfo,
  Energy,
  FreeBytes,
  Info,
  Lendable,
  Loan,
  Prices,
  Tried,
  UnstakingDays,
} from './responses.ts'
import type {TronEndpoint, TronSettings} from './settings.ts'

export type {Account, Block, BlockHeader, Energy, Info, Prices, Tried}

const Refused = z.object({Error: z.string()})
const Nothing = z.strictObject({})
/** A node gives no more in one response. */
export const blocksPerRequest = 100
/** Of a call, while the node runs out of time. */
const mostTrials = 3

/** A call of a contract; `data` in hex, addresses in base58check. */
export interface Call {
  from: string
  contract: string
  data: string
}

interface Options {
  /** The timeout of each request. */
  timeoutMs?: number
}

/** One node. */
export class TronNode {
  readonly #base: ReturnType<typeof withoutPassword>
  readonly #solidityBase: ReturnType<typeof withoutPassword>
  readonly #apiKey: string | undefined
  readonly #timeoutMs: number
  readonly #rest = new NodeRest()

  constructor({url, solidityUrl}: TronEndpoint, apiKey: string | undefined, timeoutMs: number) {
    this.#base = withoutPassword(url)
    this.#solidityBase = withoutPassword(solidityUrl)
    this.#apiKey = apiKey
    this.#timeoutMs = timeoutMs
  }

  /** The newest block, or the one at a height; undefined if there is none. */
  async header(height?: number): Promise<BlockHeader | undefined> {
    const id_or_num = height === undefined ? {} : {id_or_num: String(height)}
    return await this.#find('wallet/getblock', {...id_or_num, detail: false}, BlockHeader)
  }

  /** The newest solidified block: no honest node leaves it. */
  async solidHeader(): Promise<BlockHeader> {
    return await this.#ask('walletsolidity/getblock', {detail: false}, BlockHeader)
  }

  /** The blocks from a height on, as far as there are any; at most `blocksPerRequest`. */
  async blocks(from: number, count: number): Promise<Block[]> {
    const Blocks = z.object({block: z.array(Block).default([])})
    const {block} = await this.#ask('wallet/getblockbylimitnext', {startNum: from, endNum: from + count}, Blocks)
    return block.toSorted((a, b) => a.height - b.height)
  }

  /** What came of the transactions of the block at a height; empty as well if the node does not know. */
  async infos(height: number): Promise<Info[]> {
    return (await this.#find('wallet/gettransactioninfobyblocknum', {num: height}, z.array(Info))) ?? []
  }

  /** Whether a solidified block has the transaction. */
  async hasSolid(txid: string): Promise<boolean> {
    const Found = z.object({txID: z.literal(txid)})
    return (await this.#find('walletsolidity/gettransactionbyid', {value: txid}, Found)) !== undefined
  }

  /**
   * An account, by its address in base58check; undefined if there is none. Not only of blocks: with what waits for one,
   * unless `solid`.
   */
  async account(address: string, {solid} = {solid: false}): Promise<Account | undefined> {
    return await this.#find(`${solid ? 'walletsolidity' : 'wallet'}/getaccount`, inHex(address), Account)
  }

  /**
   * Whether an account may send a transaction of so many bytes now that costs nothing. Bytes of one kind must pay for
   * all of it.
   */
  async isFree(address: string, bytes: bigint): Promise<boolean> {
    return (await this.freeBytes(address)) >= bytes
  }

  /** How many bytes of one kind an account may send now that cost nothing. */
  async freeBytes(address: string): Promise<bigint> {
    const found = await this.#find('wallet/getaccountresource', inHex(address), FreeBytes)
    return found ? most(found.daily, found.staked) : 0n
  }

  /** The energy of an account; undefined if there is no account. */
  async energy(address: string): Promise<Energy | undefined> {
    return await this.#find('wallet/getaccountresource', inHex(address), Energy)
  }

  /** How much of its stake for energy an account can lend now, in sun: not what is used and not back yet. */
  async lendable(address: string): Promise<bigint> {
    return (await this.#ask('wallet/getcandelegatedmaxsize', {owner_address: hexOf(address), type: 1}, Lendable))
      .max_size
  }

  /** What an account has staked, lent or not, and unstaked and not got back, in sun, after the solidified block. */
  async stake(address: string): Promise<AccountStake> {
    const none = {energy: 0n, bandwidth: 0n, unstaking: []}
    return (await this.#find('walletsolidity/getaccount', inHex(address), AccountStake)) ?? none
  }

  /** What an account lends of its stake for energy, in sun, after the solidified block. */
  async lent(address: string): Promise<{to: string; amount: bigint}[]> {
    const of = {value: hexOf(address)}
    const found = await this.#find('walletsolidity/getdelegatedresourceaccountindexv2', of, Borrowers)
    return await eachOf(found?.toAccounts ?? [], async hex => {
      const pair = {fromAddress: hexOf(address), toAddress: hex}
      const loan = await this.#find('walletsolidity/getdelegatedresourcev2', pair, Loan)
      return {to: addressOf(Buffer.from(hex, 'hex')), amount: loan?.energy ?? 0n}
    })
  }

  /**
   * What a call of a contract would do after the newest block, or after the solidified one; nothing is sent. The caller
   * needs no account. A node that runs out of time says nothing about the call: that is a RetryableError.
   */
  async try({from, contract, data}: Call, {solid} = {solid: false}): Promise<Tried> {
    const call = {owner_address: hexOf(from), contract_address: hexOf(contract), data}
    const path = `${solid ? 'walletsolidity' : 'wallet'}/triggerconstantcontract`
    for (let trial = 1; ; trial++) {
      const tried = await this.#ask(path, call, Tried)
      if (!tried.failure?.ranOutOfTime) return tried
      if (trial === mostTrials) throw new RetryableError(`the node had no time to try a call: ${tried.failure.words}`)
    }
  }

  /** The code of a contract, and who made it; undefined if there is none at the address. */
  async contract(contract: string): Promise<ContractInfo | undefined> {
    return await this.#find('wallet/getcontractinfo', {value: hexOf(contract)}, ContractInfo)
  }

  /** How long the network holds what is unstaked. */
  async unstakingDays(): Promise<bigint> {
    return await this.#ask('wallet/getchainparameters', {}, UnstakingDays)
  }

  async prices(): Promise<Prices> {
    return await this.#ask('wallet/getchainparameters', {}, Prices)
  }

  /**
   * Gives a signed transaction, in hex, to the network. Returns the node's error; undefined if it has it. Neither
   * proves anything.
   */
  async broadcast(raw: string): Promise<string | undefined> {
    return await this.#ask('wallet/broadcasthex', {transaction: raw}, Broadcast)
  }

  async #ask<T>(path: string, body: object, schema: z.ZodType<T>): Promise<T> {
    return readResponse(path, await this.#json(path, body), schema)
  }

  /** Nodes say that there is nothing with an empty object. */
  async #find<T>(path: string, body: object, schema: z.ZodType<T>): Promise<T | undefined> {
    const json = await this.#json(path, body)
    return Nothing.safeParse(json).success ? undefined : readResponse(path, json, schema)
  }

  async #json(path: string, body: object): Promise<unknown> {
    const text = await this.#post(path, body)
    let json: unknown
    try {
      json = parseJson(text)
    } catch {
      throw new RetryableError(`the node sent no JSON for ${path}`)
    }
    const refused = Refused.safeParse(json)
    if (refused.success) throw new RetryableError(`the node refused ${path}: ${refused.data.Error.slice(0, 300)}`)
    return json
  }

  async #post(path: string, body: object): Promise<string> {
    this.#rest.assertOver()
    const base = path.startsWith('walletsolidity/') ? this.#solidityBase : this.#base
    const key = this.#apiKey && {'TRON-PRO-API-KEY': this.#apiKey}
    const response = await fetch(`${base.url.replace(/\/+$/, '')}/${path}`, {
      method: 'POST',
      headers: {'content-type': 'application/json', ...base.headers, ...key},
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(this.#timeoutMs),
    })
      .then(async answer => ({status: answer.status, text: await answer.text()}))
      .catch(error => {
        throw new RetryableError(`the node does not answer ${path}: ${whyUnanswered(error)}`)
      })
    this.#rest.note(response.status)
    if (response.status !== 200) throw new RetryableError(`the node answered ${path} with status ${response.status}`)
    return response.text
  }
}

const hexOf = (address: string) => Buffer.from(bytesOf(address)).toString('hex')
const inHex = (address: string) => ({address: hexOf(address)})

/** The nodes of a chain. */
export class TronNodes extends Failover<TronNode> {
  constructor({endpoints, apiKey}: Pick<TronSettings, 'endpoints' | 'apiKey'>, {timeoutMs = 10_000}: Options = {}) {
    super(endpoints.map(endpoint => new TronNode(endpoint, apiKey, timeoutMs)))
  }
}

export function openHead(settings: TronSettings, timeoutMs: number): NodeHead {
  const nodes = new TronNodes(settings, {timeoutMs})
  return {
    async height() {
      const head = await nodes.ask(node => node.header())
      if (head) return head.height
      throw new RetryableError('the node has no block')
    },
    close() {},
  }
}
