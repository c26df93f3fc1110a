// sluice status, on a real database beside a real node: the heights of each chain and its node, what waits and why,
// jobs, failing webhooks, treasuries and the last audit. With --watch it repeats the report.
import {type ChildProcess, spawn} from 'node:child_process'
import {once} from 'node:events'
import {fileURLToPath} from 'node:url'
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {CommandLine} from '../test/support/command-line.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {Anvil} from '../test/support/evm/anvil.ts'
import {beginToPay, includeFinally, makeTreasury, networkFee, topUp} from '../test/support/evm/payouts.ts'
import {makeMerchant, makeUser} from '../test/support/people.ts'
import {until} from '../test/support/until.ts'

let db: TestDatabase
let anvil: Anvil
let eth: ChainWriter
let commandLine: CommandLine
let merchant: string
let nodeHead: number
const children: ChildProcess[] = []

// One payout was paid and another waits; block 6 replaced another block; the node is three blocks ahead.
beforeAll(async () => {
  db = await testDatabase()
  anvil = await Anvil.start()
  commandLine = new CommandLine(db, {
    ETH: {rpc_url: anvil.wsUrl, local: false, settings: {ETH_RPC_URL: anvil.wsUrl}},
    POLYGON: {rpc_url: 'http://127.0.0.1:9', local: true, settings: {POLYGON_RPC_URL: 'http://127.0.0.1:9'}},
  })
  eth = await ChainWriter.open(db, 'ETH')
  await topUp(eth, await makeTreasury(db), 'ETH', 50n * networkFee)
  merchant = await makeMerchant(db)
  const {address} = await makeUser(db, merchant)
  await eth.write({add: [[{txid: '0x1', token: 'ETH', amount: networkFee, recipient: address}]]})
  await eth.finalise(eth.head.height)
  await db.rows(`select app.set_payout_address($1, 'ETH', '0x52908400098527886E0F7030069857D2E4169EE7')`, [merchant])
  await includeFinally(db, eth, await beginToPay(db, await requestPayout()))
  await eth.write({add: [[{txid: '0x2', token: 'ETH', amount: networkFee, recipient: address}]]})
  await eth.finalise(eth.head.height)
  await db.rows(`select app.wait_payout($1, 'address_not_whitelisted', 'x', 60000)`, [await requestPayout()])
  await eth.write({add: [[]]})
  await eth.write({drop: 1, add: [[]]})
  const ahead = eth.head.height + 3 - (await anvil.block()).height
  if (ahead > 0) await anvil.mine(ahead)
  nodeHead = (await anvil.block()).height
})
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
})
afterAll(async () => {
  await eth.close()
  await anvil.stop()
  commandLine.close()
  await db.drop()
})

async function requestPayout(): Promise<string> {
  await db.rows(`select app.create_payout($1, 'ETH', 'ETH', false, null, 'request')`, [merchant])
  return (await db.rows<{id: string}>(`select id from app.payout where status = 'pending'`))[0]!.id
}

/** An endpoint whose one delivery failed once. */
async function failingEndpoint(): Promise<string> {
  const [endpoint] = await db.rows<{id: string; public: string}>(
    `select e.id, app.public_id('whe', e.id) as public from app.create_webhook_endpoint($1, 'https://example.com/hook') e`,
    [merchant],
  )
  const [test] = await db.rows<{delivery: string}>('select app.test_webhook($1, $2) as delivery', [
    merchant,
    endpoint!.id,
  ])
  await db.rows(
    `select app.record_attempts($1, array[$2::uuid], '{1}', '{0}', '{5}', array[null]::int[], array['connect ECONNREFUSED'], '{60000}')`,
    [endpoint!.id, test!.delivery],
  )
  return endpoint!.public
}

