// Gas for addresses that sweep a token themselves: what custody signs of it, and what a worker with all of its rights
// cannot get. A real custody, asked over its socket, on a real database whose rows the worker's own functions make.
import pg from 'pg'
import {type Hex, parseTransaction} from 'viem'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {newAddress, WrittenEvm} from '../../test/support/evm/written-world.ts'

const unit = 10n ** 6n
const ether = 10n ** 18n
const gwei = 10n ** 9n
const token = {
  code: 'USDT',
  name: 'ETH-USDT',
  display_name: 'Tether USD',
  contract: newAddress(),
  decimals: 6,
  min_payout: '1',
  sweep_min: '1',
  sweep: {by: 'fund'},
}
/** 0.001 ether: the most that a sweep and its gas may cost. */
const most = ether / 1000n
const budget = (ether * 6n) / 100n
const price = 2n * gwei
const fundFee = 21_000n * price

let world: WrittenEvm
let worker: pg.Client

beforeAll(async () => {
  world = await WrittenEvm.open({
    ETH_TOKENS: JSON.stringify([token]),
    ETH_TOKEN_SWEEP_FEE: '0.001',
    ETH_FEE_BUDGET: '0.06',
  })
  worker = new pg.Client({connectionString: world.db.url('sluice_jobs')})
  await worker.connect()
  await world.deposit(world.treasury, 10n * ether)
})
afterAll(async () => {
  await worker?.end()
  await world?.close()
})

const fees = (gas: bigint, gwei_price = price) => ({
  max_fee_per_gas: String(gwei_price),
  max_priority_fee_per_gas: String(gwei),
  gas_limit: Number(gas),
})

/** An address whose merchant received so much USDT, finally. */
async function holder(amount = 5n * unit): Promise<string> {
  const {address} = await world.merchant()
  if (amount) await world.deposit(address, amount, {token: 'USDT'})
  return address
}

interface Row {
  id: string
  nonce: number
}

async function begun(kind: 'fund' | 'sweep' | 'defund', address: string): Promise<Row> {
  const [row] = await world.db.rows<Row>(
    `select id, nonce from app.outgoing_payment where kind = $1 and $2 in (recipient, source) order by created_at desc limit 1`,
    [kind, address],
  )
  return row!
}

/** Begins a fund with the worker's rights; its intent. */
async function fund(address: string, amount: bigint, forToken = 'USDT') {
  await worker.query(`select app.begin_funds(null, 'ETH', $1, array[$2], array[$3::numeric], $4)`, [
    forToken,
    address,
    String(amount),
    String(fundFee),
  ])
  const {id, nonce} = await begun('fund', address)
  return {intent: 'fund', outgoing_payment_id: id, chain: 'ETH', nonce, ...fees(21_000n)}
}

/** Begins a sweep with the worker's rights, that may cost so much; its intent. */
async function sweep(address: string, amount: bigint, gas: bigint) {
  await worker.query(
    `select app.begin_sweeps(null, 'ETH', 'USDT', array[$1], array[$2::numeric], array[$3::numeric])`,
    [address, String(amount), String(gas * price)],
  )
  const {id: outgoing_payment_id, nonce} = await begun('sweep', address)
  const of = {chain: 'ETH', token: 'USDT', address, amount: String(amount)}
  return {intent: 'sweep', outgoing_payment_id, ...of, nonce, ...fees(gas)}
}

async function sign(intent: object): Promise<{ok: boolean; code?: string; message?: string; txid: string; raw: Hex}> {
  const [result] = await world.sign(intent)
  return result
}

/** Gives up what is begun, so that the next nonce can be signed: as an operator, who keeps its refusal. */
async function dropped({outgoing_payment_id: id}: {outgoing_payment_id: string}): Promise<void> {
  await world.db.rows(
    `with gone as (delete from app.outgoing_payment where id = $1 returning chain, fee_payer, nonce, kind, amount, max_fee)
     update app.sender s set next_nonce = g.nonce from gone g where s.chain = g.chain and s.address = g.fee_payer`,
    [id],
  )
}

async function refused(intent: {outgoing_payment_id: string}, code: string): Promise<void> {
  expect(await sign(intent)).toMatchObject({ok: false, code})
  await dropped(intent)
}

/** A fund that is final. */
async function funded(address: string, amount: bigint): Promise<void> {
  const intent = await fund(address, amount)
  const {ok, txid, message} = await sign(intent)
  expect([ok, message]).toEqual([true, undefined])
  await world.include(txid, intent.nonce, {fee: fundFee})
}

