// Energy that the treasury lends addresses on Tron, and its stake: what custody signs of it, and what a worker with all
// of its rights, or somebody who forges rows, cannot get. A real custody, asked over its socket, on a real database
// whose rows the worker's own functions make.
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {mostStakingFee, mostTokenBytesFee} from '../../chains/tron/bytes.ts'
import {contractTypes, parseRawData, parseTransaction} from '../../chains/tron/transaction.ts'
import {newAddress} from '../../devnet/tron/client.ts'
import {contracts} from '../../devnet/tron/constants.ts'
import {WrittenTron} from '../../test/support/tron/written-world.ts'

const unit = 10n ** 6n
const trx = 10n ** 6n
const price = {maxSweepFee: (3n * trx) / 10n}
const bytes = mostTokenBytesFee(price)
const fee = mostStakingFee(price)
const stake = 4000n * trx
const staked = 50_000n * trx

/** Without what is reserved: rows that are refused here are deleted. */
const kept = `select * from app.ledger_audit where what not like '%reserved'`

let world: WrittenTron
let worker: pg.Client

beforeAll(async () => {
  world = await WrittenTron.open({
    TRON_NETWORK: 'local',
    TRON_USDT_CONTRACT: contracts.usdt,
    TRON_MAX_DELEGATED: '10000',
    TRON_FEE_BUDGET: '4000',
  })
  worker = new pg.Client({connectionString: world.db.url('sluice_jobs')})
  await worker.connect()
  await world.deposit(world.treasury, 200_000n * trx)
  await posted(await world.begun(`app.begin_stake('TRON', 'energy', ${staked}, ${fee})`, 'stake'))
})
afterAll(async () => {
  await worker?.end()
  await world?.close()
})

/** An address whose merchant received so much USDT, finally, and with gas for the bytes of two sweeps. */
async function holder(amount = 50n * unit): Promise<string> {
  const {addresses} = await world.makeShop(1, newAddress())
  const [address] = addresses as [string]
  if (amount) await world.deposit(address, amount, 'USDT')
  if (amount) await done(await fund(address, 2n * bytes))
  return address
}

interface Begun {
  intent: string
  outgoing_payment_id: string
  chain: 'TRON'
}

/** The intent of the newest outgoing payment of a kind. */
async function newest(kind: string, address: string): Promise<Begun> {
  const [row] = await world.db.rows<{id: string}>(
    `select id from app.outgoing_payment where kind = $1 and $2 in (recipient, source) order by created_at desc limit 1`,
    [kind, address],
  )
  return {intent: `${kind}_tron`, outgoing_payment_id: row!.id, chain: 'TRON'}
}

async function fund(address: string, amount: bigint) {
  await worker.query(`select app.begin_funds(null, 'TRON', 'USDT', array[$1], array[$2::numeric], 1100000)`, [
    address,
    String(amount),
  ])
  return await newest('fund', address)
}

/** As a worker that heeds no limit. */
async function delegate(address: string, amount = stake, mostLent = staked) {
  await worker.query(`select app.begin_delegates(null, 'TRON', 'USDT', array[$1], array[$2::numeric], $3, $4)`, [
    address,
    String(amount),
    String(fee),
    String(mostLent),
  ])
  return await newest('delegate', address)
}

async function undelegate(address: string) {
  await world.db.rows('update app.delegation set return_at = now() where address = $1', [address])
  await worker.query(`select app.begin_undelegates('TRON', $1, 100)`, [String(fee)])
  return await newest('undelegate', address)
}

async function sweep(address: string, amount: bigint, maxFee = bytes, feeLimit = 7n * trx) {
  await worker.query(
    `select app.begin_sweeps(null, 'TRON', 'USDT', array[$1], array[$2::numeric], array[$3::numeric])`,
    [address, String(amount), String(maxFee)],
  )
  return {...(await newest('sweep', address)), fee_limit: String(feeLimit)}
}

async function sign(intent: object) {
  const [result] = await world.sign(intent)
  return result as {ok: boolean; code?: string; message?: string; txid: string; raw: string; may_burn?: string}
}

