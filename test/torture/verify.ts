// What must hold when everything is calm again, checked against the chains themselves: each function returns what is wrong, in words.

import type pg from 'pg'
import {encodeFunctionData, erc20Abi, type Hex, numberToHex} from 'viem'
import {z} from 'zod'
import {findChain} from '../../chains/registry.ts'
import {USDC_ADDRESS} from '../../devnet/constants.ts'
import type {LocalChainClient} from '../../devnet/evm.ts'
import type {Payer} from './payer.ts'
import type {Reader, Receiver} from './receiver.ts'
import type {ChainCode, Service} from './service.ts'
import type {Users} from './users.ts'

export interface Run {
  db: pg.Pool
  service: Service
  users: Users
  payers: Payer[]
  receiver: Receiver
  reader: Reader
}

export const checks: Record<string, (run: Run) => Promise<string[]>> = {
  'every deposit is what the chain has, and the chain has no other': depositsAreTheChains,
  'addresses hold what their deposits say': balancesOfAddresses,
  'blocks are those of the node': blocksAreTheNodes,
  'each change of a deposit has exactly one event': eventsAreTheHistory,
  'each event reached the receiver with the bytes that the API has': eventsArrived,
  'sequences follow visibility: who read forward has everything': nothingWasSkipped,
  'the API shows the balances that the chain implies': balancesOfTheMerchant,
  'the books agree, and nothing is left over': nothingIsLeft,
  'users keep their addresses': usersAreTheSame,
}

interface Row {
  id: string
  chain: ChainCode
  txid: string
  output_index: number
  token: string
  amount: string
  address: string
  block_height: number
  block_hash: string
  status: string
  credited: boolean
  version: number
}

const rowsOf = async ({db}: Run): Promise<Row[]> =>
  (await db.query<Row>('select * from app.deposit order by chain, txid, output_index')).rows

const show = (rows: Iterable<string>, why: string): string[] => [...rows].map(row => `${why}: ${row}`)

/** What stands in the one and not in the other. */
const missing = (inThese: Set<string>, from: Iterable<string>): string[] => [...from].filter(item => !inThese.has(item))

const Receipt = z.object({blockNumber: z.string(), blockHash: z.string(), status: z.string()}).nullable()

async function depositsAreTheChains(run: Run): Promise<string[]> {
  const truth = new Set<string>()
  const chainsOf = new Map(run.users.all.map(({address, chains}) => [address, chains]))
  for (const payer of run.payers) {
    const client = await payer.client()
    const supported = findChain(payer.chain)!.assets.map(({token}) => token)
    for (const {txid, moves} of payer.sent) {
      const receipt = Receipt.parse(await client.rpc('eth_getTransactionReceipt', [txid]))
      if (receipt?.status !== '0x1') continue
      for (const {outputIndex, token, amount, address} of moves) {
        const credited = supported.includes(token) && chainsOf.get(address)!.includes(payer.chain)
        const at = `${Number(receipt.blockNumber)} ${receipt.blockHash}`
        truth.add(
          `${payer.chain} ${txid} ${outputIndex} ${address} ${amount} ${token} in ${at}${credited ? ' credited' : ''}`,
        )
      }
    }
  }
  const rows = await rowsOf(run)
  const final = new Set(
    rows
      .filter(({status}) => status === 'final')
      .map(
        d =>
          `${d.chain} ${d.txid} ${d.output_index} ${d.address} ${d.amount} ${d.token} in ${d.block_height} ${d.block_hash}${d.credited ? ' credited' : ''}`,
      ),
  )
  return [
    ...show(missing(final, truth), 'on the chain, and no final deposit'),
    ...show(missing(truth, final), 'a final deposit, and not on the chain'),
    ...show(
      rows.filter(({status}) => status === 'pending').map(d => `${d.chain} ${d.txid}`),
      'still pending',
    ),
  ]
}

