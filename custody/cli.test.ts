// sluice custody, as operators run it: as a separate process, on a real database.
import {execFile, spawn} from 'node:child_process'
import {randomUUID} from 'node:crypto'
import {once} from 'node:events'
import {chownSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {assertBooks} from '../test/support/books.ts'
import {killCustody, startCustody} from '../test/support/custody.ts'
import {testDatabase} from '../test/support/database.ts'
import {fees, higherFees, newAddress, tokenGas, WrittenEvm} from '../test/support/evm/written-world.ts'
import {until} from '../test/support/until.ts'
import {junk, type Merchant} from '../test/support/written-world.ts'
import {readBackup} from './journal/backup.ts'
import {journalFile} from './journal/file.ts'
import {markIncomplete} from './journal/incomplete.ts'
import {isNewSeed, readSeed, seedFile} from './keys/seed.ts'

const program = fileURLToPath(new URL('cli.ts', import.meta.url))
const passphrase = 'correct horse'

let world: WrittenEvm
let outside: string

beforeAll(async () => {
  world = await WrittenEvm.open()
  outside = mkdtempSync(path.join(tmpdir(), 'sluice-backup-'))
})
afterAll(async () => {
  await world.close()
  rmSync(outside, {recursive: true})
})

async function custody(given: string[], more: Record<string, string | undefined> = {}) {
  const env = {
    ...process.env,
    SLUICE_HOME: world.home,
    DATABASE_URL: world.db.ownerUrl,
    CUSTODY_PASSPHRASE: passphrase,
    ...more,
  }
  return await new Promise<{code: number; stdout: string; stderr: string}>(resolve => {
    execFile(process.execPath, [program, ...given], {env, cwd: tmpdir()}, (error, stdout, stderr) =>
      resolve({code: error ? Number(error.code) : 0, stdout, stderr}),
    )
  })
}

test('init makes the seed once, names the treasury, and shows the phrase only on request', async () => {
  const home = path.join(outside, 'home')
  const elsewhere = {SLUICE_HOME: home, ETH_RPC_URL: 'http://127.0.0.1:1'}
  const made = await custody(['init'], {...elsewhere, SLUICE_DEVNET: 'off'})
  expect(made).toMatchObject({code: 0, stderr: ''})
  expect(made.stdout).toMatch(
    /Made a seed: .*seed\.json\ntreasury {2}0x[0-9a-fA-F]{40} {2}ETH, POLYGON\ntreasury {2}tb1q[0-9a-z]{38} {2}BTC\ntreasury {2}T\w{33} {2}TRON\ntreasury {2}\w{32,44} {2}SOL\nKeep a copy/,
  )
  const again = await custody(['init', '--show-phrase'], elsewhere)
  const phrase = /phrase {4}((\w+ ){23}\w+)/.exec(again.stdout)![1]!
  expect(again.stdout).toContain('There is a seed in')
  expect(again.stdout).toContain(
    'treasury  depends on the network: sluice treasury show prints it once the service runs  BTC\n',
  )
  const named = await custody(['init'], {...elsewhere, BTC_ELECTRUM_URLS: 'tcp://127.0.0.1:1', BTC_NETWORK: 'regtest'})
  expect(named.stdout).toMatch(/treasury {2}bcrt1q[0-9a-z]{38} {2}BTC\n/)
  expect(await custody(['open'], elsewhere)).toEqual({code: 0, stdout: '', stderr: ''})
  const unopened = await custody(['open'], {...elsewhere, CUSTODY_PASSPHRASE: 'another horse'})
  expect(unopened).toMatchObject({code: 1, stderr: expect.stringContaining('the passphrase is wrong')})
  expect(made.stdout).not.toContain(phrase)
  expect(readFileSync(seedFile(home), 'utf8')).not.toContain(phrase)
  const without = await custody(['init'], {...elsewhere, SLUICE_HOME: outside, CUSTODY_PASSPHRASE: undefined})
  expect([without.code, without.stdout]).toEqual([1, ''])
  expect(without.stderr).toContain('set CUSTODY_PASSPHRASE, CUSTODY_PASSPHRASE_FILE to a file')
})

test('init --from-phrase makes the seed of the words, after every address of the database was compared; it never replaces one', async () => {
  const [lost, found, elsewhere] = ['lost', 'found', 'elsewhere'].map(name => path.join(outside, name)) as [
    string,
    string,
    string,
  ]
  const db = await testDatabase()
  const inDatabase = {DATABASE_URL: db.ownerUrl}
  const made = await custody(['init', '--show-phrase'], {
    ...inDatabase,
    SLUICE_HOME: lost,
    ETH_RPC_URL: 'http://127.0.0.1:1',
  })
  const phrase = /phrase {4}(.*)/.exec(made.stdout)![1]!
  await killCustody(await startCustody(db, lost, {CUSTODY_PASSPHRASE: passphrase}))
  const [{count}] = (await db.rows('select count(*)::int as count from custody.address')) as [{count: number}]
  const paper = path.join(outside, 'paper')
  const list = phrase.split(' ').map((word, n) => `${n + 1}. ${word.toUpperCase()}`)
  writeFileSync(paper, list.join('\n'))
  const enter = (home: string, more: Record<string, string | undefined>) =>
    custody(['init', '--from-phrase', paper], {SLUICE_HOME: home, ...more})
  const says: string[] = []
  const refused = async (home: string, more: Record<string, string | undefined>) => {
    const {code, stdout, stderr} = await enter(home, more)
    says.push(stderr)
    return {code, stdout, stderr, isThere: existsSync(seedFile(home))}
  }
  expect(await refused(found, {})).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(
      /these words are of another service: \d+ of \d+ addresses of the database do not come from them \(bitcoin deposit 0 is .*; no seed was made/,
    ),
    isThere: false,
  })
  expect(await refused(found, {DATABASE_URL: 'postgres://127.0.0.1:1/none'})).toMatchObject({code: 1, isThere: false})

  const entered = await enter(found, inDatabase)
  expect(entered).toMatchObject({code: 0, stderr: ''})
  expect(entered.stdout).toMatch(
    new RegExp(`^Made the seed of these words: .*\nAll ${count} addresses of the database come from`),
  )
  expect(await readSeed(found, passphrase)).toBe(phrase)
  expect(isNewSeed(found)).toBe(false)
  expect((await enter(found, inDatabase)).stdout).toMatch(/has the seed of these words already\.\nAll /)
  const unchecked = await enter(elsewhere, {DATABASE_URL: undefined})
  expect(unchecked).toMatchObject({code: 0, stderr: ''})
  expect(unchecked.stdout).toMatch(/No service runs in .*, and DATABASE_URL is not set: .*sluice custody verify/)

  const other = await custody(['init'], {SLUICE_HOME: path.join(outside, 'other'), ETH_RPC_URL: 'http://127.0.0.1:1'})
  expect(other.code).toBe(0)
  const before = readFileSync(seedFile(path.join(outside, 'other')), 'utf8')
  expect((await refused(path.join(outside, 'other'), inDatabase)).stderr).toMatch(
    /is another seed than these words, and stays as it is/,
  )
  expect(readFileSync(seedFile(path.join(outside, 'other')), 'utf8')).toBe(before)
  for (const said of [...says, entered.stdout, unchecked.stdout]) expect(said).not.toContain(phrase.slice(0, 20))
  await db.drop()
}, 120_000)

