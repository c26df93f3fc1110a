// Claims: a payout takes the whole balance of one moment, once, and gives it back when it fails, whatever is claimed,
// allocated, deposited or cancelled meanwhile. The tests use the roles of the API and the worker; the books are checked
// after every test.
import {afterAll, afterEach, beforeAll, describe, expect, test} from 'vitest'
import {assertBooks} from '../test/support/books.ts'
import {Money} from '../test/support/money.ts'
import {idOf, type TestUser} from '../test/support/people.ts'

let money: Money

beforeAll(async () => {
  money = await Money.open()
})
afterAll(() => money.close())
afterEach(() => assertBooks(money.db))

/** A merchant with this much USDC, in so many final deposits. */
async function rich(amount = 1000, deposits = 1): Promise<TestUser> {
  const user = await money.merchant()
  await more(user, amount, deposits)
  return user
}

async function more(user: TestUser, amount = 1000, deposits = 1): Promise<void> {
  const each = BigInt(amount / deposits)
  const transfers = Array.from({length: deposits}, () => {
    return {txid: money.newTxid(), amount: each, recipient: user.address}
  })
  await money.block(transfers, [])
  await money.finalise()
}

/** What a payout collected so far: deposits, and their sum. */
async function collected(payout: string): Promise<[number, number]> {
  const [row] = await money.db.rows<{count: string; sum: string}>(
    'select count(*), coalesce(sum(amount), 0) as sum from app.deposit where settlement_id = $1',
    [payout],
  )
  return [Number(row!.count), Number(row!.sum)]
}

async function allocateAll(user: TestUser, batch = 3): Promise<number> {
  let steps = 1
  while (await money.allocate(user, batch)) {
    steps += 1
    await assertBooks(money.db)
  }
  return steps
}

const fail = (payout: string, code = 'cancelled') => money.work<boolean>('fail_payout', payout, code, 'because')
const payoutsOf = ({merchantId}: TestUser) =>
  money.db.rows('select id from app.payout where merchant_id = $1', [merchantId])

