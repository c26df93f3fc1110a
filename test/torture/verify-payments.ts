// What must hold of payment requests when everything is calm again and all of them have expired: compared with the
// chains' payments to their addresses, and with the API's responses. Each function returns the errors, in words.
import {formatUnits} from 'viem'
import {z} from 'zod'
import type {Merchant} from './merchant.ts'
import {pathOf, type Requested} from './payments.ts'
import {type Run, truthOf} from './run.ts'
import type {Came} from './truth.ts'

/** A replacing block may have the time of the replaced one: a payment may be in a block from before it was made. */
const toleranceMs = 10_000

const common = {
  external_id: z.string(),
  currency: z.string(),
  amount: z.string(),
  status: z.string(),
  amount_received: z.string(),
  late: z.boolean(),
  txid: z.string().nullable(),
  paid_at: z.string().nullable(),
}
const State = z.object({
  data: z.object({
    ...common,
    address: z.string(),
    amount_pending: z.string(),
    receipts: z.array(
      z.object({
        txid: z.string(),
        output_index: z.int(),
        amount: z.string(),
        status: z.string(),
        late: z.boolean(),
        settlement_id: z.string().nullable(),
      }),
    ),
  }),
})
type State = z.infer<typeof State>['data']

const Payment = z.object({
  ...common,
  settlement_id: z.string().nullable(),
  settlement: z.looseObject({status: z.string()}).nullable(),
})
type Payment = z.infer<typeof Payment>
const Payments = z.object({data: z.array(Payment), next_cursor: z.string().nullable()})

// --- their outcome ---

export async function requestsAreTheChains(run: Run): Promise<string[]> {
  const came = await receiptsOfTheChains(run)
  const smallest = await smallestOf(run)
  const wrong: string[] = []
  for (const merchant of run.merchants) {
    const listed = await paymentsOf(merchant)
    const states = new Map<string, State>()
    for (const request of run.payments.all.filter(each => each.merchant === merchant)) {
      const state = State.parse(JSON.parse(await merchant.call('GET', pathOf(request.externalId)))).data
      states.set(request.externalId, state)
      const least = smallest.get(request.asset.name)!
      wrong.push(...differences(request, state, came.get(request) ?? [], least))
    }
    wrong.push(...wrongInTheList(listed, states))
  }
  return wrong
}

/** The payments to the address of each in its token on its chain. */
async function receiptsOfTheChains(run: Run): Promise<Map<Requested, Came[]>> {
  const came = new Map<Requested, Came[]>()
  for (const payer of run.payers) {
    const requests = run.payments.on(payer.chain)
    for (const deposit of (await truthOf(run, payer)).deposits) {
      const request = requests.get(deposit.address)
      if (request?.asset.chain !== payer.chain || request.asset.token !== deposit.token) continue
      came.set(request, [...(came.get(request) ?? []), deposit])
    }
  }
  return came
}

/** By the name of the asset: less is no payment. */
async function smallestOf({db}: Run): Promise<Map<string, bigint>> {
  const {rows} = await db.query<{name: string; least: string}>('select name, min_payment as least from app.asset')
  return new Map(rows.map(({name, least}) => [name, BigInt(least)]))
}

function differences(request: Requested, state: State, came: Came[], smallest: bigint): string[] {
  const {externalId, asset, coins, address, amount, tolerance} = request
  const {name: currency, decimals} = asset
  const received = came.reduce((sum, each) => sum + each.amount, 0n)
  const show = (units: bigint) => formatUnits(units, decimals)
  const missing = amount - received
  const isEnough = missing <= tolerance || (missing < smallest && missing <= amount / 100n)
  const status = isEnough ? 'paid' : received >= smallest ? 'underpaid' : 'expired'
  const wrong: string[] = []
  const compare = (what: string, shown: unknown, real: unknown) => {
    if (shown !== real) wrong.push(`${externalId} (${currency}): ${what} is shown as ${shown}, and is ${real}`)
  }
  compare('currency', state.currency, currency)
  compare('address', state.address, address)
  compare('amount', state.amount, coins)
  compare('status', state.status, status)
  compare('amount_received', state.amount_received, show(received))
  compare('amount_pending', state.amount_pending, '0')
  compare(
    'late',
    state.late,
    state.receipts.some(({late}) => late),
  )
  compare('being paid at some time', state.paid_at !== null, status === 'paid')
  const shown = state.receipts.map(each => `${each.txid} ${each.output_index} ${each.amount} ${each.status}`)
  const real = came.map(each => `${each.txid} ${each.outputIndex} ${show(each.amount)} final`)
  compare('what came', `${shown.sort()}`, `${real.sort()}`)
  compare('its txid', state.txid === null ? came.length === 0 : came.some(({txid}) => txid === state.txid), true)
  for (const each of came) {
    const late = isLate(request, each)
    const receipt = state.receipts.find(it => it.txid === each.txid && it.output_index === each.outputIndex)
    if (late !== undefined && receipt) compare(`late of ${each.txid}`, receipt.late, late)
  }
  return wrong
}

