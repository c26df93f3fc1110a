// Statements, their lines and past balances over random histories: deposits, reorganisations below the final block,
// payouts that are paid, fail or are reorged, other fees, and totals that are folded at any time. Between two steps the
// clock moves on, by moving everything that was posted back. What a merchant reads of any period must be what it read
// at the time. STATEMENT_STEPS=2000 takes more steps than the quick suite.
import fc from 'fast-check'
import {afterAll, beforeAll, expect, test} from 'vitest'
import type {Charts} from '../dashboard/pages/data.ts'
import {assertBooks} from '../test/support/books.ts'
import {signIn} from '../test/support/dashboard.ts'
import {Money} from '../test/support/money.ts'
import type {TestUser} from '../test/support/people.ts'

const steps = Number(process.env.STATEMENT_STEPS ?? 72)
const stepsOfRun = 24
const quarterMs = 900_000
const tokens = ['USDC', 'ETH'] as const
const kinds = ['deposits', 'deposits_lost', 'payouts', 'fees', 'adjustments'] as const

let money: Money
beforeAll(async () => {
  money = await Money.open()
  for (const token of tokens) await money.topUp(token, 1_000_000)
})
afterAll(() => money.close())

interface Balance {
  chain: string
  token: string
  gross: string
}
interface Sums extends Record<(typeof kinds)[number] | 'opening_balance' | 'closing_balance', string> {
  token: string
  held_back: string
}
interface Line {
  created_at: string
  token: string
  type: string
  amount: string
}

async function read<T>(sql: string, ...values: unknown[]): Promise<T> {
  const {rows} = await money.api.query(`select ${sql} as found`, values)
  return rows[0].found
}
const pick = <T>(list: readonly T[], n: number): T => list[n % list.length]!
const units = (amount: string) => {
  const [whole, fraction = ''] = amount.split('.')
  return BigInt(whole! + fraction.padEnd(18, '0'))
}
const sumOf = (amounts: string[]) => amounts.reduce((sum, amount) => sum + units(amount), 0n)

class History {
  readonly merchants: TestUser[] = []
  /** What a merchant read after each step, and how far the clock has moved since. */
  readonly #read: {merchant: TestUser; at: number; balances: unknown}[] = []
  #deposits: {txid: string; user: TestUser; amount: number}[] = []
  readonly seen: Record<string, number> = {}

  async begin(): Promise<void> {
    this.merchants.push(await money.merchant(), await money.merchant())
  }

