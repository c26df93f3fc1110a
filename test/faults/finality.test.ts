// What makes a block final, and what happens when the chain forks below what the store can undo, or below the final
// block.
import {describe, test} from 'vitest'
import {IndexedEvm} from '../support/evm/indexed-world.ts'
import type {Behaviour, Call} from '../support/rpc-proxy.ts'
import {until} from '../support/until.ts'

const hex = (height: number) => `0x${height.toString(16)}`
const threshold = 5
const lie = (hash: string) => hash.replace(/^0x../, '0xff')

/** A node whose final block stays where it is. */
async function stalled(world: IndexedEvm): Promise<Behaviour> {
  const frozen = await world.anvil.call('eth_getBlockByNumber', ['finalized', false])
  return ({params}, pass) => (params?.[0] === 'finalized' ? frozen : pass())
}

const incidents = ({db}: IndexedEvm) =>
  db.rows(`select kind, subject, details, resolution from app.incident where kind = 'fork_below_final' order by id`)

const halted = (world: IndexedEvm) =>
  until(async () => (await world.cursor()).halted_at, {timeoutMs: 60_000, what: 'the chain to be halted'})

/** Waits until the waiting indexer has polled the node several times more. */
const polls = (world: IndexedEvm, times = 2) => world.node.asked(times, 'eth_chainId')

