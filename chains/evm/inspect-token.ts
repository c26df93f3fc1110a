// What the contract of a token says of itself, and does with a transfer, before an operator adds it (sluice token add).
// Promises: nothing is sent. A token that cannot be paid out exactly is refused in words; what nobody could try is
// said. A node that does not respond, or refuses a question itself, is a RetryableError.
import {domainSeparator, getAddress, type Hex, hexToBigInt, keccak256, numberToHex, toHex} from 'viem'
import {z} from 'zod'
import {PermanentError, RetryableError} from '../../base/errors.ts'
import {
  call,
  factsOf,
  isWord,
  notTried,
  questions,
  refuseInexact,
  type SaidOfToken,
  saidOfToken,
  somebody,
  textOf,
} from '../erc20-answers.ts'
import type {InspectedToken} from '../family.ts'
import {Questions, quantity, type Response} from './client.ts'
import {displayForm} from './forms.ts'
import {meaningOf} from './node-errors.ts'
import type {EvmSettings} from './settings.ts'
import {readTried, type Tried, tryTransfer} from './try-transfer.ts'

const timeoutMs = 20_000
/** Somebody who holds the token is looked for in so many blocks: public nodes refuse more. */
const recentBlocks = 1000n
const mostHolders = 5

/** What the contract says, and what it did with a transfer. */
interface Found extends SaidOfToken {
  /** The code that a proxy points to (EIP-1967, or the slot of older proxies). */
  implementation: string | undefined
  /** Undefined if nobody was found who holds it. */
  outcome: Outcome | undefined
  /** Whether the balance of somebody changed in a block by what the events say; false if nobody can say. */
  eventsAgree: boolean
}

/** keccak-256 of the name, less 1 (EIP-1967); OpenZeppelin's older proxies have another one, as it is. */
const implementationSlots = [
  numberToHex(hexToBigInt(keccak256(toHex('eip1967.proxy.implementation'))) - 1n, {size: 32}),
  keccak256(toHex('org.zeppelinos.proxy.implementation')),
]

/** What can be asked of any contract; undefined for what it refuses. */
const calls = {
  ...questions,
  version: call('version()'),
  separator: call('DOMAIN_SEPARATOR()'),
  authorization: call('authorizationState(address,bytes32)', somebody + '0'.repeat(64)),
} as const
type Answers = {[name in keyof typeof calls]: Hex | undefined}

export async function inspectToken(settings: EvmSettings, contract: string): Promise<InspectedToken> {
  const asked = displayForm(settings.chain, contract)
  const node = new Questions(settings.rpcUrl!, timeoutMs)
  try {
    return await inspect(node, settings, asked as Hex)
  } finally {
    node.close()
  }
}

/** The hash of the code of each token's contract, and of what a proxy points to, by token. */
export async function codeHashes(settings: EvmSettings): Promise<Map<string, string>> {
  const node = new Questions(settings.rpcUrl!, timeoutMs)
  try {
    const hashes = new Map<string, string>()
    for (const [contract, token] of settings.tokens) {
      const {code} = await codeOf(node, settings, contract)
      hashes.set(token, keccak256(code))
    }
    return hashes
  } finally {
    node.close()
  }
}

async function inspect(node: Questions, settings: EvmSettings, contract: string): Promise<InspectedToken> {
  const {code, implementation} = await codeOf(node, settings, contract)
  const names = Object.keys(calls) as (keyof typeof calls)[]
  const responses = await node.ask(
    names.map(name => ({method: 'eth_call', params: [{to: contract, data: calls[name]}, 'latest']})),
  )
  const answers = Object.fromEntries(names.map((name, i) => [name, hexOf(responses[i]!)])) as Answers
  const said = saidOfToken(answers, contract)
  const recent = await recentTransfers(node, contract)
  const eventsAgree = await compareEvents(node, contract, recent)
  const outcome = await tryWithHolder(node, contract, recent)
  refuseOutcome(outcome, contract)
  const found: Found = {...said, implementation, outcome, eventsAgree}
  const domain = domainOf(answers, contract, settings.chainId)
  const {name, symbol, decimals} = said
  return {
    contract: contract.toLowerCase(),
    name,
    symbol,
    decimals,
    codeHash: keccak256(code),
    sweeps: [...(domain ? [{by: 'eip3009', domain}] : []), {by: 'fund'}],
    facts: ({by}) => factsFor(settings, found, {isFund: by === 'fund'}),
  }
}

