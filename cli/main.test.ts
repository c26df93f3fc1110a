// The command line: its promises about output, errors and exit codes, and the commands about merchants, webhooks and
// chains.
import {spawn} from 'node:child_process'
import {createHash} from 'node:crypto'
import {once} from 'node:events'
import {mkdirSync, mkdtempSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {type Command, CommanderError} from 'commander'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {writeProcesses} from '../base/home.ts'
import packageJson from '../package.json' with {type: 'json'}
import {CommandLine, program} from '../test/support/command-line.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {sluiceProgram} from './program.ts'

const hash = `0x${'ab'.repeat(32)}`
let db: TestDatabase
let commandLine: CommandLine
let {sluice, json, failure}: CommandLine = {} as CommandLine

beforeAll(async () => {
  db = await testDatabase()
  commandLine = new CommandLine(db, {
    ETH: {rpc_url: 'ws://127.0.0.1:2', local: true, settings: {ETH_RPC_URL: 'ws://127.0.0.1:2'}},
  })
  ;({sluice, json, failure} = commandLine)
})

afterAll(async () => {
  await db.drop()
  commandLine.close()
})

test('a merchant is created once per prefix, and found by prefix and by id', async () => {
  const made = await json(
    'merchant',
    'create',
    '--name',
    'Acme',
    '--prefix',
    'acme',
    '--chains',
    'eth',
    '--fee-bps',
    '50',
  )
  expect(made).toEqual({id: expect.stringMatching(/^mer_[0-9a-f]{32}$/), prefix: 'acme'})
  expect(await json('merchant', 'enable-chain', '--merchant', String(made.id), '--chain', 'POLYGON')).toEqual({
    ...made,
    chains: ['ETH', 'POLYGON'],
  })
  await json('merchant', 'disable-chain', '--merchant', 'acme', '--chains', 'ETH')
  expect(await json('merchant', 'list')).toEqual({
    merchants: [
      {...made, name: 'Acme', fee_bps: 50, chains: ['POLYGON'], created_at: expect.any(String), suspended_at: null},
    ],
  })
  expect(await failure('merchant', 'create', '--name', 'B', '--prefix', 'acme')).toMatch(/acme belongs to another/)
  const unknown = db.rows(`select app.create_merchant('B', 'b2', array['DOGE'], 0)`)
  await expect(unknown).rejects.toThrow('DOGE cannot be enabled: Sluice does not run this chain')
  expect(await failure('key', 'create', '--merchant', 'nobody', '--json')).toMatch(/no merchant "nobody"/)
})

test('name and fee of a merchant change independently, and nothing else changes', async () => {
  const {id} = await json('merchant', 'create', '--name', 'Before', '--prefix', 'later', '--fee-bps', '10')
  expect(await json('merchant', 'update', '--merchant', 'later', '--fee-bps', '0')).toEqual({
    id,
    prefix: 'later',
    name: 'Before',
    fee_bps: 0,
    cancels_per_day: 20,
    payment_tolerance_bps: 0,
  })
  expect(await json('merchant', 'update', '--merchant', 'later', '--cancels-per-day', '0')).toMatchObject({
    fee_bps: 0,
    cancels_per_day: 0,
  })
  expect(await json('merchant', 'update', '--merchant', 'later', '--name', 'After')).toMatchObject({
    name: 'After',
    fee_bps: 0,
  })
  expect(await failure('merchant', 'update', '--merchant', 'later')).toMatch(
    /nothing to change; give --name, --fee-bps, --cancels-per-day or --payment-tolerance/,
  )
  expect(await json('merchant', 'update', '--merchant', 'later', '--payment-tolerance', '0.5%')).toMatchObject({
    payment_tolerance_bps: 50,
  })
  const tolerance = ['merchant', 'update', '--merchant', 'later', '--payment-tolerance']
  expect(await failure(...tolerance, '51%')).toMatch('0 to 50 percent')
  expect(await sluice(...tolerance, 'a bit')).toMatchObject({code: 2, stderr: expect.stringContaining('a percentage')})
  expect(await failure('merchant', 'update', '--merchant', 'later', '--fee-bps', '10001')).toMatch(/0 to 10000/)
  expect(await failure('merchant', 'update', '--merchant', 'later', '--name', ' ')).toMatch(/needs a name/)
})

test('a merchant can be suspended and resumed any number of times', async () => {
  await json('merchant', 'create', '--name', 'Late', '--prefix', 'late')
  const suspendedAt = async () => {
    const {merchants} = await json<{merchants: {prefix: string; suspended_at: string | null}[]}>('merchant', 'list')
    return merchants.find(({prefix}) => prefix === 'late')!.suspended_at
  }
  expect(await json('merchant', 'suspend', '--merchant', 'late')).toMatchObject({prefix: 'late', suspended: true})
  const since = await suspendedAt()
  expect(since).not.toBeNull()
  await json('merchant', 'suspend', '--merchant', 'late')
  expect(await suspendedAt()).toBe(since)
  for (let i = 0; i < 2; i++)
    expect(await json('merchant', 'resume', '--merchant', 'late')).toMatchObject({prefix: 'late', suspended: false})
  expect(await suspendedAt()).toBeNull()
})

test('only the hash of a key is stored, and a key can be revoked', async () => {
  await json('merchant', 'create', '--name', 'Keys', '--prefix', 'keys')
  const create = ['key', 'create', '--merchant', 'keys']
  const {id, secret} = await json<{id: string; secret: string}>(...create, '--label', 'shop, test')
  expect(await failure(...create, '--label', 'x'.repeat(101))).toMatch(/1 to 100 characters/)
  expect(secret).toMatch(/^sk_[A-Za-z0-9_-]{43}$/)
  const rows = await db.rows<{hash: string}>(`select encode(secret_hash, 'hex') as hash from app.api_key`)
  expect(rows).toEqual([{hash: createHash('sha256').update(secret).digest('hex')}])
  expect(await failure('key', 'revoke', id, '--merchant', 'acme')).toMatch(/merchant acme has no key/)
  expect(await json('key', 'revoke', id)).toEqual({id, revoked: true})
  expect(await json('key', 'list', '--merchant', 'keys')).toEqual({
    keys: [
      {
        id,
        label: 'shop, test',
        scopes: ['read', 'users', 'payouts', 'payments', 'webhooks'],
        created_at: expect.any(String),
        last_used_on: null,
        revoked_at: expect.any(String),
      },
    ],
  })
})

test('a key has the scopes that it was made with, and others do not exist', async () => {
  await json('merchant', 'create', '--name', 'Scopes', '--prefix', 'scopes')
  const create = ['key', 'create', '--merchant', 'scopes', '--scopes']
  expect(await json(...create, 'webhooks, read,read')).toMatchObject({scopes: ['read', 'webhooks']})
  const {keys} = await json<{keys: unknown[]}>('key', 'list', '--merchant', 'scopes')
  expect(keys).toMatchObject([{scopes: ['read', 'webhooks']}])
  for (const list of ['write', 'read,', '']) {
    const {code, stderr} = await sluice(...create, list)
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(/There is no scope .*; there are read, users, payouts, payments, webhooks/),
    ])
  }
})