test.skipIf(!existsSync('/usr/bin/script'))(
  'init --from-phrase asks for the words at a terminal and shows none of them, and reads them from standard input elsewhere',
  async () => {
    const third = 'legal winner thank year wave sausage worth'
    const phrase = `${third} useful ${third} useful ${third} title`
    const [typed, piped] = ['typed', 'piped'].map(name => path.join(outside, name)) as [string, string]
    const command = `${process.execPath} ${program} init --from-phrase`
    const ask = async (run: string, args: string[], home: string, prompt: RegExp, answer: string) => {
      const env = {...process.env, SLUICE_HOME: home, DATABASE_URL: undefined, CUSTODY_PASSPHRASE: passphrase}
      const child = spawn(run, args, {env, cwd: tmpdir()})
      let said = ''
      for (const stream of [child.stdout, child.stderr])
        stream.on('data', data => {
          said += data
        })
      const ended = once(child, 'exit')
      await until(async () => prompt.test(said), {timeoutMs: 60_000, what: `a prompt; it said ${said}`})
      child.stdin.end(answer)
      await ended
      return said
    }
    const answer = `${third} useful\n${third} useful ${third} title\n`
    const asked = await ask('/usr/bin/script', ['-qec', command, '/dev/null'], typed, /not shown: /, answer)
    expect(await readSeed(typed, passphrase)).toBe(phrase)
    expect(asked).toContain('Made the seed of these words')
    expect(asked).not.toMatch(/winner|sausage/)
    const stopped = await ask('/usr/bin/script', ['-qec', command, '/dev/null'], piped, /not shown: /, `${third}\u0003`)
    expect(stopped).toMatch(/it was interrupted; no seed was made/)
    expect(existsSync(seedFile(piped))).toBe(false)
    await ask(process.execPath, [program, 'init', '--from-phrase'], piped, /^/, phrase)
    expect(await readSeed(piped, passphrase)).toBe(phrase)
  },
  120_000,
)

