// Payment requests from the POST to the payout, in a whole service on local chains whose processes are killed
// meanwhile. The status of each matches the chain, and custody moves their money like any other.
import {execFile} from 'node:child_process'
import {promisify} from 'node:util'
import {decode} from 'bip21'
// @ts-expect-error it has no types
import {parse} from 'eth-url-parser'
import pg from 'pg'
import type {Page} from 'playwright-core'
import {formatUnits, parseUnits} from 'viem'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {eventTypes} from '../../base/event-types.ts'
import {readProcesses, type Service} from '../../base/home.ts'
import {chain as registered} from '../../chains/registry.ts'
import {newWallet, openChains} from '../../demo/chains.ts'
import type {LocalClient} from '../../devnet/client.ts'
import {accounts, chainIds} from '../../devnet/evm/constants.ts'
import {tokens} from '../../devnet/evm/tokens.ts'
import {hasChromium, launchChromium} from '../support/chromium.ts'
import {program} from '../support/command-line.ts'
import {idOf} from '../support/people.ts'
import {kill, newHome, removeHome} from '../support/processes.ts'
import {readQr} from '../support/qr.ts'
import {type Started, sluice, start, withoutDashboard} from '../support/service.ts'
import {until} from '../support/until.ts'
import {startReceiver} from '../support/webhooks.ts'

const timeoutMs = 120_000
const assets = {
  ETH: {chain: 'ETH', token: 'ETH'},
  'ETH-USDC': {chain: 'ETH', token: 'USDC'},
  'ETH-EURC': {chain: 'ETH', token: 'EURC'},
  POL: {chain: 'POLYGON', token: 'POL'},
  'POLYGON-JPYC': {chain: 'POLYGON', token: 'JPYC'},
  BTC: {chain: 'BTC', token: 'BTC'},
} as const
type Currency = keyof typeof assets

interface Request {
  external_id: string
  currency: Currency
  address: string
  amount: string
  payment_url: string
}

const followed = ['ETH', 'POLYGON', 'BTC', 'TRON'] as const
type ChainCode = (typeof followed)[number]

let home: string
let running: Started & {service: Service}
let db: pg.Pool
let secret: string
let chains: Record<ChainCode, LocalClient>
let wallet: Record<ChainCode, string>
let paid: (Request & {txid: string})[]
/** Paid first, so that they are final when their tests run: with nothing, too little, and the wrong token. */
let forgotten: Request
let short: Request
let mistaken: Request
/** A token that the service supports on ETH only, paid on POLYGON. */
let foreign: string

beforeAll(async () => {
  home = newHome()
  const settings = {
    SLUICE_DEVNET: followed.join(','),
    INDEXERS: 'apart',
    RATE_LIMIT_PER_MINUTE: '100000',
    WEBHOOK_ALLOW_PRIVATE: '1',
  }
  running = await start(home, settings, withoutDashboard)
  db = new pg.Pool({connectionString: running.service.database_url, max: 1})
  chains = await openChains(home, followed)
  wallet = newWallet(chains)
  await sluice(home, 'merchant', 'create', '--name', 'Acme', '--prefix', 'acme', '--fee-bps', '100')
  secret = (await sluice(home, 'key', 'create', '--merchant', 'acme')).secret
  for (const chain of ['ETH', 'POLYGON', 'BTC'] as const) {
    await call('PUT', '/v1/payout-address', {chain, address: wallet[chain]})
    await sluice(home, 'whitelist', 'add', '--merchant', 'acme', '--chain', chain, '--address', wallet[chain])
  }
  ;[forgotten, short, mistaken] = [await request('BTC', '1'), await request('POL', '3'), await request('ETH', '1')]
  await send(short, '2')
  await chains.ETH.send({token: 'USDC', to: mistaken.address, amount: '5'})
  foreign = await chains.POLYGON.send({token: 'EURC', to: short.address, amount: '7'})
})

afterAll(async () => {
  await db?.end()
  await removeHome(home)
})

// biome-ignore lint/suspicious/noExplicitAny: the tests say what they expect of it
async function call(method: string, route: string, body?: unknown): Promise<any> {
  const response = await fetch(running.service.api_url + route, {
    method,
    headers: {'x-api-key': secret, authorization: `Bearer ${secret}`, 'content-type': 'application/json'},
    ...(body !== undefined && {body: JSON.stringify(body)}),
  })
  const parsed = await response.json()
  expect(response.status, `${method} ${route}: ${JSON.stringify(parsed)}`).toBeLessThan(300)
  return parsed
}

let requests = 0