test('an invitation is a link whose secret is stored only as a hash; one for a reset is for a person of that merchant', async () => {
  await json('merchant', 'create', '--name', 'Invited', '--prefix', 'invited')
  await json('merchant', 'create', '--name', 'Other', '--prefix', 'other')
  const {url, expires_at} = await json<{url: string; expires_at: string}>('invite', '--merchant', 'invited')
  const [, token] = /^http:\/\/localhost:8088\/invitation\/([\w-]{43})$/.exec(url)!
  const [{hash}] = (await db.rows<{hash: string}>(
    `select encode(token_hash, 'hex') as hash from dashboard.invitation`,
  )) as [{hash: string}]
  expect(hash).toBe(createHash('sha256').update(token!).digest('hex'))
  expect(new Date(expires_at).getTime() - Date.now()).toBeGreaterThan(86_000_000)

  await db.rows(
    `with person as (insert into auth."user" (name, email, "emailVerified") values ('Ada', 'ada@acme.test', true) returning id)
     insert into dashboard.member (user_id, merchant_id) select person.id, m.id from person, app.merchant m where m.prefix = 'invited'`,
  )
  const reset = (merchant: string, email: string) => ['invite', '--merchant', merchant, '--reset', email]
  const {stdout} = await commandLine.run(reset('invited', 'Ada@acme.test'), commandLine.home, {
    DASHBOARD_URL: 'https://dash.example',
  })
  expect(stdout).toMatch(/^https:\/\/dash\.example\/invitation\/[\w-]{43}\n\nIt gives Ada@acme.test a new password/)
  expect(await failure(...reset('other', 'ada@acme.test'))).toMatch(
    /ada@acme.test belongs to another merchant than other/,
  )
  expect(await failure(...reset('invited', 'eve@acme.test'))).toMatch(/nobody signs in as eve@acme.test; check/)
  expect(await failure('invite', '--merchant', 'nobody')).toMatch(/no merchant "nobody"/)
})

