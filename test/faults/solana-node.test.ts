// Deposits on Solana while the node lags in a third of its answers, leaves out a quarter of the slots and hides blocks:
// without a fork none is ever reorged, and with forks each ends as the chain has it.
import {expect, type TestContext, test} from 'vitest'
import {newAddress} from '../../devnet/solana/client.ts'
import {faucetKey} from '../../devnet/solana/constants.ts'
import {payment} from '../../devnet/solana/transaction.ts'
import {Trouble} from '../../devnet/solana/trouble.ts'
import {SolanaWorld, sol} from '../support/solana/world.ts'
import {until} from '../support/until.ts'
import type {Shop} from '../support/world.ts'

const deposits = 60
const amount = sol / 100n
const seed = Number(process.env.SEED ?? (Date.now() % 1e6) + 1)

/** How often each event came, by deposit. */
async function eventsOf(world: SolanaWorld, {addresses}: Shop): Promise<Record<string, number>[]> {
  const rows = await world.db.rows<{events: Record<string, number>}>(
    `select (select json_object_agg(type, n) from (select e.type, count(*)::int as n from app.event e
       where e.subject_id = d.id and e.type like 'deposit.%' group by e.type) counted) as events
     from app.deposit d where d.address = any($1)`,
    [addresses],
  )
  return rows.map(({events}) => events)
}

/** Mines blocks with a deposit each, some at a time, so that the indexer reads while they come. */
async function mineDeposits(world: SolanaWorld, shop: Shop, each: (n: number) => void): Promise<void> {
  for (let n = 0; n < deposits; n++) {
    const address = shop.addresses[n % shop.addresses.length]!
    world.solana.submit(payment({key: faucetKey, on: world.solana.block(1).hash}, address, amount))
    world.solana.mine(1, {skip: n % 3})
    each(n)
    const {height} = world.solana.head
    const isRead = 'select from chain.cursor where head_height >= $1'
    if (n % 4 === 3)
      await until(async () => (await world.db.rows(isRead, [height - 6])).length, {
        timeoutMs: 60_000,
        what: `block ${height - 6}`,
      })
  }
}

async function untilFinal(world: SolanaWorld, {id}: Shop): Promise<void> {
  world.isMining = true
  const sql = `select from app.deposit where merchant_id = $1 and status = 'final' having count(*) = $2`
  await until(async () => (await world.db.rows(sql, [id, deposits])).length, {
    timeoutMs: 90_000,
    what: 'all deposits to be final',
  })
}

async function open({onTestFinished}: Pick<TestContext, 'onTestFinished'>): Promise<{world: SolanaWorld; shop: Shop}> {
  console.log(`SEED=${seed}`)
  const world = await SolanaWorld.open({treasury: 0n})
  onTestFinished(() => world.close())
  const shop = await world.makeShop(10, newAddress())
  world.isMining = false
  world.endpoint.trouble = new Trouble({lag: {share: 0.35, blocks: 6}, omit: 0.25, hide: 0.1, seed})
  return {world, shop}
}

// Beside each other: each has a world of its own.
test.concurrent('a node that lags and leaves blocks out makes no deposit reorged', async context => {
  const {world, shop} = await open(context)
  await mineDeposits(world, shop, () => {})
  await untilFinal(world, shop)
  expect(await eventsOf(world, shop)).toEqual(Array(deposits).fill({'deposit.pending': 1, 'deposit.confirmed': 1}))
})

test.concurrent('with forks, each deposit is reorged only if its block left, and is final where it came back', async context => {
  const {world, shop} = await open(context)
  await mineDeposits(world, shop, n => {
    if (n % 7 === 6) world.solana.reorg(1 + (n % 4), {keepTransactions: true})
  })
  await untilFinal(world, shop)
  for (const events of await eventsOf(world, shop)) {
    expect(events['deposit.confirmed']).toBe(1)
    expect(events['deposit.pending']).toBe(1 + (events['deposit.reorged'] ?? 0))
  }
})
