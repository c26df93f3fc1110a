// What the contract of a token says of itself, and does with a transfer, before an operator adds it (sluice token add).
// Promises: nothing is sent. A token that cannot be paid out exactly is refused in words; what nobody could try is
// said. A node that does not respond, or refuses a question itself, is a RetryableError.
import {domainSeparator, formatUnits, getAddress, type Hex, hexToBigInt, keccak256, numberToHex, toHex} from 'viem'
import {z} from 'zod'
import {PermanentError, RetryableError} from '../../base/errors.ts'
import {
  call,
  factsOf,
  isWord,
  notTried,
  questions,
  refuseFee,
  type SaidOfToken,
  saidOfToken,
  somebody,
  textOf,
} from '../erc20-answers.ts'
import type {InspectedToken} from '../family.ts'
import {Questions, quantity, type Response} from './client.ts'
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
  if (!/^0x[0-9a-fA-F]{40}$/.test(contract))
    throw new PermanentError(`"${contract}" is no contract address: it is 0x and 40 hex digits`)
  const node = new Questions(settings.rpcUrl!, timeoutMs)
  try {
    return await inspect(node, settings, getAddress(contract))
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
  const outcome = await tryWithHolder(node, contract)
  refuseInexact(outcome, contract)
  const found: Found = {...said, implementation, outcome}
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

function factsFor(
  {chain, tokenSweepFee}: EvmSettings,
  found: Found,
  {isFund}: {isFund: boolean},
): Record<string, string> {
  const {implementation, outcome} = found
  const [{token, decimals: places}] = chain.assets
  const gas = outcome?.gas === undefined ? 'as much as a transfer needs' : `about ${outcome.gas}`
  const most = `at most ${formatUnits(tokenSweepFee, places)} ${token} (${chain.code}_TOKEN_SWEEP_FEE)`
  return {
    ...factsOf(found, implementation ? ['change its code'] : []),
    'a proxy for': implementation ?? 'nothing',
    'a transfer': triedInWords(outcome?.tried),
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

const Logs = z.array(z.object({topics: z.array(z.string())}))

/** Tries a transfer by somebody who got the token lately, to an address that nobody has. */
async function tryWithHolder(node: Questions, contract: string): Promise<Outcome | undefined> {
  const [newest] = await node.ask([{method: 'eth_blockNumber', params: []}])
  const head = BigInt(bytesOf(newest!, 'its newest block'))
  const from = head > recentBlocks ? head - recentBlocks : 0n
  const topics = [keccak256(toHex('Transfer(address,address,uint256)'))]
  const [found] = await node.ask([
    {method: 'eth_getLogs', params: [{address: contract, topics, fromBlock: numberToHex(from), toBlock: 'latest'}]},
  ])
  const logs = 'message' in found! ? [] : (Logs.safeParse(found!.result).data ?? [])
  const holders = [...new Set(logs.reverse().flatMap(({topics: [, , to]}) => to ?? []))].slice(0, mostHolders)
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

const nobody = getAddress(`0x${keccak256(toHex('nobody has this address')).slice(-40)}`)

function refuseInexact(outcome: Outcome | undefined, contract: string): void {
  if (!outcome || 'unknown' in outcome.tried) return
  const {
    amount,
    tried: {returned, arrived},
  } = outcome
  if (returned === 'false')
    throw new PermanentError(
      `${contract} says false for a transfer that should succeed: nobody can tell whether it pays`,
    )
  refuseFee(contract, amount, arrived)
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