describe.concurrent('finality', {timeout: 240_000}, () => {
  test('by N confirmations makes a block final when it and the blocks above it are N, and not before', async ({
    expect,
    ...test
  }) => {
    const world = await IndexedEvm.create(test, {slotsInAnEpoch: 32, settings: {FINALITY: '3'}})
    world.indexer.start()
    const {txid, height} = await world.deposit()
    await world.mined()
    await world.node.asked(2, 'eth_getBlockByNumber', hex(height - 1)) // the final block with this head
    expect(await world.history(txid)).toMatchObject([{status: 'pending', events: 'pending'}])
    await world.mined()
    await world.indexer.finalises(height)
    expect(await world.history(txid)).toMatchObject([{status: 'final', events: 'pending confirmed'}])
    expect(await world.cursor()).toMatchObject({final_height: height, head_height: height + 2})
  })

  test("stops while the node's final block stands still, and a fork deeper than the store can undo is followed", async ({
    expect,
    ...test
  }) => {
    const world = await IndexedEvm.create(test)
    const {indexer, anvil, node} = world
    indexer.start()
    const before = await world.deposit()
    const head = await world.mined(10)
    await indexer.finalises(head - 8)
    const final = await world.db.rows('select * from app.deposit where txid = $1', [before.txid])
    node.behave = await stalled(world)

    const kept = await world.deposit()
    const dropped = await world.deposit({by: 2})
    await world.mined(90) // the store can undo the newest 75
    await node.asked(2, 'eth_getBlockByNumber', 'finalized')
    expect(await world.cursor()).toMatchObject({final_height: head - 8})
    for (const {txid} of [kept, dropped]) expect(await world.history(txid)).toMatchObject([{status: 'pending'}])

    await indexer.reaches(await anvil.reorg(92, {5: [kept.raw]}))
    expect(await world.history(dropped.txid)).toMatchObject([{status: 'reorged', events: 'pending reorged'}])
    expect(await world.history(kept.txid)).toMatchObject([
      {status: 'pending', height: kept.height + 5, events: 'pending'},
    ])
    expect(await world.db.rows('select * from app.deposit where txid = $1', [before.txid])).toEqual(final)

    node.behave = undefined
    await indexer.finalises(kept.height + 5)
    expect(await world.history(kept.txid)).toMatchObject([{status: 'final'}])
    expect(await world.db.rows('select * from app.incident')).toEqual([])
    expect(await world.db.rows('select * from app.balance_audit')).toEqual([])
  })

  test('does not change while a node shows another final block now and then, like a lagging one behind a load balancer', async ({
    expect,
    ...test
  }) => {
    const world = await IndexedEvm.create(test)
    const {indexer, node} = world
    indexer.start()
    const {height} = await world.deposit()
    await world.mined(10)
    await indexer.finalises(height)
    const {final_height} = (await world.cursor()) as {final_height: number}
    const everything = await world.everything()
    const atFinal = ({method, params}: Call) =>
      method === 'eth_getBlockByNumber' && params[0] === hex(final_height) && params[1] === false
    let lies = threshold - 1
    node.behave = async (call, pass) => {
      const response = (await pass()) as {hash: string}
      return atFinal(call) && lies-- > 0 ? {...response, hash: lie(response.hash)} : response
    }
    await node.asked(threshold + 1, 'eth_getBlockByNumber', hex(final_height))
    expect(lies).toBeLessThan(0)
    expect(await world.everything()).toEqual(everything)

    // Nor does a node that responds for another block than requested, any number of times.
    node.behave = (call, pass) => pass(atFinal(call) ? [hex(final_height - 1), false] : undefined)
    await node.asked(threshold + 2, 'eth_getBlockByNumber', hex(final_height))
    expect(await world.everything()).toEqual(everything)

    // A final block that is not on our chain makes nothing final, whatever its height.
    node.behave = async ({params}, pass) => {
      const response = (await pass()) as {hash: string}
      return params?.[0] === 'finalized' ? {...response, hash: lie(response.hash)} : response
    }
    await node.asked(2, 'eth_getBlockByNumber', 'finalized') // no request of before is under way
    const {height: head} = await world.anvil.block()
    await world.mined(4)
    await node.asked(3, 'eth_getBlockByNumber', 'finalized')
    expect(await world.cursor()).toMatchObject({final_height, head_height: head + 4})
    expect(indexer.ends).toEqual([])
    expect(await world.db.rows('select * from app.incident')).toEqual([])
    node.behave = undefined
    await indexer.finalises(head - 4)
  })

  test('that a fork contradicts halts the chain for an operator, who resumes it when the node was wrong, or rewinds it', async ({
    expect,
    ...test
  }) => {
    const world = await IndexedEvm.create(test)
    const {indexer, anvil, node, db} = world
    indexer.start()
    const stays = await world.deposit()
    const vanishes = await world.deposit()
    await world.mined(12)
    await indexer.finalises(vanishes.height)
    const before = await world.everything()
    const {final_height, final_hash} = (await world.cursor()) as {final_height: number; final_hash: string}

    // A node that shows another chain above `stays` at every poll.
    node.behave = async ({method, params}, pass) => {
      const response = (await pass()) as {hash: string} | null
      const lies = method === 'eth_getBlockByNumber' && params[1] === false && Number(params[0]) > stays.height
      return lies && response ? {...response, hash: lie(response.hash)} : response
    }
    await halted(world)
    const details = {final_height, our_hash: final_hash, node_hash: lie(final_hash), common_height: stays.height}
    expect(await incidents(world)).toEqual([{kind: 'fork_below_final', subject: 'ETH', details, resolution: null}])
    expect(indexer.ends).toEqual([75]) // once, to stop the stream; from then on it waits
    node.behave = undefined
    await anvil.mine(3)
    await polls(world, 3)
    expect(indexer.said('is halted: incident')).toBe(true)
    expect(indexer.alive).toBe(true)
    expect(await world.everything()).toEqual(before)

    // The node was wrong: nothing moves until the operator says so.
    await db.rows(`select app.resume_chain('ETH')`)
    const later = await world.deposit({by: 2})
    expect(await world.history(later.txid)).toMatchObject([{status: 'pending', events: 'pending'}])
    expect(await incidents(world)).toMatchObject([{resolution: 'resumed'}])

    // The node is right: the chain forks above `stays`, and the stream itself runs into it.
    const {height} = await anvil.block()
    const untouched = await world.everything()
    await anvil.reorg(height - stays.height, {3: [later.raw]})
    await anvil.mine()
    await halted(world)
    expect(await world.everything()).toEqual(untouched)
    expect(indexer.ends).toEqual([75, 0]) // it starts again, and blames nobody
    expect(indexer.logs.filter(({level}) => Number(level) >= 60)).toEqual([])
    expect(indexer.logs.some(({reason}) => `${reason}`.includes('its final block'))).toBe(true)

    // The operator rewinds below the fork; a height above that is refused.
    await db.rows(`select app.request_rewind('ETH', $1)`, [stays.height + 1])
    await until(async () => indexer.logs.some(({error}) => `${error}`.includes('choose a lower height')), {
      timeoutMs: 60_000,
      what: 'the refusal of a height above the fork',
    })
    await db.rows(`select app.request_rewind('ETH', $1)`, [stays.height - 1])
    await indexer.reaches(await anvil.block())
    await indexer.finalises(final_height)
    expect(await world.history(stays.txid)).toMatchObject([{status: 'final', events: 'pending confirmed'}])
    expect(await world.history(vanishes.txid)).toMatchObject([{status: 'final', events: 'pending confirmed'}])
    expect(await world.history(later.txid)).toMatchObject([{events: 'pending confirmed'}]) // it only moved
    const open = await db.rows(
      'select kind, txid from app.incident i join app.deposit d on d.id::text = i.subject where resolved_at is null',
    )
    expect(open).toEqual([{kind: 'final_deposit_vanished', txid: vanishes.txid}])
    expect((await incidents(world)).map(({resolution}) => resolution)).toEqual(['resumed', 'rewound'])
    expect(await db.rows('select * from app.balance_audit')).toEqual([])
  })
})
