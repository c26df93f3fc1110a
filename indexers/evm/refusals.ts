// What an EVM node refuses while a chain is read, as what the chain waits for: the node's own words, and what an
// operator can do. Promises: only an error that the node sent is a refusal; without a response, nothing is known.
import {RpcError, RpcProtocolError} from '@subsquid/rpc-client'
import {type Meaning, meaningOf, wordsOf} from '../../chains/evm/node-errors.ts'
import {Waiting, type WaitingReason} from '../waits.ts'

export class Refusal extends Waiting {
  override name = 'Refusal'
  readonly words: string

  constructor(reason: WaitingReason, message: string, words: string) {
    super(reason, message)
    this.words = words
  }
}

interface Advice {
  reason: WaitingReason
  /** What an operator can do, after "the node ...; ". */
  advice(method: string, chain: string): string
}

const advices: Partial<Record<Meaning, Advice>> = {
  state_pruned: {
    reason: 'state_pruned',
    advice: (_method, chain) =>
      `it has dropped the state that call traces of this block need: name a node in ${chain}_RPC_URL that keeps it, as an archive node does`,
  },
  blocks_pruned: {
    reason: 'blocks_missing',
    advice: (_method, chain) => `it has dropped old blocks: name a node in ${chain}_RPC_URL that keeps them`,
  },
  response_too_large: {
    reason: 'response_too_large',
    advice: (_method, chain) =>
      `one block alone is too large for it: raise its limit of responses, or name another node in ${chain}_RPC_URL`,
  },
  method_missing: {
    reason: 'method_missing',
    advice: (method, chain) =>
      method === 'trace_block'
        ? `geth and bor have no trace_block: set ${chain}_TRACES=debug for them, if the chain was not read with it yet; or name a node in ${chain}_RPC_URL that has it`
        : `let it serve ${method} (geth: --http.api and --ws.api), or name a node in ${chain}_RPC_URL that does`,
  },
}
const unknown: Advice = {
  reason: 'node_refuses',
  advice: (_method, chain) => `read its log, or name another node in ${chain}_RPC_URL`,
}

/** The refusal in an error of a request; undefined if it is none. `above`: the newest block that was read. */
export function refusalIn(error: unknown, chain: string, above?: number): Refusal | undefined {
  if (!(error instanceof RpcError || error instanceof RpcProtocolError || isHttpError(error))) return
  const {rpcMethod: method = 'a request'} = error as {rpcMethod?: string}
  const meaning = meaningOf(error)
  if (meaning === 'too_many_requests') return // it passes
  const {reason, advice} = (meaning && advices[meaning]) ?? unknown
  const words = wordsOf(error)
  const where = above === undefined ? '' : `the blocks above ${above} cannot be read: `
  return new Refusal(reason, `${where}the node answers ${method} with "${words}"; ${advice(method, chain)}`, words)
}

const isHttpError = (error: unknown): boolean => error instanceof Error && error.name === 'HttpError'