test('status shows chains, payouts, treasuries, jobs, webhooks and audits', async () => {
  const endpoint = await failingEndpoint()
  await db.rows('delete from graphile_worker._private_jobs')
  await db.rows(`select app.enqueue('advance_payout', '{}', 'one'), app.enqueue('advance_payout', '{}', 'two')`)
  await db.rows(`update graphile_worker._private_jobs set run_at = now() - interval '50 seconds', attempts = 3,
    last_error = E'Error: no such thing\\n  at somewhere' where key = 'one'`)
  await db.rows(`select app.finish_audit(app.begin_audit(),
    '[{"name": "ledger", "claim": "x", "count": 2, "found": []}, {"name": "fees", "claim": "x", "count": 0, "found": []}]', 'no node')`)

  const status = await commandLine.json<Record<string, unknown>>('status')
  const {height} = eth.head
  expect(status).toMatchObject({
    chains: [
      {
        chain: 'ETH',
        local: false,
        node_head: nodeHead,
        head: height,
        final: height - 1,
        lag_blocks: nodeHead - height,
        lag_seconds: expect.any(Number),
        last_reorg_depth: 1,
        last_reorg_at: expect.any(String),
        halted: false,
        reindexing: [],
      },
      {chain: 'POLYGON', local: true, node_head: null, head: null, lag_blocks: null},
    ],
    payouts: {
      pending: 1,
      waiting: [{what: 'payout', chain: 'ETH', reason: 'address_not_whitelisted', count: 1, since: expect.any(String)}],
    },
    queues: [
      {
        task: 'advance_payout',
        waiting: 2,
        running: 0,
        failing: 1,
        oldest_due_seconds: expect.any(Number),
        last_error: 'Error: no such thing\n  at somewhere',
      },
    ],
    webhooks: {
      failing: 1,
      failing_endpoints: [
        {id: endpoint, since: expect.any(String), disabled: null, last_error: 'connect ECONNREFUSED'},
      ],
    },
    audit: {finished_at: expect.any(String), error: 'no node', findings: [{name: 'ledger', count: 2}]},
    incidents: {open: 1},
  })
  const {treasuries, queues} = status as {
    treasuries: {chain: string; token: string; gas_left_days: number | null}[]
    queues: {oldest_due_seconds: number}[]
  }
  expect(queues[0]!.oldest_due_seconds).toBeGreaterThanOrEqual(50)
  const gasOf = (token: string) => treasuries.find(each => each.chain === 'ETH' && each.token === token)!.gas_left_days
  expect(gasOf('ETH')).toBeGreaterThan(7 * 40) // of 50 fees one was paid in a week
  expect(gasOf('USDC')).toBeNull()

  const {stdout} = await commandLine.sluice('status')
  expect(stdout).toMatch(
    new RegExp(`^ETH +remote +${nodeHead} +${height} +${height - 1} +3 blocks, \\d+ s +1 deep, 20`, 'm'),
  )
  expect(stdout).toMatch(/^POLYGON +local +no response +not followed yet$/m)
  expect(stdout).toMatch(/^last audit +20.+: WRONG: ledger \(2\); not compared: no node$/m)
  expect(stdout).toMatch(/^advance_payout +2 +0 +1 +\d+ s +Error: no such thing$/m)
  expect(stdout).toMatch(new RegExp(`^${endpoint} .*connect ECONNREFUSED$`, 'm'))
  expect(stdout).toMatch(/^ETH +ETH .* \d+ days$/m)
})

