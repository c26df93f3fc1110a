// sluice export, as a process: what it writes, where, and what remains when it is stopped in the middle.
import {type ChildProcess, spawn} from 'node:child_process'
import {once} from 'node:events'
import {readdirSync, readFileSync, writeFileSync} from 'node:fs'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import {DuckDBInstance} from '@duckdb/node-api'
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {seed} from '../db/examples/examples.ts'
import {CommandLine} from '../test/support/command-line.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {until} from '../test/support/until.ts'
import {selectOf, views} from './export.ts'

let db: TestDatabase
let commandLine: CommandLine
let {sluice, failure}: CommandLine = {} as CommandLine

beforeAll(async () => {
  db = await testDatabase()
  await seed(db.ownerUrl)
  commandLine = new CommandLine(db, {})
  ;({sluice, failure} = commandLine)
})
afterAll(async () => {
  await db.drop()
  commandLine.close()
})

const inHome = (name: string) => path.join(commandLine.home, name)

/** A running export whose output is not read yet. */
function start(...given: string[]): ChildProcess {
  const program = fileURLToPath(new URL('main.ts', import.meta.url))
  const env = {...process.env, SLUICE_HOME: commandLine.home, npm_lifecycle_event: ''}
  return spawn(process.execPath, [program, ...given], {env, stdio: ['ignore', 'pipe', 'pipe']})
}

async function endOf(child: ChildProcess): Promise<{code: number; stderr: string}> {
  let stderr = ''
  child.stderr!.on('data', chunk => {
    stderr += chunk
  })
  const [code] = await once(child, 'exit', {signal: AbortSignal.timeout(15_000)})
  return {code, stderr}
}

const newDuckDb = async () => {
  const duckdb = await (await DuckDBInstance.create()).connect()
  return {rows: async (sql: string) => (await duckdb.runAndReadAll(sql)).getRows(), close: () => duckdb.closeSync()}
}

const exportsWaiting = async (event: string) =>
  (
    await db.rows(
      `select from pg_stat_activity where application_name = 'sluice-export' and datname = current_database()
         and (wait_event = $1 or wait_event_type = $1)`,
      [event],
    )
  ).length

test('rows are exported with headings, exact amounts and times in UTC, between two times', async () => {
  const {code, stdout} = await sluice('export', 'unattributed', '--from', '2026-07-01T08:00', '--to', '2026-07-02')
  expect(code).toBe(0)
  const [headings, ...rows] = stdout.trimEnd().split('\n')
  expect(headings).toMatch(
    /^deposit_id,merchant_id,merchant_name,.*,decision,decided_at,returned_to,return_txid,returned_at,payment_request_external_id,dismissed$/,
  )
  expect(rows.sort()).toEqual([
    expect.stringMatching(
      /^dep_[0-9a-f]{32},mer_\w+,Acme Games,acme,usr_\w+,alice,unsupported_token,ETH,0x211cD78a278ED8CE38840597bFc9793990241FE3,,1000000000,final,.*,2026-07-01T10:30:37\.000000Z,.*,,,,,,false$/,
    ),
    expect.stringMatching(
      /carol,chain_not_requested,POLYGON,POL,7,7000000000000000000,final,.*,2026-07-01T08:00:08\.000000Z/,
    ),
  ])
  const upTo = await sluice('export', 'analytics.unattributed', '--from', '2026-07-01', '--to', '2026-07-01T10:30:37Z')
  const [, ...early] = upTo.stdout.trimEnd().split('\n')
  expect(early.sort()).toEqual([
    expect.stringMatching(/,Nordwind Travel,nord,,,wrong_token,ETH,USDC,120,.*,nord-77,false$/),
    expect.stringContaining(',carol,chain_not_requested,'),
  ])
})