test('passphrase encrypts the same seed anew: only the new passphrase opens it, and a bad file changes nothing', async () => {
  const home = path.join(outside, 'rotated')
  const given = (word: string) => ({SLUICE_HOME: home, ETH_RPC_URL: 'http://127.0.0.1:1', CUSTODY_PASSPHRASE: word})
  const phraseWith = async (word: string) => {
    const {code, stdout} = await custody(['init', '--show-phrase'], given(word))
    return code === 0 ? /phrase {4}(.*)/.exec(stdout)?.[1] : undefined
  }
  const phrase = await phraseWith(passphrase)
  expect(phrase).toMatch(/^(\w+ ){23}\w+$/)
  const file = path.join(outside, 'passphrase.new')
  const change = () => custody(['passphrase', '--new-file', file], given(passphrase))
  expect(await change()).toMatchObject({code: 1, stderr: expect.stringMatching(/cannot be read \(ENOENT\)/)})
  writeFileSync(file, 'short\n')
  expect(await change()).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/at least 8 characters; nothing was changed/),
  })
  expect((await custody(['passphrase', '--new-file', file], given('incorrect horse'))).code).toBe(1)
  expect(await phraseWith(passphrase)).toBe(phrase)
  writeFileSync(file, 'battery staple\n')
  writeFileSync(`${seedFile(home)}.next`, 'half a file of a killed process')
  const owner = process.getuid?.() === 0 ? 65534 : process.getuid!() // custody's user, where root calls it
  chownSync(seedFile(home), owner, -1)
  const changed = await change()
  expect(changed).toMatchObject({code: 0, stderr: ''})
  expect(changed.stdout).toMatch(/seed\.json now opens only with the passphrase in .*passphrase\.new\. /)
  expect(changed.stdout).not.toContain('battery staple')
  expect(statSync(seedFile(home))).toMatchObject({mode: 0o100600, uid: owner})
  expect(await phraseWith(passphrase)).toBeUndefined()
  expect(await phraseWith('battery staple')).toBe(phrase)
})

