// Steps of a payout that need no chain, on a real database.
import type {JobHelpers} from 'graphile-worker'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {silent} from '../../base/log.ts'
import {Money} from '../../test/support/money.ts'
import {advancePayout} from './advance-payout.ts'
import type {Context, PayoutChain} from './context.ts'

let money: Money

beforeAll(async () => {
  money = await Money.open()
})

afterAll(async () => {
  await money.close()
})

test('a payout that sweeps first waits until all its deposits are allocated, and only then asks its chain', async () => {
  const user = await money.merchant()
  await money.deposit(user.address, 100)
  const waiting = (id: string) =>
    money.db.rows('select status, waiting_reason as reason from app.payout where id = $1', [id])
  const asked: string[] = []
  const chain: Pick<PayoutChain, 'sweep'> = {
    sweep: async (_, {id}) => {
      asked.push(id)
      return {reason: 'sweeps', ms: 1000}
    },
  }
  const to = {
    pool: money.jobs,
    log: silent(),
    payoutTimeoutMs: 60_000,
    chains: new Map([['ETH', chain]]),
  } as unknown as Context
  const advance = (id: string) => advancePayout(to)({payout_id: id}, {} as JobHelpers)
  const id = await money.withoutAllocation(user, 'USDC', async () => {
    const claimed = await money.claim(user, 'USDC', {sweepFirst: true})
    await money.work('begin_sweeping', claimed)
    await advance(claimed)
    expect(await waiting(claimed)).toEqual([{status: 'sweeping', reason: 'allocation'}])
    expect(asked).toEqual([])
    return claimed
  })
  while (await money.allocate(user, 100));
  await advance(id)
  expect(await waiting(id)).toEqual([{status: 'sweeping', reason: 'sweeps'}])
  expect(asked).toEqual([id])
})