test('gas goes to an address that holds a token worth its sweep, as it was begun, and to no other', async () => {
  const address = await holder()
  const intent = await fund(address, 10n ** 14n)
  const signed = await sign(intent)
  expect(parseTransaction(signed.raw)).toMatchObject({
    to: address.toLowerCase(),
    value: 10n ** 14n,
    nonce: intent.nonce,
  })
  expect(await sign(intent)).toEqual(signed)
  expect((await sign({...intent, nonce: intent.nonce + 1})).code).toBe('settlement_changed')
  await world.include(signed.txid, intent.nonce)

  await refused(await fund(await holder(0n), 10n ** 14n), 'sweep_too_small')
  await refused(await fund(await holder(unit - 1n), 10n ** 14n), 'sweep_too_small')
  const rows = await worker.query(`select app.begin_funds(null, 'ETH', 'USDC', array[$1], array[1::numeric], 1)`, [
    address,
  ])
  expect(rows.rows).toEqual([{begin_funds: null}]) // USDC has authorisations: nothing is begun
})

test('a fund costs, with what is on the address and the fee of each fund before, no more than TOKEN_SWEEP_FEE', async () => {
  const address = await holder()
  await refused(await fund(address, most - fundFee + 1n), 'gas_too_dear')
  await funded(address, most / 2n)
  await refused(await fund(address, most / 2n - 2n * fundFee + 1n), 'gas_too_dear')
  await funded(address, most / 2n - 2n * fundFee)
  await refused(await fund(address, 1n), 'gas_too_dear')
})

test('a sweep pays with gas that has arrived finally, not with what its merchant has there', async () => {
  const address = await holder()
  await world.deposit(address, ether) // its merchant's
  const intent = await fund(address, 10n ** 14n)
  const {txid} = await sign(intent)
  const gas = 50_000n // 10 ** 14 wei
  await world.db.rows(`insert into app.gas (chain, address, amount) values ('ETH', $1, 10 ^ 18)`, [address]) // a lie in the ledger
  const early = await sweep(address, 5n * unit, gas)
  expect(await sign(early)).toMatchObject({ok: false, code: 'gas_missing'})
  await world.include(txid, intent.nonce)
  expect((await sign({...early, ...fees(gas + 1n)})).code).toBe('gas_missing')
  const signed = await sign(early)
  expect(parseTransaction(signed.raw)).toMatchObject({to: token.contract.toLowerCase(), nonce: 0})
  const dearer = {max_fee_per_gas: String((price * 9n) / 8n), max_priority_fee_per_gas: String((gwei * 9n) / 8n)}
  expect((await sign({...early, ...dearer})).code).toBe('gas_missing') // a replacement
  await world.db.rows('delete from app.gas where address = $1', [address])
})

test('what a sweep has cost is no gas any more, and the next one, and its cancel, cost no more than what is left', async () => {
  const address = await holder()
  await funded(address, 3n * 10n ** 14n)
  const first = await sweep(address, 2n * unit, 50_000n)
  const {txid} = await sign(first)
  await world.include(txid, 0, {sender: address, fee: 10n ** 14n})
  await world.db.rows(`update app.gas set reserved = 0 where address = $1`, [address])
  const second = await sweep(address, 3n * unit, 100_000n)
  expect((await sign({...second, ...fees(100_001n)})).code).toBe('gas_missing')
  await world.db.rows('select app.cancel_outgoing_payment($1)', [second.outgoing_payment_id])
  const cancel = {intent: 'cancel', chain: 'ETH', sender: address, nonce: 1}
  expect((await sign({...cancel, ...fees(100_001n)})).code).toBe('gas_missing')
  expect((await sign({...cancel, ...fees(21_000n)})).ok).toBe(true)
})

test('a fund that failed, or whose nonce something else used, has brought nothing', async () => {
  const address = await holder()
  const failed = await fund(address, 10n ** 14n)
  await world.include((await sign(failed)).txid, failed.nonce, {success: false})
  await world.db.rows(`update app.outgoing_payment set final_at = final_at - interval '11 minutes' where id = $1`, [
    failed.outgoing_payment_id,
  ])
  const replaced = await fund(address, 10n ** 14n)
  expect((await sign(replaced)).ok).toBe(true)
  await world.include(`0x${'ab'.repeat(32)}`, replaced.nonce)
  await world.db.rows(`insert into app.gas (chain, address, amount) values ('ETH', $1, 10 ^ 18)`, [address])
  expect((await sign(await sweep(address, 5n * unit, 50_000n))).code).toBe('gas_missing')
  await world.db.rows('delete from app.gas where address = $1', [address])
})