test('every view of analytics can be exported, filtered by its time column', async () => {
  const known = await db.rows<{view: string; column: string | null}>(
    `select c.relname as view, (select a.attname from pg_attribute a where a.attrelid = c.oid and a.attname = ($1::jsonb)->>c.relname
       and a.atttypid in ('date'::regtype, 'timestamptz'::regtype)) as column
     from pg_class c where relnamespace = 'analytics'::regnamespace and relkind in ('v', 'm') order by 1`,
    [JSON.stringify(views)],
  )
  expect(Object.fromEntries(known.map(({view, column}) => [view, column]))).toEqual(views)
  const analyst = new pg.Client({connectionString: db.url('sluice_analyst')})
  await analyst.connect()
  for (const [view, column] of Object.entries(views)) {
    const all = await analyst.query(await selectOf(analyst, view, {}))
    expect(await analyst.query(await selectOf(analyst, view, {}, 'spreadsheet')), view).toMatchObject({
      rowCount: all.rowCount,
    })
    if (!column) continue
    const bounds = {from: '2026-01-01T00:00:00.000Z', to: '2026-07-01T00:00:00.000Z'}
    const before = await analyst.query(await selectOf(analyst, view, {to: bounds.to}))
    const between = await analyst.query(await selectOf(analyst, view, bounds))
    const since = await analyst.query(await selectOf(analyst, view, {from: bounds.to}))
    expect([between.rowCount, before.rowCount! + since.rowCount!], view).toEqual([before.rowCount, all.rowCount])
  }
  await analyst.end()
})

/** What an export of users has for each of these references, as DuckDB reads it. */
async function exported(references: string[], ...options: string[]): Promise<Record<string, unknown>> {
  const users = await db.rows<{id: string; ref: string}>(
    `insert into app.user (merchant_id, external_ref, created_at)
     select m.id, r, '2020-01-01' from app.merchant m, unnest($1::text[]) r where prefix = 'acme'
     on conflict (merchant_id, external_ref) do update set created_at = excluded.created_at
     returning id, external_ref as ref`,
    [references],
  )
  const file = inHome('references.csv')
  const {code, stderr} = await sluice('export', 'users', '--to', '2020-01-02', ...options, '--out', file)
  expect(code, stderr).toBe(0)
  const duckdb = await newDuckDb()
  const rows = await duckdb.rows(
    `select user_uuid, external_ref from read_csv('${file}', header = true, all_varchar = true, delim = ',', quote = '"', escape = '"')`,
  )
  duckdb.close()
  return Object.fromEntries(users.map(({id, ref}) => [ref, rows.find(([uuid]) => uuid === id)![1]]))
}

const itself = (texts: string[]) => Object.fromEntries(texts.map(text => [text, text]))

test('what a spreadsheet would run gets an apostrophe, also where a semicolon, a tab or a line break begins a cell for it; raw CSV has it as it is', async () => {
  const answers = {
    '=1+1': "'=1+1",
    '+49 30 1234': "'+49 30 1234",
    '-1': "'-1",
    '@SUM(A1)': "'@SUM(A1)",
    ' =1+1': "' =1+1",
    '＝1+1': "'＝1+1",
    '\t1': "'\t1",
    '\r=1': "'\r'=1",
    "a;=cmd|' /C calc'!A1;b": "a;'=cmd|' /C calc'!A1;b",
    'a;"=1+1;': `a;'"=1+1;`,
    'a\t@x': "a\t'@x",
    'a\n+1\n-2': "a\n'+1\n'-2",
    'a;b': 'a;b',
    'a "quote", and a\nline': 'a "quote", and a\nline',
    'a-b=c': 'a-b=c',
    "'=x": "'=x",
  }
  const texts = Object.keys(answers)
  expect(await exported(texts)).toEqual(answers)
  expect(await exported(texts, '--format', 'spreadsheet')).toEqual(answers)
  expect(await exported(texts, '--raw')).toEqual(itself(texts))
})

