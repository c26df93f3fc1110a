import {expect, test} from 'vitest'
import {Anvil} from '../../test/support/evm/anvil.ts'
import {logsBloom} from './bloom.ts'

test('the filter over the logs of a block equals the one in its header', async () => {
  const anvil = await Anvil.start({})
  try {
    for (let i = 0n; i < 5n; i++) await anvil.sendUsdc(`0x${'77'.repeat(20)}`, 1n + i)
    await anvil.mine()
    const {logsBloom: inHeader} = await anvil.call<{logsBloom: string}>('eth_getBlockByNumber', ['latest', false])
    const logs = await anvil.call<{address: string; topics: string[]}[]>('eth_getLogs', [
      {fromBlock: 'latest', toBlock: 'latest'},
    ])
    expect(logs).toHaveLength(5)
    expect(logsBloom(logs)).toBe(inHeader)
  } finally {
    await anvil.stop()
  }
})

// Why logs are not checked against the block's filter: other logs can cover the bits of a missing one. If others
// transfer the same token, only the bits of two topics remain, 6 of 2048. With n logs, all 6 are covered with a
// probability of (1 - (2047/2048)^6n)^6, which is one in 3,700 with 100 logs, one in 130 with 200, 4 % with 300, 21 %
// with 500 and 72 % with 1,000.
test.each([100, 500])('of %i logs, the filter misses a left-out one as often as expected', count => {
  const seed = 7
  let state = seed
  const random = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state.toString(16).padStart(8, '0')
  }
  const topic = () => `0x${'0'.repeat(24)}${Array.from({length: 5}, random).join('')}`
  const blocks = 200
  let missed = 0
  for (let block = 0; block < blocks; block++) {
    const address = `0x${'ab'.repeat(20)}`
    const logs = Array.from({length: count}, () => ({address, topics: [`0x${'dd'.repeat(32)}`, topic(), topic()]}))
    const [first, others] = [BigInt(logsBloom(logs.slice(0, 1))), BigInt(logsBloom(logs.slice(1)))]
    if ((first | others) === others) missed++
  }
  const rate = (1 - (2047 / 2048) ** (6 * count)) ** 6
  const deviation = Math.sqrt(blocks * rate * (1 - rate))
  expect(Math.abs(missed - blocks * rate), `seed ${seed}: ${missed}`).toBeLessThan(1 + 4 * deviation)
})
