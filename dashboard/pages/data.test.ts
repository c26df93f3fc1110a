// What the process of the pages reads and changes, with the rights of its role, on a real database.
import {randomUUID} from 'node:crypto'
import pg from 'pg'
import {afterAll, beforeAll, beforeEach, describe, expect, test} from 'vitest'
import {newSession, type SignedIn, signIn} from '../../test/support/dashboard.ts'
import {Money} from '../../test/support/money.ts'
import {PaymentRequests} from '../../test/support/payment-requests.ts'
import {idOf, type TestUser} from '../../test/support/people.ts'
import {Data} from './data.ts'

let money: Money
let paymentRequests: PaymentRequests
let pool: pg.Pool
let shop: TestUser
let ada: SignedIn
let data: Data

beforeAll(async () => {
  money = await Money.open()
  paymentRequests = await PaymentRequests.open(money.db)
  pool = new pg.Pool({connectionString: money.db.url('sluice_dashboard'), max: 4})
  pool.on('error', () => {})
})
afterAll(async () => {
  await pool.end()
  await money.close()
})
beforeEach(async () => {
  shop = await money.merchant()
  ada = await signIn(money.db, shop.merchantId)
  data = new Data(pool, ada.token)
})

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    error => error.code as string,
  )
const request = randomUUID
const hash = (fill: number) => Buffer.alloc(32, fill)

/** Every function that the role may call, with its arguments. */
async function callable(): Promise<{name: string; types: string[]}[]> {
  return await money.db.rows(
    `select p.proname as name, array(select format_type(t, null) from unnest(p.proargtypes) t) as types from pg_proc p
     where p.pronamespace = 'dashboard'::regnamespace and has_function_privilege('sluice_dashboard', p.oid, 'execute') order by 1`,
  )
}

describe('without a live session', () => {
  const argument = (type: string, token: string | null) =>
    ({uuid: randomUUID(), 'text[]': ['read'], bytea: hash(1), integer: 10, numeric: 10, jsonb: '{}', boolean: true})[
      type
    ] ?? (type === 'text' ? token : '2026-01-01')

  test.each([
    ['no token', async () => null],
    ['an unknown token', async () => 'no session has this token'],
    ['an expired session', () => newSession(money.db, ada.userId, {expiresIn: '-1 s'})],
    ['a session in which no second factor was shown', () => newSession(money.db, ada.userId, {secondFactorIn: null})],
  ])('%s reads and changes nothing, whatever function is called', async (_name, makeToken) => {
    const token = await makeToken()
    const before = await stateOf()
    for (const {name, types} of await callable()) {
      const values = types.map(type => argument(type, token))
      const parameters = types.map((type, index) => `$${index + 1}::${type}`)
      if (name === 'news') {
        const {rows} = await pool.query('select * from dashboard.news($1)', [[token]])
        expect(rows).toEqual([])
      } else {
        const call = pool.query(`select dashboard.${name}(${parameters})`, values)
        expect([name, await codeOf(call)]).toEqual([name, 'SLAUT'])
      }
    }
    expect(await stateOf()).toEqual(before)
  })

  async function stateOf() {
    return await money.db.rows(
      `select (select count(*) from dashboard.audit_entry) as entries, (select count(*) from app.api_key) as keys,
         (select count(*) from app.payout) as payouts, (select count(*) from app.webhook_endpoint) as endpoints`,
    )
  }

  test('a session that was ended reads nothing from then on, and gets no news', async () => {
    await data.me()
    expect((await pool.query('select token from dashboard.news($1)', [[ada.token]])).rowCount).toBe(1)
    await money.db.rows('delete from auth.session where token = $1', [ada.token])
    expect(await codeOf(data.me())).toBe('SLAUT')
    expect((await pool.query('select token from dashboard.news($1)', [[ada.token]])).rowCount).toBe(0)
  })

  test('no table, sequence or view of any schema can be read, and nothing else than these functions can be called', async () => {
    const tables = await money.db.rows<{name: string}>(
      `select c.oid::regclass::text as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
       where n.nspname in ('app', 'auth', 'chain', 'custody', 'dashboard', 'analytics', 'audit', 'public') and c.relkind in ('r', 'p', 'v', 'm', 'S')
         and has_schema_privilege('sluice_dashboard', n.oid, 'usage')
         and (has_any_column_privilege('sluice_dashboard', c.oid, 'select, insert, update') or (c.relkind <> 'S' and has_table_privilege('sluice_dashboard', c.oid, 'delete')))`,
    )
    expect(tables).toEqual([])
    for (const schema of ['app', 'auth', 'chain', 'custody'])
      expect(await codeOf(pool.query(`select ${schema}.x()`))).toBe('42501')
  })
})