test('for a spreadsheet, a reference that looks like a number, a date or a truth value is made a text; CSV for programs has it as it is', async () => {
  const changed = [
    ...['00123', '1e5', '1E-5', '1.5', '1,000', '12345678901234567890', '9'.repeat(255), '5 %', '$5', '(5)', ' 7 '],
    ...['1-2', '1/2', '2026-06-30', 'MARCH1', 'Mar 5', '5. Mai 2026', '12:30', '30 September 2026 12:30 PM'],
    ...['true', 'False', 'order-1042'],
  ]
  const kept = [
    'alice',
    'usr_1',
    'ä€😀',
    '1"',
    '1;2',
    'truely',
    `${'1'.repeat(40)}f`,
    '30 pieces, and one more for good luck',
  ]
  expect(await exported([...changed, ...kept], '--format', 'spreadsheet')).toEqual({
    ...Object.fromEntries(changed.map(text => [text, `="${text}"`])),
    ...itself(kept),
  })
  expect(await exported([...changed, ...kept])).toEqual(itself([...changed, ...kept]))
})

test('for a spreadsheet, CSV is marked as UTF-8 and quoted; negative amounts stay numbers, base units are texts, and times are in its form', async () => {
  await db.rows(
    `insert into app.ledger_entry (posting, kind, reference, account, chain, token, amount, created_at)
     select 1, 'top_up', 'Müller; "1"', account, 'ETH', 'ETH', sign * 1234567890123456789, '2018-06-30 09:12:13.567+02'
     from (values ('treasury', 1), ('operator', -1)) accounts (account, sign)`,
  )
  const {stdout} = await sluice('export', 'ledger', '--to', '2018-07-01', '--format', 'spreadsheet')
  const [heading, ...lines] = stdout.trimEnd().split('\n')
  expect(heading).toMatch(/^\ufeffentry_id,posting,kind,/)
  const cells = (account: string, sign: string) =>
    `"1","top_up","Müller; ""1""","${account}","ETH","ETH",,,,,"${sign}1.234567890123456789","=""${sign}1234567890123456789""","2018-06-30 07:12:13"`
  expect(lines.map(line => line.replace(/^"\d+",/, '')).sort()).toEqual([cells('operator', '-'), cells('treasury', '')])
})

test('a formula in JSON is harmless, too', async () => {
  await db.rows(
    `with noted as (
       insert into app.user (merchant_id, external_ref, metadata, created_at)
       select id, 'noted', '{"note": "a;=1"}', '2018-01-01' from app.merchant where prefix = 'acme' returning *)
     insert into app.event (id, merchant_id, type, subject_id, version, payload, created_at)
     select uuidv7(), merchant_id, 'deposit.pending', uuidv7(), 1, metadata, created_at from noted`,
  )
  const written = async (view: string, ...options: string[]) =>
    (await sluice('export', view, '--to', '2018-02-01', ...options)).stdout
  for (const view of ['users', 'events']) {
    for (const format of ['csv', 'spreadsheet'])
      expect(await written(view, '--format', format)).toContain(`,"{""note"": ""a;'=1""}",`)
    expect(await written(view, '--raw')).toContain(',"{""note"": ""a;=1""}",')
  }
})

test('an export replaces the file as a whole, and counts its rows', async () => {
  const file = inHome('ledger.csv')
  writeFileSync(file, 'old')
  const {stdout, stderr} = await sluice('export', 'ledger', '--out', file, '--json')
  const rows = readFileSync(file, 'utf8').trimEnd().split('\n').length - 1
  expect(JSON.parse(stdout)).toEqual({view: 'ledger', file, rows})
  expect(stderr).toMatch(new RegExp(`exporting ledger .* 100 % {2}${rows} of ${rows} rows`))
  expect(readdirSync(commandLine.home).filter(name => name.includes('partial'))).toEqual([])
})

