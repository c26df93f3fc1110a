// sluice audit finds what it claims to find. On a real database with a paid payout each check finds nothing, and finds
// a row once its invariant is broken. A coin more or less on a real chain is a difference. Its findings are stored, and
// its exit code shows them.
import {encodeFunctionData, numberToHex} from 'viem'
import {afterAll, beforeAll, describe, expect, test} from 'vitest'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {CommandLine} from '../test/support/command-line.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {Anvil, abis} from '../test/support/evm/anvil.ts'
import {beginToPay, includeFinally, makeTreasury, networkFee, topUp} from '../test/support/evm/payouts.ts'
import {PaymentRequests} from '../test/support/payment-requests.ts'
import {makeMerchant, makeUser, type TestUser} from '../test/support/people.ts'

const ether = 10n ** 18n
let db: TestDatabase
let anvil: Anvil
let eth: ChainWriter
let commandLine: CommandLine
let user: TestUser
let treasury: string

// A deposit of 10 ether and one of 250 USDC; 9.9 ether were paid out, from the operator's own money. One payment
// request was paid, another waits.
beforeAll(async () => {
  db = await testDatabase()
  anvil = await Anvil.start()
  commandLine = new CommandLine(db, {
    ETH: {rpc_url: anvil.wsUrl, local: true, settings: {ETH_RPC_URL: anvil.wsUrl, ETH_USDC_CONTRACT: anvil.usdc}},
  })
  eth = await ChainWriter.open(db, 'ETH')
  treasury = await makeTreasury(db)
  await topUp(eth, treasury, 'ETH', 100n * ether)
  const merchant = await makeMerchant(db)
  await db.rows(`select app.create_webhook_endpoint($1, 'https://example.com/hook')`, [merchant])
  user = await makeUser(db, merchant)
  await eth.write({
    add: [
      [
        {txid: '0x1', token: 'ETH', amount: 10n * ether, recipient: user.address},
        {txid: '0x2', token: 'USDC', amount: 250_000_000n, recipient: user.address},
      ],
    ],
  })
  await eth.finalise(eth.head.height)
  await db.rows(`select app.set_payout_address($1, 'ETH', '0x52908400098527886E0F7030069857D2E4169EE7')`, [merchant])
  await db.rows(`select app.create_payout($1, 'ETH', 'ETH', false, 'key', 'request')`, [merchant])
  const [payout] = await db.rows<{id: string}>('select id from app.payout')
  await includeFinally(db, eth, await beginToPay(db, payout!.id))
  const requests = await PaymentRequests.open(db)
  const paid = await requests.create(db.pool, merchant, {currency: 'ETH', amount: '1'})
  await requests.create(db.pool, merchant, {currency: 'ETH', amount: '2'})
  await eth.write({add: [[{txid: '0xpaid', token: 'ETH', amount: ether, recipient: paid.address}]]})
  await eth.finalise(eth.head.height)

  await setBalance(paid.address, ether)
  await setBalance(treasury, 100n * ether - 99n * 10n ** 17n - networkFee)
  await setBalance(user.address, 10n * ether)
  const data = encodeFunctionData({abi: abis.usdc, functionName: 'transfer', args: [user.address, 250_000_000n]})
  await anvil.send({to: anvil.usdc, data})
  await anvil.mine(eth.head.height) // the state of every block from the next one on
  await growTo((await anvil.block()).height)
})
afterAll(async () => {
  await eth.close()
  await anvil.stop()
  commandLine.close()
  await db.drop()
})

const setBalance = (address: string, amount: bigint) => anvil.call('anvil_setBalance', [address, numberToHex(amount)])

/** Empty blocks up to this height, final. */
async function growTo(height: number): Promise<void> {
  await eth.write({add: Array.from({length: height - eth.head.height}, () => [])})
  await eth.finalise(height)
}

/** Neither the worker nor custody knows a transaction of ours any more. */
const unknownNow = `delete from app.outgoing_attempt; update custody.journal set txid = null`

