// Catching up with a Tron chain: blocks/s through the real indexer code (blocks and what came of their transactions,
// checked, with their ids and roots, matched in SQL against 1,000,000 or 100,000 addresses, written and committed by
// the loop) over requesting the same from the same server, and parsing the JSON. The server is a process of its own,
// which has each response ready after the first time: node bench/tron.ts serve <chain>.
import {createHash} from 'node:crypto'
import {createServer} from 'node:http'
import type {AddressInfo} from 'node:net'
import {settingsFrom} from '../chains/settings.ts'
import {addressOf} from '../chains/tron/address.ts'
import {blockId, type Header, txTrieRoot} from '../chains/tron/block.ts'
import {TronNodes} from '../chains/tron/client.ts'
import {tronSettings} from '../chains/tron/settings.ts'
import {reference, transactionOf, transferData} from '../chains/tron/transaction.ts'
import {answer} from '../devnet/tron/api.ts'
import {TronLocalChain} from '../devnet/tron/chain.ts'
import {genesis} from '../devnet/tron/constants.ts'
import {type LocalBlock, TronJournal} from '../devnet/tron/journal.ts'
import {TronSource} from '../indexers/tron/source.ts'
import {benchFollowing, inWords, type MadeChain} from './follow.ts'
import type {Report} from './result.ts'

const code = 'TRON'
/** One transaction in this many pays an address of ours. */
const oursEvery = 50
const perRequest = 20
const lanes = 5

const digest = (text: string) => createHash('sha256').update(text).digest()
const addressFor = (name: string) => addressOf(Uint8Array.of(0x41, ...digest(name).subarray(0, 20)))
const ours = (n: number) => addressFor(`ours ${n}`)

export async function benchTron(report: Report): Promise<void> {
  await tronCatchUp(report, {blocks: 2000, perBlock: 5, addresses: 1_000_000})
  await tronCatchUp(report, {blocks: 300, perBlock: 150, addresses: 100_000})
}

export async function tronCatchUp(report: Report, chain: MadeChain): Promise<void> {
  const {blocks, perBlock, addresses} = chain
  await benchFollowing(report, {
    what: `Tron: catch-up, ${inWords(chain)}`,
    code,
    server: {file: import.meta.filename, args: [JSON.stringify(chain)]},
    blocks,
    addresses,
    address: ours,
    deposits: Math.floor((blocks * perBlock) / oursEvery),
    source(url) {
      const settings = tronSettings(settingsFrom(code, {TRON_NETWORK: 'local', TRON_RPC_URL: url}))
      return new TronSource(new TronNodes(settings), settings, async ({height}) => {
        throw new Error(`block ${height} has another root`)
      })
    },
    bare: url => bareLoop(url, blocks),
  })
}

/** The floor. */
async function bareLoop(url: string, blocks: number): Promise<void> {
  const ask = async (path: string, body: object) =>
    (await fetch(`${url}/wallet/${path}`, {method: 'POST', body: JSON.stringify(body)})).json()
  let next = 1
  const lane = async () => {
    while (next <= blocks) {
      const from = next
      next += perRequest
      const {block} = (await ask('getblockbylimitnext', {startNum: from, endNum: from + perRequest})) as {
        block: object[]
      }
      for (const [n] of block.entries()) await ask('gettransactioninfobyblocknum', {num: from + n})
    }
  }
  await Promise.all(Array.from({length: lanes}, lane))
}

// The server
// ---------------------------------------------------------------------------------------------------------------------

/** Payments are not executed, so their signatures are any bytes; ids and roots are true. */
function makeBlock(parent: LocalBlock, {perBlock, addresses}: MadeChain): LocalBlock {
  const height = parent.header.height + 1
  const time = Date.UTC(2026, 0, 1) + 3000 * height
  const transactions = Array.from({length: perBlock}, (_, i) => {
    const n = (height - 1) * perBlock + i + 1
    const to = n % oursEvery ? addressFor(`stranger ${n}`) : ours((n * 7919) % addresses)
    const frame = {...reference(parent.header.height, parent.hash), expiration: time + 60_000, timestamp: time + i}
    const data = transferData(frame, {from: addressFor(`sender ${n % 1000}`), to, amount: 1_000_000n + BigInt(n)})
    const signature = Buffer.concat([digest(`r ${n}`), digest(`s ${n}`), Uint8Array.of(27)])
    const executed = {fee: 0n, bandwidth: {usage: 265, fee: 0n}}
    return {transaction: transactionOf(data, [signature], 'SUCCESS'), executed}
  })
  const header: Header = {
    ...genesis,
    height,
    parentHash: parent.hash,
    time,
    txTrieRoot: txTrieRoot(transactions.map(({transaction}) => transaction)),
  }
  return {hash: blockId(header), header, transactions}
}

function serve(made: MadeChain): void {
  const journal = new TronJournal(':memory:', code)
  const chain = new TronLocalChain(journal, 0)
  let parent = chain.block(0)
  for (let i = 0; i < made.blocks; i++) {
    parent = makeBlock(parent, made)
    journal.commit([{block: parent}])
  }
  const ready = new Map<string, string>()
  // Its clients may rest for long between two requests.
  const server = createServer({keepAliveTimeout: 0}, async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const asked = `${request.url} ${body}`
    const text = ready.get(asked) ?? JSON.stringify(answer(chain, request.url!, body))
    ready.set(asked, text)
    response.setHeader('content-type', 'application/json').end(text)
  })
  server.listen(0, '127.0.0.1', () => process.send?.({port: (server.address() as AddressInfo).port}))
  process.once('disconnect', () => process.exit(0))
}

if (import.meta.main) serve(JSON.parse(process.argv[3]!))