describe('with a live session', () => {
  test('shows deposits, balances, users and payouts of its merchant, as the API has them', async () => {
    const txid = await money.deposit(shop.address, 20_000_000)
    await money.deposit(shop.address, 500_000, {final: false})
    const {balances, deposits, has_users, has_addresses, has_keys} = await data.overview()
    expect(balances).toEqual([
      {
        chain: 'ETH',
        token: 'USDC',
        gross: '20',
        fee: '0.2',
        net: '19.8',
        held_back: '0',
        why_held_back: null,
        depositCount: 1,
        has_address: true,
        refusal: null,
      },
    ])
    expect(deposits.map(({status, amount}) => [status, amount])).toEqual([
      ['pending', '0.5'],
      ['final', '20'],
    ])
    expect([has_users, has_addresses, has_keys]).toEqual([true, true, false])
    const [user] = (await data.users({})).items
    expect((await data.deposits({user: user!.id, status: ['final']})).items.map(deposit => deposit.txid)).toEqual([
      txid,
    ])
    expect((await data.deposits({chain: 'ETH', status: ['pending']})).items).toHaveLength(1)
    expect((await data.deposits({chain: 'POLYGON'})).items).toEqual([])
    const {finalised_at, events, payout} = await data.deposit(deposits[1]!.id)
    expect([finalised_at, payout]).toEqual([expect.any(String), null])
    expect(events.map(({type}) => type)).toEqual(['deposit.pending', 'deposit.confirmed'])
  })

  test('pages of a list repeat and leave out nothing', async () => {
    const txids: string[] = []
    for (let n = 0; n < 30; n++) txids.unshift(await money.deposit(shop.address, 1000 + n, {final: n % 2 === 0}))
    const first = await data.deposits({})
    const second = await data.deposits({}, first.next!)
    expect([...first.items, ...second.items].map(({txid}) => txid)).toEqual(txids)
    expect([first.items.length, second.items.length, second.next]).toEqual([25, 5, null])
  })

  test('pays out a balance to the registered address, and cancels it until its payment begins', async () => {
    await money.deposit(shop.address, 20_000_000)
    const {id} = await data.createPayout(request(), 'ETH', 'USDC', await money.payoutAddress(shop.merchantId))
    const payout = await data.payout(id)
    expect([payout.status, payout.net, payout.deposit_count]).toEqual(['pending', '19.8', 1])
    expect((await data.overview()).payouts.map(found => found.id)).toEqual([id])
    await money.work('begin_sweeping', payout.id.replace(/^pay_(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'))
    expect([(await data.payout(id)).status, (await data.payout(id)).is_cancellable]).toEqual(['sweeping', true])
    await data.cancelPayout(request(), id)
    expect((await data.payout(id)).error?.code).toBe('cancelled')
    expect((await data.payout(id)).events.map(({type}) => type)).toEqual(['payout.failed'])
    expect((await data.balance('ETH', 'USDC'))?.net).toBe('19.8')
  })

  test('shows what a payout is made of, page by page: debts first, then deposits and payments; nothing once it has failed', async () => {
    await money.topUp('ETH', 1000)
    await money.topUp('USDC', 100_000_000)
    const asked = await paymentRequests.create(money.api, shop.merchantId, {amount: 1_000_000})
    const lost = await money.deposit(asked.address, 1_000_000)
    const first = await money.claim(shop)
    await money.mineFinally([await money.payAndSign(first)])
    await money.lose(lost)
    await money.resolve('reorged')
    for (let n = 0; n < 27; n++) await money.deposit(shop.address, 1_000_000 + n)
    const payout = `pay_${(await money.claim(shop)).replaceAll('-', '')}`
    const page = await data.payoutParts(payout)
    const more = await data.payoutParts(payout, page.next!)
    const parts = [...page.items, ...more.items]
    expect([page.items.length, more.items.length, more.next]).toEqual([25, 3, null])
    expect(parts[0]).toMatchObject({type: 'adjustment', reason: 'deposit_lost', amount: '-1', status: null, txid: lost})
    expect([parts[0]!.external_id, parts[0]!.deposit_id]).toEqual([asked.external_id, null])
    expect(parts.slice(1).map(({amount}) => Number(amount))).toEqual(
      Array.from({length: 27}, (_, n) => 1 + (26 - n) / 1e6),
    )
    const [deposit] = (await data.deposits({})).items
    const {id, user_id, external_ref, txid} = deposit!
    expect(parts[1]).toMatchObject({type: 'deposit', deposit_id: id, user_id, external_ref, txid, status: 'final'})
    expect((await data.payoutParts(`pay_${first.replaceAll('-', '')}`)).items).toMatchObject([
      {type: 'receipt', amount: '1', status: 'reorged', external_id: asked.external_id, user_id: null},
    ])
    expect((await data.payout(payout)).collected_count).toBeNull()
    await data.cancelPayout(request(), payout)
    expect(await data.payoutParts(payout)).toEqual({items: [], next: null})
  })

  test('nothing is paid to another address than the one that the form showed', async () => {
    await money.deposit(shop.address, 20_000_000)
    const shown = await money.payoutAddress(shop.merchantId)
    const changed = '0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045'
    await data.setPayoutAddress(request(), 'ETH', changed)
    for (const address of [shown, undefined])
      expect(await codeOf(data.createPayout(request(), 'ETH', 'USDC', address))).toBe('SL422')
    const {id} = await data.createPayout(request(), 'ETH', 'USDC', changed)
    expect((await data.payout(id)).address).toBe(changed)
  })

  test('the tolerance of payment requests is changed by somebody with full rights, within its bounds, and noted', async () => {
    expect(await data.paymentTolerance()).toBe(0)
    await data.setPaymentTolerance(request(), 50)
    expect(await data.paymentTolerance()).toBe(50)
    expect(await codeOf(data.setPaymentTolerance(request(), 5001))).toBe('SL422')
    const late = new Data(pool, await newSession(money.db, ada.userId, {secondFactorIn: '-601 s'}))
    expect(await codeOf(late.setPaymentTolerance(request(), 10))).toBe('SLSTP')
    expect((await data.auditLog({})).items).toMatchObject([
      {action: 'payment_tolerance.set', detail: '0.5%', outcome: 'done'},
    ])
  })

  test('while the merchant is suspended, nothing is paid out, and no key, address or endpoint is made; keys can still be revoked', async () => {
    await money.deposit(shop.address, 20_000_000)
    const {id: key} = await data.createApiKey(request(), hash(7), 'till', ['read'])
    await money.db.rows('update app.merchant set suspended_at = now() where id = $1', [shop.merchantId])
    const hook = 'https://example.com/hook'
    const shown = await money.payoutAddress(shop.merchantId)
    for (const change of [
      () => data.createPayout(request(), 'ETH', 'USDC', shown),
      () => data.setPayoutAddress(request(), 'ETH', '0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045'),
      () => data.createApiKey(request(), hash(6), 'x', ['read']),
      () => data.createEndpoint(request(), hook, ['payout.completed']),
      () => data.requireFullRights(),
    ])
      expect(await codeOf(change())).toBe('SLSUS')
    expect((await data.overview()).balances[0]?.refusal).toBe('The operator has suspended this account')
    await data.revokeApiKey(request(), key)
  })

  test('a form that is sent twice changes nothing the second time, and two at once make one', async () => {
    const twice = request()
    const outcomes = await Promise.all([1, 2].map(() => codeOf(data.createApiKey(twice, hash(2), 'shop', ['read']))))
    expect(outcomes.sort()).toEqual(['SLDUP', 'done'])
    expect((await data.apiKeys()).map(({label, scopes}) => [label, scopes])).toEqual([['shop', ['read']]])
  })

  test('a refused change leaves its form unused, and no entry in the audit log', async () => {
    const form = request()
    expect(await codeOf(data.createPayout(form, 'ETH', 'USDC', await money.payoutAddress(shop.merchantId)))).toBe(
      'SLPAY',
    )
    await money.deposit(shop.address, 20_000_000)
    expect((await data.auditLog({})).items).toEqual([])
    await data.createPayout(form, 'ETH', 'USDC', await money.payoutAddress(shop.merchantId))
    expect((await data.auditLog({})).items).toMatchObject([
      {action: 'payout.create', person: ada.email, detail: '19.8 USDC on ETH', ip: '192.0.2.7', outcome: 'done'},
    ])
  })

  test('a key, a payout address, a payout, and where webhooks go need the second factor of the last ten minutes; other changes do not', async () => {
    const late = new Data(pool, await newSession(money.db, ada.userId, {secondFactorIn: '-601 s'}))
    await money.deposit(shop.address, 20_000_000)
    expect(await codeOf(late.requireFullRights())).toBe('SLSTP')
    expect(await codeOf(late.createApiKey(request(), hash(3), 'x', ['read']))).toBe('SLSTP')
    expect(await codeOf(late.setPayoutAddress(request(), 'ETH', '0xElsewhere'))).toBe('SLSTP')
    expect(await codeOf(late.createPayout(request(), 'ETH', 'USDC', await money.payoutAddress(shop.merchantId)))).toBe(
      'SLSTP',
    )
    const hook = 'https://example.com/hook'
    expect(await codeOf(late.createEndpoint(request(), hook, ['payout.completed']))).toBe('SLSTP')
    const endpoint = await data.createEndpoint(request(), hook, ['payout.completed'])
    expect(await codeOf(late.updateEndpoint(request(), endpoint.id, hook, ['payout.failed'], null))).toBe('SLSTP')
    expect(await codeOf(late.rotateSecret(request(), endpoint.id))).toBe('SLSTP')
    await late.updateEndpoint(request(), endpoint.id, null, null, false)
    expect(await late.endpoint(endpoint.id)).toMatchObject({
      event_types: ['payout.completed'],
      disabled_reason: 'merchant',
    })
    const {id} = await data.createApiKey(request(), hash(3), '', ['read'])
    await late.revokeApiKey(request(), id)
    expect((await late.apiKeys())[0]?.revoked_at).not.toBeNull()
  })

  test('webhook endpoints are made, tested, rotated, disabled and deleted; a delivery shows what is sent', async () => {
    const {id, secret} = await data.createEndpoint(request(), 'https://example.com/hook', ['payout.completed'])
    expect(secret).toMatch(/^whsec_/)
    const test = await data.testEndpoint(request(), id, 'payout.failed')
    const delivery = await data.delivery(id, test.id)
    expect(JSON.parse(delivery.body)).toMatchObject({type: 'payout.failed', test: true})
    expect((await data.deliveries(id, {})).items.map(found => found.id)).toEqual([test.id])
    expect((await data.rotateSecret(request(), id)).secret).not.toBe(secret)
    await data.updateEndpoint(request(), id, null, null, false)
    expect(await data.endpoint(id)).toMatchObject({disabled_reason: 'merchant', failed: 1})
    await data.updateEndpoint(request(), id, null, null, true)
    expect(await data.redeliverFailed(request(), id, '2026-01-01T00:00:00Z')).toBe(1)
    await data.deleteEndpoint(request(), id)
    expect(await data.endpoints()).toEqual([])
  })

  test('finds users, deposits, payouts and the rest by id, address, reference and transaction', async () => {
    const txid = await money.deposit(shop.address, 20_000_000)
    const [user] = (await data.users({})).items
    const [deposit] = (await data.deposits({})).items
    const {id: payout} = await data.createPayout(request(), 'ETH', 'USDC', await money.payoutAddress(shop.merchantId))
    const {id: key} = await data.createApiKey(request(), hash(4), 'till', ['read'])
    const found = async (text: string) => (await data.search(text)).map(({kind, id}) => `${kind} ${id}`)
    for (const text of [user!.id, user!.external_ref, shop.address, shop.address.toLowerCase()])
      expect([text, ...(await found(text))]).toEqual([text, `user ${user!.id}`])
    for (const text of [txid, deposit!.id]) expect(await found(text)).toEqual([`deposit ${deposit!.id}`])
    expect(await found(payout)).toEqual([`payout ${payout}`])
    expect(await found(key)).toEqual([`api_key ${key}`])
    for (const text of ['', '%', "'; drop table app.deposit; --", 'usr_', 'x'.repeat(10_000)])
      expect(await found(text)).toEqual([])
  })

  test('nothing of another merchant is found, shown or changed, whatever its id', async () => {
    const other = await money.merchant()
    const eve = await signIn(money.db, other.merchantId)
    const theirs = new Data(pool, eve.token)
    const txid = await money.deposit(other.address, 30_000_000)
    const [user] = (await theirs.users({})).items
    const [deposit] = (await theirs.deposits({})).items
    const {id: payout} = await theirs.createPayout(
      request(),
      'ETH',
      'USDC',
      await money.payoutAddress(other.merchantId),
    )
    const {id: key} = await theirs.createApiKey(request(), hash(5), 'theirs', ['read'])
    const {id: endpoint} = await theirs.createEndpoint(request(), 'https://example.com/theirs', ['payout.failed'])
    const {id: delivery} = await theirs.testEndpoint(request(), endpoint, 'payout.failed')
    const {id: mine} = await data.createEndpoint(request(), 'https://example.com/mine', ['payout.failed'])

    for (const text of [
      txid,
      other.address,
      user!.external_ref,
      user!.id,
      deposit!.id,
      payout,
      key,
      endpoint,
      delivery,
    ])
      expect([text, ...(await data.search(text))]).toEqual([text])
    const attempts = {
      user: () => data.user(user!.id),
      deposits: () => data.deposits({user: user!.id}),
      deposit: () => data.deposit(deposit!.id),
      payout: () => data.payout(payout),
      payoutParts: () => data.payoutParts(payout),
      cancel: () => data.cancelPayout(request(), payout),
      revoke: () => data.revokeApiKey(request(), key),
      endpoint: () => data.endpoint(endpoint),
      update: () => data.updateEndpoint(request(), endpoint, 'https://evil.example', null, null),
      remove: () => data.deleteEndpoint(request(), endpoint),
      rotate: () => data.rotateSecret(request(), endpoint),
      test: () => data.testEndpoint(request(), endpoint, 'payout.failed'),
      deliveries: () => data.deliveries(endpoint, {}),
      delivery: () => data.delivery(endpoint, delivery),
      mixed: () => data.delivery(mine, delivery),
      redeliver: () => data.redeliver(request(), mine, delivery),
      redeliverFailed: () => data.redeliverFailed(request(), endpoint, '2026-01-01T00:00:00Z'),
    }
    for (const [name, attempt] of Object.entries(attempts))
      expect([name, await codeOf(attempt())]).toEqual([name, 'SL404'])
    expect((await theirs.payout(payout)).status).toBe('pending')
    expect((await theirs.endpoint(endpoint)).url).toBe('https://example.com/theirs')
    const seen = await Promise.all([
      data.overview(),
      data.payouts({}),
      data.users({}),
      data.apiKeys(),
      data.auditLog({}),
    ])
    for (const id of [user!.id, deposit!.id, payout, key, endpoint]) expect(JSON.stringify(seen)).not.toContain(id)
  })

  test('there is news when a deposit arrives or becomes final, or a payout takes a step, and none otherwise', async () => {
    const news = async () => {
      await money.jobs.query('select app.sequence_events()')
      return (await pool.query<{news: string}>('select news from dashboard.news($1)', [[ada.token]])).rows[0]!.news
    }
    const seen = [await news()]
    expect(await news()).toBe(seen[0])
    await money.deposit(shop.address, 20_000_000)
    seen.push(await news())
    expect(await news()).toBe(seen[1])
    const {id} = await data.createPayout(request(), 'ETH', 'USDC', await money.payoutAddress(shop.merchantId))
    seen.push(await news())
    await money.work('begin_sweeping', idOf(id))
    seen.push(await news())
    expect(new Set(seen).size).toBe(4)
  })

  test('there is news, too, while a payout collects its deposits, which are shown as far as they are', async () => {
    const news = async () =>
      (await pool.query<{news: string}>('select news from dashboard.news($1)', [[ada.token]])).rows[0]!.news
    for (const amount of [1, 2, 3]) await money.deposit(shop.address, amount * 1_000_000)
    const payout = `pay_${(await money.withoutAllocation(shop, 'USDC', () => money.claim(shop))).replaceAll('-', '')}`
    const collected = async () => {
      const {collected_count, deposit_count} = await data.payout(payout)
      const parts = (await data.payoutParts(payout)).items
      return [collected_count, deposit_count, parts.map(({amount}) => amount)]
    }
    const seen = [await news()]
    for (const amounts of [[], ['1'], ['2', '1'], ['3', '2', '1']]) {
      expect(await collected()).toEqual([amounts.length, 3, amounts])
      await money.allocate(shop, 1)
      seen.push(await news())
    }
    expect(await collected()).toEqual([null, 3, ['3', '2', '1']])
    expect(new Set(seen).size).toBe(5)
  })
})

describe('payment requests', () => {
  const asked = {currency: 'ETH-USDC', amount: '25', expiresInSeconds: 3600, lateAfterSeconds: 7200}
  const prefixOf = async () => (await data.me()).merchant_prefix

  test('one is made as the API makes it, listed, seen with what came for it, and cancelled while it waits', async () => {
    const externalId = `${await prefixOf()}-invoice-7`
    expect((await data.currencies()).map(({name}) => name)).toContain('ETH-USDC')
    expect(await data.createPaymentRequest(request(), {...asked, externalId, tolerance: '0.5%'})).toEqual({
      id: externalId,
    })
    const second = `${await prefixOf()}-invoice-8`
    await data.createPaymentRequest(request(), {...asked, externalId: second})
    expect((await data.paymentRequests({})).items.map(({external_id}) => external_id)).toEqual([second, externalId])
    expect((await data.paymentRequests({status: ['paid']})).items).toEqual([])
    expect((await data.paymentRequests({chain: 'BTC'})).items).toEqual([])

    const {address, due, tolerance, page_token} = await data.paymentRequest(externalId)
    expect([due, tolerance]).toEqual(['25000000', '0.125'])
    expect(page_token).toMatch(/^[\w-]{32}$/)
    const txid = await money.deposit(address, 25_000_000)
    const paid = await data.paymentRequest(externalId)
    expect(paid).toMatchObject({
      status: 'paid',
      due: '0',
      chain: 'ETH',
      token: 'USDC',
      receipts: [{txid, amount: '25'}],
    })
    expect(paid.events.map(({type}) => type)).toContain('payment_request.paid')

    await data.cancelPaymentRequest(request(), second)
    expect(await data.paymentRequest(second)).toMatchObject({status: 'cancelled', due: '0'})
    expect(await codeOf(data.cancelPaymentRequest(request(), externalId))).toBe('SL422')
    expect((await data.auditLog({})).items.map(({action, target}) => [action, target])).toEqual([
      ['payment_request.cancel', second],
      ['payment_request.create', second],
      ['payment_request.create', externalId],
    ])
  })

  test('one that ended with too little is on the overview for two weeks, and its list has exactly those', async () => {
    const externalId = `${await prefixOf()}-1`
    await data.createPaymentRequest(request(), {...asked, externalId})
    const {address} = await data.paymentRequest(externalId)
    await money.deposit(address, 20_000_000)
    const underpaid = async () => {
      const {underpaid_count, underpaid_since} = await data.overview()
      const {items} = await data.paymentRequests({status: ['underpaid'], from: underpaid_since})
      return [underpaid_count, ...items.map(({external_id}) => external_id)]
    }
    expect(await underpaid()).toEqual([0])
    const make = (ago: string) =>
      money.db.rows(
        `update app.payment_request set created_at = now() - $2::interval, expires_at = now() - $2::interval + interval '1 h' where external_id = $1`,
        [externalId, ago],
      )
    await make('13 days')
    await money.db.rows(`select app.refresh_payment(id) from app.payment_request where external_id = $1`, [externalId])
    expect(await underpaid()).toEqual([1, externalId])
    await make('15 days')
    expect(await underpaid()).toEqual([0])
  })

  test('what the API refuses is refused, and the same form sent again makes nothing', async () => {
    const externalId = `${await prefixOf()}-1`
    const form = request()
    await data.createPaymentRequest(form, {...asked, externalId})
    const refused = async (changes: object, id = request()) =>
      await codeOf(data.createPaymentRequest(id, {...asked, externalId: `${await prefixOf()}-2`, ...changes}))
    expect(await refused({}, form)).toBe('SLDUP')
    expect(await refused({externalId})).toBe('SL409')
    expect(await refused({externalId: 'other-2'})).toBe('SLPFX')
    expect(await refused({amount: '0.0000001'})).toBe('SLINV')
    expect(await refused({currency: 'ETH-DOGE'})).toBe('SL404')
    expect((await data.paymentRequests({})).items).toHaveLength(1)
    await money.db.rows('update app.merchant set suspended_at = now() where id = $1', [shop.merchantId])
    expect(await refused({})).toBe('SLSUS')
  })

  test('those of another merchant are neither seen nor cancelled', async () => {
    const externalId = `${await prefixOf()}-1`
    await data.createPaymentRequest(request(), {...asked, externalId})
    const other = new Data(pool, (await signIn(money.db, (await money.merchant()).merchantId)).token)
    expect((await other.paymentRequests({})).items).toEqual([])
    expect(await codeOf(other.paymentRequest(externalId))).toBe('SL404')
    expect(await codeOf(other.cancelPaymentRequest(request(), externalId))).toBe('SL404')
    expect((await data.paymentRequest(externalId)).status).toBe('awaiting')
  })
})

describe('what people look for', () => {
  test('a sender, the destination of a payout, and an amount lead to what has them, and to nothing of others', async () => {
    const sender = '0x9965507D1a55bcC2695C58ba16FB37d819B0A4dc'
    const transfer = {txid: money.newTxid(), token: 'USDC', amount: 12_500_000n, recipient: shop.address, sender}
    await money.block([transfer], [])
    await money.finalise()
    const {id} = await data.createPayout(request(), 'ETH', 'USDC', await money.payoutAddress(shop.merchantId))
    const {net, address} = await data.payout(id)
    const kinds = async (text: string, of = data) => (await of.search(text)).map(({kind, label}) => [kind, label])
    const deposit = ['deposit', '12.5 USDC on ETH, final']
    const payout = ['payout', `${net} USDC on ETH, pending`]
    expect(await kinds(sender)).toEqual([deposit])
    expect(await kinds(sender.toUpperCase().replace('0X', '0x'))).toEqual([deposit])
    expect(await kinds(address)).toEqual([payout, ['payout_address', address]])
    const ofGross = ['payout', `${net} USDC on ETH, of 12.5 gross, pending`]
    for (const text of ['12.5', '12.50', '12.5 usdc'])
      expect([text, await kinds(text)]).toEqual([text, [ofGross, deposit]])
    expect(await kinds(net)).toEqual([payout])
    expect(await kinds('12.5 ETH')).toEqual([])
    const other = new Data(pool, (await signIn(money.db, (await money.merchant()).merchantId)).token)
    for (const text of [sender, address, '12.5', net]) expect([text, await kinds(text, other)]).toEqual([text, []])
  })

  test('a payment request is found by its reference, its address and its transaction, and whoever has one is told so', async () => {
    expect(await data.hasPaymentRequests()).toBe(false)
    const made = await paymentRequests.create(money.api, shop.merchantId, {amount: 2_500_000})
    const txid = await money.deposit(made.address, 2_500_000)
    const label = '2.5 USDC on ETH, paid'
    for (const text of [made.external_id, made.address, made.address.toLowerCase(), txid])
      expect([text, await data.search(text)]).toEqual([
        text,
        [{kind: 'payment_request', id: made.external_id, endpoint_id: null, label, at: expect.any(String)}],
      ])
    expect([await data.hasPaymentRequests(), (await data.overview()).has_payment_requests]).toEqual([true, true])
    expect((await data.deposits({})).items).toEqual([])
    const other = new Data(pool, (await signIn(money.db, (await money.merchant()).merchantId)).token)
    expect([await other.search(txid), await other.hasPaymentRequests()]).toEqual([[], false])
  })

  test('a payment is found by what came, by the beginning of its transaction, by its ends, and by the link of its page', async () => {
    const made = await paymentRequests.create(money.api, shop.merchantId, {amount: 25_000_000})
    const txid = `0x${randomUUID().replaceAll('-', '').repeat(2)}`
    await money.block([{txid, token: 'USDC', amount: 10_000_000n, recipient: made.address}], [])
    await money.finalise()
    const found = async (text: string) => (await data.search(text)).map(({kind, id, label}) => [kind, id, label])
    const request = ['payment_request', made.external_id, '25 USDC on ETH, detected: 10 came']
    for (const text of ['10', '10 USDC', txid.slice(0, 12), `${txid.slice(0, 10)}…${txid.slice(-6)}`, made.page_token])
      expect([text, await found(text)]).toEqual([text, [request]])
    for (const text of [`${txid.slice(0, 10)}…00000x`, txid.slice(0, 6), '9.99'])
      expect([text, await found(text)]).toEqual([text, []])
    const other = new Data(pool, (await signIn(money.db, (await money.merchant()).merchantId)).token)
    for (const text of ['10', txid.slice(0, 12), made.page_token])
      expect([text, await other.search(text)]).toEqual([text, []])
  })

  test('what came for a request and does not pay it is shown with its reason, which its explanation says, too', async () => {
    const [wrongToken, wrongChain, left] = [await newRequest(), await newRequest(), await newRequest()]
    const coin = money.newTxid()
    await money.block([{txid: coin, token: 'ETH', amount: 10n ** 16n, recipient: wrongToken.address}], [])
    const reorged = await money.deposit(left.address, 21_000_000, {final: false})
    await money.eth.write({drop: 1, add: [[], []]})
    const elsewhere = money.newTxid()
    await money.db.rows(
      `insert into app.deposit (id, merchant_id, chain, token, amount, sender, address, txid, output_index, status, credited, version, payment_request_id)
       values (uuidv7(), $1, 'POLYGON', 'USDC', 25000000, '0x', $2, $3, 0, 'pending', false, 1, $4)`,
      [shop.merchantId, wrongChain.address, elsewhere, wrongChain.id],
    )
    const shown = async ({external_id}: {external_id: string}) => {
      const {not_counted, explanation} = await data.paymentRequest(external_id)
      return [...not_counted.map(({txid, what, why}) => [txid, what, why]), explanation]
    }
    const ask = '; ask the operator, who can add it to the balance, or send it back where the chain allows that'
    expect(await shown(wrongToken)).toEqual([
      [coin, '0.01 ETH', `another token was asked for${ask}`],
      `nothing that counts came yet; 0.01 ETH came and does not count: another token was asked for${ask}`,
    ])
    const why = `its address was not asked for on that chain${ask}`
    expect(await shown(wrongChain)).toEqual([
      [elsewhere, '25 USDC on POLYGON', why],
      `nothing that counts came yet; 25 USDC on POLYGON came and does not count: ${why}`,
    ])
    const gone = 'its block left the chain (a reorganisation), and it counts again if another block takes it'
    expect(await shown(left)).toEqual([
      [reorged, '21 USDC', gone],
      `nothing that counts came yet; 21 USDC came and does not count: ${gone}`,
    ])
    for (const {txid, made} of [
      {txid: coin, made: wrongToken},
      {txid: reorged, made: left},
    ])
      expect(await data.search(txid)).toMatchObject([{kind: 'payment_request', id: made.external_id}])
    await money.finalise()
    await money.db.rows('select app.credit_unattributed(id) from app.deposit where txid = $1', [coin])
    expect((await shown(wrongToken))[0]).toEqual([
      coin,
      '0.01 ETH',
      'it was not asked for, and the operator added it to the balance',
    ])

    function newRequest() {
      return paymentRequests.create(money.api, shop.merchantId, {amount: 25_000_000})
    }
  })

  test('a payment to a user that is not credited is found by transaction, sender and amount, with the reason, and its user’s page has it', async () => {
    const [txid, token] = [
      `0x${randomUUID().replaceAll('-', '').repeat(2)}`,
      '0x0000000000000000000000000000000000000bad',
    ]
    const sender = '0xDbC05B1ECB4fdaEF943819C0B04e9ef6df4bAbd6'
    await money.db.rows(
      `insert into app.deposit (id, merchant_id, user_id, chain, token, amount, sender, address, txid, output_index, status, credited, version)
       values (uuidv7(), $1, $2, 'ETH', $3, 4321000, $6, $4, $5, 0, 'pending', false, 1)`,
      [shop.merchantId, shop.userId, token, shop.address, txid, sender],
    )
    const [user] = (await data.users({})).items
    const [what, reason] = [
      `4321000 base units of the token ${token}`,
      'its token is not accepted here, and is out of reach until the operator adds it',
    ]
    const ways = [txid, txid.slice(0, 12), `${txid.slice(0, 10)}…${txid.slice(-6)}`, sender, sender.toLowerCase()]
    const other = new Data(pool, (await signIn(money.db, (await money.merchant()).merchantId)).token)
    for (const text of [...ways, '4.321', '4.321 USDT', '4321000']) {
      const found = (await data.search(text)).map(({kind, id, label}) => [kind, id, label])
      expect([text, ...found]).toEqual([text, ['not_credited', user!.id, `${what} on ETH, not credited: ${reason}`]])
      expect([text, await other.search(text)]).toEqual([text, []])
    }
    expect(await data.notCredited(user!.id)).toMatchObject([{chain: 'ETH', what, why: reason, sender, txid}])
    await expect(other.notCredited(user!.id)).rejects.toMatchObject({code: 'SL404'})
  })

  test('another coin than was asked for is found at its payment request by sender and amount', async () => {
    const {address, external_id} = await paymentRequests.create(money.api, shop.merchantId, {amount: 25_000_000})
    const sender = '0x14dC79964da2C08b23698B3D3cc7Ca32193d9955'
    await money.block([{txid: money.newTxid(), token: 'ETH', amount: 15n * 10n ** 15n, recipient: address, sender}], [])
    for (const text of [sender, '0.015', '0.015 ETH'])
      expect([text, ...(await data.search(text))]).toMatchObject([text, {kind: 'payment_request', id: external_id}])
    expect(await data.search('0.015 USDC')).toEqual([])
  })

  test('a reference is found as it was typed, without the prefix, and by its beginning if nothing has the whole; a payout also by its gross', async () => {
    const prefix = await paymentRequests.prefixOf(shop.merchantId)
    for (const reference of ['invoice 7', 'invoice 71'])
      await paymentRequests.create(money.api, shop.merchantId, {externalId: `${prefix}-${reference}`})
    await money.db.rows('update app.user set external_ref = $2 where id = $1', [shop.userId, 'customer_42'])
    await money.deposit(shop.address, 20_000_000)
    await money.claim(shop)
    const found = async (text: string) =>
      (await data.search(text)).map(({kind, id, label}) => [kind, kind === 'payment_request' ? id : label])
    expect(await found('invoice 7')).toEqual([['payment_request', `${prefix}-invoice 7`]])
    const both = [`${prefix}-invoice 71`, `${prefix}-invoice 7`].map(id => ['payment_request', id])
    for (const text of ['invoice', `${prefix}-inv`]) expect([text, await found(text)]).toEqual([text, both])
    expect([await found('customer_4'), await found('customer%')]).toEqual([[['user', 'customer_42']], []])
    expect(await found('cu')).toEqual([])
    expect(await found('20 USDC')).toEqual([
      ['payout', '19.8 USDC on ETH, of 20 gross, pending'],
      ['deposit', '20 USDC on ETH, final'],
    ])
    const other = new Data(pool, (await signIn(money.db, (await money.merchant()).merchantId)).token)
    for (const text of ['invoice', 'customer_4', '20 USDC']) expect(await other.search(text)).toEqual([])
  })

  test('a delivery says what it is about', async () => {
    const {id} = await data.createEndpoint(request(), 'https://example.com/about', [
      'deposit.confirmed',
      'payment_request.paid',
    ])
    const made = await paymentRequests.create(money.api, shop.merchantId, {amount: 3_000_000})
    await money.deposit(made.address, 3_000_000)
    await money.deposit(shop.address, 4_000_000)
    const [deposit] = (await data.deposits({})).items
    const about = (await data.deliveries(id, {})).items.map(delivery => delivery.about)
    expect(about).toEqual([
      {kind: 'deposit', id: deposit!.id, label: '4 USDC'},
      {kind: 'payment_request', id: made.external_id, label: made.external_id},
    ])
    await data.testEndpoint(request(), id, 'payout.failed')
    expect((await data.deliveries(id, {})).items[0]!.about).toBeNull()
  })

  test('the payout address and the event of a test are found', async () => {
    const address = (await data.payoutAddresses())[0]!.address
    expect(await data.search(address.toLowerCase())).toMatchObject([{kind: 'payout_address', id: 'ETH'}])
    const {id} = await data.createEndpoint(request(), 'https://example.com/hook', ['payout.failed'])
    const test = await data.testEndpoint(request(), id, 'payout.failed')
    const {event_id} = await data.delivery(id, test.id)
    expect(await data.search(event_id)).toMatchObject([{kind: 'delivery', id: test.id, endpoint_id: id}])
  })

  test('all payouts that wait are on the overview, and no other one', async () => {
    await money.deposit(shop.address, 20_000_000)
    const payout = await money.claim(shop)
    expect((await data.overview()).waiting).toEqual([])
    await money.db.rows(
      `update app.payout set waiting_reason = 'not_whitelisted', waiting_since = clock_timestamp() where id = $1`,
      [payout],
    )
    expect((await data.overview()).waiting).toMatchObject([{net: '19.8', waiting: {code: 'address_not_whitelisted'}}])
  })

  test('a payout that waits for the whitelist says from when on its address is there, once the operator has put it there', async () => {
    await money.deposit(shop.address, 20_000_000)
    const payout = await money.claim(shop)
    await money.jobs.query(`select app.wait_payout($1, 'not_whitelisted', 'x', 1000)`, [payout])
    const newest = async () => (await data.payouts({})).items[0]!
    expect(await newest()).toMatchObject({waiting: {code: 'address_not_whitelisted'}, whitelisted_at: null})
    expect((await data.overview()).has_whitelisted).toBe(false)
    await money.db.rows(
      `insert into custody.whitelist (merchant_id, chain, address, active_at)
       select merchant_id, chain, address, '2100-01-01' from app.payout where id = $1`,
      [payout],
    )
    expect(await newest()).toMatchObject({whitelisted_at: '2100-01-01T00:00:00.000Z'})
    expect((await data.overview()).has_whitelisted).toBe(false)
    await money.db.rows(`update custody.whitelist set active_at = now() where merchant_id = $1`, [shop.merchantId])
    expect((await data.overview()).has_whitelisted).toBe(true)
  })

  test('all attempts of a delivery are counted, also those before it was sent again; a deleted endpoint, and one that was never contacted, are marked', async () => {
    const {id} = await data.createEndpoint(request(), 'https://example.com/hook', ['deposit.confirmed'])
    await money.deposit(shop.address, 20_000_000)
    const [deposit] = (await data.deposits({})).items
    const delivery = async () => (await data.deposit(deposit!.id)).events.flatMap(({deliveries}) => deliveries)[0]!
    expect([await data.endpoint(id), await delivery()]).toMatchObject([{was_tried: false}, {attempts: []}])
    const attempt = async () =>
      await money.jobs.query(
        `select app.record_attempts($1, array[$2::uuid], '{1}', '{0}', '{1}', '{500}', '{answered 500}', array[null::bigint])`,
        [idOf(id), idOf((await delivery()).id)],
      )
    await attempt()
    expect([await data.endpoint(id), await delivery()]).toMatchObject([
      {was_tried: true},
      {attempts: [{response_status: 500}]},
    ])
    await data.redeliver(request(), id, (await delivery()).id)
    await attempt()
    expect(await delivery()).toMatchObject({attempts: [{}, {}], status: 'failed', endpoint_deleted: false})
    await data.deleteEndpoint(request(), id)
    expect(await delivery()).toMatchObject({endpoint_deleted: true})
  })
})

test('the audit log is only added to, even by the owner of the database', async () => {
  await data.createApiKey(request(), hash(6), 'x', ['read'])
  for (const change of [
    'update dashboard.audit_entry set action = action',
    'delete from dashboard.audit_entry',
    'truncate dashboard.audit_entry',
  ])
    expect(await codeOf(money.db.rows(change))).toBe('P0001')
})