describe('a claim', () => {
  test('takes the whole balance; of 20 at once one succeeds, and 19 are refused', async () => {
    const user = await rich(1000, 4)
    const claims = await Promise.allSettled(Array.from({length: 20}, () => money.claim(user)))
    const refused = claims.flatMap(claim => (claim.status === 'rejected' ? [claim.reason.code] : []))
    expect(refused).toEqual(Array(19).fill('SLPAY'))
    expect(await money.balance(user)).toBe(0)
    const [{id}] = (await payoutsOf(user)) as [{id: string}]
    expect(await collected(id)).toEqual([4, 1000])
    expect(await payoutsOf(user)).toHaveLength(1)
  })

  test('keeps the fee, rounded down, at the current rate', async () => {
    const user = await rich(1999)
    const reply = JSON.parse(await money.request(user.merchantId, {}))
    expect(reply).toMatchObject({gross: '0.001999', fee: '0.000019', net: '0.00198', status: 'pending', txid: null})
  })

  test('takes one token of one chain, and leaves the others', async () => {
    const user = await rich()
    await money.deposit(user.address, 70, {token: 'ETH'})
    await money.claim(user)
    expect(await money.balance(user, 'ETH')).toBe(70)
  })

  test('takes no deposits that are not final or belong to another merchant', async () => {
    const [user, other] = [await rich(), await rich()]
    await money.deposit(user.address, 5, {final: false})
    expect(await collected(await money.claim(user))).toEqual([1, 1000])
    expect(await money.balance(other)).toBe(1000)
    await money.finalise()
    expect(await money.balance(user)).toBe(5)
  })

  test('does not make an indexer wait while its deposits are allocated', async () => {
    const user = await rich()
    const client = await money.api.connect()
    try {
      await client.query('begin')
      await client.query(`select app.create_payout($1, 'ETH', 'USDC', false, null, null)`, [user.merchantId])
      await money.deposit(user.address, 20)
      await client.query('commit')
    } finally {
      client.release()
    }
    expect(await money.balance(user)).toBe(20)
  })

  test.each([
    ['there is nothing to pay out', async () => money.merchant()],
    [
      'no payout address is registered for ETH',
      async () => {
        const user = await rich()
        await money.db.rows('delete from app.payout_address where merchant_id = $1', [user.merchantId])
        return user
      },
    ],
    [
      'the payout address belongs to this service; register one of your own',
      async () => {
        const [user, other] = [await rich(), await money.merchant()]
        const own = 'update app.payout_address set address = $2 where merchant_id = $1'
        await money.db.rows(own, [user.merchantId, other.address])
        return user
      },
    ],
    [
      'the balance is below the smallest payout (0.000001 USDC)',
      async () => {
        const user = await rich()
        await money.db.rows('update app.merchant set fee_bps = 10000 where id = $1', [user.merchantId])
        return user
      },
    ],
  ])('is refused, and takes nothing: %s', async (why, make) => {
    const user = await make()
    const before = await money.balance(user)
    await expect(money.claim(user)).rejects.toMatchObject({code: 'SLPAY', message: why})
    expect(await money.balance(user)).toBe(before)
    expect(await payoutsOf(user)).toEqual([])
  })

  test('of an unknown token or chain is refused, each with its own code', async () => {
    const user = await rich()
    const on = (chain: string, token: string) =>
      money.api.query(`select app.create_payout($1, $2, $3, false, null, null)`, [user.merchantId, chain, token])
    await expect(on('ETH', 'DOGE')).rejects.toMatchObject({code: 'SLTOK'})
    await expect(on('POLYGON', 'POL')).rejects.toMatchObject({code: 'SLCHN'})
    await expect(on('DOGE', 'DOGE')).rejects.toMatchObject({code: 'SLCHN'})
  })

  test('of a chain that was disabled for the merchant takes the remaining balance once', async () => {
    const user = await rich()
    await money.db.rows(`select app.set_merchant_chain($1, 'ETH', false)`, [user.merchantId])
    await money.claim(user)
    await expect(money.claim(user)).rejects.toMatchObject({code: 'SLCHN'})
  })

  test('is refused while an incident of the chain is open', async () => {
    const user = await rich()
    await money.db.rows(
      `insert into app.incident (chain, kind, subject, details) values ('ETH', 'unknown_transaction', 'ETH:x', '{}')`,
    )
    await expect(money.claim(user)).rejects.toThrow('payouts of ETH are stopped: incident')
    await money.resolve('kept')
    await money.claim(user)
  })
})

describe('an Idempotency-Key', () => {
  test('returns the same response again, byte for byte, whatever happened to the payout', async () => {
    const user = await rich()
    const first = await money.request(user.merchantId, {key: 'k'})
    await more(user)
    await fail(idOf(JSON.parse(first).id))
    expect(await money.request(user.merchantId, {key: 'k'})).toBe(first)
    expect(await payoutsOf(user)).toHaveLength(1)
  })

  test('is refused with a different request', async () => {
    const user = await rich()
    await money.request(user.merchantId, {key: 'k'})
    await more(user)
    await expect(money.request(user.merchantId, {key: 'k', body: 'other'})).rejects.toMatchObject({code: 'SLIDK'})
  })

  test('of another merchant is another key', async () => {
    const [user, other] = [await rich(), await rich()]
    const [mine, theirs] = [
      await money.request(user.merchantId, {key: 'k'}),
      await money.request(other.merchantId, {key: 'k'}),
    ]
    expect(mine).not.toBe(theirs)
  })

  test('makes simultaneous duplicates wait for each other and get one response', async () => {
    const user = await rich()
    const duplicates = Array.from({length: 10}, () => money.request(user.merchantId, {key: 'duplicates'}))
    expect(new Set(await Promise.all(duplicates)).size).toBe(1)
    expect(await payoutsOf(user)).toHaveLength(1)
  })

  test('is not used up by a refused request', async () => {
    const user = await money.merchant()
    await expect(money.request(user.merchantId, {key: 'k'})).rejects.toMatchObject({code: 'SLPAY'})
    await more(user)
    expect(JSON.parse(await money.request(user.merchantId, {key: 'k'}))).toMatchObject({status: 'pending'})
  })
})