/** A row of a fund as an intruder in the database would write it; its intent. */
async function forged({forToken = 'USDT', recipient, amount}: {forToken?: string; recipient: string; amount: bigint}) {
  const [row] = await world.db.rows<Row>(
    `insert into app.outgoing_payment (kind, chain, token, amount, source, recipient, fee_payer, nonce, max_fee, for_token, recovered)
     values ('fund', 'ETH', 'ETH', $1, $2, $3, $2, app.take_nonce('ETH', $2), 1, $4, true) returning id, nonce`,
    [String(amount), world.treasury, recipient, forToken],
  )
  return {intent: 'fund', outgoing_payment_id: row!.id, chain: 'ETH', nonce: row!.nonce, ...fees(21_000n)}
}

test('rows that somebody forges send gas to nobody else, for no other token, and no more than once', async () => {
  const address = await holder()
  await world.deposit(address, 5n * unit, {token: 'USDC'})
  await refused(await forged({forToken: 'USDC', recipient: address, amount: 1n}), 'settlement_changed')
  await refused(await forged({recipient: world.treasury, amount: 1n}), 'not_ours')
  await refused(await forged({recipient: newAddress(), amount: 1n}), 'not_ours')

  const first = await forged({recipient: address, amount: most / 2n})
  expect((await sign(first)).ok).toBe(true)
  await world.db.rows('update app.outgoing_payment set amount = amount + 1 where id = $1', [first.outgoing_payment_id])
  const dearer = {max_fee_per_gas: String((price * 9n) / 8n), max_priority_fee_per_gas: String((gwei * 9n) / 8n)}
  expect((await sign({...first, ...dearer})).code).toBe('settlement_changed')
  const open = await forged({recipient: address, amount: most / 2n - fundFee}) // the first may still be mined
  await refused(open, 'gas_too_dear')
})

/** Begins to bring gas back with the worker's rights, as if it had been idle for long; its intent. */
async function defund(address: string, amount: bigint, gas = 21_000n) {
  await world.db.rows(`update app.gas set used_at = used_at - interval '31 days' where address = $1`, [address])
  await worker.query(`select app.begin_defunds('ETH', array[$1], array[$2::numeric], array[$3::numeric])`, [
    address,
    String(amount),
    String(gas * price),
  ])
  const {id: outgoing_payment_id, nonce} = await begun('defund', address)
  const of = {chain: 'ETH', token: 'ETH', address, amount: String(amount)}
  return {intent: 'defund', outgoing_payment_id, ...of, nonce, ...fees(gas)}
}

const holdBack = (address: string, isHeld: boolean) =>
  world.db.rows(`update app.deposit set held_back = $2 where address = $1 and token = 'USDT'`, [address, isHeld])

/** An address that has so much gas, and nothing to sweep with it. */
async function withGas(gas: bigint): Promise<string> {
  const address = await holder()
  await funded(address, gas)
  await holdBack(address, true)
  return address
}

const back = 2n * 10n ** 14n

test('gas goes back to the treasury alone, for a fee that is worth it', async () => {
  const address = await withGas(back + fundFee)
  const intent = await defund(address, back)
  expect((await sign({...intent, amount: String(back + 1n)})).code).toBe('settlement_changed')
  expect((await sign({...intent, address: await withGas(1n)})).code).toBe('settlement_changed')
  expect((await sign({...intent, intent: 'sweep'})).code).toBe('settlement_changed')
  expect((await sign({...intent, ...fees(21_000n, price * 10n), amount: '1000'})).code).toBe('sweep_too_dear')
  const signed = await sign(intent)
  expect(parseTransaction(signed.raw)).toMatchObject({to: world.treasury.toLowerCase(), value: back, nonce: 0})
  expect(await sign(intent)).toEqual(signed)
})

test("no more goes back than is left of what was sent, by custody's journal, whatever the merchant has there", async () => {
  const address = await withGas(back + fundFee)
  await world.deposit(address, ether) // its merchant's
  await world.db.rows(`update app.gas set amount = 10 ^ 18 where address = $1`, [address]) // a lie in the ledger
  const intent = await defund(address, back + 1n)
  expect((await sign(intent)).code).toBe('gas_missing')
  const {txid, ok} = await sign({...intent, amount: String(back)})
  expect(ok).toBe(true)
  const dearer = {max_fee_per_gas: String((price * 9n) / 8n), max_priority_fee_per_gas: String((gwei * 9n) / 8n)}
  expect((await sign({...intent, ...dearer, amount: String(back)})).code).toBe('gas_missing') // as much, at a higher fee
  const more = (price / 8n) * 21_000n
  expect((await sign({...intent, ...dearer, amount: String(back - more)})).ok).toBe(true)
  await world.include(txid, 0, {sender: address, fee: fundFee / 2n})
  await world.db.rows(`update app.gas set amount = 10 ^ 18, reserved = 0 where address = $1`, [address])
  expect((await sign(await defund(address, back))).code).toBe('gas_missing') // what went back is gone
  await world.db.rows('delete from app.gas where address = $1', [address])
})

