// Catching up with a Solana chain: blocks/s through the real indexer code over requesting the same blocks from the same
// server, and parsing the JSON. Blocks are as large as on a busy main network: 1,500 transactions, of which 60 % are
// votes, some 4 MB as `accounts`; a slot in twenty is skipped. Then following it at its head, with five slots a second:
// half as long as those of 400 ms, so blocks of half the size. The server is a process of its own.
import {createHash} from 'node:crypto'
import {createServer} from 'node:http'
import type {AddressInfo} from 'node:net'
import {toBase58} from '../chains/base58.ts'
import {settingsFrom} from '../chains/settings.ts'
import {SolanaNodes} from '../chains/solana/client.ts'
import {solanaSettings} from '../chains/solana/settings.ts'
import {genesisHash} from '../devnet/solana/constants.ts'
import {SolanaSource} from '../indexers/solana/source.ts'
import {benchAtHead, benchFollowing, type Followed} from './follow.ts'
import type {Report} from './result.ts'

const code = 'SOL'
/** Blocks that a server has: after the first `already`, one each `slotMs`; all at once if it is 0. */
interface Chain {
  blocks: number
  /** In each block. */
  transactions: number
  already: number
  slotMs: number
  /** How many are ours. */
  addresses: number
}

const busy: Chain = {blocks: 80, transactions: 1500, already: 80, slotMs: 0, addresses: 1_000_000}
const head: Chain = {blocks: 190, transactions: 750, already: 40, slotMs: 200, addresses: 100_000}
/** For a quick run. */
const small: Chain = {...busy, blocks: 40, already: 40, addresses: 100_000}
const shareOfVotes = 0.6
/** One transaction that is no vote in this many pays an address of ours. */
const oursEvery = 20
const lanes = 5

const digest = (text: string) => createHash('sha256').update(text).digest()
const keyFor = (name: string) => toBase58(digest(name))
const ours = (n: number) => keyFor(`ours ${n}`)
const slotOf = (height: number) => height && height + Math.ceil(height / 19)

const votesIn = ({transactions}: Chain) => transactions * shareOfVotes

const followed = (chain: Chain): Followed => ({
  what: `Solana: ${chain.slotMs ? 'at the head, blocks' : `catch-up, ${chain.blocks} blocks`} of ${chain.transactions} transactions, ${votesIn(chain)} of them votes`,
  code,
  server: {file: import.meta.filename, args: [JSON.stringify(chain)]},
  blocks: chain.blocks,
  addresses: chain.addresses,
  address: ours,
  deposits: (chain.blocks * (chain.transactions - votesIn(chain))) / oursEvery,
  source(url) {
    const settings = solanaSettings(settingsFrom(code, {SOL_NETWORK: 'local', SOL_RPC_URL: url}))
    return new SolanaSource(new SolanaNodes(settings), {
      commitment: 'confirmed',
      codes: {native: code, tokens: new Map()},
    })
  },
  bare: url => bareLoop(url, chain),
})

export async function benchSolana(report: Report): Promise<void> {
  await benchFollowing(report, followed(busy))
  await benchAtHead(report, followed(head), head.already)
}

export const solanaCatchUp = (report: Report): Promise<void> => benchFollowing(report, followed(small))

/** The floor. */
async function bareLoop(url: string, {blocks}: Chain): Promise<void> {
  const ask = async (method: string, ...params: unknown[]) => {
    const body = JSON.stringify({jsonrpc: '2.0', id: 1, method, params})
    return (await fetch(url, {method: 'POST', body})).json()
  }
  const {result: slots} = (await ask('getBlocks', 1, slotOf(blocks))) as {result: number[]}
  const lane = async () => {
    for (let slot = slots.shift(); slot !== undefined; slot = slots.shift())
      await ask('getBlock', slot, {transactionDetails: 'accounts'})
  }
  await Promise.all(Array.from({length: lanes}, lane))
}

// The server
// ---------------------------------------------------------------------------------------------------------------------

const hashOf = (height: number) => (height ? keyFor(`block ${height}`) : genesisHash)
const voteProgram = 'Vote111111111111111111111111111111111111111'
const programs = Array.from({length: 40}, (_, n) => keyFor(`program ${n}`))
const validators = Array.from({length: votesIn(busy)}, (_, n) => [keyFor(`voter ${n}`), keyFor(`vote account ${n}`)])
const mints = Array.from({length: 20}, (_, n) => keyFor(`mint ${n}`))

function header(height: number): object {
  const below = Math.max(0, height - 1)
  return {
    blockHeight: height,
    blockTime: 1_790_000_000 + Math.floor(height / 2.5),
    blockhash: hashOf(height),
    parentSlot: slotOf(below),
    previousBlockhash: hashOf(below),
  }
}

interface Made {
  name: string
  keys: string[]
  before: number[]
  after: number[]
  tokens?: [before: object[], after: object[]]
}

