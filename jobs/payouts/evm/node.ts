// What payouts need from a node: balances, gas, fees and broadcasting. Only the indexers decide what became of a
// transaction. Promises: every response is checked against its schema. A request ends in a response, or a
// RetryableError, within its timeout.
import {z} from 'zod'
import {RetryableError} from '../../../base/errors.ts'
import {contractOf as contractOfToken} from '../../../chains/contract-tokens.ts'
import {balanceOfCall, transferCall} from '../../../chains/erc20-calls.ts'
import {refusedToken} from '../../../chains/evm/check-tokens.ts'
import {Questions, quantity, type Response} from '../../../chains/evm/client.ts'
import {meaningOf, wordsOf} from '../../../chains/evm/node-errors.ts'
import type {EvmSettings} from '../../../chains/evm/settings.ts'
import {readTried, type Transfer, type Tried, tryTransfer} from '../../../chains/evm/try-transfer.ts'
import {tokenGuard} from '../../../chains/token-guard.ts'
import {type FeeMarket, tipOf} from './fees.ts'

const timeoutMs = 10_000

const Block = z.object({baseFeePerGas: quantity})
const History = z.object({reward: z.array(z.array(quantity)).nullish(), gasUsedRatio: z.array(z.number())})
const Txid = z.string()

/** A few minutes of Ethereum. */
const recentBlocks = '0x14'

/** A chain of the family, and its node. */
export interface Evm {
  settings: EvmSettings
  /** Token code of the native coin. */
  native: string
  node: EvmNode
  /** What the newest sweep of a token was estimated to need, by token. */
  sweepGas: Map<string, bigint>
}

export interface Call {
  from: string
  to: string
  value?: bigint
  data?: string
}

/** The gas that a call would use, or why it would fail: `isSure` if that is the call's fault, and not the node's. */
export type Estimate = {gas: bigint} | {failure: string; isSure: boolean}

export class EvmNode {
  readonly #questions: Questions
  readonly #beforeAll: () => Promise<void>

  /** `beforeAll` resolves when requests may be sent. Nothing is sent before it resolves. */
  constructor(url: string, beforeAll: () => Promise<void>) {
    this.#questions = new Questions(url, timeoutMs)
    this.#beforeAll = beforeAll
  }

  /** `leastTip`: the smallest priority fee that nodes take, in wei per unit of gas. */
  async feeMarket(leastTip: bigint): Promise<FeeMarket> {
    await this.#beforeAll()
    const [block, history] = await this.#questions.ask([
      {method: 'eth_getBlockByNumber', params: ['latest', false]},
      {method: 'eth_feeHistory', params: [recentBlocks, 'latest', [50]]},
    ])
    const {reward, gasUsedRatio} = read(History, history!, 'eth_feeHistory')
    const rewards = (reward ?? []).flatMap(([median], i) =>
      gasUsedRatio[i]! > 0 && median !== undefined ? [median] : [],
    )
    return {
      baseFee: read(Block, block!, 'eth_getBlockByNumber').baseFeePerGas,
      priorityFee: tipOf(rewards, leastTip),
    }
  }

  async nativeBalances(addresses: string[]): Promise<bigint[]> {
    const responses = await this.#questions.ask(
      addresses.map(address => ({method: 'eth_getBalance', params: [address, 'latest']})),
    )
    return responses.map(response => read(quantity, response, 'eth_getBalance'))
  }

  async tokenBalances(contract: string, addresses: string[]): Promise<bigint[]> {
    const responses = await this.#questions.ask(
      addresses.map(owner => ({
        method: 'eth_call',
        params: [{to: contract, data: `0x${balanceOfCall(BigInt(owner))}`}, 'latest'],
      })),
    )
    return responses.map(response => read(quantity, response, 'eth_call'))
  }

  async estimates(calls: Call[]): Promise<Estimate[]> {
    const responses = await this.#questions.ask(
      calls.map(({from, to, value = 0n, data}) => ({
        method: 'eth_estimateGas',
        params: [{from, to, value: `0x${value.toString(16)}`, data}, 'latest'],
      })),
    )
    return responses.map(response => {
      // Whatever a node says of one call, the others are not to wait for it.
      if ('message' in response) return {failure: wordsOf(response), isSure: meaningOf(response) === 'call_fails'}
      return {gas: read(quantity, response, 'eth_estimateGas')}
    })
  }

  /**
   * What the node says of a call that fails at this height; undefined if it succeeds. `isSure`: that is the call's
   * fault, and not the node's.
   */
  async refusal({from, to, data}: Call, at: number | 'latest'): Promise<{words: string; isSure: boolean} | undefined> {
    const block = at === 'latest' ? at : `0x${at.toString(16)}`
    const [response] = await this.#questions.ask([{method: 'eth_call', params: [{from, to, data}, block]}])
    if (!('message' in response!)) return undefined
    return {words: wordsOf(response), isSure: meaningOf(response) === 'call_fails'}
  }

  /** What a token's contract would do with a transfer at the newest block. */
  async tryTransfer(transfer: Transfer): Promise<Tried> {
    const [response] = await this.#questions.ask([tryTransfer(transfer)])
    return readTried(response!)
  }

  /**
   * Broadcasts signed transactions. Returns the node's error for each, undefined if it took it or had it; neither
   * proves anything.
   */
  async broadcast(raws: string[]): Promise<(string | undefined)[]> {
    const responses = await this.#questions.ask(raws.map(raw => ({method: 'eth_sendRawTransaction', params: [raw]})))
    return responses.map(response => {
      if ('message' in response) return meaningOf(response) === 'already_known' ? undefined : wordsOf(response)
      return Txid.safeParse(response.result).success ? undefined : 'the node answered with something else than a txid'
    })
  }

  close(): void {
    this.#questions.close()
  }
}

function read<T>(schema: z.ZodType<T>, response: Response, method: string): T {
  if ('message' in response) throw new RetryableError(`the node refused ${method}: ${response.message}`)
  const {success, data} = schema.safeParse(response.result)
  if (!success) throw new RetryableError(`the node answered ${method} with an unexpected response`)
  return data
}

/** A chain that has a node. */
export function evm(settings: EvmSettings): Evm {
  const node = new EvmNode(
    settings.rpcUrl!,
    tokenGuard(() => refusedToken(settings)),
  )
  return {settings, native: settings.chain.assets[0].token, node, sweepGas: new Map()}
}

/** Contract of a token; undefined for the native coin. */
export const contractOf = ({settings}: Evm, token: string): string | undefined => contractOfToken(settings, token)

/** What an address holds of a token at the newest block. */
export async function balancesOf(chain: Evm, token: string, addresses: string[]): Promise<bigint[]> {
  if (!addresses.length) return []
  const contract = contractOf(chain, token)
  return contract ? await chain.node.tokenBalances(contract, addresses) : await chain.node.nativeBalances(addresses)
}

/** The call data of transfer(address,uint256). */
export const tokenTransfer = (to: string, amount: bigint): string => `0x${transferCall(BigInt(to), amount)}`