async function request(currency: Currency, amount: string, more: object = {}): Promise<Request> {
  const external_id = `acme-${++requests}`
  const {code, data} = await call('POST', `/v1/${currency}/payment-request`, {external_id, amount, ...more})
  expect({code, data}).toMatchObject({code: 200, data: {external_id, currency, amount}})
  return data
}

async function send({currency, address}: Request, amount: string): Promise<string> {
  const {chain, token} = assets[currency]
  return await chains[chain].transfer({token, to: address, amount})
}

const stateOf = async ({external_id}: Request) => (await call('GET', `/v1/payment-requests/${external_id}`)).data
const paymentOf = async ({external_id}: Request) => (await call('GET', `/payments?external_id=${external_id}`)).data[0]

/** Waits for this status, and returns the request. A chain that is named mines meanwhile: its own blocks are slow. */
async function becomes(it: Request, status: string, mines?: ChainCode) {
  return await until(
    async () => {
      if (mines) await chains[mines].mine()
      const state = await stateOf(it)
      return state.status === status && state
    },
    {timeoutMs, what: `${it.external_id} (${it.currency}) to be ${status}`, intervalMs: mines ? 300 : 25},
  )
}

/** Ends their time; resolves to the seconds that the worker took to decide about them. */
async function expire(these: Request[]): Promise<number> {
  const ids = [these.map(({external_id}) => external_id)]
  // Two seconds ago: the time of a block is in whole seconds, and what it holds must be late.
  const ago = `clock_timestamp() - interval '2 seconds'`
  await db.query(
    `update app.payment_request set expires_at = ${ago}, decide_at = ${ago} where external_id = any($1)`,
    ids,
  )
  const seconds = `select max(extract(epoch from expired_at - expires_at))::float as seconds
    from app.payment_request where external_id = any($1) having bool_and(expired_at is not null)`
  return await until(async () => (await db.query<{seconds: number}>(seconds, ids)).rows[0]?.seconds, {
    timeoutMs,
    what: 'the requests to expire',
  })
}

function unitsOf(amount: string, currency: Currency): bigint {
  const {chain, token} = assets[currency]
  return parseUnits(amount, chains[chain].asset(token).decimals)
}

/** With SIGKILL; the supervisor restarts them. */
function killAll(...names: string[]): void {
  const living = new Map(readProcesses(home).map(({name, pid}) => [name, pid]))
  for (const name of names) kill(living.get(name)!, 'SIGKILL')
}

test('a payment is detected, final, and shown with its exact amount, although indexers and the worker are killed', async () => {
  const amounts: Record<Currency, string> = {
    ETH: '0.250000000000000001',
    'ETH-USDC': '12.345678',
    'ETH-EURC': '98765.432109',
    POL: '40.5',
    'POLYGON-JPYC': '12345678901.000000000000000001', // far more base units than 2^64
    BTC: '0.01234567',
  }
  const currencies = Object.keys(amounts) as Currency[]
  const made = await Promise.all(currencies.map(currency => request(currency, amounts[currency])))
  for (const each of made)
    expect(await stateOf(each)).toMatchObject({...each, status: 'awaiting', amount_received: '0', receipts: []})
  const pay = async (each: Request) => ({...each, txid: await send(each, each.amount)})
  paid = []
  for (const each of made) paid.push(await pay(each))
  killAll('indexer-eth', 'indexer-polygon', 'indexer-btc', 'jobs')
  for (const each of paid) {
    const {txid, amount} = each
    const {receipts} = await becomes(each, 'paid')
    expect(receipts).toMatchObject([{txid, amount, status: 'final', late: false, settlement_id: null}])
    expect(await paymentOf(each)).toMatchObject({
      external_id: each.external_id,
      currency: each.currency,
      amount,
      amount_received: amount,
      status: 'paid',
      late: false,
      txid,
      settlement_id: null,
      settlement: null,
    })
  }
  expect((await call('GET', '/v1/deposits')).deposits).toEqual([])
  expect((await call('GET', '/v1/events')).events).toEqual([])
})

test('a payment that a reorganisation removes counts no more, and counts again when it is back', async () => {
  const it = await request('ETH', '0.5')
  const client = chains.ETH
  const payer = accounts[1]!
  const raw = await payer.signTransaction({
    type: 'eip1559',
    chainId: chainIds.ETH,
    nonce: Number(await client.rpc('eth_getTransactionCount', [payer.address, 'pending'])),
    gas: 21_000n,
    maxFeePerGas: 10n ** 11n,
    maxPriorityFeePerGas: 10n ** 9n,
    to: it.address as `0x${string}`,
    value: 5n * 10n ** 17n,
  })
  const txid = await client.submit(raw)
  const {receipts} = await becomes(it, 'detected')
  expect(receipts).toMatchObject([{txid, amount: '0.5', status: 'pending'}])
  await client.reorg(receipts[0].confirmations + 1)
  expect(await becomes(it, 'awaiting')).toMatchObject({amount_pending: '0', receipts: []})
  expect(await paymentOf(it)).toBeUndefined()
  await client.submit(raw)
  expect(await becomes(it, 'paid')).toMatchObject({txid, amount_received: '0.5', amount_pending: '0'})
})