/** Signs it; a block has it, finally. */
async function done(intent: Begun, {sender = world.treasury, paid = 0n} = {}): Promise<void> {
  const {ok, txid, message} = await sign(intent)
  expect([intent.intent, ok, message]).toEqual([intent.intent, true, undefined])
  await world.include(txid, {sender, fee: paid})
}

/** The same of what the treasury does with its stake, which the worker has stored. */
async function posted(intent: Begun) {
  const {ok, txid, message, raw} = await sign(intent)
  expect([intent.intent, ok, message]).toEqual([intent.intent, true, undefined])
  await world.storeSigned(intent.intent.replace('_tron', ''), world.treasury, txid)
  await world.include(txid)
  return said(raw)
}

async function refused(intent: Begun, code: string): Promise<void> {
  expect(await sign(intent)).toMatchObject({ok: false, code})
  await world.db.rows('delete from app.outgoing_payment where id = $1', [intent.outgoing_payment_id])
}

/** What a signed transaction says. */
function said(raw: string) {
  const {contract, feeLimit} = parseRawData(parseTransaction(Buffer.from(raw, 'hex')).rawData)
  return {...contract, feeLimit}
}

test('energy is lent to an address that holds a token worth its sweep, for no fixed time, and once at a time', async () => {
  const address = await holder()
  const intent = await delegate(address)
  const signed = await sign(intent)
  const {type, owner, message} = said(signed.raw)
  expect([type, owner, message.integer(2), message.integer(3)]).toEqual([
    contractTypes.delegate,
    world.treasury,
    1n,
    stake,
  ])
  expect([message.integer(5), message.integer(6)]).toEqual([0n, 0n]) // no lock, and no end of one
  expect(await sign(intent)).toEqual(signed)
  await refused(await world.forge({kind: 'delegate', recipient: address, amount: trx}), 'energy_in_use')
  await world.include(signed.txid)
  await refused(await world.forge({kind: 'delegate', recipient: address, amount: trx}), 'energy_in_use')
  await done(await undelegate(address))
})

test('energy is lent to no other address, for no other token, and for nothing that is not worth a sweep', async () => {
  await refused(await world.forge({kind: 'delegate', recipient: world.treasury, amount: stake}), 'not_ours')
  await refused(await world.forge({kind: 'delegate', recipient: newAddress(), amount: stake}), 'not_ours')
  const address = await holder()
  await refused(
    await world.forge({kind: 'delegate', recipient: address, amount: stake, forToken: 'TRX'}),
    'settlement_changed',
  )
  await refused(
    await world.forge({kind: 'stake', as: 'delegate', recipient: address, amount: stake}),
    'settlement_changed',
  )
  await refused(await world.forge({kind: 'delegate', recipient: await holder(0n), amount: stake}), 'sweep_too_small')
  await refused(
    await world.forge({kind: 'delegate', as: 'undelegate', recipient: address, amount: stake}),
    'settlement_changed',
  )
})

test('no more of the stake is lent at once than the operator allows', async () => {
  const [one, other] = [await holder(), await holder()]
  await done(await delegate(one, 6000n * trx))
  await refused(await delegate(other, 4000n * trx + 1n), 'stake_lent')
  await expect(delegate(other, 4000n * trx + 1n, 10_000n * trx)).rejects.toThrow() // nothing is begun
  await done(await delegate(other, 4000n * trx))
  await done(await undelegate(one))
  await done(await undelegate(other))
})

test('a sweep counts on lent energy once that is final, and until it is taken back', async () => {
  const address = await holder()
  const lending = await sign(await delegate(address))
  const intent = await sweep(address, 50n * unit)
  expect(await sign(intent)).toMatchObject({ok: false, code: 'gas_missing'}) // it would burn what its merchant has there
  await world.include(lending.txid)
  const signed = await sign(intent)
  expect(signed).toMatchObject({ok: true, may_burn: String(7n * trx)})
  expect(said(signed.raw)).toMatchObject({type: contractTypes.trigger, owner: address, feeLimit: 7n * trx})

  await refused(await world.forge({kind: 'undelegate', recipient: address, amount: stake}), 'energy_in_use')
  await world.include(signed.txid, {sender: address})
  const returning = await undelegate(address)
  const returned = await sign(returning)
  expect(said(returned.raw)).toMatchObject({type: contractTypes.undelegate, owner: world.treasury})

  await world.deposit(address, 9n * unit, 'USDT')
  const next = await sweep(address, 9n * unit)
  expect(await sign(next)).toMatchObject({ok: false, code: 'gas_missing'}) // it may be taken back any moment
  await world.include(returned.txid)
  await refused(next, 'gas_missing')
})

