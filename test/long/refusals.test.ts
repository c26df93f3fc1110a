// A node that refuses what the indexer asks, in the words of real nodes (chains/evm/node-errors.ts). The chain waits,
// says why, and goes on by itself when the cause is gone. The process never ends for it.
import {describe, type ExpectStatic, test} from 'vitest'
import {IndexedEvm} from '../support/evm/indexed-world.ts'
import {type Behaviour, type Block, faults} from '../support/rpc-proxy.ts'
import {until} from '../support/until.ts'

/** What `sluice status` and /readyz show. */
const standstill = async ({db}: IndexedEvm) =>
  (
    await db.rows<{reason: string; message: string}>(`select reason, message from app.standstill where chain = 'ETH'`)
  )[0]

const waitsFor = (world: IndexedEvm, reason: string) =>
  until(async () => ((await standstill(world))?.reason === reason ? await standstill(world) : undefined), {
    timeoutMs: 60_000,
    what: `the chain to wait for ${reason}`,
  })

const refusing =
  (method: string, message: string, code?: number): Behaviour =>
  (call, pass) =>
    call.method === method ? faults.error(message, code) : pass()

interface Refusal {
  reason: string
  says: string
  advice: RegExp
  behave: Behaviour
}

const refusals: Refusal[] = [
  {
    reason: 'state_pruned',
    says: 'historical state is not available',
    advice: /name a node in ETH_RPC_URL that keeps it/,
    behave: refusing('debug_traceBlockByHash', 'historical state is not available'),
  },
  {
    reason: 'method_missing',
    says: 'the method debug_traceBlockByHash does not exist/is not available',
    advice: /let it serve debug_traceBlockByHash/,
    behave: refusing(
      'debug_traceBlockByHash',
      'the method debug_traceBlockByHash does not exist/is not available',
      -32_601,
    ),
  },
  {
    reason: 'response_too_large',
    says: 'response too large',
    advice: /raise its limit of responses/,
    behave: refusing('eth_getBlockReceipts', 'response too large', -32_003),
  },
  {
    reason: 'node_refuses',
    says: 'something that no node has ever said',
    advice: /read its log, or name another node in ETH_RPC_URL/,
    behave: refusing('eth_getBlockReceipts', 'something that no node has ever said'),
  },
]

/** While the node refuses, the chain waits and says why; afterwards it goes on by itself. */
async function assertWaits(
  world: IndexedEvm,
  {reason, says, advice}: Refusal,
  expect: ExpectStatic,
  polls = 6,
): Promise<void> {
  const {message} = (await waitsFor(world, reason))!
  expect(message).toContain(`"${says}"`)
  expect(message).toMatch(advice)
  expect(message).toMatch(/^the blocks above \d+ cannot be read: /)
  const refusals = world.indexer.logs.length
  await world.node.asked(polls, 'eth_getBlockByNumber', 'latest')
  expect(world.indexer.logs.length - refusals).toBeLessThan(3) // once a minute
  world.node.behave = undefined
  await world.indexer.reaches(await world.anvil.block())
  await until(async () => (await standstill(world)) === undefined, {timeoutMs: 10_000, what: 'the reason to end'})
  expect(world.indexer.ends).toEqual([])
}

describe.concurrent('a node that refuses a request', {timeout: 240_000}, () => {
  test.for(['ws', 'http'] as const)('over %s while the chain is followed', async (transport, {expect, ...test}) => {
    const world = await IndexedEvm.create(test, {transport, settings: {STALL_TIMEOUT_MS: '6000'}})
    world.indexer.start()
    await world.mined(3)
    const sent: string[] = []
    for (const refusal of refusals) {
      world.node.behave = refusal.behave
      sent.push(await world.anvil.send({to: world.user.address, value: 3n}))
      await world.anvil.mine()
      await assertWaits(world, refusal, expect, 12) // for longer than STALL_TIMEOUT_MS
    }
    for (const txid of sent) expect(await world.history(txid)).toMatchObject([{events: 'pending'}])
  })

  test.for([
    ['with call traces', 'debug'],
    ['in lean batches', 'off'],
  ] as const)('while the indexer catches up %s', async ([, TRACES], {expect, ...test}) => {
    const world = await IndexedEvm.create(test, {settings: {TRACES}})
    world.indexer.start()
    await world.mined(3)
    for (const refusal of TRACES === 'debug' ? refusals.slice(0, 2) : refusals.slice(2)) {
      await world.indexer.stop()
      const txid = await world.anvil.send({to: world.user.address, value: 3n})
      await world.anvil.mine(120)
      world.node.behave = refusal.behave
      world.indexer.start()
      await assertWaits(world, refusal, expect)
      expect(await world.history(txid)).toMatchObject([{events: expect.stringMatching(/^pending/)}])
    }
  })
})