/** Statements that break the invariant of each check, each by itself. */
const breaks: Record<string, string[]> = {
  conservation: [`update app.deposit set amount = amount + 1 where token = 'USDC'`],
  running_totals: [
    `update app.total_change set amount = amount + 1 where series = 'deposit'`,
    `delete from app.total_change where series = 'payout'`,
    `insert into app.total_change (merchant_id, series, about, at, count, amount)
     select id, 'held_back', 'ETH:USDC', now(), 1, 1 from app.merchant`,
  ],
  ledger_days: [
    `insert into app.ledger_day (day, kind, account, chain, token, amount, entry_count) values (current_date - 9, 'deposit', 'fees', 'ETH', 'USDC', 1, 1)`,
  ],
  deposit_days: [
    `insert into app.deposit_day (day, merchant_id, chain, token, deposit_count, amount, final_count, final_amount)
     select current_date - 9, id, 'ETH', 'USDC', 1, 1, 0, 0 from app.merchant`,
  ],
  statement_lines: [
    `update app.deposit set amount = amount + 1 where status = 'final' and credited`,
    `update app.deposit set finalisation = finalisation + 1 where status = 'final' and credited and token = 'USDC'`,
  ],
  balances: [
    `insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count) select id, 'ETH', 'USDC', 1, 0 from app.merchant`,
  ],
  ledger: ['update app.holding set amount = amount - 1'],
  held_back: [
    `update app.asset set sweep_min = 1; update app.deposit set held_back = true where credited and status = 'final' and token = 'USDC'`,
  ],
  postings: ['update app.ledger_entry set amount = amount + 1 where id = (select max(id) from app.ledger_entry)'],
  fees: [
    'update app.payout set fee = fee + 1, gross = gross + 1',
    'update app.outgoing_payment set fee_paid = fee_paid + 1',
    `delete from app.ledger_entry where account = 'fees'`,
  ],
  nothing_below_zero: ['update app.treasury set reserved = -1', 'update app.holding set amount = -1'],
  no_double_credit: [
    `insert into app.deposit (id, chain, txid, output_index, address, token, amount, block_height, block_hash, sender, status, credited, version)
     select uuidv7(), chain, txid, output_index, '0xOther', token, amount, block_height, block_hash, sender, status, false, 1 from app.deposit limit 1`,
  ],
  deposits_are_on_the_chain: [
    `delete from chain.transfer where token = 'USDC'`,
    'update chain.transfer set amount = amount + 1',
    `update chain.transfer set block_hash = '0xElsewhere'`,
  ],
  transfers_are_deposits: [
    `update app.deposit set status = 'reorged' where token = 'USDC'`,
    'delete from app.deposit where user_id is null',
  ],
  finality: [
    'update chain.cursor set final_height = 2',
    `update app.deposit set status = 'pending'`,
    `update app.outgoing_payment set status = 'live'`,
  ],
  blocks: [
    `update chain.cursor set final_hash = '0xElsewhere'`,
    `update chain.cursor set head_hash = '0xElsewhere'`,
    `update chain.cursor c set final_height = b.height, final_hash = b.hash from chain.block b where b.height = c.head_height - 1;
     update chain.block b set parent_hash = '0xElsewhere' from chain.cursor c where b.height = c.head_height`,
  ],
  states: [
    `update app.event set type = 'deposit.reorged' where type = 'deposit.pending'`,
    `update app.event set type = 'deposit.confirmed' where type = 'deposit.pending'`,
    `update app.event set type = 'deposit.pending' where type = 'deposit.confirmed'`,
    `update app.deposit set status = 'pending', finalised_at = null, finalisation = null`,
    'update app.deposit set finalised_at = null',
    'update app.payout set finished_at = null',
    `update app.payout set error_code = 'timed_out'`,
  ],
  payouts_add_up: ['update app.deposit set settlement_id = null'],
  one_payout_each: [
    'update app.deposit set settlement_id = gen_random_uuid() where settlement_id is not null',
    'update app.deposit set merchant_id = gen_random_uuid() where settlement_id is not null',
    `update app.payout set status = 'failed'`,
  ],
  no_double_pay: [
    'update chain.confirmed_tx set success = false',
    `update app.payout set status = 'paying'`,
    `update app.outgoing_attempt set recipient = '0xElsewhere'`,
  ],
  events: [
    `delete from app.event where type = 'payout.completed'`,
    `delete from app.event where type = 'deposit.pending'`,
    `delete from app.event where type = 'deposit.confirmed'`,
    `delete from app.event where type like 'deposit.%'`,
    `update app.event set version = 9 where type = 'deposit.confirmed'`,
    'update app.deposit set credited = false',
    `insert into app.event (id, merchant_id, type, subject_id, version, payload, created_at)
     select uuidv7(), merchant_id, 'deposit.confirmed', id, 2, '{}', now() from app.deposit where payment_request_id is not null`,
  ],
  deliveries: [
    `insert into app.delivery (event_id, endpoint_id, status, finished_at)
     select e.id, w.id, 'delivered', now() from app.event e cross join app.webhook_endpoint w limit 1`,
    'insert into app.delivery (event_id, endpoint_id) select id, gen_random_uuid() from app.event limit 1',
    'insert into app.delivery (event_id, endpoint_id) select event_id, endpoint_id from app.delivery limit 1',
  ],
  stored_first: [
    `update app.outgoing_attempt set broadcast_at = stored_at - interval '1 second'`,
    `update app.outgoing_payment set status = 'allocated'`,
    `update app.outgoing_payment set status = 'live'; delete from app.outgoing_attempt`,
    `update app.payout set status = 'paying'; delete from app.outgoing_attempt`,
  ],
  no_unknown_transaction: [unknownNow],
  journal: [`update custody.journal set raw = '0x'`, 'update custody.journal set seq = seq + 1'],
  whitelist: [
    `update custody.whitelist set removed_at = added_at - interval '1 minute'`,
    `update custody.whitelist set active_at = now() + interval '1 minute'`,
    'update custody.whitelist set merchant_id = null',
  ],
  nonces: ['update app.sender set next_nonce = 2', 'update chain.confirmed_tx set nonce = nonce + 1'],
  outputs: [`insert into app.output (chain, txid, vout, address, amount) values ('BTC', '00', 0, 'nobody', 1)`],
  merchants_apart: [
    `update custody.address set merchant_id = gen_random_uuid() where merchant_id is not null`,
    'update app.deposit set merchant_id = gen_random_uuid()',
  ],
  unattributed: [
    `insert into app.unattributed_decision (deposit_id, decision, amount) select id, 'credit', amount + 1 from app.deposit where credited`,
    `insert into app.unattributed_decision (deposit_id, decision, amount) select id, 'return', amount from app.deposit where credited`,
    `insert into app.unattributed_decision (deposit_id, decision, amount) select id, 'return', amount from app.deposit where not credited;
     insert into app.outgoing_payment (id, kind, chain, token, amount, source, recipient, fee_payer, nonce, status, outcome, max_fee)
     select i.id, 'withdrawal', d.chain, d.token, 1, '0xA', '0xB', '0xA', i.n, 'final', 'done', 1
     from app.deposit d cross join lateral app.return_outgoing_payment_ids(d, 'withdrawal') i where not d.credited and i.n < 2 on conflict do nothing`,
  ],
  payment_requests: [
    'update app.payment_request set received = received + 1 where status = $$paid$$',
    'update app.payment_request set pending = 1',
    `update app.payment_request set status = 'awaiting', received = 0, txid = null, paid_at = null, position = null`,
    `update app.payment_request set late = true`,
    `update app.payment_request set txid = '0xElsewhere'`,
    `update app.payment_request set paid_at = now() where status = 'paid'`,
    `update app.payment_request set expired_at = now() where status = 'awaiting'`,
    `update app.payment_request set status = 'expired' where status = 'awaiting'`,
    `alter table app.payment_request drop constraint payment_request_check2; update app.payment_request set position = 7 where status = 'awaiting'`,
    `update app.deposit set status = 'reorged' where payment_request_id is not null`,
    'update app.deposit set credited = false where payment_request_id is not null',
  ],
  payment_addresses: [
    `delete from app.address where payment_request_id is not null and chain = 'ETH'`,
    'update app.address set is_provisioned = true where payment_request_id is not null',
    'update app.address set merchant_id = gen_random_uuid() where payment_request_id is not null',
    `update custody.address set merchant_id = gen_random_uuid() where merchant_id is not null`,
    `update custody.address set purpose = 'treasury'`,
    `update app.address set match_key = payment_request_id, address = payment_request_id where payment_request_id is not null and chain = 'POLYGON'`,
    `update app.address set payment_request_id = null, user_id = (select id from app.user) where payment_request_id is not null and chain = 'POLYGON'`,
    `update app.deposit set payment_request_id = null, user_id = (select id from app.user) where payment_request_id is not null`,
    `update app.deposit set payment_request_id = (select id from app.payment_request where status = 'awaiting') where payment_request_id is not null`,
    `update app.deposit set user_id = null, payment_request_id = (select id from app.payment_request where status = 'paid') where user_id is not null`,
    `update app.deposit set credited = false where payment_request_id is not null`,
    `update app.payment_request set token = 'USDC'`,
  ],
  idempotency_keys: [
    'update app.idempotency_key set payout_id = gen_random_uuid()',
    `update app.idempotency_key set body = '{}'`,
    `insert into app.idempotency_key select merchant_id, 'another', request_hash, payout_id, body from app.idempotency_key`,
  ],
}