test('what a sweep with lent energy may burn counts in the budget, until a block shows that it burnt nothing', async () => {
  const [one, other] = [await holder(), await holder()]
  for (const address of [one, other]) await done(await delegate(address))
  const {ok, txid} = await sign(await sweep(one, 50n * unit, bytes, 2900n * trx)) // of 3000 for what is new
  expect(ok).toBe(true)
  const intent = await sweep(other, 50n * unit, bytes, 200n * trx)
  expect(await sign(intent)).toMatchObject({ok: false, code: 'fee_budget_reached'})
  await world.include(txid, {sender: one})
  await done(intent, {sender: other})
  for (const address of [one, other]) await done(await undelegate(address))
})

test('what it burns all the same, of coins of its merchant, is the operator’s cost', async () => {
  const address = await holder()
  await world.deposit(address, 9n * trx)
  await done(await delegate(address))
  const {txid} = await sign(await sweep(address, 50n * unit))
  const shareOf = async () =>
    await world.db.rows(
      `select h.amount::int8 as held, s.amount::int8 as share, g.amount::int8 as gas from app.holding h
       join app.gas g on g.chain = h.chain and g.address = h.address
       left join app.treasury_share s on s.merchant_id = h.merchant_id and s.token = 'TRX' where h.address = $1 and h.token = 'TRX'`,
      [address],
    )
  await world.storeSigned('sweep', address, txid)
  await world.include(txid, {sender: address, fee: 2n * bytes + 3n * trx})
  expect(await shareOf()).toEqual([{held: String(6n * trx), share: String(3n * trx), gas: '0'}])
  expect(await world.db.rows(kept)).toEqual([])
  await done(await undelegate(address))

  await world.deposit(address, 9n * unit, 'USDT') // the next sweep burns what it is sent
  await done(await fund(address, 8n * trx))
  await done(await sweep(address, 9n * unit, 7n * trx + bytes), {sender: address})
})

test('what nobody can be charged for is taken off what belongs to nobody yet', async () => {
  const address = await holder()
  await done(await delegate(address))
  const {txid} = await sign(await sweep(address, 50n * unit))
  await world.storeSigned('sweep', address, txid)
  await world.include(txid, {sender: address, fee: 3n * trx})
  expect(await world.db.rows(kept)).toEqual([])
  expect(await world.db.rows('select * from audit.nothing_below_zero where whose = $1', [address])).toEqual([])
  await done(await undelegate(address))
})

test('a stake is begun by nobody but the owner of the database, and moves to nobody', async () => {
  for (const call of ['begin_stake', 'begin_unstake'])
    await expect(worker.query(`select app.${call}('TRON', 'energy', 1000000, 1)`)).rejects.toThrow('permission denied')
  const begin = (call: string, kind: string) => world.begun(`app.${call}('TRON', 'energy', ${stake}, ${fee})`, kind)
  const {type, owner, message} = await posted(await begin('begin_stake', 'stake'))
  expect([type, owner, message.integer(2), message.integer(3)]).toEqual([
    contractTypes.stake,
    world.treasury,
    stake,
    1n,
  ])
  const unstaked = await posted(await begin('begin_unstake', 'unstake'))
  expect(unstaked).toMatchObject({type: contractTypes.unstake, owner: world.treasury})

  const held = async () =>
    (await world.db.rows(`select balance::int8 as n from app.treasury where token = 'TRX'`))[0]!.n
  const before = BigInt(await held())
  await worker.query(`select app.begin_reclaim('TRON', $1)`, [String(fee)])
  expect(await world.db.rows(`select from app.outgoing_payment where kind = 'reclaim'`)).toEqual([]) // for 14 days
  const ofBlockBefore = `select from app.unstaking u join chain.confirmed_tx i on i.txid = u.txid
    join chain.block b on b.chain = i.chain and b.height = i.block_height - 1 where u.free_at = b.time + interval '14 days' and i.block_time <> b.time`
  expect(await world.db.rows(ofBlockBefore)).toHaveLength(1)
  await world.db.rows(`update app.unstaking set free_at = free_at - interval '14 days 2 minutes'`)
  for (let n = 0; n < 2; n++) await worker.query(`select app.begin_reclaim('TRON', $1)`, [String(fee)])
  expect(await world.db.rows(`select from app.outgoing_payment where kind = 'reclaim'`)).toHaveLength(1)
  const reclaimed = await posted(await newest('reclaim', world.treasury))
  expect(reclaimed).toMatchObject({type: contractTypes.reclaim, owner: world.treasury})
  expect(BigInt(await held()) - before).toBe(stake)
  expect(await world.db.rows(kept)).toEqual([])
})

