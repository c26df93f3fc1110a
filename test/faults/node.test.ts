// A node that misbehaves, over HTTP and over a websocket. Whatever it returns, indexed data is on the chain, and
// nothing is final that the chain does not call final. Once the node behaves well, nothing is missing and no event was
// sent twice.
import {describe, type ExpectStatic, test} from 'vitest'
import {IndexedEvm} from '../support/evm/indexed-world.ts'
import {type Behaviour, type Block, type Call, faults, type Receipt} from '../support/rpc-proxy.ts'
import {until} from '../support/until.ts'

/** A behaviour for some methods; the others are passed on. */
const on = (methods: string[], behave: Behaviour): Behaviour => {
  return (call, pass) => (methods.includes(call.method) ? behave(call, pass) : pass())
}
const reading = ['eth_getBlockByNumber', 'eth_getBlockReceipts', 'debug_traceBlockByHash']
const first = (count: number, behave: Behaviour): Behaviour => {
  let left = count
  return (call, pass) => (left-- > 0 ? behave(call, pass) : pass())
}
const every = (n: number): ((behave: Behaviour) => Behaviour) => {
  let calls = 0
  return behave => (call, pass) => (++calls % n === 0 ? behave(call, pass) : pass())
}
const second = (behave: Behaviour) => every(2)(behave)
const third = (behave: Behaviour) => every(3)(behave)
const withoutLogs = (receipts: unknown) => (receipts as Receipt[]).map(receipt => ({...receipt, logs: []}))
/** The other logs keep theirs, so that the block does not look empty. */
const withoutLastLogs = (receipts: unknown) => {
  const list = receipts as Receipt[]
  const last = list.findLastIndex(({logs}) => logs.length)
  return list.map((receipt, i) => (i === last ? {...receipt, logs: []} : receipt))
}
const isFullBlock = ({method, params}: Call) => method === 'eth_getBlockByNumber' && params[1] === true

/** A fault of the node, and the call that shows it. `transport`: faults in responses are the same over both. */
interface Misbehaviour {
  behave: () => Behaviour
  shows?: string
  transport?: 'ws'
}

