// Reads final blocks again on every chain, with the operators' command line, while the chain's real indexer runs.
import {spawn} from 'node:child_process'
import {once} from 'node:events'
import pg from 'pg'
import {expect as expects, type TestContext, test} from 'vitest'
import {chain as registered} from '../../chains/registry.ts'
import {factsOf, readSettings} from '../../chains/settings.ts'
import {CommandLine, program} from '../support/command-line.ts'
import {until} from '../support/until.ts'
import type {ChainUnderTest, Payment} from './chain.ts'
import {finalDepth, World} from './world.ts'

const nothing = {added: 0, removed: 0, changed: 0, incidents: 0}

export function reindexing(chain: ChainUnderTest): void {
  test('missing and extra rows are repaired by reading again, unless blocks are unreadable; extra deposits wait for an operator', async ({
    expect,
    ...context
  }) => {
    const {world, commandLine, from, payments} = await paid(chain, context)
    const [kept, lost] = payments as [Payment, Payment]
    const before = await dump(world)
    await behindTheBack(world, 'delete from chain.transfer where txid = $1', [lost.txid])
    const given = ['reindex', '--chain', chain.code, '--from', `${from}`]
    const read = () => commandLine.json(...given)
    if (!chain.isSecondSource) await unreadable({world, commandLine, given, from})
    expect(await read()).toMatchObject({...nothing, added: 1})
    expect(await dump(world)).toEqual(before)

    await world.indexer.stop()
    const to = world.chain.newAddress()
    const missed = await world.pay({to, amount: 7000n})
    await world.mine(finalDepth + 1)
    await world.indexer.restart()
    await world.indexer.reaches(await world.chain.head())
    await world.indexer.finalises((await world.chain.head()).height - finalDepth)
    await world.indexer.stop()
    await world.watch(to) // after its block was indexed
    expect(await world.deposit(missed)).toBeUndefined()
    expect(await read()).toMatchObject({...nothing, added: 1})
    expect(await world.deposit(missed)).toMatchObject({amount: '7000', status: 'final', events: 'pending confirmed'})
    const repaired = await dump(world)
    const {to: last, ...result} = await read()
    expect(result).toEqual({chain: chain.code, from, ...nothing})
    expect(last).toBe((await world.chain.head()).height - finalDepth)
    expect(await dump(world)).toEqual(repaired)
    world.indexer.start()
    await world.settled()

    // Like a transfer that a node invented. The deposit is final at once.
    const {height, hash} = (await world.deposit(kept))!
    const txid = 'ab'.repeat(32)
    await world.db.rows(
      `insert into chain.transfer (id, chain, txid, output_index, block_height, block_hash, block_time, token, amount, sender, recipient)
       values ($1 || ':' || $2 || ':0', $1, $2, 0, $3, $4, now(), $5, 9, 'someone', $6)`,
      [chain.code, txid, height, hash, registered(chain.code).assets[0].token, to],
    )
    expect(await read()).toMatchObject({...nothing, removed: 1, incidents: 1})
    const made = await world.db.rows(
      'select status, kind from app.deposit d join app.incident i on i.subject = d.id::text where txid = $1',
      [txid],
    )
    expect(made).toEqual([{status: 'final', kind: 'final_deposit_vanished'}])
  })
}

interface Reading {
  world: World
  commandLine: CommandLine
  given: string[]
  from: number
}

/** Blocks that cannot be read repair nothing, and change nothing. */
async function unreadable({world, commandLine, given, from}: Reading): Promise<void> {
  const damaged = await dump(world)
  const {source} = world.chain
  await source.forget(from + 2)
  expects(await commandLine.failure(...given)).toMatch(`its lowest block is ${from + 2}: use --from ${from + 2}`)
  for (const fault of ['returns nothing', 'is of another network'] as const) {
    await source.behave(fault)
    await commandLine.failure(...given)
    expects(await dump(world), fault).toEqual(damaged)
  }
  await source.behave()
}