test('a webhook endpoint can be added, tested and rotated, and its failed deliveries sent again', async () => {
  await json('merchant', 'create', '--name', 'Hooks', '--prefix', 'hooks')
  const added = await json('webhook', 'add', '--merchant', 'hooks', '--url', 'https://hooks.example/sluice')
  expect(added).toEqual({id: expect.stringMatching(/^whe_/), secret: expect.stringMatching(/^whsec_/)})
  const id = String(added.id)
  const rotated = await json('webhook', 'rotate', id)
  expect(rotated.secret).not.toBe(added.secret)
  expect(Date.parse(String(rotated.old_secret_until)) - Date.now()).toBeGreaterThan(23.9 * 3_600_000)
  expect((await sluice('webhook', 'rotate', id)).stdout).toMatch(
    /Until \d{4}-\d\d-\d\d .* UTC, for 24 hours, events are signed with the old secret, too\.\n$/,
  )
  const {delivery_id} = await json<{delivery_id: string}>('webhook', 'test', id)
  const {rows} = await db.pool.query(
    `update app.delivery set status = 'failed', attempts = 9, next_attempt_at = null returning created_at`,
  )
  const listed = await json('webhook', 'deliveries', id, '--status', 'failed')
  expect(listed).toMatchObject({
    deliveries: [{id: delivery_id, type: 'deposit.confirmed', status: 'failed', attempts: 9}],
  })
  const since = (rows[0] as {created_at: Date}).created_at
  expect(await json('webhook', 'redeliver', id, '--since', new Date(since.getTime() + 1000).toISOString())).toEqual({
    count: 0,
  })
  expect(await json('webhook', 'redeliver', id, '--since', since.toISOString())).toEqual({count: 1})
  expect(await json('webhook', 'redeliver', id, '--delivery', delivery_id)).toEqual({count: 1})
  expect((await sluice('webhook', 'redeliver', id)).code).toBe(2)
  expect(await failure('webhook', 'add', '--merchant', 'hooks', '--url', 'ftp://x')).toMatch(/must be http/)
  for (const url of ['http://hooks.example/', 'https://10.0.0.7/', 'https://[::1]:9000/', 'https://localhost:9000/'])
    expect(await failure('webhook', 'add', '--merchant', 'hooks', '--url', url)).toMatch(
      /^sluice: the URL must (be https|lead to an address of the public internet), so nothing would be sent to it; .*WEBHOOK_ALLOW_PRIVATE=1/,
    )
  const {stdout} = await sluice('webhook', 'list', '--merchant', 'hooks')
  expect(stdout).toMatch(/^merchant +url +state +id\nhooks +https:\/\/hooks\.example\/sluice +enabled +whe_\w+\n$/)
  expect(stdout).not.toContain('whsec_')
})

test('a halted chain is rewound to its fork, or resumed, as the operator decides', async () => {
  await db.pool.query(`select chain.anchor('ETH', 'eip155:1', 100, $1, now())`, [hash])
  expect(await failure('chain', 'resume', '--chain', 'ETH')).toMatch(/not halted/)
  expect(await failure('chain', 'rewind', '--chain', 'ETH')).toMatch(/give with --to/)
  await db.pool.query(`select chain.halt('ETH', '{"common_height": 97}')`)
  const {incidents} = await json<{incidents: {id: number}[]}>('incident', 'list')
  expect(incidents).toMatchObject([{chain: 'ETH', kind: 'fork_below_final', details: {common_height: 97}}])
  expect(await failure('incident', 'resolve', String(incidents[0]!.id), '--as', 'kept')).toMatch(/sluice chain rewind/)
  expect(await json('chain', 'rewind', '--chain', 'ETH')).toEqual({chain: 'ETH', rewind_to: 97})
  expect(await db.rows('select rewind_to from chain.cursor')).toEqual([{rewind_to: 97}])
  expect(await json('chain', 'resume', '--chain', 'ETH')).toEqual({chain: 'ETH', resumed: true})
  expect(await json('incident', 'list')).toEqual({incidents: [], total: 0, next: null})
  expect(await json('incident', 'list', '--all')).toMatchObject({incidents: [{resolution: 'resumed'}]})
  expect(await failure('incident', 'resolve', '999', '--as', 'kept')).toMatch(/no incident 999/)
})