const misbehaviours: Record<string, Misbehaviour> = {
  'returns errors': {behave: () => on(reading, () => faults.error('internal error'))},
  'refuses requests like a rate limit': {
    behave: () =>
      on(
        reading,
        first(4, () => faults.status(429)),
      ),
  },
  'ends connections': {behave: () => first(3, () => faults.drop())},
  'ends connections now and then': {behave: () => third(() => faults.drop())},
  'sends half of a response': {
    behave: () =>
      on(
        reading,
        first(8, () => faults.truncate()),
      ),
  },
  'has no block at the height of its head': {
    behave: () => async (call, pass) => {
      const response = await pass()
      return isFullBlock(call) ? null : response
    },
    transport: 'ws',
  },
  'leaves out the transactions of a block': {
    behave: () => async (call, pass) => {
      const response = (await pass()) as Block | null
      return isFullBlock(call) && response ? {...response, transactions: []} : response
    },
    transport: 'ws',
  },
  'shows an empty block': {
    behave: () => async (call, pass) => {
      const response = (await pass()) as Block | null
      if (isFullBlock(call) && response) return {...response, transactions: [], logsBloom: `0x${'0'.repeat(512)}`}
      return ['eth_getBlockReceipts', 'debug_traceBlockByHash'].includes(call.method) ? [] : response
    },
    transport: 'ws',
  },
  'has no receipts': {
    behave: () => on(['eth_getBlockReceipts'], () => []),
    shows: 'eth_getBlockReceipts',
    transport: 'ws',
  },
  'leaves out the logs of its receipts': {
    behave: () => on(['eth_getBlockReceipts'], async (_, pass) => withoutLogs(await pass())),
    shows: 'eth_getBlockReceipts',
    transport: 'ws',
  },
  'leaves out the logs of one receipt': {
    behave: () => on(['eth_getBlockReceipts'], async (_, pass) => withoutLastLogs(await pass())),
    shows: 'eth_getBlockReceipts',
    transport: 'ws',
  },
  'leaves out withdrawals': {
    behave: () =>
      on(['eth_getBlockByHash'], async (_, pass) => ({
        ...((await pass()) as Block),
        withdrawalsRoot: `0x${'f'.repeat(64)}`,
      })),
    shows: 'eth_getBlockByHash',
    transport: 'ws',
  },
  'has no traces': {
    behave: () => on(['debug_traceBlockByHash'], () => []),
    shows: 'debug_traceBlockByHash',
    transport: 'ws',
  },
  'has forgotten its traces': {
    behave: () => on(['debug_traceBlockByHash'], () => faults.error('Resource not found')),
    shows: 'debug_traceBlockByHash',
    transport: 'ws',
  },
  'sometimes repeats an earlier response': {
    behave: () => {
      const before = new Map<string, unknown>()
      const repeat = second(call => before.get(JSON.stringify(call)))
      return async (call, pass) => {
        const response = await repeat(call, pass)
        if (response !== undefined) before.set(JSON.stringify(call), response)
        return response ?? pass()
      }
    },
  },
  'sometimes returns the block below the requested one': {
    behave: () => {
      const lower = second(({params: [at, full]}, pass) =>
        pass([`0x${Math.max(Number(at) - 1, 0).toString(16)}`, full]),
      )
      return on(['eth_getBlockByNumber'], (call, pass) => (Number(call.params[0]) > 0 ? lower(call, pass) : pass()))
    },
    transport: 'ws',
  },
  'shows a head that goes back': {
    behave: () => {
      let back = 0
      return async ({params}, pass) => {
        const response = (await pass()) as Block
        if (params?.[0] !== 'latest') return response
        return pass([`0x${Math.max(Number(response.number) - (back++ % 5), 0).toString(16)}`, false])
      }
    },
  },
}

const isAtHead = async ({anvil, db}: IndexedEvm) => {
  const [at] = await db.rows<{hash: string}>('select head_hash as hash from chain.cursor')
  return at?.hash === (await anvil.block()).hash
}

async function invariants(world: IndexedEvm, expect: ExpectStatic): Promise<void> {
  const {db, anvil} = world
  const blocks = await db.rows<{height: number; hash: string}>('select height, hash from chain.block order by height')
  expect(blocks.length).toBeGreaterThan(0)
  for (const {height, hash} of blocks) expect((await anvil.block(height)).hash).toBe(hash)
  const {height} = await anvil.block('finalized')
  expect((await world.cursor()).final_height).toBeLessThanOrEqual(height)
  expect(await db.rows(`select from app.event where type = 'deposit.reorged'`)).toEqual([])
  expect(await db.rows('select * from app.incident')).toEqual([])
}