/** What the chain does not matter to, tested on one of them. */
export function interruptedReindexing(chain: ChainUnderTest): void {
  test('a final deposit is not disturbed by a killed and resumed run, nor by two runs at once', async ({
    expect,
    ...context
  }) => {
    const {world, commandLine, from, payments} = await paid(chain, context)
    const before = await dump(world)
    await behindTheBack(world, 'delete from chain.transfer where txid = $1', [payments[1]!.txid])
    const given = ['reindex', '--chain', chain.code]
    await whileHeld(world, async () => {
      const run = spawn(process.execPath, [program, ...given, '--from', `${from}`], {
        env: {...process.env, SLUICE_HOME: commandLine.home},
        stdio: 'ignore',
      })
      await until(() => isWaiting(world), {timeoutMs: 60_000, what: 'the run to wait for the chain'})
      expect(await commandLine.failure(...given, '--from', `${from}`)).toMatch('is being read again by another process')
      run.kill('SIGKILL')
      await once(run, 'exit')
    })
    expect(await commandLine.json(...given, '--resume')).toMatchObject({from, ...nothing, added: 1})
    expect(await dump(world)).toEqual(before)
    expect(await commandLine.failure(...given, '--resume')).toMatch('is done; begin another run with --from')
    const final = (await world.chain.head()).height - finalDepth
    expect(await commandLine.failure(...given, '--from', `${from}`, '--to', `${final + 1}`)).toMatch(
      'only final blocks are read again',
    )
  })
}

/** A chain with final deposits; the lowest is in block `from`. */
async function paid(chain: ChainUnderTest, context: Pick<TestContext, 'onTestFinished'>) {
  const world = await World.forTest(chain, context)
  const settings = readSettings(world.chain.environment).chains.get(chain.code)!
  const commandLine = new CommandLine(world.db, {[chain.code]: factsOf(settings)})
  context.onTestFinished(() => commandLine.close())
  world.indexer.start()
  const payments: Payment[] = []
  let from = 0
  for (let i = 0; i < 5; i++) {
    payments.push(await world.pay({to: await world.newAddress(), amount: 1000n + BigInt(i)}))
    const {height} = await world.mine()
    from ||= height
  }
  await world.mine(finalDepth)
  await world.settled()
  return {world, commandLine, payments, from}
}

async function dump({db}: World): Promise<unknown> {
  const tables = [
    'chain.transfer',
    'chain.confirmed_tx',
    'chain.block',
    'chain.unconfirmed',
    'app.deposit',
    'app.event',
    'app.ledger_entry',
    'app.output',
    'app.incident',
  ]
  const rows = tables.map(table => `'${table}', (select json_agg(t order by to_jsonb(t)::text) from ${table} t)`)
  const [row] = await db.rows(`select json_build_object(${rows}) as all`)
  return row
}

/** Changes rows without the triggers, so that nothing else changes. */
async function behindTheBack({db}: World, sql: string, values: unknown[]): Promise<void> {
  const client = new pg.Client({connectionString: db.ownerUrl, options: '-c session_replication_role=replica'})
  await client.connect()
  try {
    expects((await client.query(sql, values)).rowCount).toBe(1)
  } finally {
    await client.end()
  }
}

/** During this work nobody can write to the chain. */
async function whileHeld({db}: World, work: () => Promise<void>): Promise<void> {
  const client = new pg.Client({connectionString: db.ownerUrl})
  await client.connect()
  try {
    await client.query('begin')
    await client.query('select from chain.cursor for update')
    await work()
  } finally {
    await client.end()
  }
}

async function isWaiting({db}: World): Promise<boolean> {
  const waits = `select from pg_stat_activity where application_name = 'sluice-cli' and wait_event_type = 'Lock' and datname = current_database()`
  return (await db.rows(waits)).length > 0
}