test('an incident about an expired transaction shows its payment; an operator may say that it is absent, past its end only', async () => {
  const [{incident}] = (await db.rows(`
    with chain as (update app.chain set attempts_exclude_by = 'expiry', ends_by = 'height' where chain = 'POLYGON'),
      cursor as (insert into chain.cursor (chain, network, head_height, head_hash, head_time, final_height, final_hash, followed_from)
        values ('POLYGON', 'eip155:1', 90, 'x', now(), 90, 'x', 1)),
      merchant as (insert into app.merchant (name, prefix, fee_bps) values ('Shop of the expired', 'expired', 100) returning id),
      journal as (insert into custody.journal (stream, seq, kind, subject_id, merchant_id, txid, raw, details, signed_at, hash)
        select 'POLYGON', 1, 'sweep', '00000000-0000-0000-0000-00000000000a', id, '0xexpired', '',
          '{"lifetime": {"from": 80, "end": 95, "clock_ms": 1}}', now(), '' from merchant)
    insert into app.incident (chain, kind, subject, details)
    values (null, 'unproven_expiry', 'POLYGON:0xexpired', '{"txid": "0xexpired", "why": "the nodes contradict each other"}')
    returning id::text as incident`)) as [{incident: string}]
  const {stdout} = await sluice('incident', 'show', incident)
  expect(stdout).toMatch(/^why +the nodes contradict each other$/m)
  expect(stdout).toMatch(/^way_out +ask other nodes whether any block holds the transaction/m)
  expect(await json('incident', 'show', incident)).toMatchObject({
    transactions: [
      {
        chain: 'POLYGON',
        txid: '0xexpired',
        fate: 'open',
        end: 'block 95',
        payment: '00000000-0000-0000-0000-00000000000a',
        kind: 'sweep',
        merchant: 'Shop of the expired',
        payout: null,
      },
    ],
  })
  for (const line of [/^txid +0xexpired$/m, /^end +block 95$/m, /^merchant +Shop of the expired$/m])
    expect(stdout).toMatch(line)
  expect(await failure('incident', 'resolve', incident, '--as', 'kept')).toMatch(/--as absent/)
  expect(await failure('incident', 'resolve', incident, '--as', 'absent')).toMatch(
    new RegExp(`incident ${incident}: a block may still hold the transaction`),
  )
  await db.rows(`update chain.cursor set final_height = 95 where chain = 'POLYGON'`)
  expect(await json('incident', 'resolve', incident, '--as', 'absent')).toEqual({
    ids: [Number(incident)],
    resolution: 'absent',
  })
  expect(await db.rows(`select evidence ->> 'decided' as decided from chain.lapse where txid = '0xexpired'`)).toEqual([
    {decided: 'absent'},
  ])
  await db.rows(`delete from chain.cursor where chain = 'POLYGON'`)
})

