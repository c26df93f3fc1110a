// What the errors of EVM nodes mean: the only place that knows their words. JSON-RPC fixes few codes, so each program,
// and each provider in front of one, says the same thing in its own words; a code alone may mean one thing at one node
// and another at the next. Promises: an error in words that are not here means nothing in particular, and nobody
// concludes anything from it.
import {storable} from '../../base/text.ts'

export type Meaning =
  /** The node has the transaction already. */
  | 'already_known'
  /** The contract, or the sender's balance, refuses the call; another node would say the same. */
  | 'call_fails'
  /** More calls in one request than the node takes. */
  | 'batch_too_large'
  /** The responses to a request, or to one call, are larger than what the node sends. */
  | 'response_too_large'
  /** The node no longer has the state that the call needs, or not for so old a block. */
  | 'state_pruned'
  /** The node no longer has the block or its receipts (EIP-4444). */
  | 'blocks_pruned'
  /** The node does not serve the method. */
  | 'method_missing'
  /** The node, or who pays for it, has had enough requests for now. */
  | 'too_many_requests'

/** `by`: whose words they are. They are compared without regard to upper and lower case. */
interface Words {
  by: string
  words: RegExp
}

const known: Record<Meaning, Words[]> = {
  already_known: [
    {by: 'geth, bor, erigon, reth', words: /^already known/},
    {by: 'nethermind', words: /^alreadyknown/},
    {by: 'anvil', words: /transaction already imported/},
    {by: 'besu', words: /^known transaction/},
    {by: 'parity', words: /transaction with the same hash was already imported/},
  ],
  batch_too_large: [
    {by: 'geth, bor', words: /^batch too large/},
    {by: 'erigon', words: /batch limit \d+ exceeded/},
    {by: 'reth (jsonrpsee)', words: /batch request (is|was) too large/},
    {by: 'nethermind', words: /batch size limit exceeded/},
    {by: 'dRPC', words: /batch of more than \d+ requests/},
    {
      by: 'providers',
      words: /batch size (is )?too large|(maximum|max) batch size|too many (requests|calls) in (the |one )?batch/,
    },
  ],
  response_too_large: [
    {by: 'geth, bor', words: /^response too large/},
    {by: 'reth (jsonrpsee)', words: /response (is|was) too (big|large)/},
    {by: 'Alchemy, Infura', words: /response size (exceeded|is larger than|should not)/},
  ],
  state_pruned: [
    {by: 'geth, bor', words: /historical state .*is not available|historical state unavailable|missing trie node/},
    {by: 'erigon', words: /old data not available due to pruning|state .*(has been|is) pruned/},
    {by: 'reth', words: /state at block .*is pruned|no state found for/},
    {by: 'nethermind', words: /no state available|missingtrienode/},
    {by: 'besu', words: /world state unavailable/},
    {by: 'anvil', words: /resource not found|blockoutofrange/},
    {by: 'Infura, PublicNode, Chainstack', words: /archive (requests?|node|data|state|, debug)/},
    {by: 'parity', words: /running with state pruning/},
  ],
  blocks_pruned: [
    {by: 'geth, reth, nethermind', words: /pruned history unavailable/},
    {by: 'erigon', words: /(block|history|receipts?) .*(has been|is) pruned/},
  ],
  method_missing: [
    {by: 'geth, bor, erigon', words: /^the method \S+ does not exist/},
    {by: 'reth, anvil, besu', words: /method not found/},
    {by: 'nethermind', words: /method '?\S+'? is not (enabled|supported)|namespace is disabled/},
    {by: 'Alchemy', words: /unsupported method|is not available on the free tier/},
    {
      by: 'providers',
      words: /method .*(is )?(not (supported|available|allowed|whitelisted)|disabled)|is not whitelisted/,
    },
  ],
  too_many_requests: [
    {
      by: 'providers',
      words: /rate limit|too many requests|compute units|capacity (limit )?exceeded|request count exceeded/,
    },
  ],
  call_fails: [
    {by: 'all', words: /revert/},
    {by: 'geth, bor, erigon: eth_estimateGas', words: /gas required exceeds allowance/},
    {by: 'geth, bor, erigon, anvil', words: /insufficient (funds|balance) for (gas|transfer)/},
    {
      by: 'geth, bor, erigon, reth, anvil',
      words: /out of gas|invalid opcode|stack (under|over)flow|stack limit reached|invalid jump/,
    },
    {
      by: 'geth, bor, erigon: vm errors',
      words: /write protection|return data out of bounds|gas uint64 overflow|max (init)?code size exceeded/,
    },
    {
      by: 'geth, bor, erigon: vm errors',
      words: /contract address collision|max call depth exceeded|invalid code|nonce uint64 overflow/,
    },
    {by: 'nethermind, parity', words: /vm execution error/},
    {by: 'reth, anvil', words: /insufficientbalance|exceeds the (block )?gas (limit|allowance)|evm error/},
  ],
}

const meanings = Object.entries(known) as [Meaning, Words[]][]

/** What a node's error says, whether it came in a response or in place of one; undefined if that is not known. */
export function meaningOf(error: unknown): Meaning | undefined {
  const {message, code, status} = said(error)
  if (status === 413) return 'batch_too_large'
  if (status === 429) return 'too_many_requests'
  if (status === 404) return undefined // there is no node at this address
  if (code === 3) return 'call_fails' // a revert, with geth and what follows it
  const found = meanings.find(([, all]) => all.some(({words}) => words.test(message.toLowerCase())))
  if (found) return found[0]
  return code === -32_601 ? 'method_missing' : undefined // JSON-RPC 2.0: method not found
}

/**
 * The node's own words, shortened, as they can be stored: a contract may put anything into the reason of its revert.
 */
export function wordsOf(error: unknown): string {
  return storable(said(error).message.slice(0, 200))
}

interface Said {
  message: string
  code?: number
  /** Of HTTP. */
  status?: number
}

/** An error of HTTP may have the node's error in its body. Nothing in it is sure to be there. */
function said(error: unknown): Said {
  const {message, code, response} = (error ?? {}) as {message?: unknown; code?: unknown; response?: Response}
  const own: Said = {
    message: typeof message === 'string' ? message : 'an error without words',
    ...(typeof code === 'number' && {code}),
  }
  if (!response) return own
  const {status, body} = response
  const inBody = (body as {error?: object | string} | null | undefined)?.error
  if (typeof inBody === 'string') return {message: inBody, status}
  return {...(inBody ? said(inBody) : own), status}
}

interface Response {
  status: number
  body?: unknown
}