describe.concurrent('a node', {timeout: 240_000}, () => {
  test.for(['ws', 'http'] as const)('over %s that misbehaves', async (transport, {expect, ...test}) => {
    const world = await IndexedEvm.create(test, {transport})
    const {indexer, anvil, node, user, other, db} = world
    indexer.start()
    await world.mined(3)
    const sent: string[] = []
    for (const [name, {behave, shows, transport: only = transport}] of Object.entries(misbehaviours)) {
      if (only !== transport) continue
      node.behave = behave()
      sent.push(
        await anvil.send({to: user.address, value: 3n}),
        await anvil.sendUsdc(other.address, 4n),
        await anvil.sendUsdc(other.address, 7n),
        await anvil.multi(
          'pay',
          [
            [user.address, other.address],
            [5n, 6n],
          ],
          11n,
        ),
      )
      await anvil.mine()
      await node.asked(3, shows ?? 'eth_getBlockByNumber')
      await invariants(world, expect)
      node.behave = undefined
      await indexer.reaches(await anvil.mine())
      await invariants(world, expect)
      for (const txid of sent.slice(-4)) expect(await world.history(txid), name).not.toEqual([])
    }
    const {height} = await anvil.block()
    await world.mined(9)
    await indexer.finalises(height)
    for (const txid of sent)
      expect(new Set((await world.history(txid)).map(({events}) => events))).toEqual(new Set(['pending confirmed']))
    const [sums] = await db.rows<{user: string; other: string; usdc: string}>(
      `select sum(amount) filter (where token = 'ETH' and address = $1)::text as user,
         sum(amount) filter (where token = 'ETH' and address = $2)::text as other,
         sum(amount) filter (where token = 'USDC')::text as usdc from app.deposit`,
      [user.address, other.address],
    )
    expect(sums).toEqual({
      user: `${await anvil.balance(user.address)}`,
      other: `${await anvil.balance(other.address)}`,
      usdc: `${await anvil.tokenBalance(other.address)}`,
    })
    expect(await db.rows('select * from app.balance_audit')).toEqual([])
  })

  test('that hangs, or whose head stands still, is detected, and requested again', async ({expect, ...test}) => {
    const world = await IndexedEvm.create(test, {settings: {STALL_TIMEOUT_MS: '2000'}})
    const {indexer, node, anvil} = world
    indexer.start()
    await world.mined(3)
    const restarted = (times: number) =>
      until(async () => indexer.ends.length >= times, {timeoutMs: 60_000, what: `${times} starts after a stall`})

    node.behave = on(['eth_getBlockReceipts'], () => faults.hang())
    const txid = await anvil.send({to: world.user.address, value: 5n})
    await anvil.mine()
    await restarted(1)
    node.behave = undefined
    await world.mined()
    expect(await world.history(txid)).toMatchObject([{status: 'pending', events: 'pending'}])

    const frozen = await anvil.call<Block>('eth_getBlockByNumber', ['latest', false])
    node.tellsHeads = false
    node.behave = ({params}, pass) => (params?.[0] === 'latest' ? frozen : pass())
    const head = await anvil.mine(3)
    await restarted(indexer.ends.length + 1)
    expect(new Set(indexer.ends)).toEqual(new Set([75]))
    expect(indexer.logs).toContainEqual(
      expect.objectContaining({level: 50, msg: 'starting anew', reason: 'no new block for 2000 ms'}),
    )
    expect((await world.cursor()).head_hash).toBe(frozen.hash)
    node.behave = undefined // heads are still not sent: the indexer polls them
    await indexer.reaches(head)
  })

  // A load balancer with one wrong node behind it.
  test.for([
    ['ws', 'while it is followed', 'debug'],
    ['http', 'while it is followed', 'off'],
    ['ws', 'while the indexer catches up', 'debug'],
    ['http', 'while the indexer catches up', 'off'],
  ] as const)(
    'over %s that reports a head far too high %s is followed again at once, and blocks can still be undone',
    async ([transport, when, traces], {expect, ...test}) => {
      const settings = {TRACES: traces, STALL_TIMEOUT_MS: '60000'}
      const world = await IndexedEvm.create(test, {transport, slotsInAnEpoch: 64, settings})
      const {anvil, user, indexer, node} = world
      await anvil.mine(60)
      const higher = (block: Block) => ({...block, number: `0x${(Number(block.number) + 5000).toString(16)}`})
      const lie: Behaviour = async ({method, params}, pass) => {
        const response = await pass()
        if (method === 'eth_blockNumber') return `0x${(Number(response) + 5000).toString(16)}`
        return params?.[0] === 'latest' ? higher(response as Block) : response
      }
      if (when === 'while it is followed') {
        indexer.start()
        await indexer.reaches(await anvil.block())
      }
      node.behave = lie
      node.tellHead = higher
      const sent: string[] = []
      for (let i = 0; i < 20; i++) {
        sent.push(await anvil.send({by: 1 + (i % 5), to: user.address, value: 3n}))
        if (i % 4 === 3) await anvil.mine()
      }
      if (!indexer.alive) indexer.start()
      await until(async () => indexer.logs.some(({error}) => /the head is ignored/.test(`${error}`)), {
        timeoutMs: 60_000,
        what: 'the indexer to notice the lie',
      })
      await node.asked(4, 'eth_getBlockByNumber', 'latest') // one a second
      node.behave = undefined
      node.tellHead = head => head
      await indexer.reaches(await anvil.mine(), 15_000)
      for (const txid of sent) expect(await world.history(txid)).toMatchObject([{events: 'pending'}])

      const raws = await Promise.all(sent.map(txid => anvil.raw(txid)))
      const head = await anvil.reorg(30, {7: raws})
      await indexer.reaches(head, 15_000)
      for (const txid of sent)
        expect(await world.history(txid)).toMatchObject([
          {status: 'pending', height: head.height - 22, events: 'pending'},
        ])
      expect(indexer.ends).toEqual([])
      expect(indexer.said('rewound')).toBe(false)
    },
  )

  test('that cannot be reached is reported, and used once it is there', async ({expect, ...test}) => {
    const world = await IndexedEvm.create(test)
    const {indexer, node} = world
    node.behave = call => (call.method === 'eth_chainId' ? faults.hang() : faults.drop())
    indexer.start()
    const late = 'the node did not answer in 10000 ms'
    await until(async () => indexer.logs.some(({error}) => error === late), {timeoutMs: 60_000, what: late})
    node.behave = undefined
    await world.deposit()
    expect(indexer.ends).toEqual([])
  })

  test.for([
    ['in lean batches', 'off'],
    ['with call traces', 'debug'],
  ] as const)('that misbehaves while the indexer catches up %s', async ([, traces], {expect, ...test}) => {
    const world = await IndexedEvm.create(test, {
      transport: traces === 'off' ? 'http' : 'ws',
      settings: {TRACES: traces},
    })
    const {anvil, user, indexer, node} = world
    const sent: string[] = []
    for (let i = 0; i < 40; i++) {
      sent.push(await anvil.send({to: user.address, value: 3n}))
      sent.push(await anvil.sendUsdc(user.address, 4n), await anvil.sendUsdc(user.address, 7n))
      await anvil.mine(5)
    }
    const wrong: Behaviour[] = [
      () => faults.error('internal error'),
      () => faults.drop(),
      () => null,
      async (call, pass) => {
        const response = (await pass()) as Block
        return isFullBlock(call) ? {...response, transactions: []} : response
      },
      async (call, pass) => {
        const response = (await pass()) as Block
        return isFullBlock(call) ? {...response, parentHash: `0x${'f'.repeat(64)}`} : response // of another fork
      },
      async (call, pass) => (call.method === 'eth_getBlockReceipts' ? [] : pass()),
      async (call, pass) => (call.method === 'eth_getBlockReceipts' ? withoutLogs(await pass()) : pass()),
    ]
    let calls = 0
    let misbehaved = 0
    let isPartlyTold = false
    node.behave = on(reading, async (call, pass) => {
      if (!isPartlyTold && call.method === 'eth_getBlockReceipts') {
        const receipts = (await pass()) as Receipt[]
        isPartlyTold = receipts.filter(({logs}) => logs.length).length > 1
        return isPartlyTold ? withoutLastLogs(receipts) : receipts
      }
      return ++calls % 90 === 0 ? wrong[misbehaved++ % wrong.length]!(call, pass) : pass()
    })
    indexer.start()
    await until(async () => misbehaved >= wrong.length || (await isAtHead(world)), {
      timeoutMs: 60_000,
      what: 'every misbehaviour to happen',
    })
    expect(isPartlyTold).toBe(true)
    node.behave = undefined
    await world.mined(9)
    await indexer.finalises(200)
    for (const txid of sent)
      expect(await world.history(txid)).toMatchObject([{status: 'final', events: 'pending confirmed'}])
    await invariants(world, expect)
  })
})