describe('allocation, in steps of three deposits,', () => {
  test('gives a payout exactly the deposits that were final when it was claimed, while more become final', async () => {
    const user = await rich(700, 7)
    const payout = await money.withoutAllocation(user, 'USDC', () => money.claim(user))
    expect(await collected(payout)).toEqual([0, 0])
    await more(user, 500, 5)
    expect(await money.allocate(user, 3)).toBe(true)
    await more(user, 500, 5)
    await allocateAll(user)
    expect(await collected(payout)).toEqual([7, 700])
    expect(await money.balance(user)).toBe(1000)
  })

  test('serves a second claim after the first, each with its own deposits', async () => {
    const user = await rich(700, 7)
    const [first, second] = await money.withoutAllocation(user, 'USDC', async () => {
      const one = await money.claim(user)
      await more(user, 400, 4)
      return [one, await money.claim(user)]
    })
    expect(await allocateAll(user)).toBeGreaterThan(4)
    expect([await collected(first), await collected(second)]).toEqual([
      [7, 700],
      [4, 400],
    ])
  })

  test('releases everything when the payout fails half-way, for a claim that came in between', async () => {
    const user = await rich(700, 7)
    const [first, second] = await money.withoutAllocation(user, 'USDC', async () => {
      const one = await money.claim(user)
      await more(user, 400, 4)
      await fail(one)
      expect(await money.balance(user)).toBe(1100)
      return [one, await money.claim(user)]
    })
    await money.allocate(user, 3)
    await more(user, 50)
    await allocateAll(user)
    expect([await collected(first), await collected(second)]).toEqual([
      [0, 0],
      [11, 1100],
    ])
    expect(await money.balance(user)).toBe(50)
  })

  test('stops if the deposits are not those that the payout claimed', async () => {
    const user = await rich(700, 7)
    const payout = await money.withoutAllocation(user, 'USDC', () => money.claim(user))
    const claimed = (more: number) =>
      money.db.rows('update app.claim set amount = amount + $2 where payout_id = $1', [payout, more])
    await claimed(1)
    await expect(money.allocate(user, 8)).rejects.toThrow('must have 7 deposits (701), but 7 (700) were found')
    expect(await collected(payout)).toEqual([0, 0])
    await claimed(-1)
    await allocateAll(user)
    expect(await collected(payout)).toEqual([7, 700])
  })

  test('is right with any number of workers at once', async () => {
    const user = await rich(3000, 30)
    const payout = await money.withoutAllocation(user, 'USDC', () => money.claim(user))
    const worker = async () => {
      while (await money.allocate(user, 3));
    }
    await Promise.all([worker(), worker(), worker(), worker()])
    expect(await collected(payout)).toEqual([30, 3000])
  })

  test('has a job as long as something is left to allocate', async () => {
    const user = await rich(400, 4)
    await money.withoutAllocation(user, 'USDC', () => money.claim(user))
    await money.db.rows(`delete from graphile_worker._private_jobs`)
    const due = await money.db.rows<{task: string; key: string}>('select task, key from app.due_job')
    expect(due).toContainEqual({task: 'allocate_deposits', key: `allocate:${user.merchantId}:ETH:USDC`})
    await allocateAll(user)
  })
})