test('an incident about unknown transactions shows what each of them moved, and the payout that waits to pay the same', async () => {
  const [ids] = (await db.rows(`
    with merchant as (insert into app.merchant (name, prefix, fee_bps) values ('Shop of the forgotten', 'forgotten', 100) returning id),
      payout as (insert into app.payout (merchant_id, chain, token, gross, fee_bps, fee, net, address, sweep_first, next_step_at, created_at)
        select id, 'ETH', 'USDC', 1000000, 100, 10000, 990000, '0xWallet', false, null, to_timestamp(0) from merchant returning id),
      ours as (insert into custody.address (address, family, derivation_index, purpose) values ('0xOurs', 'evm', 999, 'deposit')),
      block as (insert into chain.confirmed_tx (id, chain, txid, block_height, block_hash, block_time, account, nonce, success, fee)
        values ('ETH:0xpaid', 'ETH', '0xpaid', 77, 'x', now(), '0xOurs', 3, true, 1))
    select app.public_id('pay', id) as payout from payout`)) as [{payout: string}]
  const [{id}] = (await db.rows(`select id::text from app.incident where subject = 'ETH:0xOurs'`)) as [{id: string}]
  await db.rows('insert into app.unknown_transaction (chain, txid, incident_id) values ($1, $2, $3)', [
    'ETH',
    '0xolder',
    id,
  ])
  const moved = [{sender: '0xOurs', recipient: '0xWallet', token: 'USDC', amount: '990000'}]
  await db.rows('select chain.note_moved($1, $2)', ['ETH', JSON.stringify({'0xpaid': moved})])
  const shown = {
    chain: 'ETH',
    txid: '0xpaid',
    block: 77,
    paid: '0.99 USDC to 0xWallet',
    waits: `payout ${ids.payout}`,
  }
  expect(await json('incident', 'show', id)).toMatchObject({
    transactions: [
      shown,
      {txid: '0xolder', block: null, paid: 'not known: look it up in a block explorer', waits: null},
    ],
  })
  const {stdout} = await sluice('incident', 'show', id)
  expect(stdout).toMatch(/^paid +0\.99 USDC to 0xWallet$/m)
  expect(await failure('incident', 'resolve', id, '--as', 'kept')).toContain(`payout ${ids.payout} still waits to pay`)
  await db.rows(`update app.payout set status = 'failed' where address = '0xWallet'`)
  await json('incident', 'resolve', id, '--as', 'kept')
})

test('several incidents are resolved together, or none of them', async () => {
  const {rows} = await db.pool.query<{id: number}>(
    `insert into app.incident (chain, kind, subject, details)
     select 'ETH', 'unknown_transaction', 'ETH:' || n, '{}' from generate_series(1, 3) n returning id::int`,
  )
  const [one, two, three] = rows.map(({id}) => `${id}`)
  const resolve = (...ids: string[]) => failure('incident', 'resolve', ...ids, '--as', 'kept')
  const open = async () => (await db.rows('select from app.incident where resolved_at is null')).length
  expect(await resolve(one!, two!, '999')).toMatch(/no incident 999.*Nothing was resolved/)
  expect(await failure('incident', 'resolve', one!, two!, '--as', 'reorged')).toMatch(
    /\(unknown_transaction\) cannot be resolved as reorged: find out who sent it.*resolve \d+ --as kept\. Nothing was resolved/,
  )
  expect(await open()).toBe(3)
  expect(await json('incident', 'resolve', one!, two!, one!, '--as', 'kept')).toEqual({
    ids: [Number(one), Number(two)],
    resolution: 'kept',
  })
  expect(await open()).toBe(1)
  expect(await resolve(three!, two!)).toMatch(/is resolved already \(kept\)/)
  const {stdout} = await sluice('incident', 'resolve', three!, '--as', 'kept')
  expect(stdout).toBe(`Incident ${three} is resolved: kept.\n`)
})

test('status shows the state of everything', async () => {
  const process_ = {name: 'api', pid: 1, state: 'running' as const, started_at: '2026-01-31T12:00:00.000Z', restarts: 2}
  writeProcesses(commandLine.home, [{...process_, command: 'node api/main.ts'}])
  expect(await json('status')).toEqual({
    service: {
      pid: process.pid,
      started_at: '2026-01-31T12:00:00.000Z',
      api_url: 'http://127.0.0.1:1',
      home: commandLine.home,
    },
    chains: [
      {
        chain: 'ETH',
        local: true,
        node_head: null,
        head: 100,
        final: 100,
        lag_blocks: null,
        lag_seconds: expect.any(Number),
        last_reorg_at: null,
        last_reorg_depth: null,
        halted: false,
        standstill: null,
        accepted_gap: null,
        reindexing: [],
        unproven_copy: null,
      },
    ],
    not_followed: expect.any(Array),
    deposits: {pending: 0, unattributed: 0, held_back: 0},
    payouts: {pending: 0, sweeping: 0, swept: 0, paying: 0, waiting: [], failed_sweeps: []},
    treasuries: [],
    stakes: [],
    sweep_costs: [],
    queues: expect.any(Array),
    webhooks: {pending: 1, failing: 0, failed: 0, failing_endpoints: []},
    incidents: {open: 0, ways_out: []},
    audit: null,
    processes: [process_],
  })
  const {stdout} = await sluice('status')
  expect(stdout).toMatch(
    /^chain +node +head +indexed +final +lag +last reorganisation +state\nETH +local +no response +100 +100 +\d+ s +followed$/m,
  )
})