test('a request expires within seconds, underpaid if some money came; later money counts, and is shown as late', async () => {
  expect(await expire([forgotten, short, mistaken])).toBeLessThan(10)
  expect(await stateOf(forgotten)).toMatchObject({status: 'expired', amount_received: '0', late: false})
  expect(await paymentOf(forgotten)).toBeUndefined()
  expect(await paymentOf(short)).toMatchObject({
    status: 'underpaid',
    amount: '3',
    amount_received: '2',
    late: false,
    paid_at: null,
  })
  const txid = await send(short, '1.5')
  expect(await becomes(short, 'paid')).toMatchObject({late: true, txid, amount_received: '3.5'})
  expect(await paymentOf(short)).toMatchObject({status: 'paid', amount: '3', amount_received: '3.5', late: true, txid})
})

test('the wrong token at the address of a request is unattributed; after crediting it belongs to the merchant, and is no payment', async () => {
  const all = async () => (await sluice(home, 'unattributed', 'list')).unattributed
  const listed = async () => (await all()).find(({address}: {address: string}) => address === mistaken.address)
  const found = await until(
    async () => {
      const row = await listed()
      return row?.status === 'final' && row
    },
    {timeoutMs, what: 'the wrong token to be final', intervalMs: 500},
  )
  expect(found).toMatchObject({merchant: 'acme', token: 'USDC', amount: '5', reason: 'wrong_token', decision: null})
  await sluice(home, 'unattributed', 'credit', found.id, '--yes')
  expect(await listed()).toBeUndefined()
  const contract = tokens.find(({token}) => token === 'EURC')!.contract.toLowerCase()
  expect(await all()).toMatchObject([
    {txid: foreign, token: contract, amount: null, amount_base_units: '7000000', reason: 'unsupported_token'},
  ])
  const {balances} = await call('GET', '/v1/balances')
  expect(balances).toContainEqual(expect.objectContaining({token: 'USDC', gross: '17.345678', depositCount: 2}))
  expect(await stateOf(mistaken)).toMatchObject({status: 'expired', amount_received: '0', receipts: []})
  expect(await paymentOf(mistaken)).toBeUndefined()
})

test('the payout of a balance claims its payments, and sweeps their addresses, although everything is killed meanwhile', async () => {
  const {balances} = await call('GET', '/v1/balances')
  const gross = {
    ETH: '0.750000000000000001',
    USDC: '17.345678',
    EURC: '98765.432109',
    POL: '44',
    JPYC: '12345678901.000000000000000001',
    BTC: '0.01234567',
  }
  expect(Object.fromEntries(balances.map((each: {token: string; gross: string}) => [each.token, each.gross]))).toEqual(
    gross,
  )
  const payouts = new Map<Currency, string>()
  for (const [currency, {chain, token}] of Object.entries(assets))
    payouts.set(currency as Currency, (await call('POST', '/v1/payouts', {chain, token, sweep_first: true})).id)
  const payoutOf = async (currency: Currency) => await call('GET', `/v1/payouts/${payouts.get(currency)}`)
  await until(async () => (await payoutOf('ETH-USDC')).status === 'sweeping', {timeoutMs, what: 'the sweeps to begin'})
  killAll('indexer-eth', 'indexer-polygon', 'indexer-btc', 'jobs', 'custody')
  for (const {currency, address, ...each} of paid) {
    const {chain, token} = assets[currency]
    const payout = await until(
      async () => {
        await chains[chain].mine()
        const now = await payoutOf(currency)
        return now.status === 'completed' && now
      },
      {timeoutMs, what: `the payout of ${currency} to be completed`, intervalMs: 300},
    )
    expect(payout).toMatchObject({gross: gross[token]})
    expect(await chains[chain].balance(token, wallet[chain])).toBe(unitsOf(payout.net, currency))
    expect(await paymentOf({currency, address, ...each})).toMatchObject({
      settlement_id: payout.id,
      settlement: {id: payout.id, status: 'completed', payout_txid: payout.txid},
    })
    const left = await chains[chain].balance(token, address)
    if (token === 'ETH' || token === 'POL')
      expect(left).toBeLessThan(10n ** 15n) // the rest after its own transaction's fee
    else expect(left).toBe(0n)
    const [{token: native}] = registered(chain).assets
    if (token !== native) expect(await chains[chain].balance(native, address)).toBe(0n) // moved by a signed authorisation: it never had gas
  }
  expect(await chains.ETH.balance('USDC', mistaken.address)).toBe(0n)
  const types = (await call('GET', '/v1/events')).events.map(({type}: {type: string}) => type)
  expect(types).toEqual(Array(6).fill('payout.completed'))
  expect(await sluice(home, 'audit')).toMatchObject({right: true})
  const {stdout} = await promisify(execFile)(process.execPath, [program, 'export', 'payment_receipts'], {
    env: {...process.env, SLUICE_HOME: home},
  })
  for (const {currency, amount} of paid) expect(stdout).toContain(`,${amount},${unitsOf(amount, currency)},`)
})