/**
 * Undefined if it was made in time and mined later, or nearly so: the result depends on when it was seen, and on lost
 * blocks.
 */
function isLate({expiresAt}: Requested, {minedAt, madeAt}: Came): boolean | undefined {
  if (minedAt <= expiresAt) return false
  return madeAt !== undefined && madeAt > expiresAt + toleranceMs ? true : undefined
}

/** Exactly the requests that were paid, fully or in part, each once, and consistent with the other lists. */
function wrongInTheList(listed: Payment[], states: Map<string, State>): string[] {
  const told = new Set<string>()
  const wrong: string[] = []
  for (const payment of listed) {
    const {settlement_id, settlement, ...rest} = payment
    const state = states.get(payment.external_id)
    if (told.has(payment.external_id)) wrong.push(`GET /payments has ${payment.external_id} twice`)
    told.add(payment.external_id)
    if (!state || JSON.stringify(rest) !== JSON.stringify(z.object(common).parse(state)))
      wrong.push(`GET /payments has ${JSON.stringify(payment)}, which is ${JSON.stringify(state)}`)
    const collectors = state?.receipts.map(receipt => receipt.settlement_id) ?? []
    const isRight = collectors.includes(null)
      ? settlement_id === null && settlement === null
      : collectors.includes(settlement_id) && settlement?.status === 'completed'
    if (!isRight) wrong.push(`${payment.external_id} is settled by ${settlement_id}, and its receipts by ${collectors}`)
  }
  for (const {external_id, status} of states.values())
    if (!told.has(external_id) && (status === 'paid' || status === 'underpaid'))
      wrong.push(`GET /payments does not have ${external_id}, which is ${status}`)
  return wrong
}

async function paymentsOf(merchant: Merchant): Promise<Payment[]> {
  const all: Payment[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page = await merchant.call('GET', `/payments?limit=20${cursor && `&cursor=${cursor}`}`)
    const {data, next_cursor} = Payments.parse(JSON.parse(page))
    all.push(...data)
    cursor = next_cursor
  }
  return all
}

// --- their contents ---

export async function askedWasMade({db, payments}: Run): Promise<string[]> {
  const {rows} = await db.query<{external_id: string; chain: string; token: string; amount: string}>(
    'select external_id, chain, token, amount from app.payment_request',
  )
  const real = rows.map(row => `${row.external_id} over ${row.amount} ${row.token} on ${row.chain}`).sort()
  const asked = payments.all
    .map(({externalId, amount, asset: {token, chain}}) => `${externalId} over ${amount} ${token} on ${chain}`)
    .sort()
  return [
    ...payments.wrong,
    ...asked.filter((request, i) => request === asked[i - 1]).map(request => `made twice: ${request}`),
    ...asked
      .filter(request => !real.includes(request))
      .map(request => `in a response, and not in the database: ${request}`),
    ...real
      .filter(request => !asked.includes(request))
      .map(request => `in the database, and in no response: ${request}`),
  ]
}

export async function addressesAreOfOne({users, payments}: Run): Promise<string[]> {
  const owners = new Map<string, string>()
  const wrong: string[] = []
  const note = (address: string, owner: string) => {
    if (owners.has(address)) wrong.push(`${address} is of ${owners.get(address)} and of ${owner}`)
    owners.set(address, owner)
  }
  for (const {addresses, externalRef} of users.all) for (const address of addresses.values()) note(address, externalRef)
  for (const {address, externalId} of payments.all) note(address, externalId)
  return wrong
}

const Deposits = z.object({
  deposits: z.array(z.object({id: z.string(), address: z.string()})),
  next_cursor: z.string().nullable(),
})

export async function receiptsAreNoDeposits({merchants, payments}: Run): Promise<string[]> {
  const theirs = new Set(payments.all.map(({address}) => address))
  const wrong: string[] = []
  for (const merchant of merchants)
    for (let cursor: string | null = ''; cursor !== null; ) {
      const page = await merchant.call('GET', `/v1/deposits?limit=200${cursor && `&cursor=${cursor}`}`)
      const {deposits, next_cursor} = Deposits.parse(JSON.parse(page))
      for (const {id, address} of deposits)
        if (theirs.has(address)) wrong.push(`GET /v1/deposits of ${merchant.prefix} has ${id}, of a payment request`)
      cursor = next_cursor
    }
  return wrong
}