test('a backup restores the seed and says how far its journal goes; a changed backup is refused', async () => {
  const {address} = await world.merchant()
  await world.filled()
  const sweep = {
    intent: 'sweep',
    outgoing_payment_id: randomUUID(),
    chain: 'POLYGON',
    token: 'POL',
    address,
    amount: '500000000000000',
    nonce: 0,
    ...fees,
  }
  await world.signForged(sweep)
  const file = path.join(outside, 'backup')
  expect((await custody(['backup', '--to', file])).stdout).toContain('the encrypted seed and 7 entries of the journal')
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(readFileSync(file, 'utf8')).not.toContain(junk)
  expect(await custody(['backup', '--to', file])).toMatchObject({code: 1, stderr: expect.stringContaining('exists')})
  await world.signForged({...sweep, ...higherFees})
  const [{count}] = (await world.db.rows('select count(*)::int as count from custody.address')) as [{count: number}]
  const verified = await custody(['verify', '--backup', file])
  expect(verified).toMatchObject({code: 0, stderr: ''})
  expect(verified.stdout).toContain(`${count} addresses come from ${file}, each as it is in the database.`)
  expect(verified.stdout).toContain('journal POLYGON: 2 entries, whole; the backup lacks the newest 1')
  const elsewhere = {SLUICE_HOME: path.join(outside, 'restored')}
  const restored = await custody(['restore', '--from', file], elsewhere)
  expect(restored.stdout).toMatch(/^The seed and the journal of [\s\S]*Something may have been signed since/)
  const seedIn = (home: string) => JSON.parse(readFileSync(seedFile(home), 'utf8'))
  expect(seedIn(elsewhere.SLUICE_HOME)).toEqual(seedIn(world.home))
  const verifiedElsewhere = await custody(['verify'], elsewhere)
  expect(verifiedElsewhere.stdout).toMatch(/journal POLYGON: 1 entry, whole\n/)
  expect((await custody(['restore', '--from', file])).stdout).toMatch(/they stay as they are\.\n$/)
  const whole = readFileSync(file, 'utf8')
  for (const changed of [
    whole.replace('"nonce":0', '"nonce":1'),
    whole.slice(0, -700),
    whole.split('\n').slice(1).join('\n'),
  ]) {
    writeFileSync(file, changed)
    await expect(readBackup(file)).rejects.toThrow('is not a backup of custody, or is damaged')
  }
})

test.each([
  ['evm', newAddress()],
  ['bitcoin', 'tb1q6rz28mcfaxtmd6v789l9rrlrusdprr9pqcpvkl'],
])(
  'verify names the %s addresses that the seed does not derive, and fails',
  async (family, other) => {
    const place = `family = '${family}' and derivation_index = 7 and purpose = 'deposit'`
    const [{address}] = (await world.db.rows(`select address from custody.address where ${place}`)) as [
      {address: string},
    ]
    const change = async (to: string) => {
      await world.db.rows('alter table custody.address disable trigger all')
      await world.db.rows(`update custody.address set address = $1 where ${place}`, [to])
      await world.db.rows('alter table custody.address enable trigger all')
    }
    await change(other)
    const {code, stdout} = await custody(['verify'])
    expect([code, stdout]).toEqual([
      1,
      expect.stringContaining(`${family} deposit 7: the database has ${other}, the seed gives ${address}`),
    ])
    expect(stdout).toMatch(/1 of \d+ addresses do not come from/)
    await change(address)
  },
  60_000,
)

test("budget shows what today's signatures may cost, and raises it for today", async () => {
  const {address} = await world.merchant()
  const sweep = {
    intent: 'sweep',
    outgoing_payment_id: randomUUID(),
    chain: 'POLYGON',
    token: 'POL',
    address,
    nonce: 0,
    ...fees,
  }
  const before = (await custody(['budget'])).stdout
  expect(before).toMatch(/^ETH +0 ETH of 0\.5 ETH a day .*left: 0\.375 ETH, or 0\.5 ETH for payments under way$/m)
  await world.signForged({...sweep, amount: '500000000000000'})
  const used = async () => Number(/^POLYGON +([\d.]+) POL/m.exec((await custody(['budget'])).stdout)![1])
  expect(await used()).toBeGreaterThanOrEqual(0.000042)
  const raised = await custody(['budget', '--chain', 'ETH', '--raise', '0.25'])
  expect(raised.stdout).toMatch(/^ETH .*and 0\.25 ETH for today.*left: 0\.625 ETH/m)
  for (const [given, says] of [
    [['--chain', 'ETH'], 'belong together'],
    [['--chain', 'DOGE', '--raise', '1'], 'there is no chain DOGE'],
    [['--chain', 'ETH', '--raise', '-1'], 'is not an amount'],
    [['--chain', 'ETH', '--raise', '99999999999999999999'], 'at most 10 times ETH_FEE_BUDGET'],
    [['--chain', 'BTC', '--raise', '0.000000001'], 'is not an amount'],
  ] as const) {
    const {code, stderr} = await custody(['budget', ...given])
    expect([code, stderr]).toEqual([1, expect.stringContaining(says)])
  }
})