test('what shops of other gateways reported: a satoshi short, the fee of an exchange, a second scan, and dust of a stranger', async () => {
  const receiver = await startReceiver()
  try {
    const event_types = eventTypes.filter(type => type.startsWith('payment_request.'))
    await call('POST', '/v1/webhook-endpoints', {url: receiver.url, event_types})
    const satoshi = await request('BTC', '0.001')
    const tolerant = await request('ETH-USDC', '100', {tolerance: '0.5%', metadata: {order: '7'}})
    const strict = await request('ETH-USDC', '100')
    const [twice, dusty] = [await request('ETH-USDC', '25'), await request('ETH-USDC', '5')]
    await send(satoshi, '0.00099999')
    await send(tolerant, '99.9')
    await send(strict, '99.9')
    await send(twice, '10')
    await send(dusty, '0.000001')

    expect(await becomes(satoshi, 'paid')).toMatchObject({
      amount_received: '0.00099999',
      shortfall: '0.00000001',
      amount_missing: '0',
      payment_uri: null,
      explanation: '0.00000001 BTC did not come, which is too little to be asked for',
    })
    expect(await becomes(tolerant, 'paid')).toMatchObject({tolerance: '0.5', shortfall: '0.1', late: false})
    expect(await paymentOf(tolerant)).toMatchObject({status: 'paid', amount: '100', shortfall: '0.1'})
    expect(await becomes(twice, 'detected')).toMatchObject({
      amount_missing: '15',
      payment_uri: expect.stringMatching(/uint256=15000000$/),
    })
    await send(twice, '15')
    await becomes(twice, 'paid')

    const dust = await until(
      async () => {
        const state = await stateOf(dusty)
        return state.receipts[0]?.status === 'final' && state
      },
      {timeoutMs, what: 'the dust to be final'},
    )
    expect(dust).toMatchObject({status: 'awaiting', amount_received: '0.000001', amount_missing: '4.999999'})
    await call('POST', `/v1/payment-requests/${dusty.external_id}/cancel`)
    await expire([strict])
    expect(await stateOf(dusty)).toMatchObject({status: 'cancelled', amount_received: '0.000001'})
    expect(await paymentOf(dusty)).toBeUndefined()
    expect(await paymentOf(strict)).toMatchObject({status: 'underpaid', amount_received: '99.9', shortfall: '0.1'})

    const eventsOf = ({external_id}: Request) =>
      receiver.received
        .map(({body}) => JSON.parse(body))
        .filter(event => event.external_id === external_id)
        .toSorted((a, b) => a.sequence - b.sequence)
    const told = (of: Request) => eventsOf(of).map(({type}) => type.split('.')[1])
    await until(async () => told(strict).includes('underpaid') && told(dusty).length, {timeoutMs, what: 'the webhooks'})
    expect(told(dusty)).toEqual(['cancelled'])
    expect(told(strict).at(-1)).toBe('underpaid')
    expect(told(twice)).toEqual(['detected', 'partially_paid', 'paid'])
    expect(eventsOf(tolerant).at(-1)).toMatchObject({
      type: 'payment_request.paid',
      metadata: {order: '7'},
      shortfall: '0.1',
    })
    const {events} = await call('GET', '/v1/events')
    expect(new Set(events.map(({type}: {type: string}) => type))).toEqual(new Set(['payout.completed']))
    const listed = (await call('GET', '/v1/events?type=payment_request.paid')).events
    expect(listed).toEqual(expect.arrayContaining([expect.objectContaining({external_id: satoshi.external_id})]))
    for (const [query, ...found] of [
      [`txid=${(await stateOf(twice)).txid}`, twice],
      [`address=${dusty.address.toLowerCase()}`, dusty],
      [
        `currency=BTC&status=paid&paid_from=${new Date(Date.now() - 86_400_000).toISOString()}`,
        satoshi,
        paid.find(({currency}) => currency === 'BTC')!,
      ],
    ] as const) {
      const {data} = await call('GET', `/v1/payment-requests?${query}`)
      expect(
        data.map(({external_id}: Request) => external_id),
        query,
      ).toEqual(found.map(({external_id}) => external_id))
    }
    expect(await sluice(home, 'audit')).toMatchObject({right: true})
  } finally {
    await receiver.close()
  }
})