test('gas that goes back does not make room for more, until a sweep has used some', async () => {
  const address = await withGas(most / 2n)
  await holdBack(address, false)
  await world.db.rows(`update app.gas set used_at = used_at - interval '31 days' where address = $1`, [address])
  const open = await forgedDefund(address, most / 2n - fundFee)
  const {txid} = await sign(open)
  await refused(await fund(address, most / 2n - 2n * fundFee + 1n), 'gas_too_dear') // it may never be mined
  await world.include(txid, open.nonce, {sender: address, fee: fundFee})
  await refused(await fund(address, most - 3n * fundFee + 1n), 'gas_too_dear') // the fees of both count
  await funded(address, most - 3n * fundFee)
})

/** As an intruder in the database would write it; its intent. */
async function forgedDefund(address: string, amount: bigint, {fromGas = true, recipient = address} = {}) {
  const [row] = await world.db.rows<Row>(
    `insert into app.outgoing_payment (kind, chain, token, amount, source, recipient, fee_payer, nonce, max_fee, from_gas, recovered)
     values ('defund', 'ETH', 'ETH', $1, $2, $3, $2, app.take_nonce('ETH', $2), 1, $4, true) returning id, nonce`,
    [String(amount), address, recipient, fromGas],
  )
  const of = {chain: 'ETH', token: 'ETH', address, amount: String(amount)}
  return {intent: 'defund', outgoing_payment_id: row!.id, ...of, nonce: row!.nonce, ...fees(21_000n)}
}

test("rows that somebody forges bring nothing of a merchant's, and nothing elsewhere", async () => {
  const {address} = await world.merchant()
  await world.deposit(address, ether)
  for (const fromGas of [true, false])
    await refused(await forgedDefund(address, ether / 2n, {fromGas, recipient: newAddress()}), 'gas_missing')
  await refused(await forgedDefund(world.treasury, ether), 'not_ours')
  const gas = await withGas(back + fundFee)
  const sweep = await forgedDefund(gas, back)
  await world.db.rows(`update app.outgoing_payment set kind = 'sweep' where id = $1`, [sweep.outgoing_payment_id])
  await refused(sweep, 'settlement_changed')
  const {raw} = await sign(await forgedDefund(gas, back, {recipient: newAddress()}))
  expect(parseTransaction(raw)).toMatchObject({to: world.treasury.toLowerCase(), value: back})
})

test('the gas of a day stays within the fee budget, whatever the worker asks for; what it pays for is not counted again', async () => {
  const used = async (amount: bigint) => {
    const addresses: string[] = []
    for (;;) {
      const address = await holder()
      const intent = await fund(address, amount)
      const {ok, code, txid} = await sign(intent)
      if (!ok) {
        expect(code).toBe('fee_budget_reached')
        await dropped(intent)
        return addresses
      }
      await world.include(txid, intent.nonce, {fee: fundFee})
      addresses.push(address)
    }
  }
  const idle = await withGas(back + fundFee)
  const addresses = await used((most * 2n) / 3n)
  for (const little of [most / 10n, most / 100n, 1n]) await used(little) // nothing is left then
  const [sum] = await world.db.rows<{cost: string}>(
    `select sum(amount + coalesce((select i.fee from chain.confirmed_tx i where i.conflict_key = j.conflict_key), max_fee))::text as cost
     from (select distinct on (subject_id) * from custody.journal where kind = 'fund' order by subject_id, max_fee desc) j`,
  )
  expect(BigInt(sum!.cost)).toBeLessThanOrEqual((budget * 3n) / 4n) // a quarter is reserved
  expect(addresses.length).toBeGreaterThan(20)
  for (const address of addresses.slice(0, 3)) {
    const gas = 50_000n
    expect(await sign(await sweep(address, 5n * unit, gas))).toMatchObject({ok: true})
  }
  expect(await sign(await defund(idle, back))).toMatchObject({ok: true})
})
