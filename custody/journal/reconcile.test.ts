// Imports what custody signed on Bitcoin after an older copy of the database was made. (For EVM chains: cli.test.ts.)
import {randomUUID} from 'node:crypto'
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {WrittenBitcoin} from '../../test/support/bitcoin/written-world.ts'
import {until} from '../../test/support/until.ts'
import {journalFile} from './file.ts'
import {reconcile} from './reconcile.ts'

let btc: WrittenBitcoin
let owner: pg.Client

beforeAll(async () => {
  btc = await WrittenBitcoin.open()
  owner = new pg.Client({connectionString: btc.db.ownerUrl})
  await owner.connect()
})
afterAll(async () => {
  await owner.end()
  await btc.close()
})

/** Deletes journal entries, so that the database is like an older copy. The triggers forbid this otherwise. */
async function forgetEntries(): Promise<void> {
  await owner.query(`begin; set local session_replication_role = replica;
    delete from custody.journal_key; delete from custody.journal where stream = 'BTC'; commit`)
}

test('every signature becomes an outgoing attempt again with its first input and its outputs, and custody knows their purposes', async () => {
  const merchant = await btc.merchant()
  const [a, b, c, d] = (await btc.outputs(merchant.bitcoin, [100_000n, 50_000n, 40_000n, 30_000n])) as [
    string,
    string,
    string,
    string,
  ]
  const payout = await btc.swept(merchant)
  const pay = {intent: 'pay_outputs', payout_id: payout, inputs: [a], fee: '1000'}
  const more = {...pay, inputs: [a, b], fee: '3000'}
  const sweep = {intent: 'sweep_outputs', outgoing_payment_id: randomUUID(), chain: 'BTC', inputs: [c, d], fee: '1000'}
  for (const intent of [more, sweep]) await btc.forgeOutgoingPayment(intent)
  const signed = await btc.sign(pay, more, sweep)
  expect(signed.map(({ok}) => ok)).toEqual([true, true, true])

  await forgetEntries()
  await btc.forgetForged()
  expect(await btc.sign(sweep)).toMatchObject([{ok: false, code: 'journal_ahead'}])
  const check = await btc.custody.ask('/check', {payout_id: payout})
  expect(check.body).toMatchObject({ok: false, code: 'journal_ahead'}) // else the worker would begin its sweeps
  const done = await reconcile(owner, journalFile(btc.home))
  expect(done).toEqual({entries: 3, payouts: 1, without_purpose: 0})
  const attempts = await btc.db.rows(
    `select s.kind, s.first_input as "firstInput", s.payout_id, o.attempt, o.txid, o.max_fee::int as fee
     from app.outgoing_attempt o join app.outgoing_payment s on s.id = o.outgoing_payment_id order by s.kind, o.attempt`,
  )
  const ofPayout = {kind: 'payout', firstInput: a, payout_id: payout}
  expect(attempts).toEqual([
    {...ofPayout, attempt: 1, txid: signed[0].txid, fee: 1000},
    {...ofPayout, attempt: 2, txid: signed[1].txid, fee: 3000},
    {kind: 'sweep', firstInput: c, payout_id: null, attempt: 1, txid: signed[2].txid, fee: 1000},
  ])
  const reserved = await btc.db.rows<{outpoint: string; kind: string; from_attempt: number}>(
    `select u.txid || ':' || u.vout as outpoint, s.kind, u.from_attempt from app.output u join app.outgoing_payment s on s.id = u.outgoing_payment_id order by u.vout`,
  )
  expect(reserved).toEqual([
    {outpoint: a, kind: 'payout', from_attempt: 1},
    {outpoint: b, kind: 'payout', from_attempt: 2},
    {outpoint: c, kind: 'sweep', from_attempt: 1},
    {outpoint: d, kind: 'sweep', from_attempt: 1},
  ])
  expect(await btc.sign(sweep)).toMatchObject([{ok: true, txid: signed[2].txid}])
  expect(await btc.sign({...sweep, inputs: [d]})).toMatchObject([{code: 'settlement_changed'}])
  expect((await reconcile(owner, journalFile(btc.home))).entries).toBe(0)
})

