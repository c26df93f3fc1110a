// Custody's machine is lost, and custody starts on another one: with a copy of its journal file, or with the seed
// alone. The database, a cluster, has lost nothing. Payouts go on, each is paid once, and how long custody needs is
// printed.
import {rmSync} from 'node:fs'
import path from 'node:path'
import {expect, test} from 'vitest'
import {assertBooks} from '../support/books.ts'
import {EvmWorld, ether} from '../support/evm/world.ts'

// Beside each other: each has a world of its own.
test.concurrent.for([
  ['with a copy of its journal file', () => {}],
  ['with the seed alone', (file: string) => rmSync(file)],
] as const)(
  'custody on another machine, %s, signs again and pays each payout once',
  async ([how, lose], {onTestFinished}) => {
    const world = await EvmWorld.open()
    onTestFinished(() => world.close())
    await world.startWorker()
    const pay = async () => {
      const shop = await world.openShop('ETH', [ether])
      return {shop, id: await world.request(shop, 'ETH')}
    }
    const before = [await pay(), await pay()]
    await world.becomes(before[0]!.id, 'completed')
    const underWay = await pay()
    await world.killCustody()
    const folder = path.join(world.home, 'custody')
    lose(path.join(folder, 'journal.jsonl'))
    const began = performance.now()
    await world.startCustody()
    const startedMs = performance.now() - began
    const after = await pay()
    await world.becomes(after.id, 'completed')
    console.log(`${how}: custody takes requests after ${(startedMs / 1000).toFixed(1)} s, and a new payout is paid`)
    for (const {id, shop} of [...before, underWay, after]) {
      await world.becomes(id, 'completed')
      expect(await world.received(shop, 'ETH')).toBe(ether - ether / 100n)
    }
    await assertBooks(world.db)
  },
)