test('a Parquet file has each view as CSV has it: amounts as DECIMAL with a text beside them, times as TIMESTAMP, in DuckDB', async () => {
  const duckdb = await newDuckDb()
  const types: Record<string, string> = {
    'timestamp with time zone': 'TIMESTAMP WITH TIME ZONE',
    date: 'DATE',
    boolean: 'BOOLEAN',
    integer: 'INTEGER',
    bigint: 'BIGINT',
    'double precision': 'DOUBLE',
  }
  const typeOf = (name: string, type: string) =>
    type === 'numeric' ? `DECIMAL(38,${name.endsWith('_base_units') ? 0 : 18})` : (types[type] ?? 'VARCHAR')
  for (const view of Object.keys(views)) {
    const file = inHome(`parquet-of-${view}.parquet`)
    const {stdout, code} = await sluice('export', view, '--format', 'parquet', '--out', file, '--json')
    const [{count}] = (await db.rows(`select count(*)::int from analytics.${view}`)) as [{count: number}]
    expect([code, JSON.parse(stdout)], view).toEqual([0, {view, file, rows: count}])
    const columns = await db.rows<{name: string; type: string}>(
      `select attname as name, format_type(atttypid, null) as type from pg_attribute
       where attrelid = to_regclass('analytics.' || $1) and attnum > 0 and not attisdropped order by attnum`,
      [view],
    )
    const described = await duckdb.rows(`describe select * from '${file}'`)
    expect(
      described.map(([name, type]) => [name, type]),
      view,
    ).toEqual(
      columns.flatMap(({name, type}) => [
        [name, typeOf(name, type)],
        ...(type === 'numeric' ? [[`${name}_text`, 'VARCHAR']] : []),
      ]),
    )
    if (view === 'chain_lag' || view === 'freshness') continue // their ages grow meanwhile
    for (const {name, type} of columns) {
      const sums: Record<string, [inDuckDb: string, inPostgres: string]> = {
        numeric: [`sum(${name})::decimal(38,18)::varchar`, `sum(${name})::numeric(38,18)::text`],
        'timestamp with time zone': [
          `sum(epoch_us(${name}))::varchar`,
          `sum((extract(epoch from ${name}) * 1000000)::bigint)::text`,
        ],
      }
      const [inDuckDb, inPostgres] = sums[type] ?? [`count(${name})::varchar`, `count(${name})::text`]
      const [{sum}] = (await db.rows(`select ${inPostgres} as sum from analytics.${view}`)) as [{sum: string | null}]
      expect(await duckdb.rows(`select ${inDuckDb} from '${file}'`), `${view}.${name}`).toEqual([[sum]])
    }
  }
  duckdb.close()
})

test('an amount that fits no DECIMAL is null in a Parquet file, and a text beside it; it is read together with files that have none', async () => {
  const nines = (count: number) => '9'.repeat(count)
  /** A debit and a credit. */
  const post = async (posting: number, amount: string, day: string) =>
    await db.rows(
      `insert into app.ledger_entry (posting, kind, reference, account, chain, token, amount, created_at)
       select $1, 'top_up', 'absurd', account, 'ETH', 'USDC', sign * $2::numeric, $3
       from (values ('treasury', 1), ('operator', -1)) accounts (account, sign)`,
      [posting, amount, day],
    )
  await post(1, nines(26), '2019-01-01') // the largest that fits as whole coins
  await post(2, `1${nines(26)}`, '2019-01-01')
  await post(3, nines(38), '2019-01-01') // the largest that fits as base units
  await post(4, nines(78), '2019-01-01')
  await post(5, '1', '2019-02-01')
  const [january, february] = [inHome('january.parquet'), inHome('february.parquet')]
  for (const [from, to, file] of [
    ['2019-01-01', '2019-02-01', january],
    ['2019-02-01', '2019-03-01', february],
  ] as const) {
    const {code} = await sluice('export', 'ledger', '--from', from, '--to', to, '--format', 'parquet', '--out', file)
    expect(code).toBe(0)
  }
  const duckdb = await newDuckDb()
  const rows = await duckdb.rows(
    `select amount::varchar, amount_text, amount_base_units::varchar, amount_base_units_text
     from read_parquet(['${february}', '${january}']) order by account desc, posting`,
  )
  duckdb.close()
  expect(rows).toEqual(
    ['', '-'].flatMap(sign => [
      [`${sign}${nines(20)}.999999000000000000`, null, `${sign}${nines(26)}`, null],
      [null, `${sign}1${nines(20)}.999999`, `${sign}1${nines(26)}`, null],
      [null, `${sign}${nines(32)}.999999`, `${sign}${nines(38)}`, null],
      [null, `${sign}${nines(72)}.999999`, null, `${sign}${nines(78)}`],
      [`${sign}0.000001000000000000`, null, `${sign}1`, null],
    ]),
  )
})