  readonly #actions: Record<string, (a: number, b: number, c: number) => Promise<unknown>> = {
    deposit: async (a, b, c) => {
      const user = pick(this.merchants, a)
      const amount = 1000 + c
      this.#deposits.push({txid: await money.deposit(user.address, amount, {token: pick(tokens, b)}), user, amount})
    },
    lose: async a => {
      const lost = this.#deposits.at(-1 - (a % 3))
      if (!lost) return
      this.#deposits = this.#deposits.filter(({txid}) => txid !== lost.txid)
      await money.lose(lost.txid)
      await money.resolve('reorged')
      if (a % 2) await money.giveBack(lost.txid, lost.user.address, lost.amount + (a % 5))
    },
    claim: async (a, b) => money.claim(pick(this.merchants, a), pick(tokens, b)),
    fail: async () => {
      const payout = await this.#pending()
      if (payout) await money.work('fail_payout', payout, 'timed_out', 'because')
    },
    pay: async () => {
      const payout = await this.#pending()
      if (payout) await money.mineFinally([await money.payAndSign(payout)])
    },
    fee: async (a, b) =>
      money.db.rows('select app.update_merchant($1, null, $2)', [pick(this.merchants, a).merchantId, (b % 5) * 100]),
    fold: async a => money.work('fold_totals', 1 + (a % 9)),
  }

  async #pending(): Promise<string | undefined> {
    const [row] = await money.db.rows<{id: string}>(`select id from app.payout where status = 'pending' limit 1`)
    return row?.id
  }

  async step([name, a, b, c, quarters]: readonly [string, number, number, number, number]): Promise<void> {
    try {
      await this.#actions[name]!(a, b, c)
      this.seen[name] = (this.seen[name] ?? 0) + 1
    } catch (error) {
      if (!['SLPAY', 'SL422'].includes((error as {code?: string}).code ?? '')) throw error
    }
    for (const merchant of this.merchants)
      this.#read.push({
        merchant,
        at: Date.now(),
        balances: await read('app.read_balances($1)', merchant.merchantId),
      })
    await this.#wait(quarters)
  }

  async #wait(quarters: number): Promise<void> {
    for (const shown of this.#read) shown.at -= quarters * quarterMs
    await money.db.rows(`begin;
      set local session_replication_role = replica; -- no trigger refuses to change the ledger
      update app.ledger_entry set created_at = created_at - ${quarters} * interval '15 minutes';
      update app.total_change set at = at - ${quarters} * interval '15 minutes';
      create temp table moved on commit drop as select * from app.running_total;
      delete from app.running_total;
      insert into app.running_total
        select merchant_id, series, about, until - ${quarters} * interval '15 minutes', count, amount from moved;
      commit`)
  }

  async check(pairs: readonly (readonly [number, number])[]): Promise<void> {
    const moments = this.#read.map(({at}) => new Date((Math.floor(at / quarterMs) + 1) * quarterMs))
    for (const [index, {merchant, balances}] of this.#read.entries())
      expect(await read('app.read_balances_at($1, $2)', merchant.merchantId, moments[index])).toEqual(balances)
    for (const [a, b] of pairs) {
      const [from, to] = [pick(moments, a), pick(moments, b)].sort((x, y) => x.getTime() - y.getTime())
      if (from!.getTime() === to!.getTime()) continue
      for (const {merchantId} of this.merchants) await this.#checkPeriod(merchantId, from!, to!)
    }
  }

  /** As in a database that was there before totals were kept. */
  async checkBackfill(): Promise<void> {
    const [from, to] = [new Date(0), new Date((Math.floor(Date.now() / quarterMs) + 1) * quarterMs)]
    const statements = () =>
      Promise.all(
        this.merchants.map(({merchantId}) => read('app.read_statements($1, null, null, $2, $3)', merchantId, from, to)),
      )
    const before = await statements()
    await money.db.rows(`begin;
      delete from app.running_total where series in (select type from app.statement_line union select 'balance');
      delete from app.total_change where series in (select type from app.statement_line union select 'balance');
      update app.total_backfill set done_up_to = 0, last_entry = (select max(id) from app.ledger_entry);
      commit`)
    await expect(statements()).rejects.toMatchObject({code: 'SL503'})
    while (await money.work<number>('fold_totals', 37));
    expect(await statements()).toEqual(before)
  }

  async #checkPeriod(merchantId: string, from: Date, to: Date): Promise<void> {
    const statements = await read<Sums[]>('app.read_statements($1, null, null, $2, $3)', merchantId, from, to)
    const lines = await linesOf(merchantId, from, to)
    const rows = await rowsOf(merchantId, from, to)
    const [before, after] = await Promise.all([balancesAt(merchantId, from), balancesAt(merchantId, to)])
    for (const token of tokens) {
      const sums = statements.find(statement => statement.token === token)
      const own = lines.filter(line => line.token === token)
      if (!sums) {
        expect([own, before(token), after(token)]).toEqual([[], 0n, 0n])
        continue
      }
      expect([units(sums.opening_balance), units(sums.closing_balance)]).toEqual([before(token), after(token)])
      expect(sumOf([sums.opening_balance, ...kinds.map(kind => sums[kind])])).toBe(units(sums.closing_balance))
      const ofFile = (type: string) =>
        sumOf(rows.filter(row => row.token === token && row.type === type).map(row => row.amount))
      expect([ofFile('opening_balance'), ofFile('closing_balance')]).toEqual([before(token), after(token)])
      for (const kind of ['deposits', 'payouts', 'fees'] as const)
        expect(ofFile(`sum_of_${kind}`)).toBe(units(sums[kind]))
      for (const line of new Set(own.map(({type}) => type)))
        expect(ofFile(line)).toBe(sumOf(own.filter(({type}) => type === line).map(({amount}) => amount)))
      for (const kind of kinds)
        expect(sumOf(own.filter(({type}) => type === kind.replace(/s(_|$)/, '$1')).map(({amount}) => amount))).toBe(
          units(sums[kind]),
        )
    }
  }
}

/**
 * Of a file, page by page: of each asset the opening balance, the lines as they happened, the sums, the closing
 * balance.
 */