/** What a check finds once a statement has been run, which is undone. */
async function foundAfter(statement: string, name: string): Promise<object[]> {
  const client = await db.pool.connect()
  try {
    await client.query('begin; set local session_replication_role = replica') // no trigger refuses it
    await client.query(statement)
    return (await client.query(`select * from audit.${name}`)).rows
  } finally {
    await client.query('rollback')
    client.release()
  }
}

test('the checks are the views of the schema audit, and each has statements that break its rule', async () => {
  const views = await db.rows<{name: string}>(
    `select relname as name from pg_class where relnamespace = 'audit'::regnamespace and relkind = 'v'
     and obj_description(oid, 'pg_class') <> ''`,
  )
  expect(views.map(({name}) => name).sort()).toEqual(Object.keys(breaks).sort())
})

test('on a correct database no check finds anything', async () => {
  const checks = await db.rows('select name, count::int, found from app.audit_checks()')
  expect(checks.map(({name}) => name).sort()).toEqual(Object.keys(breaks).sort())
  expect(checks.filter(({count}) => count > 0)).toEqual([])
})

describe.each(Object.entries(breaks))('%s finds what breaks it', (name, statements) => {
  test.each(statements)('%s', async statement => {
    expect(await foundAfter(statement, name)).not.toEqual([])
  })
})

