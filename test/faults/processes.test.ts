// Indexers that die, and connections that break, at the worst moments: one indexer writes at a time, and nothing is
// lost or notified twice.
import {describe, test} from 'vitest'
import {IndexedEvm} from '../support/evm/indexed-world.ts'
import {Indexer} from '../support/indexer.ts'
import {until} from '../support/until.ts'

/**
 * The pid of the server process with the indexer's open write transaction; it waits at COMMIT for the lock of `held`.
 */
const writing = ({db}: IndexedEvm) =>
  until(
    async () => {
      const [row] = await db.rows<{pid: number}>(
        `select pid from pg_stat_activity where datname = current_database() and application_name = 'indexer-ETH'
           and backend_xid is not null and wait_event_type = 'Lock'`,
      )
      return row?.pid
    },
    {timeoutMs: 60_000, what: 'an indexer in the middle of its transaction'},
  )

/** Locks the row that deriving deposits needs, runs `meanwhile`, and releases it. */
async function holdingCursor(world: IndexedEvm, meanwhile: () => Promise<void>): Promise<void> {
  const client = await world.db.pool.connect()
  try {
    await client.query(`begin; select from chain.cursor where chain = 'ETH' for update`)
    await meanwhile()
  } finally {
    await client.query('rollback')
    client.release()
  }
}

describe.concurrent('an indexer', {timeout: 240_000}, () => {
  test('stands by while another is active, and takes over when that one is killed', async ({
    expect,
    onTestFinished,
  }) => {
    const world = await IndexedEvm.create({onTestFinished})
    const {indexer, db, node} = world
    indexer.start()
    const before = await world.deposit()
    const second = Indexer.start({db, rpcUrl: node.wsUrl, settings: {USDC_CONTRACT: world.anvil.usdc}})
    onTestFinished(() => second.stop())
    await until(async () => second.said('another indexer of this chain is active'), {
      timeoutMs: 60_000,
      what: 'the second indexer to stand by',
    })
    await world.mined(2)
    expect(second.said('following the chain')).toBe(false)

    await indexer.stop('SIGKILL')
    const after = await world.deposit()
    expect(second.said('following the chain')).toBe(true)
    indexer.start()
    await until(async () => indexer.said('another indexer of this chain is active'), {
      timeoutMs: 60_000,
      what: 'the first indexer to stand by',
    })
    await world.mined(9)
    await second.finalises(after.height)
    for (const {txid} of [before, after])
      expect(await world.history(txid)).toMatchObject([{status: 'final', events: 'pending confirmed'}])
    expect([...indexer.ends, ...second.ends]).toEqual([])
  })

  test('that is killed in the middle of its transaction has written nothing of it, and the next start writes it once', async ({
    expect,
    ...test
  }) => {
    const world = await IndexedEvm.create(test)
    const {indexer, anvil, user} = world
    indexer.start()
    const first = await world.deposit()
    let txid = ''
    await holdingCursor(world, async () => {
      // The first deposit moves to another block, and a second one comes: the transaction deletes, and inserts.
      await anvil.reorg(1, {0: [first.raw]})
      txid = await anvil.send({by: 2, to: user.address, value: 7n})
      await anvil.mine()
      await writing(world)
      const before = await world.everything()
      await indexer.stop('SIGKILL')
      expect(await world.everything()).toEqual(before)
    })
    indexer.start()
    await world.mined(9)
    await indexer.finalises(first.height)
    expect(await world.history(first.txid)).toMatchObject([{status: 'final', events: 'pending confirmed'}])
    expect(await world.history(txid)).toMatchObject([{events: expect.stringMatching(/^pending( confirmed)?$/)}])
    expect(await world.db.rows('select from chain.touched union all select from chain.touched_chain')).toEqual([])
  })

  test('whose connections are cut, in a transaction or not, continues from what was committed', async ({
    expect,
    ...test
  }) => {
    const world = await IndexedEvm.create(test)
    const {indexer, db, anvil, user} = world
    const cut = (name: string) =>
      db.rows(
        `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name like $1`,
        [name],
      )
    indexer.start()
    const sent = [(await world.deposit()).txid]
    await holdingCursor(world, async () => {
      sent.push(await anvil.send({to: user.address, value: 7n}))
      await anvil.mine()
      await db.rows('select pg_terminate_backend($1)', [await writing(world)])
    })
    await world.mined()
    for (const name of ['indexer-ETH', 'indexer-ETH-cursor', 'indexer-ETH-lock', 'indexer-%']) {
      await cut(name)
      sent.push((await world.deposit()).txid)
    }
    const {height} = await anvil.block()
    await world.mined(9)
    await indexer.finalises(height)
    for (const txid of sent)
      expect(await world.history(txid)).toMatchObject([{status: 'final', events: 'pending confirmed'}])
    expect([...new Set(indexer.ends)]).toEqual([70]) // whichever of its parts notices first; one that loses the lock ends, because another may have it
    expect(await db.rows('select * from app.incident')).toEqual([])
    expect(await db.rows('select * from app.balance_audit')).toEqual([])
  })

  test('ends on request, and when the supervisor that started it is gone', async ({expect, ...test}) => {
    const world = await IndexedEvm.create(test)
    const {indexer} = world
    indexer.start()
    await world.mined()
    await indexer.stop('SIGTERM')
    indexer.start()
    await world.mined()
    indexer.disconnect()
    await until(async () => !indexer.alive || indexer.ends.length, {timeoutMs: 60_000, what: 'the indexer to end'})
    expect(indexer.ends[0]).toBe(0)
  })
})