function transactionOf({name, keys, before, after, tokens: [tokensBefore, tokensAfter] = [[], []]}: Made): object {
  const signature = toBase58(Buffer.concat([digest(`r ${name}`), digest(`s ${name}`)]))
  const accountKeys = keys.map((pubkey, i) => ({pubkey, signer: i === 0, source: 'transaction', writable: i < 12}))
  const meta = {
    err: null,
    fee: 5000,
    postBalances: after,
    postTokenBalances: tokensAfter,
    preBalances: before,
    preTokenBalances: tokensBefore,
    status: {Ok: null},
  }
  return {meta, transaction: {accountKeys, signatures: [signature]}, version: 0}
}

function vote(height: number, n: number): object {
  const [voter, account] = validators[n] as [string, string]
  const [before, after] = [26_858_640 + n, 26_853_640 + n]
  return transactionOf({
    name: `vote ${height} ${n}`,
    keys: [voter, account, voteProgram],
    before: [before, 27_074_400, 1],
    after: [after, 27_074_400, 1],
  })
}

/** As of an exchange of tokens: 20 keys, three of which have more coins than before, and four accounts of tokens. */
function exchange(n: number, addresses: number): object {
  const isOurs = n % oursEvery === 0
  const to = isOurs ? ours((n * 7919) % addresses) : keyFor(`stranger ${n}`)
  const accounts = Array.from({length: 9}, (_, i) => keyFor(`account ${n % 5000} ${i}`))
  const keys = [
    keyFor(`sender ${n % 20_000}`),
    to,
    ...accounts,
    ...Array.from({length: 9}, (_, i) => programs[(n + 3 * i) % 40]!),
  ]
  const before = keys.map((_, i) => (i < 11 ? 2_039_280 + 1_000_003 * (n + i) : 1_141_440))
  const gains = [-3_005_000, 1_000_000 + n, 1_000_000, 1_000_000 - n]
  const after = before.map((balance, i) => balance + (gains[i] ?? 0))
  const tokens = (change: number) =>
    [3, 4, 5, 6].map(accountIndex =>
      tokenBalance(n, accountIndex, 10_000_000 + n + (accountIndex % 2 ? change : -change)),
    )
  return transactionOf({name: `exchange ${n}`, keys, before, after, tokens: [tokens(0), tokens(777)]})
}

function tokenBalance(n: number, accountIndex: number, amount: number): object {
  return {
    accountIndex,
    mint: mints[(n + accountIndex) % 20],
    owner: keyFor(`owner ${(n + accountIndex) % 5000}`),
    programId: 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA',
    uiTokenAmount: {amount: String(amount), decimals: 6, uiAmount: amount / 1e6, uiAmountString: String(amount / 1e6)},
  }
}

function makeBlock(height: number, chain: Chain): string {
  const votes = votesIn(chain)
  const others = chain.transactions - votes
  const transactions = [
    ...Array.from({length: votes}, (_, n) => vote(height, n)),
    ...Array.from({length: others}, (_, i) => exchange((height - 1) * others + i + 1, chain.addresses)),
  ]
  return JSON.stringify({...header(height), transactions})
}

function serve(chain: Chain): void {
  const {blocks, already, slotMs} = chain
  const heights = Array.from({length: blocks + 1}, (_, height) => height)
  const whole = new Map(heights.map(height => [slotOf(height), height ? makeBlock(height, chain) : '']))
  const headers = new Map(heights.map(height => [slotOf(height), JSON.stringify(header(height))]))
  let began: number | undefined // with the first block that comes
  const newest = () => {
    if (!slotMs) return blocks
    began ??= performance.now()
    return Math.min(blocks, already + Math.floor((performance.now() - began) / slotMs))
  }
  const latest = (height: number) => ({
    context: {slot: slotOf(height)},
    value: {blockhash: hashOf(height), lastValidBlockHeight: height + 150},
  })
  const slots = [...headers.keys()]
  // biome-ignore lint/suspicious/noExplicitAny: each method has parameters of its own
  const answers: Record<string, (params: any[]) => string> = {
    getGenesisHash: () => JSON.stringify(genesisHash),
    getLatestBlockhash: () => JSON.stringify(latest(newest())),
    getFirstAvailableBlock: () => '0',
    getBlocks: ([from, to]) =>
      JSON.stringify(slots.filter(slot => slot >= from && slot <= to && slot <= slotOf(newest()))),
    getBlock: ([slot, {transactionDetails}]) => (transactionDetails === 'none' ? headers : whole).get(slot) ?? 'null',
  }
  // Its clients may rest for long between two requests.
  const server = createServer({keepAliveTimeout: 0}, async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const {id, method, params} = JSON.parse(body)
    const result = answers[method]!(params)
    response.setHeader('content-type', 'application/json').end(`{"jsonrpc":"2.0","id":${id},"result":${result}}`)
  })
  server.listen(0, '127.0.0.1', () => process.send?.({port: (server.address() as AddressInfo).port}))
  process.once('disconnect', () => process.exit(0))
}

if (import.meta.main) serve(JSON.parse(process.argv[3]!))
