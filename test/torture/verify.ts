// What must hold when everything is calm again, compared with the chains: each function returns the errors, in words.

import {parseUnits} from 'viem'
import {z} from 'zod'
import {eventTypes, isOnlyIfAsked} from '../../base/event-types.ts'
import type {ChainCode} from '../../chains/registry.ts'
import {assetOf, assetsAreThoseOfTheSettings, inCoins} from './asset.ts'
import type {Merchant} from './merchant.ts'
import {reindexingChangesNothing} from './operator.ts'
import {type Run, truthOf} from './run.ts'
import {addressesAreOfOne, askedWasMade, receiptsAreNoDeposits, requestsAreTheChains} from './verify-payments.ts'
import {
  auditIsClean,
  ledgerIsTheChains,
  payoutsAreOver,
  payoutsOf,
  responsesStayedTrue,
  rulesOfTheChains,
  whatLeftWasPaidOut,
} from './verify-payouts.ts'

export const checks: Record<string, (run: Run) => Promise<string[]>> = {
  'assets are those of the settings, and have the decimals of their contracts': assetsAreThoseOfTheSettings,
  'every deposit is what the chain has, and the chain has no other': depositsAreTheChains,
  'blocks are those of the chain': blocksAreTheChains,
  'no deposit was reorged without a cause': reorgsHadCauses,
  'each payment request is what the chain has paid for it, and GET /payments has it': requestsAreTheChains,
  'each payment request was made once, as in the response to its merchant, and there are no others': askedWasMade,
  'each address belongs to one user or one payment request': addressesAreOfOne,
  'payments for payment requests are in no list of deposits': receiptsAreNoDeposits,
  'every payout is completed or failed': payoutsAreOver,
  'the same key gave the same payout and the same response, and each payout was requested': responsesStayedTrue,
  'each completed payout was paid once, its net to its address, and we paid nothing else': whatLeftWasPaidOut,
  'money that left user addresses is in the treasury or was paid out; all signatures were allowed; no deposit was invented':
    rulesOfTheChains,
  'the ledger has the balances of addresses and treasury, and the network fees': ledgerIsTheChains,
  'each change of a deposit and of a payment request, and the end of each payout, has exactly one event':
    eventsAreTheHistory,
  'each event reached the receiver with the bytes that the API has': eventsArrived,
  'reading events forward skips nothing': nothingWasSkipped,
  'the API shows the balances that deposits and payouts imply': balancesOfTheMerchants,
  'the books agree, and nothing is left over': nothingIsLeft,
  'reading every chain again changes nothing': reindexingChangesNothing,
  'sluice audit finds nothing': auditIsClean,
  'users keep their addresses': usersAreTheSame,
}

/** A deposit; transfers to the treasury are none. */
interface Row {
  id: string
  merchant_id: string
  /** Null for receipts of payment requests. */
  user_id: string | null
  settlement_id: string | null
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
  held_back: boolean
  version: number
}

const rowsOf = async ({db}: Run): Promise<Row[]> =>
  (await db.query<Row>('select * from app.deposit where merchant_id is not null order by chain, txid, output_index'))
    .rows

const show = (rows: Iterable<string>, why: string): string[] => [...rows].map(row => `${why}: ${row}`)

/** Items of one list that the other lacks. */
const missing = (inThese: Set<string>, from: Iterable<string>): string[] => [...from].filter(item => !inThese.has(item))