test('an invalid command line ends with code 2, and writes to stderr only', async () => {
  for (const given of [
    [],
    ['nothing'],
    ['merchant'],
    ['key', 'create'],
    ['merchant', 'create', '--chains', 'DOGE'],
    ['incident', 'resolve', 'x'],
  ]) {
    const {code, stdout, stderr} = await sluice(...given)
    expect({given, code, stdout}).toEqual({given, code: 2, stdout: ''})
    expect(stderr).not.toBe('')
  }
})

test('a reader of only the first lines of a help text, such as head, gets them without an error', async () => {
  const child = spawn(process.execPath, [program, '--help'], {stdio: ['ignore', 'pipe', 'pipe']})
  child.stdout.destroy() // before it writes anything
  let errors = ''
  child.stderr.on('data', text => {
    errors += text
  })
  const [code] = await once(child, 'close')
  expect({code, errors}).toEqual({code: 0, errors: ''})
})

test('sluice --version shows the version', async () => {
  expect(await sluice('--version')).toEqual({code: 0, stdout: `${packageJson.version}\n`, stderr: ''})
})

test('without a running service, the error says how to start one', async () => {
  const empty = mkdtempSync(path.join(tmpdir(), 'sluice-cli-'))
  const {code, stderr} = await commandLine.run(['status'], empty)
  expect(code).toBe(1)
  expect(stderr).toMatch(/no service runs in .*; start it with npm start, or set SLUICE_HOME/)
  rmSync(empty, {recursive: true})
})

test('processes started one by one are operated with the owner’s URL only, and the settings name the nodes', async () => {
  const empty = mkdtempSync(path.join(tmpdir(), 'sluice-cli-'))
  const secret = path.join(empty, 'database_url')
  writeFileSync(secret, `${db.ownerUrl}\n`)
  const settings = {
    DATABASE_URL_FILE: secret,
    POLYGON_RPC_URL: 'http://127.0.0.1:3',
    PORT: '8081',
    BTC_MIN_PAYOUT: 'BTC:0.7',
  }
  const migrated = await commandLine.run(['migrate', '--json'], empty, settings)
  expect(migrated).toMatchObject({code: 0, stderr: ''})
  const {applied, assets} = JSON.parse(migrated.stdout)
  expect(applied).toEqual([])
  const changed = {chain: 'BTC', token: 'BTC', change: 'changed'}
  expect(assets).toContainEqual({
    ...changed,
    fields: expect.objectContaining({'smallest payout': {from: expect.any(String), to: '0.7'}}),
  })
  const again = await commandLine.run(['migrate'], empty, {...settings, BTC_MIN_PAYOUT: 'BTC:0.8'})
  expect(again.stdout).toBe('The database is up to date.\nChanged BTC BTC: smallest payout 0.7 -> 0.8\n')
  await commandLine.run(['migrate'], empty, settings)
  const smallest = await db.rows(`select min_payout from app.asset where chain = 'BTC'`)
  expect(smallest).toEqual([{min_payout: '70000000'}])
  const {code, stdout, stderr} = await commandLine.run(['status', '--json'], empty, settings)
  expect({code, stderr}).toEqual({code: 0, stderr: ''})
  expect(JSON.parse(stdout)).toMatchObject({
    service: {api_url: 'http://127.0.0.1:8081'},
    chains: [
      {chain: 'ETH', local: null},
      {chain: 'POLYGON', local: false, head: null},
    ],
    processes: ['custody', 'jobs', 'api', 'dashboard-auth', 'dashboard-pages', 'indexer-eth'].map(name => {
      return {name, state: 'not connected'}
    }),
  })
  const indexer = await db.pool.connect()
  await indexer.query(`select chain.try_lock('ETH')`)
  const followed = await commandLine.run(['status', '--json'], empty, settings)
  expect(JSON.parse(followed.stdout).processes.at(-1)).toEqual({name: 'indexer-eth', state: 'running'})
  indexer.release(true)
  const away = {DATABASE_URL: 'postgres://sluice:secret@127.0.0.1:1/sluice'}
  const failed = await commandLine.run(['status'], empty, away)
  expect(failed).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/DATABASE_URL: the database cannot be reached: connect ECONNREFUSED/),
  })
  expect(failed.stderr).not.toContain('secret')
  rmSync(empty, {recursive: true})
})