const jpyc = tokens.find(({token}) => token === 'JPYC')!.contract
test.each([
  {currency: 'ETH-YEN', chain: 'ETH', token: 'YEN', local: 'JPYC', addedAs: ['--contract', jpyc, '--code', 'YEN']},
  {currency: 'TRON-USDT', chain: 'TRON', token: 'USDT', local: 'USDT', addedAs: undefined},
] as const)(
  '$currency, which addresses sweep with gas, is asked for, shown on its page, paid, and paid out',
  async ({currency, chain, token, local, addedAs}) => {
    if (addedAs)
      await sluice(home, 'token', 'add', '--chain', chain, ...addedAs, '--min', '5', '--sweep', 'fund', '--yes')
    const {data: known} = await call('GET', '/v1/crypto')
    expect(known).toContainEqual(expect.objectContaining({name: currency}))
    const to = chains[chain].newAddress()
    await call('PUT', '/v1/payout-address', {chain, address: to})
    await sluice(home, 'whitelist', 'add', '--merchant', 'acme', '--chain', chain, '--address', to)
    const asked = {external_id: `acme-${currency}`, amount: '250.5'}
    const {data: made} = await call('POST', `/v1/${currency}/payment-request`, asked)
    const page = async () => (await fetch(made.payment_url)).text()
    expect(await page()).toMatch(new RegExp(`250\\.5.*${token}.*${made.address}`, 's'))
    await chains[chain].transfer({token: local, to: made.address, amount: '250.5'})
    expect(await becomes(made, 'paid', chain)).toMatchObject({amount_received: '250.5', currency})
    expect(await page()).toContain('Paid')
    const {id} = await call('POST', '/v1/payouts', {chain, token})
    const payout = await until(
      async () => {
        await chains[chain].mine()
        const now = await call('GET', `/v1/payouts/${id}`)
        if (now.status === 'completed') return now
        // The worker reads of new tokens each 5 s, and tries a payout of one that it does not know in 15.
        if (addedAs && now.status !== 'paying') await db.query('select app.retry_payout($1)', [idOf(id)])
        return undefined
      },
      {timeoutMs, what: `the payout of ${currency}`, intervalMs: 500},
    )
    const {decimals} = chains[chain].asset(local)
    expect(await chains[chain].balance(local, to)).toBe(parseUnits(payout.net, decimals))
    expect(await sluice(home, 'audit')).toMatchObject({right: true})
  },
)

test.skipIf(!hasChromium)('what a camera reads from the page pays the request, which the open page shows', async () => {
  const browser = await launchChromium()
  try {
    for (const [currency, amount] of [
      ['BTC', '0.00123456'],
      ['ETH', '0.012345678901234567'],
      ['POLYGON-JPYC', '1234.5'],
    ] as const) {
      const made = await request(currency, amount)
      const page = await browser.newPage({viewport: {width: 390, height: 664}})
      await page.goto(made.payment_url)
      await page.evaluate(`document.querySelector('#code').decode()`)
      const {text} = await readQr(await page.screenshot())
      const read = await paymentIn(text, currency, page)
      expect(read).toEqual({address: currency === 'BTC' ? made.address.toUpperCase() : made.address, amount})
      await send({...made, address: currency === 'BTC' ? read.address.toLowerCase() : read.address}, read.amount)
      await page.getByRole('heading', {name: 'Paid', exact: true}).waitFor({timeout: timeoutMs})
      await page.close()
    }
  } finally {
    await browser.close()
  }
})

/** As a wallet reads the code: its address and amount; of an address alone, the amount that the page shows. */
async function paymentIn(text: string, currency: Currency, page: Page): Promise<{address: string; amount: string}> {
  if (text.startsWith('bitcoin:')) {
    const {address, options} = decode(text)
    return {address, amount: String(options.amount)}
  }
  if (!text.startsWith('ethereum:')) return {address: text, amount: (await page.locator('#amount').textContent())!}
  const {target_address, parameters} = parse(text)
  const {chain, token} = assets[currency]
  return {address: target_address, amount: formatUnits(BigInt(parameters.value), chains[chain].asset(token).decimals)}
}
