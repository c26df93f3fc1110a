// What an indexer counts of a real chain.
import {expect, test} from 'vitest'
import {IndexedEvm} from '../support/evm/indexed-world.ts'
import {Indexer} from '../support/indexer.ts'
import {portsInARow} from '../support/ports.ts'
import {until} from '../support/until.ts'

test('blocks, transfers and reorganisations of a chain are counted as they are written', async context => {
  const world = await IndexedEvm.create(context)
  const port = await portsInARow(1)
  const {db, node, anvil, user} = world
  const settings = {USDC_CONTRACT: anvil.usdc}
  const indexer = Indexer.start({db, rpcUrl: node.wsUrl, settings, environment: {METRICS_PORT: `${port}`}})
  context.onTestFinished(() => indexer.stop())
  const read = async (name: string) => {
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
    const [, value] =
      new RegExp(`^sluice_indexer_${name}\\{chain="ETH"(?:,le="\\+Inf")?\\} (.*)$`, 'm').exec(text) ?? []
    return Number(value)
  }
  const mined = async () => await indexer.reaches(await anvil.mine())
  await anvil.send({to: user.address, value: 5n})
  await mined()
  const {height} = await anvil.block()
  // Heights from 1 on: START_HEIGHT. What is counted is at least what was committed, and written again only after a reorganisation.
  await until(async () => (await read('blocks_total')) === height, {
    timeoutMs: 10_000,
    what: 'each block to be counted',
  })
  expect(await read('transfers_total')).toBe(1)
  expect(await read('active')).toBe(1)
  expect(await read('batch_duration_seconds_count')).toBeGreaterThan(0)
  expect(await read('reorg_depth_blocks_count')).toBe(0)

  await mined()
  await mined()
  await anvil.reorg(2)
  await indexer.reaches(await anvil.mine())
  await until(async () => (await read('reorg_depth_blocks_count')) === 1, {
    timeoutMs: 10_000,
    what: 'the reorganisation',
  })
  expect(await read('reorg_depth_blocks_sum')).toBe(2)
  expect(await read('transfers_total')).toBe(1)
  expect(indexer.ends).toEqual([])
})