test('what a node says was lent, and nobody here knows of, is taken back; what it said in error is forgotten', async () => {
  const [lent, wrong] = [await holder(), await holder()]
  const find = async (addresses: string[]) =>
    await worker.query(`select app.find_delegations('TRON', $1, array_fill(5e9::numeric, array[$2::int]))`, [
      addresses,
      addresses.length,
    ])
  for (let n = 0; n < 2; n++) await find([lent, wrong, world.treasury, newAddress()])
  const known = () => world.db.rows<{address: string}>('select address from app.delegation order by address')
  expect(await known()).toEqual([lent, wrong].sort().map(address => ({address})))
  await worker.query(`select app.begin_undelegates('TRON', $1, 100)`, [String(fee)])
  await done(await newest('undelegate', lent))
  expect(await known()).toEqual([{address: wrong}])
  await done(await delegate(lent)) // what its journal lacks keeps nothing from being lent again
  await done(await sweep(lent, 50n * unit), {sender: lent})
  await done(await undelegate(lent))

  /** The undelegate of what was wrong expires, again and again. */
  const expires = async () => {
    await undelegate(wrong)
    await world.db.rows(
      `select app.end_without_transaction(s, 'expired') from app.outgoing_payment s where s.recipient = $1 and s.status <> 'final'`,
      [wrong],
    )
    await world.db.rows(
      `update app.outgoing_payment set final_at = now() - interval '11 minutes' where recipient = $1`,
      [wrong],
    )
  }
  await expires()
  await find([wrong]) // the node still says so
  expect(await known()).toEqual([{address: wrong}])
  await worker.query(`select app.find_delegations('TRON', array[$1], array[2e9])`, [wrong]) // it was less
  expect(await world.db.rows('select amount::int8 from app.delegation')).toEqual([{amount: String(2000n * trx)}])
  await expires()
  await find([])
  expect(await known()).toEqual([])
  expect(await world.db.rows(kept)).toEqual([])
  const found = await world.db.rows<{name: string}>('select name from app.audit_checks() where count > 0')
  expect(found.filter(({name}) => /final|states|fees|no_/.test(name))).toEqual([])
})

test('an unstake, and a delegate, that are mined although they had ended are booked', async () => {
  const address = await holder()
  const lending = await sign(await delegate(address))
  const unstaking = await world.begun(`app.begin_unstake('TRON', 'energy', ${stake}, ${fee})`, 'unstake')
  const {txid} = await sign(unstaking)
  for (const [kind, source, of] of [
    ['delegate', world.treasury, lending.txid],
    ['unstake', world.treasury, txid],
  ] as const)
    await world.storeSigned(kind, source, of)
  await world.db.rows(
    `select app.end_without_transaction(s, 'expired') from app.outgoing_payment s where s.status <> 'final' and s.kind in ('delegate', 'unstake')`,
  )
  for (const mined of [lending.txid, txid]) {
    await world.include(mined)
    await world.db.rows(`select app.resolve_incident(id, 'loss') from app.incident where resolved_at is null`)
  }
  expect(await world.db.rows(kept)).toEqual([])
  await done(await undelegate(address))
  expect(await world.db.rows(kept)).toEqual([])
})
