// Filters, files, statements and charts, over the server of the pages: what they show is what the API's functions say,
// in the merchant's time zone.
import {writeFileSync} from 'node:fs'
import type {IncomingMessage} from 'node:http'
import path from 'node:path'
import {buffer} from 'node:stream/consumers'
import {DuckDBInstance} from '@duckdb/node-api'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {signIn} from '../../test/support/dashboard.ts'
import type {Money} from '../../test/support/money.ts'
import {PagesServer} from '../../test/support/pages-server.ts'
import {PaymentRequests} from '../../test/support/payment-requests.ts'
import type {TestUser} from '../../test/support/people.ts'
import {Data} from './data.ts'

const count = 30

let site: PagesServer
let money: Money
let shop: TestUser
let data: Data
let requests: PaymentRequests

beforeAll(async () => {
  site = await PagesServer.open()
  ;({money, shop} = site)
  data = new Data(site.pool, site.ada.token)
  requests = await PaymentRequests.open(money.db)
  await money.topUp('ETH', 1_000_000)
  await money.topUp('USDC', 1_000_000_000)
  for (let n = 1; n <= count; n++) await money.deposit(shop.address, n * 1_000_000, {final: n % 10 !== 0})
  await money.finalise()
  await money.deposit(shop.address, 99_000_000, {final: false})
  await data.setTimeZone(crypto.randomUUID(), 'Asia/Kathmandu') // which is 5:45 ahead of UTC
})
afterAll(() => site.close())

async function ask(url: string): Promise<{status: number; headers: IncomingMessage['headers']; body: Buffer}> {
  const response = await site.ask(url)
  return {status: response.statusCode!, headers: response.headers, body: await buffer(response)}
}
const page = async (url: string) => (await ask(url)).body.toString()
const lines = (text: string) => text.trimEnd().split('\n')
const today = () => new Intl.DateTimeFormat('sv-SE', {timeZone: 'Asia/Kathmandu'}).format(new Date())

test('the address bar is the state of a list; what cannot be used of it is named, and the rest is shown', async () => {
  const amounts = (text: string) =>
    [...text.matchAll(/class="amount" href="[^"]+">([^<]+)</g)].map(([, amount]) => amount)
  const found = await page('/deposits?currency=ETH:USDC&amount_from=3&amount_to=5&status=final')
  expect(amounts(found)).toEqual(['5 USDC', '4 USDC', '3 USDC'])
  expect(found).toContain('name="amount_from" type="text" value="3"')
  expect(found).toContain(
    'href="/deposits/download?status=final&amp;currency=ETH%3AUSDC&amp;amount_from=3&amp;amount_to=5&amp;format=csv"',
  )
  expect(amounts(await page(`/deposits?from=${today()}&to=${today()}&status=pending`))).toEqual(['99 USDC'])
  expect(amounts(await page('/deposits?to=2020-01-01'))).toEqual([])
  for (const [query, problem] of [
    ['amount_from=3', 'An amount needs its currency: choose one.'],
    ['amount_from=x&currency=ETH:USDC', 'Amount from must be a plain decimal, such as 25.5.'],
    ['from=2026-02-30', 'From must be a day, such as 2026-11-25.'],
    ['from=2026-02-03&to=2026-02-02', 'The first day is after the last one.'],
    ['status=paid', 'Status must be one of pending, final, reorged.'],
    ['user=nobody', 'There is no user with this id or reference.'],
    ['chain=POLYGON&currency=ETH:USDC', 'The currency is of another chain than the one that is chosen.'],
    ['chain=X', expect.stringMatching(/^Chain must be /)],
  ])
    expect(/<p role="alert" class="alert">([^<]+)<\/p>/.exec(await page(`/deposits?${query}`))?.[1], query).toEqual(
      problem,
    )
})

test('times are those of the merchant’s time zone, and name it', async () => {
  const text = await page('/deposits')
  const [, iso, day, clock] = /<time datetime="([^"]+)"><span class="day">([^<]+)<\/span> ([\d:]+)<\/time>/.exec(text)!
  const moved = new Date(Date.parse(iso!) + 345 * 60_000).toISOString()
  expect(`${day} ${clock}`).toBe(`${moved.slice(0, 10)} ${moved.slice(11, 19)}`)
  expect(text).toContain('Times are in Asia/Kathmandu.')
})