// --- reconcile ---

const pay = (payout_id: string, nonce: number) => ({intent: 'pay', payout_id, nonce, ...fees})
const status = async (payout: string) =>
  (await world.db.rows<{status: string}>('select status from app.payout where id = $1', [payout]))[0]?.status
const balance = async ({id}: Merchant) =>
  (
    await world.db.rows<{amount: string}>(
      `select amount from app.balance_now where merchant_id = $1 and token = 'ETH'`,
      [id],
    )
  )[0]?.amount
const begin = (payout: string) => world.db.rows('select app.begin_payment($1, 42000000000000)', [payout])

/** The database as it was before a payout was requested. */
async function forget(payout: string): Promise<void> {
  await world.db.rows(
    `insert into app.total_change (merchant_id, series, about, at, count, amount)
    select p.merchant_id, s.series, p.chain || ':' || p.token, now(), -1, s.amount from app.payout p
    cross join lateral (values ('payout', p.net), ('fee', p.fee)) s (series, amount) where p.id = $1`,
    [payout],
  )
  await world.db.rows(
    `insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count)
    select p.merchant_id, p.chain, p.token, p.gross, c.deposit_count from app.payout p join app.claim c on c.payout_id = p.id where p.id = $1`,
    [payout],
  )
  for (const sql of [
    'update app.deposit set settlement_id = null where settlement_id = $1',
    'delete from app.ledger_entry where reference = $1::text',
    'delete from app.claim where payout_id = $1',
    'delete from app.payout where id = $1',
  ])
    await asBefore(sql, [payout])
}

/** Makes a change that the triggers forbid. */
async function asBefore(sql: string, values: unknown[]): Promise<void> {
  const client = await world.db.pool.connect()
  await client.query('set session_replication_role = replica')
  await client.query(sql, values)
  await client.query('reset session_replication_role')
  client.release()
}