async function balancesOfAddresses(run: Run): Promise<string[]> {
  const wrong: string[] = []
  const sums = new Map<string, bigint>()
  for (const {status, chain, address, token, amount} of await rowsOf(run)) {
    const key = `${chain} ${address} ${token}`
    if (status === 'final') sums.set(key, (sums.get(key) ?? 0n) + BigInt(amount))
  }
  for (const payer of run.payers) {
    const client = await payer.client()
    const [native] = findChain(payer.chain)!.assets
    const usdc = payer.chain === 'ETH' ? 'USDC' : USDC_ADDRESS.toLowerCase()
    for (const {address} of run.users.all) {
      for (const [token, held] of [
        [native.token, await nativeBalance(client, address)],
        [usdc, await usdcBalance(client, address)],
      ] as const) {
        const counted = sums.get(`${payer.chain} ${address} ${token}`) ?? 0n
        if (held !== counted)
          wrong.push(`${address} holds ${held} of ${token} on ${payer.chain}, and its deposits are ${counted}`)
      }
    }
  }
  return wrong
}

async function nativeBalance(client: LocalChainClient, address: string): Promise<bigint> {
  return BigInt((await client.rpc('eth_getBalance', [address, 'latest'])) as Hex)
}

async function usdcBalance(client: LocalChainClient, address: string): Promise<bigint> {
  const data = encodeFunctionData({abi: erc20Abi, functionName: 'balanceOf', args: [address as Hex]})
  return BigInt((await client.rpc('eth_call', [{to: USDC_ADDRESS, data}, 'latest'])) as Hex)
}

const Block = z.object({hash: z.string()}).nullable()

async function blocksAreTheNodes({db, payers}: Run): Promise<string[]> {
  const wrong: string[] = []
  for (const payer of payers) {
    const client = await payer.client()
    const {rows} = await db.query<{height: number; hash: string}>(
      'select height, hash from chain.block where chain = $1 and height <= (select final_height from chain.cursor where chain = $1)',
      [payer.chain],
    )
    for (const {height, hash} of rows) {
      const block = Block.parse(await client.rpc('eth_getBlockByNumber', [numberToHex(height), false]))
      if (block?.hash !== hash) wrong.push(`block ${height} of ${payer.chain} is ${block?.hash}, and stored as ${hash}`)
    }
  }
  return wrong
}

interface Event {
  id: string
  type: string
  subject_id: string
  version: number
  sequence: string
  body: string
}

const eventsOf = async ({db}: Run): Promise<Event[]> =>
  (
    await db.query<Event>(
      `select app.public_id('evt', id) as id, type, subject_id, version, sequence, app.event_body(payload, sequence) as body
       from app.event order by position`,
    )
  ).rows

async function eventsAreTheHistory(run: Run): Promise<string[]> {
  const history = Map.groupBy(await eventsOf(run), ({subject_id}) => subject_id)
  return (await rowsOf(run)).flatMap(deposit => {
    const events = history.get(deposit.id) ?? []
    const told = events.map(({type}) => type.replace('deposit.', '')).join(' ')
    const shape =
      deposit.status === 'final' ? /^(pending reorged )*pending confirmed$/ : /^pending reorged( pending reorged)*$/
    const inOrder =
      events.every(({version}, i) => version === i + 1) && (!deposit.credited || events.length === deposit.version)
    const right = deposit.credited ? shape.test(told) && inOrder : told === ''
    return right ? [] : [`${deposit.chain} ${deposit.txid} ${deposit.output_index} (${deposit.status}): ${told}`]
  })
}

async function eventsArrived(run: Run): Promise<string[]> {
  const {service, receiver} = run
  const wrong = [...receiver.wrong]
  const pages = await allPages(service)
  const events = await eventsOf(run)
  for (const {id, type, body} of events) {
    if (!pages.text.includes(body)) wrong.push(`GET /v1/events does not show ${id} (${type}) as ${body}`)
    const received = receiver.bodies.get(id)
    if (received !== body) wrong.push(`${id} (${type}) arrived as ${received}, and is ${body}`)
  }
  const known = new Set(events.map(({id}) => id))
  wrong.push(...show(missing(known, receiver.bodies.keys()), 'received, and never an event'))
  if (pages.ids.length !== events.length)
    wrong.push(`GET /v1/events lists ${pages.ids.length} of ${events.length} events`)
  return wrong
}