test('an impossible export is refused, and the error says what can be exported', async () => {
  expect(await failure('export', 'deposits', '--format', 'parquet')).toMatch(/name it with --out/)
  for (const format of ['parquet', 'spreadsheet'])
    expect(await failure('export', 'deposits', '--format', format, '--raw', '--out', inHome('x'))).toMatch(
      /--raw is for --format csv/,
    )
  expect(await failure('export', 'nothing')).toMatch(/no view "nothing"; there are address_utilisation, balances, /)
  expect(await failure('export', 'deposits', '--out', inHome('nowhere/x.csv'))).toMatch(
    /was not written: there is no directory .*nowhere; make it/,
  )
  for (const from of ['yesterday', '2026-02-30', '2026-06-31T10:00']) {
    const {code, stderr} = await sluice('export', 'deposits', '--from', from)
    expect({code, stderr}, from).toEqual({code: 2, stderr: expect.stringContaining('a day or a time in UTC')})
  }
  const client = await db.pool.connect()
  const day = '2026-01-02T00:00:00.000Z'
  await expect(selectOf(client, 'toString', {})).rejects.toThrow('no view "toString"')
  await expect(selectOf(client, 'balances', {from: day})).rejects.toThrow('shows the present only')
  await expect(selectOf(client, 'deposits', {from: day, to: day})).rejects.toThrow('--from must be before --to')
  client.release()
})

test('an export waits for a slow reader, and ends quietly when the reader has had enough', async () => {
  await db.rows(
    `insert into app.event (id, merchant_id, type, subject_id, version, payload, created_at)
     select uuidv7(), m.id, 'deposit.pending', uuidv7(), 1, json_build_object('filler', repeat('x', 400)), now()
     from app.merchant m, generate_series(1, 50000) where prefix = 'acme'`,
  )
  const child = start('export', 'events')
  const ended = endOf(child)
  // The server has sent some rows, and is asked for no more: it would end after three times as many.
  const waits = `select from pg_stat_activity where application_name = 'sluice-export' and datname = current_database()
    and state = 'idle in transaction' and query like 'fetch %' and state_change < clock_timestamp() - interval '1 second'`
  await until(async () => (await db.rows(waits)).length === 1, {
    timeoutMs: 10_000,
    what: 'the server to wait for the reader',
  })
  const [first] = await once(child.stdout!, 'data')
  expect(String(first)).toMatch(/^event_id,sequence,type,/)
  child.stdout!.destroy()
  const {code, stderr} = await ended
  expect({code, errors: stderr.match(/sluice:.*/g)}).toEqual({code: 0, errors: null})
})