test('status and merchant create name chains that merchants have and no process follows', async () => {
  const other = await makeMerchant(db, ['ETH', 'TRON'])
  expect(await commandLine.json('status')).toMatchObject({not_followed: [{chain: 'TRON', merchants: 1}]})
  expect((await commandLine.sluice('status')).stdout).toMatch(
    /^TRON: a merchant has this chain, and no process follows it: what is paid there is not seen\. Name its node, or run/m,
  )
  const create = ['merchant', 'create', '--name', 'New', '--prefix', 'new', '--chains', 'ETH,SOL,TRON']
  expect((await commandLine.sluice(...create)).stdout).toMatch(
    /^Made merchant new \(mer_.*\nWarning: no process follows SOL, TRON, .*--merchant new --chains SOL,TRON$/m,
  )
  await db.rows(`delete from app.merchant_chain where merchant_id = $1 or chain in ('SOL', 'TRON')`, [other])
  expect(await commandLine.json('status')).toMatchObject({not_followed: []})
})

test('status shows what could not be swept, why, and when it is tried again, until that is swept', async () => {
  const [held] = await db.rows<{address: string; id: string}>(
    `insert into app.outgoing_payment (kind, chain, token, amount, source, recipient, fee_payer, nonce, merchant_id, max_fee, status, outcome, fee_paid, final_at, failure)
     select 'sweep', h.chain, h.token, 1, h.address, 'treasury', h.address, 900, h.merchant_id, 0, 'final', 'cancelled', 0, clock_timestamp(), 'the node says: frozen'
     from app.holding h where h.amount > 0 and h.merchant_id = $1 limit 1 returning source as address, id`,
    [merchant],
  )
  const failed = {
    chain: 'ETH',
    token: 'ETH',
    addresses: 1,
    failure: 'the node says: frozen',
    retry_at: expect.any(String),
  }
  const shown = async () =>
    (await commandLine.json<{payouts: {failed_sweeps: object[]}}>('status')).payouts.failed_sweeps
  expect(await shown()).toMatchObject([failed])
  expect((await commandLine.sluice('status')).stdout).toMatch(/^ETH +ETH +1 +\d\S* +20.+ the node says: frozen$/m)
  await db.rows('delete from app.outgoing_payment where id = $1', [held!.id])
  expect(await shown()).toEqual([])
  expect((await commandLine.sluice('status')).stdout).not.toMatch('failed sweeps')
})

test('status shows a chain whose servers contradict themselves, with the transaction, until a block is written', async () => {
  const txid = 'cb'.repeat(32)
  const message = `a history names ${txid}, and there is no such transaction`
  const note = () => db.rows(`select chain.note_contradiction('ETH', $1, $2)`, [txid, message])
  await note()
  await note()
  const seen = await commandLine.json<{chains: {standstill: {reason: string} | null}[]}>('status')
  expect(seen.chains).toMatchObject([{standstill: {reason: 'servers_contradict', message}}, {standstill: null}])
  const {stdout} = await commandLine.sluice('status')
  expect(stdout).toMatch(
    new RegExp(`^ETH stands still since 20.+ UTC: ${message}: compare it with a block explorer`, 'm'),
  )
  const metric = () =>
    db.rows<{labels: object; value: number}>(
      `select labels, value from app.metrics() where metric = 'sluice_chain_contradicted_seconds'`,
    )
  expect(await metric()).toEqual([{labels: {chain: 'ETH', txid}, value: expect.any(Number)}])
  await db.rows(
    `update chain.contradiction set since = since - interval '1 hour', seen_at = seen_at - interval '3 minutes'`,
  )
  expect(await metric()).toEqual([]) // no indexer has seen it since
  await note()
  expect((await metric())[0]!.value).toBeLessThan(60) // it began anew
  await eth.write({add: [[]]})
  expect(await metric()).toEqual([])
  expect(await commandLine.json('status')).toMatchObject({chains: [{standstill: null}, {}]})
})

test('status shows that a chain is halted, or that its blocks are read again', async () => {
  await db.rows(`insert into app.reindex (chain, from_height, to_height, next_height) values ('ETH', 1, 4, 3)`)
  expect(await commandLine.json('status')).toMatchObject({chains: [{reindexing: [{from: 1, to: 4, next: 3}]}, {}]})
  await db.rows(`update chain.cursor set halted_at = now() where chain = 'ETH'`)
  const {stdout} = await commandLine.sluice('status')
  await db.rows('update app.reindex set finished_at = now()')
  await db.rows('update chain.cursor set halted_at = null')
  expect(stdout).toMatch(/^ETH .* HALTED$/m)
  expect(stdout).toMatch(/^ETH stands still since .*: it is halted: sluice chain resume --chain ETH$/m)
})

test('status shows that custody signs nothing new on a chain, until its copy is proven', async () => {
  await db.rows(
    `update app.chain set attempts_exclude_by = 'expiry', ends_by = 'height', longest_lifetime = 5, longest_lifetime_ms = 1 where chain = 'ETH'`,
  )
  await db.rows(`select custody.follow_unproven_copies('restored')`)
  const {stdout} = await commandLine.sluice('status')
  expect(stdout).toMatch(
    /^ETH: custody signs nothing new since 20.+ UTC: the journal may lack signatures \(restored\); .*5 blocks after it/m,
  )
  await db.rows('update custody.unproven_copy set proven_at = now()')
  expect(await commandLine.json('status')).toMatchObject({chains: [{unproven_copy: null}, {unproven_copy: null}]})
  await db.rows(`update app.chain set attempts_exclude_by = 'nonce' where chain = 'ETH'`)
})

test("status shows why a chain cannot start; accepting a later start needs the chain's name, happens once, and stays shown", async () => {
  const start = (...more: string[]) => commandLine.sluice('chain', 'start', '--chain', 'POLYGON', ...more)
  await db.rows(`select chain.configure('POLYGON')`)
  await db.rows(`select chain.tell_waiting('POLYGON', 'blocks_missing', 'the node has pruned block 500', 500)`)
  expect(await commandLine.json('status')).toMatchObject({
    chains: [
      {standstill: null, accepted_gap: null},
      {
        standstill: {reason: 'blocks_missing', message: 'the node has pruned block 500', way_out: null},
        accepted_gap: null,
      },
    ],
  })
  expect((await commandLine.sluice('status')).stdout).toMatch(
    /^POLYGON stands still since 20.+ UTC: the node has pruned block 500$/m,
  )
  expect(await start('--from', '900')).toMatchObject({code: 2, stderr: expect.stringContaining('--accept-gap')})
  expect(await start('--from', '500', '--accept-gap')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('no gap'),
  })
  expect((await start('--from', '900', '--accept-gap')).stdout).toContain('in blocks 500 to 899 is not seen')
  const {stdout} = await commandLine.sluice('status')
  expect(stdout).toMatch(
    /^POLYGON is followed from block 900 on; what was paid in blocks 500 to 899 is not seen \(accepted 20.+ by .+ on .+\)$/m,
  )
  const followed = ['--chain', 'ETH', '--from', '9', '--accept-gap']
  expect(await commandLine.failure('chain', 'start', ...followed)).toContain('ETH is followed already')

  expect(await commandLine.failure('chain', 'forget', '--chain', 'ETH')).toContain('ETH was followed')
  await commandLine.json('chain', 'forget', '--chain', 'POLYGON')
  expect((await commandLine.sluice('status')).stdout).not.toMatch(/pruned|not seen/)
  expect(await commandLine.failure('chain', 'forget', '--chain', 'POLYGON')).toContain('nothing to forget')
})