test('reconcile imports what was signed after an older backup, and all of it finishes as if nothing had happened', async () => {
  await world.deposit(world.treasury, 10n ** 18n)
  const [a, b, c, d, e] = (await Promise.all(Array.from({length: 5}, () => world.merchant()))) as [
    Merchant,
    Merchant,
    Merchant,
    Merchant,
    Merchant,
  ]
  await world.deposit(c.address, 10n ** 18n)
  await world.deposit(c.address, 5_000_000n, {token: 'USDC'})
  const [kept, gone, early, later] = [
    await world.swept(a),
    await world.swept(b, 2000n),
    await world.swept(d),
    await world.swept(e),
  ]
  await begin(kept) // takes nonce 0

  const gas = {...fees, gas_limit: 21_000}
  const nativeSweep = {
    intent: 'sweep',
    outgoing_payment_id: randomUUID(),
    chain: 'ETH',
    token: 'ETH',
    address: c.address,
    amount: '700000000000000',
    nonce: 0,
    ...gas,
  }
  const tokenSweep = {
    ...nativeSweep,
    outgoing_payment_id: randomUUID(),
    token: 'USDC',
    amount: '5000000',
    nonce: 2,
    ...tokenGas,
  }
  const intents = [
    pay(kept, 0),
    pay(gone, 1),
    {...pay(gone, 1), ...higherFees},
    nativeSweep,
    {...nativeSweep, ...higherFees, amount: '600000000000000'},
    {...nativeSweep, outgoing_payment_id: randomUUID(), nonce: 1, amount: '100000000000000'},
    tokenSweep,
    {intent: 'cancel', chain: 'ETH', sender: world.treasury, nonce: 3, ...gas},
    pay(early, 4),
  ]
  for (const intent of intents.slice(1)) await world.forgeOutgoingPayment(intent)
  const results = await world.sign(...intents)
  expect(results.map(({ok}) => ok)).toEqual(Array(9).fill(true))
  const [paid0, , paid1, , swept0, swept1, swept2, cancel3, paid4] = results.map(({txid}) => txid as string)

  // The older copy: one payout is missing, one is pending, and the worker has taken nonce 1 for another payout.
  await world.forgetForged()
  await forget(gone)
  await asBefore(`update app.payout set status = 'pending' where id = $1`, [early])
  await begin(later)
  await world.db.rows(`begin; set local session_replication_role = replica; delete from custody.journal_key where stream = 'ETH';
    delete from custody.journal where stream = 'ETH'; commit`)
  expect(await world.sign(pay(later, 1))).toMatchObject([{ok: false, code: 'journal_ahead'}])
  await world.db.rows(`select custody.halt_chain('ETH', 'an older copy')`)
  await assertBooks(world.db)
  expect(await balance(b)).toBe('2000')

  await world.db.rows(`update app.sender set next_nonce = 6 where address = $1`, [world.treasury]) // nonce 5 is missing in the older copy
  const spent = async () => /^ETH +([\d.]+) ETH/m.exec((await custody(['budget'])).stdout)![1]
  const before = await spent() // an older copy of the database gives no budget back
  expect(Number(before)).toBeGreaterThan(5 * 0.000042)
  const done = await custody(['reconcile'])
  expect(done).toMatchObject({code: 0, stderr: ''})
  expect(done.stdout).toContain('9 entries were imported, of 3 payouts')
  expect(await spent()).toBe(before)
  await assertBooks(world.db)
  expect(await Promise.all([kept, gone, early, later].map(status))).toEqual(['paying', 'paying', 'paying', 'swept'])
  expect(await balance(b)).toBeUndefined() // the claimed deposits are allocated to the payout again
  expect(await world.db.rows('select settlement_id from app.deposit where merchant_id = $1', [b.id])).toEqual([
    {settlement_id: gone},
  ])
  expect((await world.db.rows(`select app.why_halted('ETH') as why`))[0]).toEqual({why: null})
  const stored = await world.db.rows<{raw: string}>('select raw from app.outgoing_attempt')
  expect(stored.map(({raw}) => raw).sort()).toEqual(results.map(({raw}) => raw).sort())
  const outgoingPayments = await world.db.rows<{nonce: number; kind: string; status: string; payout_id: string}>(
    'select nonce, kind, status, payout_id from app.outgoing_payment where fee_payer = $1 order by nonce',
    [world.treasury],
  )
  expect(outgoingPayments.map(({nonce, kind, status}) => `${nonce} ${kind} ${status}`)).toEqual([
    '0 payout live',
    '1 payout live',
    '2 sweep live',
    '3 cancel live',
    '4 payout live',
    '5 cancel allocated', // its nonce is used up: no later one can be mined before it
    '6 payout allocated', // the payout that had nonce 1
  ])
  expect(outgoingPayments[6]!.payout_id).toBe(later)

  const [paid6, cancel5] = await world.sign(pay(later, 6), {
    intent: 'cancel',
    chain: 'ETH',
    sender: world.treasury,
    nonce: 5,
    ...gas,
  })
  expect([cancel5, paid6]).toMatchObject([{ok: true}, {ok: true}])
  for (const [nonce, kind, {txid, raw, amount}] of [
    [5, 'cancel', cancel5],
    [6, 'effect', paid6],
  ])
    await world.db.rows(
      `select app.store_signed(s.id, 1, $2, $3, $4, $5, s.max_fee, $7) from app.outgoing_payment s where s.fee_payer = $1 and s.nonce = $6`,
      [world.treasury, kind, txid, raw, amount, nonce, gas],
    )
  const mined = [paid0, paid1, swept2, cancel3, paid4, cancel5.txid, paid6.txid].map((txid, nonce) => ({
    txid,
    account: world.treasury,
    nonce,
    fee: 10n,
  }))
  const ofC = [swept0, swept1].map((txid, nonce) => ({txid, account: c.address, nonce, fee: 10n}))
  await world.writer.write({add: [{confirmedTxs: [...mined, ...ofC].map(one => ({...one, txid: one.txid!}))}]})
  await world.finalise()
  expect(await world.db.rows(`select kind from app.incident where resolved_at is null`)).toEqual([])
  expect(await Promise.all([kept, gone, early, later].map(status))).toEqual(Array(4).fill('completed'))
  expect(await world.db.rows(`select count(*)::int as open from app.outgoing_payment where status <> 'final'`)).toEqual(
    [{open: 0}],
  )
  await assertBooks(world.db)
  expect((await custody(['reconcile'])).stdout).toContain('has every entry')
})

