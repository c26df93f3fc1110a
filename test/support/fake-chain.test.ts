// Properties of every fake chain, whatever the random numbers.
import {expect, test} from 'vitest'
import {Random} from '../torture/random.ts'
import {FakeChain} from './fake-chain.ts'

const addresses = {sender: 'ours', provision: async () => 'provisioned'}

test('a transaction is in no block above its last height, and can be in a block at that height', async () => {
  let dice = 0.9 // two transactions at each step, and none of them is mined
  const chain = new FakeChain('a', {random: () => dice, finality: 0, lifetime: 2, ...addresses})
  await chain.step()
  await chain.step()
  dice = 0.1 // no new transaction, and everything that can be mined is
  await chain.step()
  chain.settle()
  const mined = chain.blocks.flatMap(({height, inside}) => inside.map(({txid}) => `${txid} in ${height}`))
  expect(mined).toEqual(['tx3 in 3', 'tx4 in 3'])
})

test('a transaction is in no later block after forks, on any branch', async () => {
  const dice = new Random(1)
  const chain = new FakeChain('a', {random: () => dice.next(), finality: 8, lifetime: 2, ...addresses})
  for (let i = 0; i < 300; i++) await chain.step()
  const ages = [...chain.byHash.values()].flatMap(({height, inside}) => inside.map(tx => tx.lastHeight - height))
  expect(chain.counts.forks).toBeGreaterThan(20)
  expect(ages.length).toBeGreaterThan(50)
  expect(Math.min(...ages)).toBe(0)
})