/** A running sluice status --watch, with its output so far. */
function startWatching(options: string[], isTerminal = false): {child: ChildProcess; written: () => string} {
  const program = fileURLToPath(new URL('main.ts', import.meta.url))
  const terminal = isTerminal ? ['--import', 'data:text/javascript,process.stdout.isTTY=true'] : []
  const child = spawn(process.execPath, [...terminal, program, 'status', '--watch', ...options], {
    env: {...process.env, COLUMNS: '80', LINES: '24', SLUICE_HOME: commandLine.home},
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  children.push(child)
  let text = ''
  child.stdout!.on('data', data => {
    text += data
  })
  child.stderr!.on('data', data => {
    text += data
  })
  return {child, written: () => text}
}

const written = (what: RegExp, by: () => string) =>
  until(async () => what.test(by()), {timeoutMs: 20_000, what: `${what} in what is written`})

async function endsWell(child: ChildProcess, signal: 'SIGINT' | 'SIGTERM'): Promise<void> {
  const exit = once(child, 'exit', {signal: AbortSignal.timeout(10_000)})
  child.kill(signal)
  expect(await exit).toEqual([0, null])
}

test('--watch shows one report after another until Ctrl-C, which is no failure', async () => {
  await db.rows(`insert into app.incident (kind, subject, details) values ('audit', 'audit:watched', '{}')`)
  const reports = startWatching([])
  const lines = startWatching(['--json'])
  const terminal = startWatching([], true)
  const all = [reports, lines, terminal]
  for (const {written: by} of all) await written(/open incidents|"incidents"/, by)
  await db.rows(`update app.incident set resolved_at = now(), resolution = 'kept'`)
  await written(/open incidents +[1-9] [\s\S]*process[\s\S]*\n\nAPI [\s\S]*open incidents +0/, reports.written)
  await written(/"incidents":\{"open":[1-9].*\n\{.*"incidents":\{"open":0/, lines.written)
  await written(/open incidents: 0/, terminal.written)
  const screens = terminal.written().split('\u001b[H\u001b[2J').slice(1)
  expect(screens[0]).toMatch(/open incidents: [1-9]/)
  for (const screen of screens) expect(screen.match(/open incidents/g)).toHaveLength(1)
  expect(reports.written()).not.toContain('\u001b')
  await endsWell(reports.child, 'SIGINT')
  await endsWell(lines.child, 'SIGTERM')
  await endsWell(terminal.child, 'SIGINT')
}, 60_000)

test('--watch ends well when its output is closed', async () => {
  const {child, written: by} = startWatching(['--json'])
  await written(/\n/, by)
  const exit = once(child, 'exit', {signal: AbortSignal.timeout(20_000)})
  child.stdout!.destroy()
  expect(await exit).toEqual([0, null])
}, 30_000)

test.each([3, 5])(
  '--watch fits 80x24 with %i chains and everything waiting: what stands still comes first, what is left out is named',
  async count => {
    const chains = ['ETH', 'POLYGON', 'BTC', 'SOL', 'TRON'].slice(0, count)
    await db.rows(`select custody.halt_chain('ETH', 'an older copy')`)
    for (const chain of chains.slice(1)) {
      await db.rows('select chain.configure($1)', [chain])
      await db.rows(`select chain.tell_waiting($1, 'blocks_missing', $2, 500)`, [
        chain,
        'the node has pruned block 500. '.repeat(9),
      ])
    }
    await db.rows(
      `insert into app.incident (chain, kind, subject, details) select 'ETH', kind, kind || n, '{}' from app.incident_kind, generate_series(1, 40) n
     where not halts and kind not like 'final_deposit%' on conflict do nothing`,
    )
    await db.rows(
      `insert into app.outgoing_payment (kind, chain, token, amount, source, recipient, fee_payer, nonce, cancelling, recovered, max_fee, waiting_reason, waiting_since)
     select 'withdrawal', c, 'ETH', 1, 'x', 'y', c, n, false, false, 0, 'reason_' || n, now() from unnest($1::text[]) c, generate_series(1, 5) n
       on conflict do nothing`,
      [chains],
    )
    const {child, written: by} = startWatching([], true)
    await written(/Left out/, by)
    await endsWell(child, 'SIGINT')
    const screens = by()
      .split('\x1b[H\x1b[2J\x1b[3J')
      .slice(1)
      .map(screen => screen.split('\n').slice(0, -1))
    for (const screen of screens) {
      expect(screen.length).toBeLessThan(24)
      for (const line of screen) expect(line.length).toBeLessThanOrEqual(80)
      const text = screen.join('\n')
      for (const chain of chains)
        expect(text).toMatch(new RegExp(`^${chain} .*(HALTED|STANDS STILL|has no node)$`, 'm'))
      expect(text).toMatch(
        /^chain[^\n]*\n[\s\S]*^ETH stands still [\s\S]*sluice custody reconcile[\s\S]*^Payouts under way[\s\S]*^waits /m,
      )
      expect(text).toMatch(/^Left out \(sluice status has it\): [\s\S]*\d+\s+waits[\s\S]*\d+\s+treasuries$/m)
    }
  },
)