// --- for people ---

function factsFor({chain}: EvmSettings, found: Found, {isFund}: {isFund: boolean}): Record<string, string> {
  const {implementation, outcome, eventsAgree} = found
  const gas = outcome?.gas === undefined ? 'as much as a transfer needs' : `about ${outcome.gas}`
  const most = `at most what ${chain.code}_TOKEN_SWEEP_FEE allows`
  return {
    ...factsOf(found, implementation ? ['change its code'] : []),
    'a proxy for': implementation ?? 'nothing',
    'a transfer': triedInWords(outcome?.tried),
    'its events': eventsAgree ? 'say what its balances say' : 'were not compared with its balances',
    'swept by': isFund
      ? 'fund: the address itself, with gas that the treasury sends it'
      : 'eip3009: the treasury, with what the address signs',
    'a sweep costs': `${isFund ? `21000 gas, then ${gas}` : 'one transaction of the treasury'}; ${most}`,
  }
}

function triedInWords(tried: Tried | undefined): string {
  if (!tried) return notTried('nobody was seen who holds it')
  if ('unknown' in tried) return notTried(tried.unknown)
  return `arrives whole${tried.returned === 'nothing' ? ', and returns nothing' : ''}`
}

// --- its code ---

/** Its code and that of its implementation, one after the other. */
async function codeOf(
  node: Questions,
  {chain, chainId}: EvmSettings,
  contract: string,
): Promise<{code: Hex; implementation: string | undefined}> {
  const slots = implementationSlots.map(slot => ({method: 'eth_getStorageAt', params: [contract, slot, 'latest']}))
  const [own, ...stored] = await node.ask([{method: 'eth_getCode', params: [contract, 'latest']}, ...slots])
  const code = bytesOf(own!, 'the code of the contract')
  if (code === '0x')
    throw new PermanentError(
      `there is no contract at ${contract} on ${chain.code} (chain ${chainId}); look the address up at the token's issuer`,
    )
  const pointers = stored.map(response => BigInt(bytesOf(response, 'the storage of the contract')))
  const pointer = pointers.find(slot => slot !== 0n && slot < 2n ** 160n)
  if (pointer === undefined) return {code, implementation: undefined}
  const implementation = getAddress(numberToHex(pointer, {size: 20}))
  const [behind] = await node.ask([{method: 'eth_getCode', params: [implementation, 'latest']}])
  return {code: `${code}${bytesOf(behind!, 'the code behind the proxy').slice(2)}`, implementation}
}

function domainOf(
  {name, version, separator, authorization}: Answers,
  contract: string,
  chainId: number,
): {name: string; version: string} | undefined {
  if (!isWord(separator) || !isWord(authorization) || BigInt(authorization) > 1n) return undefined
  const called = textOf(name)
  if (called === undefined) return undefined
  const versions = [textOf(version), '1', '2'].filter(text => text !== undefined)
  const found = versions.find(
    text =>
      domainSeparator({domain: {name: called, version: text, chainId, verifyingContract: contract as Hex}}) ===
      separator,
  )
  return found === undefined ? undefined : {name: called, version: found}
}

// --- what it does ---

interface Outcome {
  tried: Tried
  amount: bigint
  gas: bigint | undefined
}

const word = z.string().regex(/^0x[0-9a-f]{64}$/i)
const Logs = z.array(z.object({topics: z.array(word), data: z.string(), blockNumber: quantity}))
type Logs = z.infer<typeof Logs>
const lastBytes = (word: string) => word.slice(-40).toLowerCase()

/** The events of its transfers lately, from first to last. Throws PermanentError if they are of no amounts. */
async function recentTransfers(node: Questions, contract: string): Promise<Logs> {
  const [newest] = await node.ask([{method: 'eth_blockNumber', params: []}])
  const head = BigInt(bytesOf(newest!, 'its newest block'))
  const from = head > recentBlocks ? head - recentBlocks : 0n
  const topics = [keccak256(toHex('Transfer(address,address,uint256)'))]
  const [found] = await node.ask([
    {method: 'eth_getLogs', params: [{address: contract, topics, fromBlock: numberToHex(from), toBlock: 'latest'}]},
  ])
  const logs = 'message' in found! ? [] : (Logs.safeParse(found!.result).data ?? [])
  if (logs.some(({topics}) => topics.length > 3))
    throw new PermanentError(`${contract} moves single pieces (EIP-721), and no amounts: it is no ERC-20 token`)
  return logs.filter(({topics, data}) => topics.length === 3 && isWord(data as Hex))
}