test.each([
  ['deposits_are_on_the_chain', `delete from chain.transfer where token = 'USDC'`, 'final_deposit_vanished'],
  ['no_unknown_transaction', unknownNow, 'unknown_transaction'],
])('%s does not report again what an open or a kept incident has reported', async (name, statement, kind) => {
  const incident = (end: string) =>
    `${statement}; with opened as (
       insert into app.incident (chain, kind, subject, details, resolved_at, resolution)
       values ('ETH', '${kind}', (select id::text from app.deposit where token = 'USDC'), '{}', ${end}) returning id)
     insert into app.unknown_transaction (chain, txid, incident_id) select i.chain, i.txid, opened.id from opened, chain.confirmed_tx i`
  expect(await foundAfter(incident('null, null'), name)).toEqual([])
  expect(await foundAfter(incident(`now(), 'kept'`), name)).toEqual([])
  expect(await foundAfter(incident(`now(), 'healed'`), name)).not.toEqual([])
})

interface Audited {
  right: boolean
  complete: boolean
  checks: {name: string; right: boolean | null}[]
}

test('the audit passes when the database and the chain are right', async () => {
  const {right, complete, checks} = await commandLine.json<Audited>('audit')
  expect(checks.filter(check => check.right !== true)).toEqual([])
  expect({right, complete}).toEqual({right: true, complete: true})
  expect(checks).toContainEqual({
    name: 'on_chain_eth',
    claim: 'our addresses and the treasury hold on the chain what the ledger says',
    right: true,
    count: 0,
    found: [],
  })
  const [run] = await db.rows('select id, finished_at, error from app.audit_run order by id desc limit 1')
  expect(run).toMatchObject({finished_at: expect.any(Date), error: null})
  const kept = await db.rows('select name, count::int from app.audit_finding where run_id = $1', [run!.id])
  expect(kept.map(({name}) => name).sort()).toEqual(checks.map(({name}) => name).sort())
  expect(await db.rows('select from app.incident')).toEqual([])
})