describe('cancelling', () => {
  const asMerchant = (user: TestUser, payout: string) =>
    money.api.query('select app.cancel_payout($1, $2)', [user.merchantId, payout])
  const asOperator = async (payout: string) =>
    (await money.db.rows<{done: string}>('select app.cancel_payout_by_operator($1) as done', [payout]))[0]!.done

  /** A payout in each state that it can be in before it is over. */
  const states: Record<string, (payout: string) => Promise<unknown>> = {
    async pending() {},
    sweeping: payout => money.work('begin_sweeping', payout),
    async swept(payout) {
      await money.work('begin_sweeping', payout)
      await money.work('end_sweeping', payout)
    },
    allocated: payout => money.pay(payout),
    paying: payout => money.payAndSign(payout),
  }

  beforeAll(async () => {
    await money.topUp('ETH', 10_000)
    await money.topUp('USDC', 100_000)
  })

  test.each(Object.entries(states))(
    'by the merchant is granted until the payment of a payout has begun: %s',
    async (state, reach) => {
      const user = await rich()
      const payout = await money.claim(user)
      await reach(payout)
      if (state === 'pending' || state === 'sweeping' || state === 'swept') {
        await asMerchant(user, payout)
        expect([await money.status(payout), await money.balance(user)]).toEqual(['failed cancelled', 1000])
      } else {
        await expect(asMerchant(user, payout)).rejects.toMatchObject({code: 'SL422'})
        expect(await money.balance(user)).toBe(0)
      }
    },
  )

  test.each(Object.entries(states))('by the operator fails it at once before it pays: %s', async (state, reach) => {
    const user = await rich()
    const payout = await money.claim(user)
    await reach(payout)
    const before = await money.operatorFunds('ETH')
    expect(await asOperator(payout)).toBe(state === 'paying' ? 'cancelling' : 'failed')
    if (state === 'paying') expect(await money.status(payout)).toBe('paying')
    else expect([await money.status(payout), await money.balance(user)]).toEqual(['failed cancelled', 1000])
    if (state === 'pending' || state === 'sweeping' || state === 'swept') return

    // A nonce was taken: a transaction that moves nothing uses it up.
    await assertBooks(money.db)
    const outgoingPayment = await money.payment(payout)
    expect(await money.attempt(outgoingPayment)).toBeUndefined()
    const cancel = await money.attempt(outgoingPayment, {kind: 'cancel', price: 2})
    await money.mineFinally([cancel!], {fee: 3})
    expect([await money.status(payout), await money.balance(user)]).toEqual(['failed cancelled', 1000])
    expect(await money.operatorFunds('ETH')).toBe(before + networkFeeReserved - 3)
  })
  const networkFeeReserved = 10

  test('what was swept for a payout that its merchant cancels is paid by the next one, without another sweep', async () => {
    const user = await rich()
    const payout = await money.claim(user)
    await money.work('begin_sweeping', payout)
    await money.sweep(payout, [user.address])
    const sweep = await money.sweepOf(user.address)
    await asMerchant(user, payout)
    expect([await money.status(payout), await money.balance(user)]).toEqual(['failed cancelled', 1000])
    while (await money.allocate(user, 100));

    const next = await money.claim(user)
    await money.work('begin_sweeping', next)
    await money.sweep(next, [user.address])
    expect(await money.sweepOf(user.address)).toBe(sweep) // it counts for this one
    await money.mineFinally([(await money.attempt(sweep))!])
    expect(await money.db.rows('select from app.holding where address = $1 and amount > 0', [user.address])).toEqual([])
    await money.mineFinally([await money.payAndSign(next)])
    expect(await money.status(next)).toBe('completed')
    const [{count}] = (await money.db.rows<{count: number}>(
      `select count(*)::int as count from app.outgoing_payment where kind = 'sweep' and source = $1`,
      [user.address],
    )) as [{count: number}]
    expect(count).toBe(1)
  })

  test('by a merchant of payouts that have begun to sweep is limited within a day; of pending ones, and by the operator, it is not', async () => {
    const user = await rich()
    const cancel = async (begun: boolean) => {
      const payout = await money.claim(user)
      if (begun) await money.work('begin_sweeping', payout)
      await asMerchant(user, payout)
      while (await money.allocate(user, 100));
    }
    await money.db.rows('select app.set_cancels_per_day($1, 2)', [user.merchantId])
    const byOperator = await money.claim(user)
    await money.work('begin_sweeping', byOperator)
    await money.db.rows('select app.cancel_payout_by_operator($1)', [byOperator])
    while (await money.allocate(user, 100));
    for (const begun of [true, false, true, false]) await cancel(begun)
    const refused = cancel(true)
    await expect(refused).rejects.toMatchObject({code: 'SL429', detail: expect.stringMatching(/^86[34]\d\d$/)})
    await expect(refused).rejects.toThrow('no more than 2 payouts that have begun')
    await money.db.rows(
      `update app.payout set finished_at = finished_at - interval '1 day' where merchant_id = $1 and status = 'failed'`,
      [user.merchantId],
    )
    const [open] = await money.db.rows<{id: string}>(
      `select id from app.payout where merchant_id = $1 and status = 'sweeping'`,
      [user.merchantId],
    )
    await asMerchant(user, open!.id)
    while (await money.allocate(user, 100));
    await cancel(false)
    await money.db.rows('select app.set_cancels_per_day($1, 0)', [user.merchantId])
    await expect(cancel(true)).rejects.toMatchObject({code: 'SL422'})
    await expect(money.db.rows('select app.set_cancels_per_day($1, -1)', [user.merchantId])).rejects.toMatchObject({
      code: 'SL422',
    })
  })

  test('of several payouts at once is limited all the same; when the next one is allowed is told', async () => {
    const user = await rich()
    const other = await money.user(user.merchantId)
    const begun = async () => {
      await money.deposit(other.address, 100)
      const payout = await money.claim(user)
      await money.work('begin_sweeping', payout)
      return payout
    }
    const payouts = [await begun(), await begun(), await begun(), await begun()]
    await money.db.rows('select app.set_cancels_per_day($1, 1)', [user.merchantId])
    const results = await Promise.allSettled(payouts.map(payout => asMerchant(user, payout)))
    expect(results.map(({status}) => status).toSorted()).toEqual(['fulfilled', 'rejected', 'rejected', 'rejected'])

    await money.db.rows('select app.set_cancels_per_day($1, 20)', [user.merchantId])
    for (const [i, {status}] of results.entries()) if (status === 'rejected') await asMerchant(user, payouts[i]!)
    await money.db.rows(
      `update app.payout p set finished_at = clock_timestamp() - n * interval '1 hour'
       from (select id, row_number() over (order by id) as n from app.payout where merchant_id = $1 and cancelled_by_merchant) o where p.id = o.id`,
      [user.merchantId],
    )
    while (await money.allocate(user, 100));
    const next = await begun()
    await money.db.rows('select app.set_cancels_per_day($1, 2)', [user.merchantId])
    await expect(asMerchant(user, next)).rejects.toMatchObject({
      code: 'SL429',
      detail: expect.stringMatching(/^79[12]\d\d$/), // the second of two is 2 hours old
    })
  })

  test('by a merchant is refused while the chain is halted, once it has begun', async () => {
    const user = await rich()
    const payout = await money.claim(user)
    await money.work('begin_sweeping', payout)
    await money.db.rows(
      `insert into app.incident (chain, kind, subject, details) values ('ETH', 'unknown_transaction', 'x', '{}')`,
    )
    await expect(asMerchant(user, payout)).rejects.toMatchObject({code: 'SL422'})
    await money.db.rows(`delete from app.incident where subject = 'x'`)
    await asMerchant(user, payout)
  })

  test('by another merchant behaves as if the payout did not exist', async () => {
    const [user, other] = [await rich(), await money.merchant()]
    const payout = await money.claim(user)
    await expect(asMerchant(other, payout)).rejects.toMatchObject({code: 'SL404'})
    expect(await money.status(payout)).toBe('pending')
  })

  test('a finished payout changes nothing, for merchant, operator and worker', async () => {
    const user = await rich()
    const [failed, completed] = [await money.claim(user), await money.claim(await rich())]
    await fail(failed)
    await money.mineFinally([await money.payAndSign(completed)])
    for (const payout of [failed, completed]) {
      const before = await money.status(payout)
      await expect(asOperator(payout)).rejects.toMatchObject({code: 'SL422'})
      await expect(asMerchant(user, payout)).rejects.toThrow()
      await expect(money.db.rows('select app.retry_payout($1)', [payout])).rejects.toMatchObject({code: 'SL422'})
      expect(await fail(payout)).toBe(false)
      await money.work('begin_sweeping', payout)
      await money.work('end_sweeping', payout)
      expect(await money.work('begin_payment', payout, 10)).toBeNull()
      await money.work('wait_payout', payout, 'a reason', 'a detail', 1000)
      expect(await money.status(payout)).toBe(before)
    }
  })

  test('together with any other failure of the payout restores its balance once', async () => {
    const user = await rich()
    const payout = await money.claim(user)
    const done = await Promise.allSettled([
      ...Array.from({length: 5}, () => fail(payout, 'timed_out')),
      ...Array.from({length: 5}, () => asOperator(payout)),
      ...Array.from({length: 5}, () => asMerchant(user, payout)),
      ...Array.from({length: 5}, () => money.work('begin_sweeping', payout)),
    ])
    expect(done).toHaveLength(20)
    expect(await money.status(payout)).toMatch(/^failed (cancelled|timed_out)$/)
    expect(await money.balance(user)).toBe(1000)
  })
})