test('outgoing payments that an older copy began with such outputs are given up, and a conflicting payout continues as it was signed', async () => {
  const {db} = btc
  await btc.output(btc.treasury, 1_000_000n)
  const merchant = await btc.merchant()
  const [a, b, c] = (await btc.outputs(merchant.bitcoin, [100_000n, 100_000n, 100_000n])) as [string, string, string]
  const [{payout}] = (await db.rows(
    `select (app.create_payout($1, 'BTC', 'BTC', false, null, null)::json ->> 'id')::text as payout`,
    [merchant.id],
  )) as [{payout: string}]
  const [{id}] = (await db.rows(`select id from app.payout where app.public_id('pay', id) = $1`, [payout])) as [
    {id: string},
  ]
  await db.rows('select app.begin_sweeping($1)', [id])

  // Signed when the database was newer; the older copy lacks it.
  const inStatus = async (status: string) => {
    await owner.query('set session_replication_role = replica')
    await owner.query('update app.payout set status = $2 where id = $1', [id, status])
    await owner.query('reset session_replication_role')
  }
  await inStatus('swept')
  const intents = [
    {intent: 'pay_outputs', payout_id: id, inputs: [a, b, c], fee: '2000'},
    {
      intent: 'sweep_outputs',
      outgoing_payment_id: randomUUID(),
      chain: 'BTC',
      inputs: await btc.outputs(merchant.bitcoin, [60_000n]),
      fee: '1000',
    },
  ]
  for (const intent of intents) await btc.forgeOutgoingPayment(intent)
  expect(await btc.sign(...intents)).toMatchObject([{ok: true}, {ok: true}])
  await forgetEntries()
  await btc.forgetForged()
  await inStatus('sweeping')
  const swept = (
    await db.rows<{outpoint: string}>(`select txid || ':' || vout as outpoint from app.output where amount = 60000`)
  )[0]!.outpoint
  const other = await btc.output(merchant.bitcoin, 500_000n)
  expect(await db.rows(`select app.begin_output_payment($1, $2, 1500) as short`, [id, [other]])).toEqual([
    {short: null},
  ])
  const again = await btc.output(merchant.bitcoin, 70_000n)
  expect(
    await db.rows(`select app.begin_output_sweep(null, 'BTC', $1, $2, 1500) as short`, [merchant.id, [again, swept]]),
  ).toEqual([{short: null}])

  expect(await reconcile(owner, journalFile(btc.home))).toMatchObject({payouts: 2}) // including the payout of the previous test
  expect(
    await db.rows(
      `select s.kind, s.first_input as "firstInput", s.status, array_agg(u.amount::int order by u.amount) as inputs
       from app.outgoing_payment s join app.output u on u.outgoing_payment_id = s.id where s.merchant_id = $1 group by s.id order by s.kind`,
      [merchant.id],
    ),
  ).toEqual([
    {kind: 'payout', firstInput: a, status: 'live', inputs: [100_000, 100_000, 100_000]},
    {kind: 'sweep', firstInput: swept, status: 'live', inputs: [60_000]},
  ])
  const free = await db.rows<{amount: number}>(
    'select amount::int as amount from app.free_output where merchant_id = $1 order by 1',
    [merchant.id],
  )
  expect(free.map(({amount}) => amount)).toEqual([70_000, 500_000])
  expect(await db.rows('select * from app.ledger_audit where merchant_id = $1', [merchant.id])).toEqual([])
  expect(await db.rows('select status from app.payout where id = $1', [id])).toEqual([{status: 'paying'}])
})

test('it waits for a transaction that derives deposits of the chain, without a deadlock', async () => {
  const {db} = btc
  const merchant = await btc.merchant()
  const inputs = await btc.outputs(merchant.bitcoin, [80_000n])
  const sweep = {intent: 'sweep_outputs', outgoing_payment_id: randomUUID(), chain: 'BTC', inputs, fee: '1000'}
  await btc.forgeOutgoingPayment(sweep)
  expect(await btc.sign(sweep)).toMatchObject([{ok: true}])
  await forgetEntries()
  await btc.forgetForged()
  const settling = await db.pool.connect()
  try {
    await settling.query(`begin; select from chain.cursor where chain = 'BTC' for update`)
    const reconciled = reconcile(owner, journalFile(btc.home)).catch((error: Error) => error)
    const waits = async () => (await db.rows('select from pg_locks where not granted')).length > 0
    await until(waits, {timeoutMs: 5000, what: 'the reconciliation to wait'})
    await settling.query(`select app.lock_treasury('BTC'); commit`)
    expect(await reconciled).toMatchObject({without_purpose: 0})
  } finally {
    settling.release()
  }
})
