// What the contract of a token says of itself, and does with a transfer, before an operator adds it (sluice token add).
// Promises: nothing is sent. A token that cannot be paid out exactly is refused in words; what nobody could try is
// said. A transfer is judged by its log, never by the word that it returns: USDT returns false although it succeeded.
// What a proxy points to is not seen: no request of a node's HTTP API shows a contract's storage.
import {type Hex, keccak256} from 'viem'
import {eachOf} from '../../base/each-of.ts'
import {PermanentError, RetryableError} from '../../base/errors.ts'
import {type Answers, factsOf, isWord, notTried, questions, refuseInexact, saidOfToken} from '../erc20-answers.ts'
import type {InspectedToken} from '../family.ts'
import {addressOf, bytesOf} from './address.ts'
import {TronNodes} from './client.ts'
import type {TronSettings} from './settings.ts'
import {balanceData, movedTo, transferData, transferIn} from './token-transfers.ts'

const timeoutMs = 20_000
/** Somebody who holds the token is looked for in so many blocks, ten minutes: public nodes count requests. */
const recentBlocks = 200
const blocksAtOnce = 20
const mostHolders = 5

/** A transfer that was tried. */
interface Outcome {
  energy: bigint
  by: 'somebody' | 'its maker'
}

export async function inspectToken(settings: TronSettings, contract: string): Promise<InspectedToken> {
  const {chain} = settings
  bytesOf(contract) // throws AddressError
  const nodes = new TronNodes(settings, {timeoutMs})
  const made = await nodes.ask(node => node.contract(contract))
  if (!made)
    throw new PermanentError(
      `there is no contract at ${contract} on ${chain.code} (${settings.network}); look the address up at the token's issuer`,
    )
  const said = saidOfToken(await ask(nodes, contract), contract)
  const outcome = await tryWithHolder(nodes, contract, made.creator)
  const {name, symbol, decimals} = said
  return {
    contract,
    name,
    symbol,
    decimals,
    codeHash: keccak256(made.code),
    sweeps: [{by: 'fund'}],
    facts: () => ({
      ...factsOf(said),
      'a proxy': 'nobody can see whether it is one',
      'a transfer': inWords(outcome),
      'swept by': 'fund: the address itself, with TRX that the treasury sends it',
      'a sweep costs': `${outcome ? `about ${outcome.energy} energy` : 'the energy of a transfer'}, and its bytes; at most what ${chain.code}_TOKEN_SWEEP_FEE allows`,
    }),
  }
}

function inWords(outcome: Outcome | undefined): string {
  if (!outcome) return notTried(`nobody was seen who got it in the last ${recentBlocks} blocks and holds it`)
  return outcome.by === 'its maker'
    ? 'arrives whole, by its log, if its maker sends it; nobody else was seen who holds it'
    : 'arrives whole, by its log'
}

/** The hash of the code of each token's contract now, by token. */
export async function codeHashes({tokens}: TronSettings, nodes: TronNodes): Promise<Map<string, string>> {
  const hashes = await eachOf([...tokens], async ([contract, token]) => {
    const made = await nodes.ask(node => node.contract(contract))
    return [token, keccak256(made?.code ?? new Uint8Array())] as const
  })
  return new Map(hashes)
}

async function ask(nodes: TronNodes, contract: string): Promise<Answers> {
  const answers = await eachOf(Object.entries(questions), async ([name, question]) => {
    const {failure, returned} = await nodes.ask(node => node.try({from: contract, contract, data: question.slice(2)}))
    if (failure && !failure.isSure && !isUnknown(failure.words))
      throw new RetryableError(`the node refused to ask the contract: ${failure.words}`)
    return [name, failure ? undefined : (`0x${Buffer.from(returned).toString('hex')}` as Hex)] as const
  })
  return Object.fromEntries(answers) as Answers
}

/** A contract without a fallback may also end in an invalid instruction, or a full stack. */
const isUnknown = (words: string) => /opcode|instruction|stack|memory|energy/i.test(words)

/**
 * Tries a transfer by somebody who got the token lately, else by who made it, whom it may treat better, to an address
 * that nobody has.
 */
async function tryWithHolder(
  nodes: TronNodes,
  contract: string,
  creator: string | undefined,
): Promise<Outcome | undefined> {
  const {height} = await nodes.ask(node => node.solidHeader())
  const lowest = Math.max(height - recentBlocks, 0)
  for (let top = height; top > lowest; top -= blocksAtOnce)
    for (const holder of await receivers(nodes, contract, {above: Math.max(top - blocksAtOnce, lowest), top})) {
      const found = await tryBy(nodes, contract, holder)
      if (found) return {...found, by: 'somebody'}
    }
  const found = creator && (await tryBy(nodes, contract, creator))
  return found ? {...found, by: 'its maker'} : undefined
}

/** Undefined if it holds nothing, or cannot transfer it: it is frozen, perhaps. */
async function tryBy(nodes: TronNodes, contract: string, holder: string): Promise<Pick<Outcome, 'energy'> | undefined> {
  const balance = await nodes.ask(node => node.try({from: holder, contract, data: balanceData(holder)}))
  const held = `0x${Buffer.from(balance.returned).toString('hex')}` as const
  if (balance.failure || !isWord(held) || BigInt(held) === 0n) return
  const amount = BigInt(held)
  const tried = await nodes.ask(node => node.try({from: holder, contract, data: transferData(nobody, amount)}))
  if (tried.failure) return
  refuseInexact(contract, amount, movedTo(tried.logs, contract, nobody))
  return {energy: tried.energy}
}

const nobody = addressOf(Buffer.from(`41${keccak256(Buffer.from('nobody has this address')).slice(-40)}`, 'hex'))

async function receivers(
  nodes: TronNodes,
  contract: string,
  {above, top}: {above: number; top: number},
): Promise<string[]> {
  const heights = Array.from({length: top - above}, (_, i) => top - i)
  const infos = await eachOf(heights, at => nodes.ask(node => node.infos(at)))
  const transfers = infos.flat().flatMap(({logs}) => logs.flatMap(log => transferIn(log) ?? []))
  const recent = transfers.filter(moved => moved.contract === contract).map(({to}) => addressOf(to))
  return [...new Set(recent)].slice(0, mostHolders)
}