test('the help of each command shows an example', () => {
  const commands = leaves(sluiceProgram(), [])
  expect(commands.length).toBeGreaterThan(30)
  for (const {name, command} of commands) expect(helpOf(command)).toContain(`Example:\n  ${name}`)
})

test('every command refuses a wrong command line', async () => {
  for (const {name, command} of leaves(sluiceProgram(), [])) {
    command.configureOutput({writeErr: () => {}})
    const parsed = command.parseAsync(['--no-such-option'], {from: 'user'})
    const error: unknown = await parsed.catch(error => error)
    expect(error, name).toBeInstanceOf(CommanderError)
    expect((error as CommanderError).exitCode, `${name}: the program ends with code 2, unless this is 0`).not.toBe(0)
  }
})

test('every example of the help ends with code 1 where it cannot do its work; stdout stays empty', async () => {
  const empty = mkdtempSync(path.join(tmpdir(), 'sluice-cli-'))
  const examples = leaves(sluiceProgram(), []).flatMap(({command}) => {
    const lines = helpOf(command).split('Example:\n')[1]!.trimEnd().split('\n')
    return lines.filter(line => line.startsWith('  sluice ')).map(line => wordsOf(line).slice(1))
  })
  const wrong: object[] = []
  for (let at = 0; at < examples.length; at += 4)
    await Promise.all(
      examples.slice(at, at + 4).map(async words => {
        const ended = await commandLine.run(words, empty, {DATABASE_URL: ''})
        if (ended.code !== 1 || ended.stdout !== '' || !/^(sluice|error): ./.test(ended.stderr))
          wrong.push({words, ...ended})
      }),
    )
  expect(wrong).toEqual([])
  rmSync(empty, {recursive: true})
})

test('help texts are wrapped at the width of the terminal only, and the list of commands shows each first paragraph', async () => {
  const {code, stdout: help} = await sluice('status', '--help')
  expect(code).toBe(0)
  expect(help).toContain(
    "head is the newest block of a chain's node, indexed the newest block that Sluice\nread. --watch repeats the report every 2 seconds until Ctrl-C and shows as much\n",
  )
  const {stdout: list} = await sluice('--help')
  expect(list).toMatch(/^ {2}status \[options\] +Shows the state of the service/m)
  expect(list).not.toContain('head is the newest block')
})

test('a drill on a file that is no database says what to give instead, and is recorded as failed', async () => {
  const {code, stdout} = await sluice('drill', '--database', 'nonsense')
  expect(code).toBe(1)
  expect(stdout).toContain('"nonsense" is not a database URL; write it like postgres://')
  expect(await db.rows('select kind, error from app.backup_run')).toEqual([
    {kind: 'drill', error: expect.stringContaining('restore: "nonsense" is not a database URL')},
  ])
})

test('a drill that cannot open the seed does nothing, and is not recorded as a failed one', async () => {
  const directory = path.join(commandLine.home, 'custody')
  mkdirSync(directory)
  writeFileSync(path.join(directory, 'seed.json'), '{}')
  const {code, stdout, stderr} = await sluice('drill')
  rmSync(directory, {recursive: true})
  expect({code, stdout}).toEqual({code: 1, stdout: ''})
  expect(stderr).toMatch(/^sluice: a drill opens the seed, and needs custody's passphrase: set CUSTODY_PASSPHRASE/)
  expect(await db.rows('select from app.backup_run')).toHaveLength(1)
})

/** The commands without subcommands, each as it is typed; without those that start a program with its own help. */
function leaves(command: Command, above: string[]): {name: string; command: Command}[] {
  const words = [...above, command.name()]
  if (['custody', 'devnet', 'listen', 'trigger'].includes(command.name())) return []
  if (!command.commands.length) return [{name: words.join(' '), command}]
  return command.commands.flatMap(each => leaves(each, words))
}

/** As a shell reads them. */
const wordsOf = (line: string) =>
  [...line.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(([, one, two, bare]) => one ?? two ?? bare!)

function helpOf(command: Command): string {
  let help = ''
  command.configureOutput({
    writeOut: text => {
      help += text
    },
  })
  command.outputHelp()
  return help
}
