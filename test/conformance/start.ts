// The first start of a chain. Earlier payments to addresses that were handed out are found. If they cannot be found,
// the chain does not start until an operator accepts the gap.
import {test} from 'vitest'
import {until} from '../support/until.ts'
import type {ChainUnderTest} from './chain.ts'
import {finalDepth, World} from './world.ts'

export function starting(chain: ChainUnderTest): void {
  if (!chain.isSecondSource) withoutNode(chain)

  const {code} = chain

  test('whose node lacks old blocks waits until an operator accepts the gap', async ({expect, ...context}) => {
    const world = await World.forTest(chain, context, {startHeight: ''})
    const {db, indexer} = world
    const to = await world.newAddress()
    const lost = await world.chain.sign([{to, amount: 4000n}])
    await world.chain.send(lost)
    const {height} = await world.chain.mine()
    await world.chain.mine(2)
    const found = await world.chain.sign([{to, amount: 5000n}])
    await world.chain.send(found)
    const head = await world.chain.mine(finalDepth + 1)
    await world.chain.source.forget(height + 1)
    indexer.start()
    const {message} = await waits(world, 'blocks_missing')
    expect(message).toContain(`sluice chain start --chain ${code} --from HEIGHT --accept-gap`)
    expect(await db.rows('select from chain.cursor')).toEqual([])

    await db.rows(`select app.accept_gap($1, $2, 'an operator')`, [code, height + 2])
    await indexer.reaches(head)
    await indexer.finalises(head.height - finalDepth)
    expect(await db.rows('select min(height) from chain.block')).toEqual([{min: height + 1}])
    expect(await db.rows('select txid, status from app.deposit')).toEqual([{txid: found.txid, status: 'final'}])
    expect(indexer.ends).toEqual([])
  })
}

/** Waits until the indexer reports that it cannot follow the chain for this reason. */
async function waits({db, under, indexer}: World, reason: string): Promise<{message: string}> {
  const said = async () => {
    const [row] = await db.rows<{reason: string | null; message: string}>(
      'select waiting_reason as reason, waiting_message as message from chain.configured where chain = $1',
      [under.code],
    )
    return row?.reason === reason ? row : undefined
  }
  const what = () => `${reason}; the indexer said ${JSON.stringify(indexer.logs.slice(-3))}`
  return (await until(said, {timeoutMs: 120_000, what: reason}).catch(cause => {
    throw new Error(`no ${what()}`, {cause})
  }))!
}

function withoutNode(chain: ChainUnderTest): void {
  test('that finds no node at its first start misses no payment that becomes final before it finds one', async ({
    expect,
    ...context
  }) => {
    const world = await World.forTest(chain, context, {startHeight: ''})
    const {source} = world.chain
    await world.mine(2)
    await source.behave('hangs')
    world.indexer.start()
    await waits(world, 'node_unavailable')
    const payment = await world.pay({to: await world.newAddress(), amount: 5000n})
    await world.mine(finalDepth + 3)
    await source.behave()
    await world.settled()
    expect(await world.deposit(payment)).toMatchObject({status: 'final', events: 'pending confirmed'})
    expect(await world.db.rows('select waiting_reason from chain.configured')).toEqual([{waiting_reason: null}])
  })
}