describe('a payout, by any statement,', () => {
  const table: Record<string, string[]> = {
    pending: ['sweeping', 'failed'],
    sweeping: ['swept', 'failed'],
    swept: ['paying', 'failed'],
    paying: ['completed', 'failed'],
    completed: [],
    failed: [],
  }
  const path: Record<string, string[]> = {
    pending: [],
    sweeping: ['sweeping'],
    swept: ['sweeping', 'swept'],
    paying: ['sweeping', 'swept', 'paying'],
    completed: ['sweeping', 'swept', 'paying', 'completed'],
    failed: ['failed'],
  }

  test.each(Object.entries(table))('goes from %s to %j only', async (from, allowed) => {
    const payout = await money.claim(await rich())
    const client = await money.db.pool.connect()
    const move = (to: string) => client.query('update app.payout set status = $2 where id = $1', [payout, to])
    try {
      for (const to of Object.keys(table).filter(status => status !== from)) {
        await client.query('begin')
        for (const step of path[from]!) await move(step)
        if (allowed.includes(to)) await move(to)
        else await expect(move(to), `${from} to ${to}`).rejects.toThrow(`${from} to ${to} is not allowed`)
        await client.query('rollback')
      }
    } finally {
      client.release()
    }
  })

  test('is never deleted, and keeps its amounts, its merchant and its address', async () => {
    const payout = await money.claim(await rich())
    for (const change of [
      'gross = gross + 1, net = net + 1',
      'fee = fee + 1, net = net - 1',
      `address = '0xelsewhere'`,
      'merchant_id = (select id from app.merchant where id <> merchant_id limit 1)',
      `token = 'ETH'`,
    ])
      await expect(money.db.rows(`update app.payout set ${change} where id = $1`, [payout]), change).rejects.toThrow(
        'is not allowed',
      )
    await expect(money.db.rows('delete from app.payout where id = $1', [payout])).rejects.toThrow('never deleted')
  })

  test('gets a job in the transaction that claims it', async () => {
    const payout = await money.claim(await rich())
    expect(await jobsOf(`payout:${payout}`)).toEqual(['advance_payout'])
  })
})

/** The tasks that are to be run under a job key. */
async function jobsOf(key: string): Promise<string[]> {
  const jobs = await money.db.rows<{task: string}>(
    'select task_identifier as task from graphile_worker.jobs where key = $1',
    [key],
  )
  return jobs.map(({task}) => task)
}