test('reconcile enters what it recognises on the chain only where the journal may lack signatures, and says what nobody knows', async () => {
  const merchant = await world.merchant()
  await world.deposit(merchant.address, 1000n)
  const payout = await world.request(merchant, 'ETH')
  const unfinished = await world.request(await paidIn(), 'ETH')
  const [{next}] = (await world.db.rows(`select next_nonce as next from app.sender where address = $1`, [
    world.treasury,
  ])) as [{next: number}]
  await world.writer.write({
    add: [{confirmedTxs: [{txid: '0xforgotten', account: world.treasury, nonce: next, fee: 10n}]}],
  })
  const moved = {
    '0xforgotten': [{sender: world.treasury, recipient: merchant.payoutAddress, token: 'ETH', amount: '990'}],
  }
  await world.db.rows(`select chain.note_moved('ETH', $1)`, [JSON.stringify(moved)])
  await world.finalise()
  const shown = `payout pay_${payout.replaceAll('-', '')}`
  expect((await custody(['reconcile'])).stdout).toBe('The database has every entry of the journal.\n')
  expect(await status(payout)).toBe('pending')

  markIncomplete(journalFile(world.home), 'a test')
  await until(async () => (await world.db.rows(`select from custody.unproven_copy where chain = 'ETH'`)).length, {
    timeoutMs: 10_000,
    what: 'custody to note it',
  })
  await world.db.rows(`insert into chain.configured (chain) values ('ETH') on conflict do nothing`)
  const without = await custody(['reconcile'], {CUSTODY_PASSPHRASE: undefined})
  expect(without).toMatchObject({code: 1, stderr: expect.stringContaining('set CUSTODY_PASSPHRASE')})
  const {stdout} = await custody(['reconcile'])
  expect(stdout).toContain(`  ETH 0xforgotten: ${shown}, 0.00000000000000099 ETH to ${merchant.payoutAddress}\n`)
  expect(stdout).toMatch(
    /The journal may lack signatures \(\S+Z: a test\)\. What was signed and is in no block is known nowhere/,
  )
  expect(stdout).toMatch(/ETH: the journal may lack .* nothing new is signed until a block made after/)
  expect(stdout).toContain(`  pay_${unfinished.replaceAll('-', '')}: 0.00000000000000099 ETH on ETH to `)
  await world.writer.write({add: [[]]})
  expect(await status(payout)).toBe('completed')
  await assertBooks(world.db)
})

/** A merchant with a balance. */
async function paidIn(): Promise<Merchant> {
  const merchant = await world.merchant()
  await world.deposit(merchant.address, 1000n)
  return merchant
}