async function rowsOf(merchantId: string, from: Date, to: Date): Promise<Line[]> {
  const found: Line[] = []
  for (let place: string | null = null; ; ) {
    const {rows}: {rows: (Line & {place: string})[]} = await money.db.pool.query(
      'select place, token, type, amount::text, created_at from app.statement_file($1, $2, $3, 3)',
      [merchantId, JSON.stringify({from, to}), place],
    )
    if (!rows.length) break
    place = rows.at(-1)!.place
    found.push(...rows)
  }
  const types = found.map(({type}) => type.replace(/^(?!opening|closing|sum|held|payouts).*/, 'line').split('_')[0])
  expect(types.join(' ')).toMatch(/^(opening (line )*sum sum (sum )*(held )?payouts closing ?)*$/)
  const times = found.filter(({type}) => type.startsWith('sum') === false).map(line => [line.token, line.created_at])
  expect(times).toEqual([...times].sort(([a, at], [b, then]) => (a === b ? Number(at) - Number(then) : 0)))
  return found
}

/** The charts of the last days, and the statement of the same days. */
async function checkCharts({merchantId}: TestUser): Promise<void> {
  const {token} = await signIn(money.db, merchantId)
  const {rows} = await money.db.pool.query('select dashboard.charts($1, $2, 365) as found', [
    token,
    ['deposit', 'deposit_lost', 'payout', 'fee', 'balance'],
  ])
  const {days, series}: Charts = rows[0].found
  const to = new Date(Date.parse(days.at(-1)!) + 86_400_000)
  const statements = await read<Sums[]>('app.read_statements($1, null, null, $2, $3)', merchantId, days[0], to)
  for (const {token: name, ...sums} of statements)
    for (const {series: drawn, about, amounts, amounts_at_end} of series) {
      if (about !== `ETH:${name}`) continue
      const kind = {deposit: 'deposits', deposit_lost: 'deposits_lost', payout: 'payouts', fee: 'fees'}[drawn]
      if (kind) expect(sumOf(amounts), drawn).toBe(units(sums[kind as (typeof kinds)[number]]))
      else expect(units(amounts_at_end.at(-1)!)).toBe(units(sums.closing_balance))
    }
}

async function balancesAt(merchantId: string, at: Date): Promise<(token: string) => bigint> {
  const {balances} = await read<{balances: Balance[]}>('app.read_balances_at($1, $2)', merchantId, at)
  return token => units(balances.find(balance => balance.token === token)?.gross ?? '0')
}

/** Page by page, which must be in order, without a gap. */
async function linesOf(merchantId: string, from: Date, to: Date): Promise<Line[]> {
  const found: Line[] = []
  for (let place: string = String(2n ** 128n - 1n); ; ) {
    const {rows} = await money.api.query<{place: string; item: Line}>(
      'select place::text, item from app.read_lines($1, $2, $3, 3) order by place desc',
      [merchantId, JSON.stringify({from, to}), place],
    )
    if (!rows.length) return found
    for (const row of rows) {
      expect(BigInt(row.place) < BigInt(place)).toBe(true)
      expect(Date.parse(row.item.created_at) >= from.getTime() && Date.parse(row.item.created_at) < to.getTime()).toBe(
        true,
      )
      place = row.place
      found.push(row.item)
    }
  }
}

const step = fc.tuple(
  fc.constantFrom('deposit', 'deposit', 'deposit', 'lose', 'claim', 'claim', 'fail', 'pay', 'fee', 'fold'),
  fc.nat(99),
  fc.nat(99),
  fc.nat(999),
  fc.integer({min: 1, max: 300}),
)

test('statements of any period, their lines, and balances at any past time are what was read at the time', async () => {
  const seen: Record<string, number> = {}
  const property = fc.asyncProperty(
    fc.array(step, {minLength: stepsOfRun, maxLength: stepsOfRun}),
    fc.array(fc.tuple(fc.nat(99), fc.nat(99)), {minLength: 6, maxLength: 6}),
    async (history, periods) => {
      const world = new History()
      await world.begin()
      for (const each of history) await world.step(each)
      await world.check(periods)
      for (const merchant of world.merchants) await checkCharts(merchant)
      await world.checkBackfill()
      await assertBooks(money.db)
      for (const [name, count] of Object.entries(world.seen)) seen[name] = (seen[name] ?? 0) + count
    },
  )
  await fc.assert(property, {numRuns: Math.ceil(steps / stepsOfRun), endOnFailure: true})
  for (const name of ['deposit', 'lose', 'claim', 'fail', 'pay', 'fold']) expect(seen[name], name).toBeGreaterThan(0)
})