/** Tries a transfer by somebody who got the token lately, to an address that nobody has. */
async function tryWithHolder(node: Questions, contract: string, recent: Logs): Promise<Outcome | undefined> {
  const holders = [...new Set(recent.toReversed().map(({topics: [, , to]}) => to!))].slice(0, mostHolders)
  for (const word of holders) {
    const holder = getAddress(`0x${word.slice(-40)}`)
    const [balance] = await node.ask([
      {method: 'eth_call', params: [{to: contract, data: call('balanceOf(address)', word.slice(2))}, 'latest']},
    ])
    const held = hexOf(balance!)
    if (!isWord(held) || BigInt(held) === 0n) continue
    const transfer = {contract, from: holder, to: nobody, amount: BigInt(held)}
    const [response] = await node.ask([tryTransfer(transfer)])
    const tried = readTried(response!)
    if (!('unknown' in tried) && tried.returned === 'failure') continue // somebody who is frozen, perhaps
    const data = call('transfer(address,uint256)', nobody.slice(2).padStart(64, '0') + held.slice(2))
    const [gas] = await node.ask([{method: 'eth_estimateGas', params: [{from: holder, to: contract, data}, 'latest']}])
    return {tried, amount: transfer.amount, gas: 'result' in gas! ? quantity.parse(gas.result) : undefined}
  }
  const unknown = 'whoever was seen to hold it cannot send it now'
  return holders.length ? {tried: {unknown}, amount: 0n, gas: undefined} : undefined
}

/**
 * Whether the balance of the last recipient changed, in its block, by what the events of the block say; false if nobody
 * can say. Deposits are read from events.
 */
async function compareEvents(node: Questions, contract: string, logs: Logs): Promise<boolean> {
  const last = logs.findLast(({topics: [, from, to], data}) => from !== to && BigInt(data) > 0n)
  if (!last) return false
  const {blockNumber} = last
  const who = lastBytes(last.topics[2]!)
  const data = call('balanceOf(address)', who.padStart(64, '0'))
  const [before, after] = (
    await node.ask(
      [blockNumber - 1n, blockNumber].map(at => {
        return {method: 'eth_call', params: [{to: contract, data}, numberToHex(at)]}
      }),
    )
  ).map(response => ('result' in response ? (response.result as Hex) : undefined))
  if (!isWord(before) || !isWord(after)) return false
  const said = logs
    .filter(log => log.blockNumber === blockNumber)
    .reduce((sum, {topics: [, from, to], data}) => {
      const amount = BigInt(data)
      return sum + (lastBytes(to!) === who ? amount : 0n) - (lastBytes(from!) === who ? amount : 0n)
    }, 0n)
  if (said === BigInt(after) - BigInt(before)) return true
  throw new PermanentError(
    `the events of ${contract} in block ${blockNumber} say that ${said} base units came to an address, and its balance changed by ${BigInt(after) - BigInt(before)}: deposits are read from events, and would be credited wrong`,
  )
}

const nobody = getAddress(`0x${keccak256(toHex('nobody has this address')).slice(-40)}`)

function refuseOutcome(outcome: Outcome | undefined, contract: string): void {
  if (!outcome || 'unknown' in outcome.tried) return
  const {
    amount,
    tried: {returned, arrived},
  } = outcome
  if (returned === 'false')
    throw new PermanentError(
      `${contract} says false for a transfer that should succeed: nobody can tell whether it pays`,
    )
  refuseInexact(contract, amount, arrived)
}

// --- answers ---

/** The result; undefined if the contract refused. */
function hexOf(response: Response): Hex | undefined {
  if ('message' in response) {
    if (meaningOf(response) === 'call_fails') return undefined
    throw new RetryableError(`the node refused to ask the contract: ${response.message}`)
  }
  return bytesOf(response, 'what the contract says')
}

function bytesOf(response: Response, what: string): Hex {
  if ('message' in response) throw new RetryableError(`the node refused to give ${what}: ${response.message}`)
  const {result} = response
  if (typeof result === 'string' && /^0x[0-9a-f]*$/i.test(result)) return result.toLowerCase() as Hex
  throw new RetryableError(`the node sent an invalid response when it was asked for ${what}`)
}