test('the form of further filters keeps those that are links: the chain, of whose tokens it then asks, and the status', async () => {
  for (const [path, status] of [
    ['/deposits', 'final'],
    ['/payouts', 'completed'],
    ['/payment-requests', 'paid'],
  ]) {
    const text = await page(`${path}?chain=ETH&status=${status}&before=9`)
    const [form] = /<details class="more".*?<\/details>/s.exec(text)!
    const hidden = [...form.matchAll(/<input type="hidden" name="(\w+)" value="(\w+)">/g)].map(([, ...pair]) => pair)
    expect([path, ...hidden.sort()]).toEqual([path, ['chain', 'ETH'], ['status', status]])
    expect(await page(`${path}?chain=BTC`)).not.toContain('value="ETH:USDC"')
  }
})

test('a file has all that the filters show, whatever its format; one whose filters cannot be used is refused', async () => {
  const csv = await ask('/deposits/download?status=final')
  expect(csv.headers['content-disposition']).toBe('attachment; filename="deposits.csv"')
  const [head, ...rows] = lines(csv.body.toString())
  expect(head).toMatch(/^deposit_id,created_at,finalised_at,status,chain,token,amount,/)
  expect(rows.map(row => Number(row.split(',')[6]))).toEqual(Array.from({length: count}, (_, n) => count - n))
  const sheet = await ask('/deposits/download?format=spreadsheet&currency=ETH:USDC&amount_to=1')
  expect(sheet.body.toString()).toMatch(/^\ufeffdeposit_id,.*\n"dep_[^\n]*,"1",[^\n]*\n$/)
  const file = path.join(site.folder, 'deposits.parquet')
  writeFileSync(file, (await ask('/deposits/download?format=parquet')).body)
  const duckdb = await (await DuckDBInstance.create()).connect()
  const reader = await duckdb.runAndReadAll(`select count(*)::int, sum(amount)::int from '${file}'`)
  expect(reader.getRows()).toEqual([[count + 1, (count * (count + 1)) / 2 + 99]])
  duckdb.closeSync()
  for (const query of ['amount_from=3', 'status=paid', 'from=x', 'format=xlsx'])
    expect((await ask(`/deposits/download?${query}`)).status, query).toBe(400)
  const missing = await ask('/deposits/download?user=nobody')
  expect([missing.status, missing.headers['content-disposition']]).toEqual([404, undefined])
})

test('each list has its file: users, the audit log, deliveries, and payment requests with all that came for them', async () => {
  const shop = await money.merchant()
  const {token} = await signIn(money.db, shop.merchantId)
  const data = new Data(site.pool, token)
  const made = await requests.create(money.api, shop.merchantId, {amount: 5_000_000})
  const sender = '0x9965507D1a55bcC2695C58ba16FB37d819B0A4dc'
  const txids = [money.newTxid(), money.newTxid()]
  for (const txid of txids)
    await money.block([{txid, token: 'USDC', amount: 2_000_000n, recipient: made.address, sender}], [])
  const {id: endpoint} = await data.createEndpoint(crypto.randomUUID(), 'https://shop.example/', ['deposit.pending'])
  const {id: delivery} = await data.testEndpoint(crypto.randomUUID(), endpoint, 'deposit.pending')
  const file = async (url: string) => {
    const response = await site.ask(url, {token})
    const [head, ...rows] = lines((await buffer(response)).toString()).map(line => line.split(','))
    const name = /filename="([^"]+)"/.exec(String(response.headers['content-disposition']))?.[1]
    return [name, rows.map(row => Object.fromEntries(row.map((cell, n) => [head![n], cell])))]
  }
  expect(await file('/payment-requests/download?currency=ETH:USDC&amount_from=5&amount_to=5')).toEqual([
    'payment-requests.csv',
    [expect.objectContaining({token: 'USDC', shortfall: '5', txids: txids.join(' '), senders: `${sender} ${sender}`})],
  ])
  const [user] = (await data.users({})).items
  expect(await file('/users/download')).toEqual([
    'users.csv',
    [expect.objectContaining({user_id: user!.id, addresses: expect.stringContaining(`ETH:${shop.address}`)})],
  ])
  expect(await file('/audit-log/download?action=webhook_endpoint')).toEqual([
    'audit-log.csv',
    [
      expect.objectContaining({action: 'webhook_endpoint.test', target: endpoint}),
      expect.objectContaining({action: 'webhook_endpoint.create', target: endpoint}),
    ],
  ])
  expect(await file(`/webhooks/${endpoint}/deliveries/download`)).toEqual([
    'deliveries.csv',
    [expect.objectContaining({delivery_id: delivery, status: 'pending', attempts: '0'})],
  ])
  for (const path of ['/users', '/audit-log', `/webhooks/${endpoint}/deliveries`])
    expect((await buffer(await site.ask(path, {token}))).toString()).toContain(`href="${path}/download?format=csv"`)
})

