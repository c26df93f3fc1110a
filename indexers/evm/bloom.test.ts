import {expect, test} from 'vitest'
import {Anvil} from '../../test/support/anvil.ts'
import {logsBloom} from './bloom.ts'

test('the filter over the logs of a block is the one that its header has, and another one if a log is left out', async () => {
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
    expect(logsBloom([{address: logs[0]!.address, topics: logs[0]!.topics.slice(0, 1)}])).not.toBe(inHeader)
  } finally {
    await anvil.stop()
  }
})