test("a merchant's statement is, asset by asset, its lines between the balances at the beginning and at the end, with their sums", async () => {
  const period = ['--from', '2026-07-01', '--to', '2026-08-01']
  const {code, stdout, stderr} = await sluice('export', 'statement', '--merchant', 'acme', ...period)
  expect(code, stderr).toBe(0)
  const [headings, ...lines] = stdout.trimEnd().split('\n')
  expect(headings).toBe(
    'chain,token,created_at,type,amount,deposit_id,user_external_ref,external_id,payout_id,txid,payout_address,payout_status,day',
  )
  const rows = lines.map(line => line.split(','))
  const pol = rows.filter(([, token]) => token === 'POL').map(([, , at, type, amount]) => [at, type, amount])
  expect(pol).toEqual([
    ['2026-07-01T00:00:00.000000Z', 'opening_balance', '0'],
    ['2026-07-01T08:00:13.750000Z', 'deposit', '12.5'],
    ['2026-07-01T08:00:13.750000Z', 'deposit', '3'],
    ['2026-07-01T11:15:00.000000Z', 'payout', '-15.345'],
    ['2026-07-01T11:15:00.000000Z', 'fee', '-0.155'],
    ['2026-08-01T00:00:00.000000Z', 'sum_of_deposits', '15.5'],
    ['2026-08-01T00:00:00.000000Z', 'sum_of_payouts', '-15.345'],
    ['2026-08-01T00:00:00.000000Z', 'sum_of_fees', '-0.155'],
    ['2026-08-01T00:00:00.000000Z', 'held_back', '0'],
    ['2026-08-01T00:00:00.000000Z', 'payouts_under_way', '15.345'],
    ['2026-08-01T00:00:00.000000Z', 'closing_balance', '0'],
  ])
  const [paid] = rows.filter(([, token, , type]) => token === 'POL' && type === 'payout')
  expect(paid!.slice(10)).toEqual([expect.stringMatching(/^0x/), 'pending', '2026-07-01'])
  const assets = rows.map(([chain, token]) => `${chain} ${token}`)
  expect(assets).toEqual([...assets].sort())
  expect(rows.map(([, , , type]) => type).filter(type => type?.endsWith('_balance'))).toHaveLength(6)
  const file = inHome('statement.parquet')
  const parquet = await sluice(
    'export',
    'statement',
    '--merchant',
    'acme',
    ...period,
    '--format',
    'parquet',
    '--out',
    file,
  )
  expect(parquet.stdout).toBe(`${rows.length} rows of statement are in ${file}. Its days are those of UTC.\n`)
  const duckdb = await newDuckDb()
  expect(await duckdb.rows(`select count(*), sum(amount) from '${file}' where token = 'POL'`)).toEqual([
    [11n, expect.anything()],
  ])
  duckdb.close()
  for (const [words, why] of [
    [['--merchant', 'acme'], 'a statement is of a merchant and a period: give --merchant <prefix>, --from and --to'],
    [period, 'a statement is of a merchant and a period: give --merchant <prefix>, --from and --to'],
    [['--merchant', 'nobody', ...period], 'there is no merchant with the prefix "nobody"'],
    [
      ['--merchant', 'acme', '--from', '2026-07-01', '--to', '2026-07-02T00:07:00Z'],
      '--to must be a whole quarter of an hour, such as 2026-11-01T00:15:00Z',
    ],
  ] as const)
    expect(await sluice('export', 'statement', ...words)).toMatchObject({
      code: 1,
      stdout: '',
      stderr: `sluice: ${why}\n`,
    })
})

test('a day of a statement begins where the merchant is; a time is one in UTC; its times stay in UTC', async () => {
  const zone = (name: string) => db.rows(`update app.merchant set time_zone = $1 where prefix = 'acme'`, [name])
  await zone('America/New_York')
  const edges = async (from: string, to: string) => {
    const {stdout, stderr} = await sluice('export', 'statement', '--merchant', 'acme', '--from', from, '--to', to)
    const pol = stdout.split('\n').filter(line => line.startsWith('POLYGON,POL,'))
    return [pol[0], pol.at(-1), stderr].map(line =>
      line
        ?.split(',')
        .filter((_, n) => n === 2 || n === 12)
        .join(' '),
    )
  }
  const [first, last] = ['2026-07-01T04:00:00.000000Z 2026-07-01', '2026-08-01T04:00:00.000000Z 2026-07-31']
  expect(await edges('2026-07-01', '2026-08-01')).toEqual([first, last, ''])
  expect(await edges('2026-07-01T04:00:00Z', '2026-08-01T04:00Z')).toEqual([first, last, ''])
  await zone('UTC')
})

test('an interrupted export leaves no file', async () => {
  await db.rows(
    `create or replace function analytics.coins(amount_base_units numeric, decimals int) returns numeric
     language plpgsql as 'begin perform pg_sleep(60); return 1; end'`,
  )
  const child = start('export', 'payouts', '--out', inHome('payouts.csv'))
  const ended = endOf(child)
  const files = () => readdirSync(commandLine.home).filter(name => name.startsWith('payouts'))
  await until(async () => (await exportsWaiting('PgSleep')) === 1 && files().length === 1, {
    timeoutMs: 10_000,
    what: 'the export to be in the middle of its file',
  })
  child.kill('SIGINT')
  expect(await ended).toEqual({code: 1, stderr: expect.stringContaining('interrupted')})
  expect(files()).toEqual([])
})