test('deposits are filtered by address and several statuses, users by the beginning of a reference and days, the audit log by what and who', async () => {
  const amounts = async (query: string) =>
    [...(await page(`/deposits?${query}`)).matchAll(/class="amount" href="[^"]+">([^<]+)</g)].length
  expect(await amounts(`address=${shop.address.toLowerCase()}&status=pending`)).toBe(1)
  expect(await amounts('status=pending,final&from=2999-01-01')).toBe(0)
  expect(await amounts('status=pending,reorged')).toBe(1)
  expect(await page('/deposits?status=pending,final')).toMatch(
    /status=pending"\s+aria-current="true">pending<.*status=final"\s+aria-current="true">final</,
  )
  expect(await page('/deposits?status=pending,lost')).toContain('Status must be one of pending, final, reorged')
  expect(await page('/deposits?address=0x1')).toContain('There is no user with this address')
  const users = async (query: string) => [...(await page(`/users?${query}`)).matchAll(/href="\/users\/usr_/g)].length
  const {external_ref} = (await data.users({})).items[0]!
  expect(await users(`beginning=${external_ref.slice(0, 4)}&from=${today()}&to=${today()}`)).toBe(1)
  expect([await users('beginning=nobody'), await users('to=2020-01-01')]).toEqual([0, 0])
  const entries = async (query: string) => [...(await page(`/audit-log?${query}`)).matchAll(/data-name="Who"/g)].length
  const {email} = await data.me()
  expect(await entries('action=time_zone')).toBe(1)
  expect(await entries(`action=time_zone&person=${email.toUpperCase()}`)).toBe(1)
  expect(await entries('person=nobody@acme.test')).toBe(0)
})

test('a statement, its file and the charts have the same sums, those of the API', async () => {
  const payout = await money.claim(shop)
  // Which makes the pending deposit final, too.
  await money.mineFinally([await money.payAndSign(payout)])
  const day = today()
  const sums = await data.statements(day, day)
  expect(sums).toMatchObject([
    {token: 'USDC', opening_balance: '0', deposits: '564', payouts: '-460.35', fees: '-4.65'},
  ])
  const charts = await data.charts(['deposit', 'payout', 'paid', 'fee', 'balance'], 30)
  expect([charts.days.length, charts.days.at(-1)]).toEqual([30, day])
  const last = (series: string) => charts.series.find(each => each.series === series)!.amounts.at(-1)
  expect([last('deposit'), last('payout'), last('paid'), last('fee')]).toEqual(['564', '-460.35', '460.35', '-4.65'])
  expect(charts.series.find(({series}) => series === 'balance')!.amounts_at_end.at(-1)).toBe(sums[0]!.closing_balance)
  const [head, ...rows] = lines((await ask(`/statements/download?from=${day}&to=${day}`)).body.toString())
  expect(head).toMatch(/^chain,token,created_at,type,amount,.*,payout_address,payout_status,day$/)
  expect(rows.every(row => row.endsWith(`,${day}`))).toBe(true)
  const of = (type: string) =>
    rows
      .map(row => row.split(','))
      .filter(row => row[3] === type)
      .reduce((sum, row) => sum + Number(row[4]), 0)
  expect([of('deposit'), of('payout'), of('fee'), of('opening_balance'), of('closing_balance')]).toEqual([
    564, -460.35, -4.65, 0, 99,
  ])
  const kinds = ['sum_of_deposits', 'sum_of_payouts', 'sum_of_fees', 'held_back', 'payouts_under_way']
  expect(kinds.map(of)).toEqual([564, -460.35, -4.65, 0, 0])
  expect(rows).toHaveLength(count + 1 + 4 + kinds.length)
  const filtered = await page('/statements?currency=ETH:ETH')
  expect(filtered).toContain('Lines of ETH:ETH')
  expect(filtered).not.toContain('<span class="amount">')
  expect(filtered).toMatch(/\/statements\/download\?currency=ETH%3AETH&amp;[^"]*format=csv/)
  const shown = await page('/statements')
  for (const text of [
    '564',
    '-460.35',
    '-4.65',
    `both included, in <a href="/settings">Asia/Kathmandu</a>. <strong>So far:</strong>`,
  ])
    expect(shown).toContain(text)
  for (const [query, problem] of [
    ['from=2026-01-01', 'A period has a first and a last day.'],
    ['from=2999-01-01&to=2999-01-02', 'The period has not begun.'],
    ['from=2026-11-02&to=2026-11-01', 'The first day is after the last one.'],
    ['month=2999-01', 'The month has not begun.'],
    ['month=2026-13', 'Month must be a month, such as 2026-11.'],
  ]) {
    const refused = await page(`/statements?${query}`)
    expect(refused).toContain(problem)
    expect(refused, 'no figures of another period').not.toContain('class="sums"')
    for (const typed of query!.matchAll(/=(\d{4}-\d\d-\d\d)/g)) expect(refused).toContain(`value="${typed[1]}"`)
  }
  const month = await page(`/statements?month=${day.slice(0, 7)}`)
  expect(month).toContain('564')
  expect(month).toContain(`/statements/download?month=${day.slice(0, 7)}&amp;format=csv`)
  expect(month).toContain(`<title>Statement of `)
  expect((await ask('/statements/download?from=2026-01-01')).status).toBe(400)
  expect(await page('/charts?days=365')).toMatch(/USDC on Ethereum [^:]+: received/)
})

test('charts show a payout when it is completed, and nothing of one that is under way or cancelled', async () => {
  const merchant = await money.merchant()
  const other = new Data(site.pool, (await signIn(money.db, merchant.merchantId)).token)
  const paid = async () => (await other.charts(['paid'], 2)).series.map(({counts, amounts}) => [counts[1], amounts[1]])
  await money.deposit(merchant.address, 10_000_000)
  const cancelled = await money.claim(merchant)
  await money.db.rows(`select app.cancel_payout($1, $2)`, [merchant.merchantId, cancelled])
  const payout = await money.claim(merchant)
  expect(await paid()).toEqual([])
  await money.mineFinally([await money.payAndSign(payout)])
  expect(await paid()).toEqual([[1, '9.9']])
  await money.db.rows('select app.fold_totals()')
  expect(await paid()).toEqual([[1, '9.9']])
})

test('today is compared with the same day last week up to the same time of day: what was received, paid out and asked for', async () => {
  const merchant = await money.merchant()
  const token = (await signIn(money.db, merchant.merchantId)).token
  const other = new Data(site.pool, token)
  const behind = new Date().getUTCHours() - 12 // so that it is about noon
  await money.db.rows('update app.merchant set time_zone = $2 where id = $1', [
    merchant.merchantId,
    `Etc/GMT${behind < 0 ? behind : `+${behind}`}`,
  ])
  await money.deposit(merchant.address, 10_000_000)
  const made = await requests.create(money.api, merchant.merchantId, {amount: 2_000_000})
  await money.deposit(made.address, 2_000_000)
  const {compared_with} = await other.today()
  expect((Date.now() - Date.parse(compared_with)) / 86_400_000).toBeCloseTo(7, 1)
  const note = (series: string, about: string, at: string, amount: number) =>
    money.db.rows(
      `insert into app.total_change (merchant_id, series, about, at, count, amount) values ($1, $2, $3, $4::timestamptz + $5::interval, 1, $6)`,
      [merchant.merchantId, series, about, compared_with, at, amount],
    )
  await note('deposit', 'ETH:USDC', '-1 second', 5_000_000)
  await note('deposit', 'ETH:USDC', '1 second', 3_000_000)
  await note('deposit', 'ETH:USDC', '-1 day', 4_000_000)
  await note('paid', 'ETH:USDC', '-1 second', 7_000_000)
  await note('requests', 'made', '-1 second', 0)
  const shown = (await other.today()).series.map(({series, about, ...of}) => [series, about, ...Object.values(of)])
  expect(shown).toEqual([
    ['deposit', 'ETH:USDC', 2, 1, '12', '5'],
    ['paid', 'ETH:USDC', 0, 1, '0', '7'],
    ['requests', 'made', 1, 1, '0', '0'],
    ['requests', 'paid', 1, 0, '0', '0'],
  ])
  const text = await buffer(await site.ask('/', {token}))
  expect(text.toString()).toMatch(/USDC on Ethereum [^<]+, received<.*12<.*5<.*Payment requests paid/s)
})

test('charts count the attempts to deliver that failed, while the delivery is still pending', async () => {
  const merchant = await money.merchant()
  const other = new Data(site.pool, (await signIn(money.db, merchant.merchantId)).token)
  await money.db.rows(`select app.create_webhook_endpoint($1, 'https://dead.example/', '{deposit.pending}')`, [
    merchant.merchantId,
  ])
  await money.deposit(merchant.address, 1_000_000, {final: false})
  const fail = (number: number) =>
    money.db.rows(
      `select app.record_attempts(d.endpoint_id, array[d.id], array[$2::int], '{5}', '{5}', '{null}', '{refused}', '{1000}')
       from app.delivery d join app.webhook_endpoint w on w.id = d.endpoint_id where w.merchant_id = $1`,
      [merchant.merchantId, number],
    )
  for (const number of [1, 2]) await fail(number)
  const [found] = (await other.charts(['failed_attempts', 'undelivered'], 2)).series
  expect([found!.series, found!.counts]).toEqual(['failed_attempts', [0, 2]])
})

test('a filter that cannot be used shows no rows, which could be taken for the answer', async () => {
  for (const query of [
    'amount_from=17',
    'currency=ETH:USDC&amount_from=30&amount_to=10',
    'status=lost',
    'from=2026-02-30',
  ]) {
    const shown = await page(`/deposits?${query}`)
    expect(shown, query).toContain('role="alert"')
    expect(shown, query).not.toContain('class="amount"')
  }
  for (const [from, to] of [
    ['9.5', '10'],
    ['1.50', '1.5'],
    ['1.0', '1'],
  ])
    expect(await page(`/deposits?currency=ETH:USDC&amount_from=${from}&amount_to=${to}`)).not.toContain('role="alert"')
})

test('a file of many pages is sent page by page, each row once', async () => {
  await money.db.rows(
    `insert into app.payment_request (merchant_id, external_id, chain, token, amount, tolerance, detected_from, late_after, page_token, expires_at)
     select $1, 'many-' || n, 'ETH', 'USDC', n, 0, 1, '2 hours', 'token-' || n, now() + interval '1 day' from generate_series(1, 21000) n`,
    [shop.merchantId],
  )
  await money.db.rows(
    `insert into app.address (chain, match_key, address, payment_request_id, merchant_id, is_provisioned)
     select 'ETH', 'many-' || r.external_id, 'many-' || r.external_id, r.id, r.merchant_id, true from app.payment_request r
     where r.external_id like 'many-%'`,
  )
  const [, ...rows] = lines(await page('/payment-requests/download'))
  expect(new Set(rows.map(row => row.split(',')[0])).size).toBe(21_000)
  expect(rows).toHaveLength(21_000)
})