async function depositsAreTheChains(run: Run): Promise<string[]> {
  const truth = new Set<string>()
  for (const payer of run.payers) {
    const users = run.users.on(payer.chain)
    const requests = run.payments.on(payer.chain)
    const {deposits, blocks} = await truthOf(run, payer)
    for (const {txid, outputIndex, address, token, amount, height} of deposits) {
      const request = requests.get(address)
      const credited = request
        ? request.asset.chain === payer.chain && request.asset.token === token
        : assetOf(run.assets, payer.chain, token) && users.get(address)!.chains.includes(payer.chain)
      truth.add(
        `${payer.chain} ${txid} ${outputIndex} ${address} ${amount} ${token} in ${height} ${blocks.get(height)}${credited ? ' credited' : ''}`,
      )
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

async function blocksAreTheChains(run: Run): Promise<string[]> {
  const wrong: string[] = []
  for (const payer of run.payers) {
    const {blocks} = await truthOf(run, payer)
    const {rows} = await run.db.query<{height: number; hash: string}>(
      'select height, hash from chain.block where chain = $1 and height <= (select final_height from chain.cursor where chain = $1)',
      [payer.chain],
    )
    for (const {height, hash} of rows)
      if (height > 0 && height <= blocks.size && blocks.get(height) !== hash)
        wrong.push(`block ${height} of ${payer.chain} is ${blocks.get(height)}, and stored as ${hash}`)
  }
  return wrong
}

/** On Bitcoin, leaving a block and being mined again in time is none. */
async function reorgsHadCauses(run: Run): Promise<string[]> {
  const {rows} = await run.db.query<{chain: string; txid: string}>(
    `select d.chain, d.txid from app.deposit d join app.event e on e.subject_id = d.id where e.type = 'deposit.reorged' group by 1, 2`,
  )
  return rows
    .filter(({chain, txid}) => !run.payers.find(payer => payer.chain === chain)!.mayBeReorged(txid))
    .map(({chain, txid}) => `${chain} ${txid} was never lost`)
}

interface Event {
  id: string
  merchant_id: string
  type: string
  subject_id: string
  version: number
  sequence: string
  body: string
}

const eventsOf = async ({db}: Run): Promise<Event[]> =>
  (
    await db.query<Event>(
      `select app.public_id('evt', id) as id, merchant_id, type, subject_id, version, sequence, app.event_body(payload, sequence) as body
       from app.event order by position`,
    )
  ).rows

async function eventsAreTheHistory(run: Run): Promise<string[]> {
  const history = Map.groupBy(await eventsOf(run), ({subject_id}) => subject_id)
  const ofDeposits = (await rowsOf(run)).flatMap(deposit => {
    const events = history.get(deposit.id) ?? []
    const told = events.map(({type}) => type.replace('deposit.', '')).join(' ')
    const shape =
      deposit.status === 'final' ? /^(pending reorged )*pending confirmed$/ : /^pending reorged( pending reorged)*$/
    const inOrder =
      events.every(({version}, i) => version === i + 1) && (!deposit.credited || events.length === deposit.version)
    const right = deposit.credited && deposit.user_id ? shape.test(told) && inOrder : told === ''
    return right ? [] : [`${deposit.chain} ${deposit.txid} ${deposit.output_index} (${deposit.status}): ${told}`]
  })
  const {rows: payouts} = await run.db.query<{id: string; status: string}>('select id, status from app.payout')
  const ofPayouts = payouts.flatMap(({id, status}) => {
    const told = (history.get(id) ?? []).map(({type}) => type).join(' ')
    return told === `payout.${status}` ? [] : [`payout ${id} is ${status}, and its events are: ${told}`]
  })
  const {rows: requests} = await run.db.query<{id: string; external_id: string; status: string}>(
    'select id, external_id, status from app.payment_request',
  )
  const ofRequests = requests.flatMap(({id, external_id, status}) => {
    const events = history.get(id) ?? []
    const kinds = events.map(({type}) => type.replace('payment_request.', ''))
    const last = kinds.filter(kind => kind !== 'partially_paid').at(-1) ?? 'awaiting'
    const isLast = last === status || (last === 'reopened' && status !== 'paid')
    const right = isLast && events.every(({version}, i) => version === i + 1)
    return right ? [] : [`payment request ${external_id} is ${status}, and its events are: ${kinds.join(' ')}`]
  })
  return [...ofDeposits, ...ofPayouts, ...ofRequests]
}

async function eventsArrived(run: Run): Promise<string[]> {
  const all = await eventsOf(run)
  return (
    await Promise.all(
      run.merchants.map(merchant =>
        eventsArrivedAt(
          merchant,
          all.filter(({merchant_id}) => merchant_id === merchant.id),
        ),
      ),
    )
  ).flat()
}

async function eventsArrivedAt(merchant: Merchant, events: Event[]): Promise<string[]> {
  const {receiver} = merchant
  const wrong = [...receiver.wrong]
  const pages = await allPages(merchant)
  for (const {id, type, body} of events) {
    if (!pages.text.includes(body)) wrong.push(`GET /v1/events does not show ${id} (${type}) as ${body}`)
    const received = receiver.bodies.get(id)
    if (received !== body) wrong.push(`${id} (${type}) arrived as ${received}, and is ${body}`)
  }
  const known = new Set(events.map(({id}) => id))
  wrong.push(
    ...show(missing(known, receiver.bodies.keys()), `received by ${merchant.prefix}, and never an event of it`),
  )
  if (pages.ids.length !== events.length)
    wrong.push(`GET /v1/events of ${merchant.prefix} lists ${pages.ids.length} of ${events.length} events`)
  return wrong
}

const Page = z.object({
  events: z.array(z.object({id: z.string()})),
  next_cursor: z.string().nullable(),
})

async function allPages(merchant: Merchant): Promise<{ids: string[]; text: string}> {
  const ids: string[] = []
  let text = ''
  for (const type of ['', ...eventTypes.filter(isOnlyIfAsked).map(type => `&type=${type}`)])
    for (let cursor: string | null = ''; cursor !== null; ) {
      const page: string = await merchant.call('GET', `/v1/events?limit=100${type}${cursor && `&cursor=${cursor}`}`)
      const {events, next_cursor} = Page.parse(JSON.parse(page))
      ids.push(...events.map(({id}) => id))
      text += page
      cursor = next_cursor
    }
  return {ids, text}
}

async function nothingWasSkipped(run: Run): Promise<string[]> {
  const all = await eventsOf(run)
  const wrong: string[] = []
  for (const reader of run.readers) {
    await reader.readOn()
    const {events, merchant} = reader
    for (const [i, {sequence}] of events.entries())
      if (i > 0 && sequence <= events[i - 1]!.sequence)
        wrong.push(`sequence ${sequence} was read after ${events[i - 1]!.sequence}`)
    const read = new Set(events.map(({id}) => id))
    const isIts = ({merchant_id, type}: Event) =>
      merchant_id === merchant.id && (reader.type ? type === reader.type : !isOnlyIfAsked(type))
    const its = new Set(all.filter(isIts).map(({id}) => id))
    wrong.push(
      ...show(missing(read, its), 'skipped when read forward'),
      ...show(missing(its, read), 'read, but deleted or of another merchant'),
    )
  }
  return wrong
}

const Balances = z.object({
  balances: z.array(
    z.object({
      ...{chain: z.string(), token: z.string(), depositCount: z.int()},
      ...{gross: z.string(), fee: z.string(), net: z.string(), held_back: z.string()},
    }),
  ),
})

/** Received amounts, less those paid out; what is held back of them, and no payout has. */
async function balancesOfTheMerchants(run: Run): Promise<string[]> {
  const rows = await rowsOf(run)
  return (await Promise.all(run.merchants.map(merchant => balancesOf(run, merchant, rows)))).flat()
}

async function balancesOf({assets}: Run, merchant: Merchant, rows: Row[]): Promise<string[]> {
  const counted = new Map<string, {amount: bigint; count: number}>()
  const add = (pair: string, amount: bigint, count: number) => {
    const sum = counted.get(pair) ?? {amount: 0n, count: 0}
    counted.set(pair, {amount: sum.amount + amount, count: sum.count + count})
  }
  for (const {merchant_id, status, credited, chain, token, amount, settlement_id} of rows)
    if (status === 'final' && credited && merchant_id === merchant.id)
      add(`${chain} ${token}`, BigInt(amount), settlement_id === null ? 1 : 0)
  for (const {status, chain, token, gross} of await payoutsOf(merchant))
    if (status === 'completed') add(`${chain} ${token}`, -parseUnits(gross, assetOf(assets, chain, token)!.decimals), 0)
  const {balances} = Balances.parse(JSON.parse(await merchant.call('GET', '/v1/balances')))
  const shown = balances.map(({chain, token, gross, depositCount}) => `${chain} ${token} ${gross} ${depositCount}`)
  const implied = [...counted].flatMap(([pair, {amount, count}]) => {
    const [chain = '', token = ''] = pair.split(' ')
    return amount === 0n && count === 0 ? [] : [`${pair} ${inCoins(assets, chain, token, amount)} ${count}`]
  })
  const wrong = balances.filter(({chain, token, gross, fee, net, held_back}) => {
    const units = (amount: string) => parseUnits(amount, assetOf(assets, chain, token)!.decimals)
    const heldBack = rows.filter(
      row => row.merchant_id === merchant.id && row.held_back && row.chain === chain && row.token === token,
    )
    const sum = heldBack.reduce((sum, {amount}) => sum + BigInt(amount), 0n)
    return units(gross) !== units(fee) + units(net) + units(held_back) || units(held_back) !== sum
  })
  return [
    ...wrong.map(balance => `the parts of a balance of ${merchant.prefix} do not add up: ${JSON.stringify(balance)}`),
    ...(`${shown.sort()}` === `${implied.sort()}`
      ? []
      : [`the balances of ${merchant.prefix} are shown as ${shown}, and implied as ${implied}`]),
  ]
}

async function nothingIsLeft({db}: Run): Promise<string[]> {
  const leftovers: Record<string, string> = {
    'balance_audit has a row': 'select * from app.balance_audit',
    'ledger_audit has a row': 'select * from app.ledger_audit',
    'an outgoing payment that is not final': `select * from app.outgoing_payment where status <> 'final'`,
    'a claim that is not allocated': 'select * from app.claim where finished_at is null',
    'a deposit of a failed payout': `select d.id from app.deposit d join app.payout p on p.id = d.settlement_id where p.status = 'failed'`,
    'a reservation without a purpose': 'select * from app.treasury where reserved <> 0',
    'an open incident': 'select * from app.incident where resolved_at is null',
    'a halted chain': 'select chain from chain.cursor where halted_at is not null',
    'touched and not derived': 'select * from chain.touched union all select txn, chain, null from chain.touched_chain',
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