const Page = z.object({
  events: z.array(z.object({id: z.string()})),
  next_cursor: z.string().nullable(),
})

async function allPages(service: Service): Promise<{ids: string[]; text: string}> {
  const ids: string[] = []
  let text = ''
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page: string = await service.call('GET', `/v1/events?limit=100${cursor && `&cursor=${cursor}`}`)
    const {events, next_cursor} = Page.parse(JSON.parse(page))
    ids.push(...events.map(({id}) => id))
    text += page
    cursor = next_cursor
  }
  return {ids, text}
}

async function nothingWasSkipped(run: Run): Promise<string[]> {
  await run.reader.readOn()
  const {events} = run.reader
  const wrong: string[] = []
  for (const [i, {sequence}] of events.entries())
    if (i > 0 && sequence <= events[i - 1]!.sequence)
      wrong.push(`sequence ${sequence} was read after ${events[i - 1]!.sequence}`)
  const read = new Set(events.map(({id}) => id))
  const all = new Set((await eventsOf(run)).map(({id}) => id))
  return [
    ...wrong,
    ...show(missing(read, all), 'skipped by who read forward'),
    ...show(missing(all, read), 'read, and gone'),
  ]
}

const Balances = z.object({
  balances: z.array(z.object({chain: z.string(), token: z.string(), gross: z.string(), depositCount: z.int()})),
})

async function balancesOfTheMerchant(run: Run): Promise<string[]> {
  const counted = new Map<string, {amount: bigint; count: number}>()
  for (const {status, credited, chain, token, amount} of await rowsOf(run)) {
    if (status !== 'final' || !credited) continue
    const sum = counted.get(`${chain} ${token}`) ?? {amount: 0n, count: 0}
    counted.set(`${chain} ${token}`, {amount: sum.amount + BigInt(amount), count: sum.count + 1})
  }
  const {balances} = Balances.parse(JSON.parse(await run.service.call('GET', '/v1/balances')))
  const shown = balances.map(({chain, token, gross, depositCount}) => `${chain} ${token} ${gross} ${depositCount}`)
  const implied = [...counted].map(([pair, {amount, count}]) => {
    const [chain, token] = pair.split(' ')
    const {decimals} = findChain(chain!)!.assets.find(asset => asset.token === token)!
    return `${pair} ${decimal(amount, decimals)} ${count}`
  })
  return `${shown.sort()}` === `${implied.sort()}` ? [] : [`shown ${shown}, and implied ${implied}`]
}

function decimal(amount: bigint, decimals: number): string {
  const digits = `${amount}`.padStart(decimals + 1, '0')
  return `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`.replace(/\.?0+$/, '')
}

async function nothingIsLeft({db}: Run): Promise<string[]> {
  const leftovers: Record<string, string> = {
    'balance_audit has a row': 'select * from app.balance_audit',
    'an open incident': 'select * from app.incident where resolved_at is null',
    'a halted chain': 'select chain from chain.cursor where halted_at is not null',
    'touched and not settled': 'select * from chain.touched union all select txn, chain, null from chain.touched_chain',
    'an event without sequence': 'select id from app.event where sequence is null',
    'a delivery that did not succeed': `select id, status from app.delivery where status <> 'delivered'`,
  }
  const wrong: string[] = []
  for (const [what, sql] of Object.entries(leftovers))
    wrong.push(...(await db.query(sql)).rows.map(row => `${what}: ${JSON.stringify(row)}`))
  return wrong
}

async function usersAreTheSame({users}: Run): Promise<string[]> {
  return (await users.changed()).map(({externalRef}) => `${externalRef} is another user, or has another address`)
}