test('with a node that does not respond nothing fails and nothing is compared: the exit code is 3', async () => {
  const other = new CommandLine(db, {
    ETH: {rpc_url: 'http://127.0.0.1:9', local: false, settings: {ETH_RPC_URL: 'http://127.0.0.1:9'}},
  })
  const {code, stdout} = await other.sluice('audit')
  other.close()
  expect(code).toBe(3)
  expect(stdout).toMatch(/^not compared +on_chain_eth/m)
  expect(stdout).toMatch(/^on_chain_eth: not compared, the node cannot be asked: /m)
  const [run] = await db.rows('select id, error from app.audit_run order by id desc limit 1')
  expect(run!.error).toMatch(/^on_chain_eth: the node cannot be asked: /)
  const kept = `select from app.audit_finding where run_id = $1 and name = 'on_chain_eth'`
  expect(await db.rows(kept, [run!.id])).toEqual([])
})

test('slow and unattributed deposits are listed and do not fail the audit, nor does a chain without a node', async () => {
  await eth.write({add: [[{txid: '0x3', token: '0xFake', amount: 7n, recipient: user.address}]]})
  await eth.finalise(eth.head.height)
  await db.rows(`
    insert into app.claim (kind, payout_id, merchant_id, chain, token, cutoff, deposit_count, amount, created_at)
    select 'release', id, merchant_id, 'ETH', 'ETH', 0, 0, 0, now() - interval '2 hours' from app.payout`)
  const other = new CommandLine(db, {})
  const {code, stdout} = await other.sluice('audit')
  other.close()
  await db.rows(`delete from app.claim where kind = 'release'`)
  expect(code).toBe(3)
  expect(stdout).toMatch(/^on_chain_eth: not compared, it has no node$/m)
  expect(stdout).toMatch(/^allocation +pay_\w+ +ETH +0 of 0 deposits/m)
  expect(stdout).toMatch(/^ETH +0xFake +unsupported_token +1 +7$/m)
})

test('the audit finds a coin that the ledger lacks, and bytes with another txid; the exit code is 1', async () => {
  await db.rows(`update app.outgoing_attempt set raw = '0x00'`)
  const [{since_height: comparedAt}] = (await db.rows('select since_height from app.comparison')) as [
    {since_height: number},
  ]
  await setBalance(treasury, 1n)
  const data = encodeFunctionData({abi: abis.usdc, functionName: 'transfer', args: [user.address, 1n]})
  await anvil.send({to: anvil.usdc, data})
  await growTo((await anvil.mine()).height)
  const {code, stdout, stderr} = await commandLine.sluice('audit')
  expect({code, stderr}).toEqual({code: 1, stderr: ''})
  expect(stdout).toMatch(/^right +conservation/m)
  expect(stdout).toMatch(/^WRONG +stored_bytes/m)
  expect(stdout).toMatch(/^WRONG +on_chain_eth/m)
  const found = (address: string) => {
    const [line] = stdout.split('\n').filter(line => line.startsWith('  {') && line.includes(address))
    return JSON.parse(line!) as object
  }
  const missing = {token: 'USDC', ledger: '250000000', chain: '250000001', missing: '1', handed_out: expect.any(String)}
  const run = `sluice reindex --chain ETH --from ${comparedAt + 1}`
  expect(found(user.address)).toEqual({address: user.address, ...missing, run})
  const gone = {token: 'ETH', ledger: '90099979000000000000', chain: '1', gone: '90099978999999999999'}
  expect(found(treasury)).toEqual({address: treasury, ...gone})
  expect(stdout).toMatch(/^compared with the chain +addresses in this pass +oldest comparison\nETH +4 +20\d\d-/m)

  const open = await commandLine.json<{incidents: {chain: null; kind: string; subject: string}[]}>('incident', 'list')
  expect(open.incidents.map(({subject}) => subject).sort()).toEqual([
    'audit:journal',
    'audit:on_chain_eth',
    'audit:stored_bytes',
  ])
  expect(open.incidents[0]).toMatchObject({chain: null, kind: 'audit'})
  const listed = (await commandLine.sluice('incident', 'list')).stdout
  for (const told of [`address=${user.address}`, 'missing=1 USDC', `run=${run}`]) expect(listed).toContain(told)
  expect(await db.rows(`select app.why_halted('ETH') as why`)).toEqual([{why: null}])
})