describe.concurrent('a node', {timeout: 240_000}, () => {
  test.for([
    ['ws', 'debug'],
    ['http', 'off'],
  ] as const)(
    'over %s that takes small batches and sends small responses is followed from its first block on',
    async ([transport, traces], {expect, ...test}) => {
      const world = await IndexedEvm.create(test, {transport, settings: {TRACES: traces}})
      world.node.limits = {calls: 20, responseBytes: 30_000}
      const txid = await world.anvil.send({to: world.user.address, value: 3n})
      await world.anvil.mine(200)
      world.indexer.start()
      await world.indexer.reaches(await world.anvil.block())
      await world.deposit()
      expect(await world.history(txid)).toMatchObject([{events: expect.stringMatching(/^pending/)}])
      expect([world.indexer.ends, await standstill(world)]).toEqual([[], undefined])
      expect(world.indexer.logs.filter(({level}) => level > 30)).toEqual([])
    },
  )

  test('that falls below our final block is what the chain waits for, until it is back', async ({expect, ...test}) => {
    const world = await IndexedEvm.create(test)
    const {node, anvil, indexer} = world
    indexer.start()
    const low = await anvil.block()
    await world.mined(12)
    await indexer.finalises(low.height + 4)
    const then = await anvil.call<Block>('eth_getBlockByNumber', [`0x${low.height.toString(16)}`, false])
    node.tellsHeads = false
    node.behave = ({params: [at]}, pass) => {
      if (at === 'latest' || at === 'finalized') return then
      return Number(at) > low.height ? null : pass()
    }
    const {message} = (await waitsFor(world, 'node_behind'))!
    expect(message).toMatch(/^the node has no block \d+, which was final here/)
    node.behave = undefined
    node.tellsHeads = true
    await world.deposit()
    await until(async () => (await standstill(world)) === undefined, {timeoutMs: 10_000, what: 'the reason to end'})
    expect(indexer.ends).toEqual([])
  })

  test('read with another tracer than before is refused in words; without one, an incident says from where', async ({
    expect,
    ...test
  }) => {
    const world = await IndexedEvm.create(test)
    world.indexer.start()
    const {height} = await world.deposit()
    await world.indexer.stop()

    await world.restartWith({TRACES: 'trace'})
    const {message} = (await waitsFor(world, 'tracer_changed'))!
    expect(message).toBe(
      'ETH was read with ETH_TRACES=debug, and it is trace now: tracers number calls in ways of their own, and the same payment would be credited twice; set it to debug',
    )
    const incidents = () =>
      world.db.rows(`select chain, subject, details from app.incident where kind = 'untraced_blocks'`)
    expect(await incidents()).toEqual([])

    await world.restartWith({TRACES: 'off'})
    await world.deposit()
    const from = [{chain: null, subject: 'ETH', details: {from: height + 1, tracer: 'debug'}}]
    expect(await incidents()).toEqual(from)
    await world.restartWith({TRACES: 'off'})
    await world.deposit()
    await world.restartWith({TRACES: 'debug'})
    await world.deposit()
    expect([await incidents(), world.indexer.ends]).toEqual([from, []])
  })

  test('that has no trace_block is named at the first start, with the tracer that it has', async ({
    expect,
    ...test
  }) => {
    const world = await IndexedEvm.create(test, {settings: {TRACES: 'trace'}})
    world.node.behave = refusing('trace_block', 'the method trace_block does not exist/is not available', -32_601)
    await world.anvil.mine(20)
    world.indexer.start()
    const {message} = (await waitsFor(world, 'method_missing'))!
    expect(message).toContain('geth and bor have no trace_block: set ETH_TRACES=debug for them')
    expect(message).not.toContain('accept-gap')
  })
})
