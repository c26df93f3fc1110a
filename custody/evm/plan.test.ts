// What custody signs and what it refuses: a real custody, asked over its socket, on a real database. Each refusal is
// recorded, and nothing is signed.
import {randomUUID} from 'node:crypto'
import {readFileSync} from 'node:fs'
import path from 'node:path'
import {
  decodeFunctionData,
  getAddress,
  type Hex,
  keccak256,
  parseAbi,
  parseTransaction,
  recoverTransactionAddress,
  type TransactionSerialized,
} from 'viem'
import {afterAll, beforeAll, describe, expect, test} from 'vitest'
import {fees, higherFees, newAddress, sweepIntent, tokenGas, WrittenEvm} from '../../test/support/evm/written-world.ts'
import type {Merchant} from '../../test/support/written-world.ts'
import {authorisationNonce} from './sign.ts'

const usdc = '0x1c7d4b196cb0c7b01d743fbc6116a902379c7238'
const gwei = 10n ** 9n

let world: WrittenEvm
let nonce = 0

beforeAll(async () => {
  world = await WrittenEvm.open({ETH_PAYOUT_LIMIT: 'USDC:1', ETH_DAILY_LIMIT: 'USDC:1.5', ETH_MAX_FEE_GWEI: '100'})
})
afterAll(() => world.close())

/** The treasury's next nonce. It is the same again if nothing was signed with it. */
async function nextNonce(): Promise<number> {
  const [row] = await world.db.rows<{next: number}>(
    `select 1 + greatest((select max(nonce) from custody.journal where stream = 'ETH' and sender = $1), -1)::int as next`,
    [world.treasury],
  )
  nonce = row!.next
  return nonce
}

const pay = (payout_id: string, more: object = {}) => ({intent: 'pay', payout_id, nonce: nonce++, ...fees, ...more})
const cancel = (more: object = {}) => ({
  intent: 'cancel',
  chain: 'ETH',
  sender: world.treasury,
  nonce: nonce++,
  ...fees,
  ...more,
})

/** Expects a refusal with this code, recorded with the unchanged request, and no signature. */
async function refused(intent: Record<string, unknown>, code: string): Promise<string> {
  const before = await world.journal()
  const result = await world.signForged(intent)
  expect(result).toMatchObject({ok: false, code})
  expect(Object.keys(result)).not.toContain('raw')
  expect(await world.journal()).toEqual(before)
  const [noted] = await world.db.rows('select code, message, request from custody.refusal order by id desc limit 1')
  expect(noted).toEqual({code, message: result.message, request: intent})
  await nextNonce()
  return result.message
}

async function signed(intent: Record<string, unknown>) {
  const result = await world.signForged(intent)
  expect(result).toMatchObject({ok: true})
  return result as {txid: string; raw: Hex; amount: string}
}

/** The content of signed bytes, and their signer. */
async function read(raw: Hex) {
  const {to, value = 0n, data, nonce, chainId, gas, maxFeePerGas} = parseTransaction(raw)
  const by = await recoverTransactionAddress({serializedTransaction: raw as TransactionSerialized})
  return {by, to, value, data, nonce, chainId, gas, maxFeePerGas}
}

/** A payout row that an attacker with write access to the database would insert. */
async function forged(merchant: Merchant, more: Record<string, unknown> = {}): Promise<string> {
  const id = randomUUID()
  const row = {gross: 1000, fee: 10, net: 990, address: merchant.payoutAddress, token: 'ETH', status: 'swept', ...more}
  await world.db.rows(
    `insert into app.payout (id, merchant_id, chain, token, status, gross, fee_bps, fee, net, address, sweep_first)
     values ($1, $2, 'ETH', $3, $4, $5, 100, $6, $7, $8, false)`,
    [id, merchant.id, row.token, row.status, row.gross, row.fee, row.net, row.address],
  )
  return id
}

describe('a payout', () => {
  test('is paid from the treasury to its address with its net; the journal has it in the database and on disk', async () => {
    const merchant = await world.merchant()
    const payout = await world.swept(merchant)
    expect((await world.custody.ask('/check', {payout_id: payout})).body).toEqual({ok: true})
    const intent = pay(payout)
    const {txid, raw, amount} = await signed(intent)
    expect([keccak256(raw), amount]).toEqual([txid, '990'])
    expect(await read(raw)).toEqual({
      by: world.treasury,
      to: merchant.payoutAddress.toLowerCase(),
      value: 990n,
      data: undefined,
      nonce: intent.nonce,
      chainId: 11_155_111,
      gas: 21_000n,
      maxFeePerGas: 2n * gwei,
    })
    const entry = (await world.journal()).at(-1)!
    expect(entry).toMatchObject({kind: 'pay', subject_id: payout, merchant_id: merchant.id, amount: '990', raw, txid})
    const lines = readFileSync(path.join(world.home, 'custody', 'journal.jsonl'), 'utf8')
      .trim()
      .split('\n')
    const line = lines.map(text => JSON.parse(text)).find(({subject_id}) => subject_id === payout)
    expect(line).toMatchObject({raw, hash: entry.hash, details: {gross: '1000', fee: '10', fee_bps: 100}})
  })

  test('of a token is a transfer call of its contract', async () => {
    const merchant = await world.merchant()
    const payout = await world.swept(merchant, 1000n, 'USDC')
    const {to, value, data, by} = await read((await signed(pay(payout, tokenGas))).raw)
    expect([to, value, by]).toEqual([usdc, 0n, world.treasury])
    const abi = parseAbi(['function transfer(address to, uint256 value)'])
    expect(decodeFunctionData({abi, data: data!}).args).toEqual([merchant.payoutAddress, 990n])
  })

  test('gets the same bytes again, and other bytes only for fees an eighth higher, with the same nonce', async () => {
    const payout = await world.swept(await world.merchant())
    const intent = pay(payout)
    const first = await signed(intent)
    const count = (await world.journal()).length
    expect(await signed(intent)).toEqual(first)
    const almost = {...intent, max_fee_per_gas: '2249999999', max_priority_fee_per_gas: '1125000000'}
    expect(await signed(almost)).toEqual(first) // the worker may have died before it stored the bytes, and then estimates again
    expect(await signed({...intent, max_fee_per_gas: '1' + '000000000'})).toEqual(first)
    expect(await world.journal()).toHaveLength(count)
    await world.db.rows(`update app.payout set status = 'paying' where id = $1`, [payout])
    const replaced = await signed({...intent, ...higherFees})
    expect(replaced).toMatchObject({amount: '990', max_fee_per_gas: '2250000000', gas_limit: 21_000})
    expect((await read(replaced.raw)).nonce).toBe(intent.nonce)
    expect(await signed(intent)).toEqual(first)
    expect(await signed({...intent, max_fee_per_gas: '2300000000'})).toEqual(replaced)
    await refused({...intent, ...higherFees, nonce: nonce++}, 'settlement_changed')
  })

  test('that is unknown, or in another state, is refused', async () => {
    await refused(pay(randomUUID()), 'unknown_settlement')
    const merchant = await world.merchant()
    await world.deposit(merchant.address, 1000n)
    const pending = await world.request(merchant, 'ETH')
    await refused(pay(pending), 'wrong_state')
    expect((await world.custody.ask('/check', {payout_id: pending})).body).toEqual({ok: true})
    await world.db.rows(`select app.cancel_payout($1, $2)`, [merchant.id, pending])
    await refused(pay(pending), 'wrong_state')
    expect((await world.custody.ask('/check', {payout_id: pending})).body).toMatchObject({
      ok: false,
      code: 'wrong_state',
    })
    await refused(pay(await forged(merchant, {status: 'paying'})), 'wrong_state')
    await refused(pay(await forged(merchant, {status: 'completed'})), 'wrong_state')
  })

  test('to an address that is not whitelisted now for its merchant and chain is refused', async () => {
    const merchant = await world.merchant({whitelisted: false})
    const payout = await world.swept(merchant)
    await refused(pay(payout), 'not_whitelisted')
    await world.whitelist((await world.merchant()).id, merchant.payoutAddress)
    await world.whitelist(null, merchant.payoutAddress)
    await world.whitelist(merchant.id, merchant.payoutAddress, 'POLYGON')
    await refused(pay(payout), 'not_whitelisted')
    await world.whitelist(merchant.id, merchant.payoutAddress, 'ETH', '1 hour')
    await refused(pay(payout), 'not_whitelisted')
    expect((await world.custody.ask('/check', {payout_id: payout})).body).toMatchObject({code: 'not_whitelisted'})
    await world.db.rows('update custody.whitelist set active_at = clock_timestamp() where merchant_id = $1', [
      merchant.id,
    ])
    await signed(pay(payout))
  })

  test.each([
    ['0x000000000000000000000000000000000000dEaD', 'an address that coins are burned with'],
    ['0x0000000000000000000000000000000000000001', 'a precompile, or a contract of the protocol'],
    [getAddress(usdc), 'the contract of USDC on ETH'],
  ])('to %s, where it would be lost, is refused, also if that is whitelisted', async (address, what) => {
    const merchant = await world.merchant()
    await world.db.rows(`select app.set_payout_address($1, 'ETH', $2)`, [merchant.id, address])
    await world.whitelist(merchant.id, address)
    const payout = await world.swept(merchant)
    expect(await refused(pay(payout), 'destination_not_payable')).toBe(
      `the destination is ${what}: what is paid there is lost`,
    )
    expect((await world.custody.ask('/check', {payout_id: payout})).body).toMatchObject({
      code: 'destination_not_payable',
    })
  })

  test('whose address left the whitelist gets no first signature, but a replacement once it was signed', async () => {
    const merchant = await world.merchant()
    const [before, after] = [await world.swept(merchant), await world.swept(merchant)]
    const intent = pay(before)
    await signed(intent)
    await world.db.rows('update custody.whitelist set removed_at = clock_timestamp() where merchant_id = $1', [
      merchant.id,
    ])
    await refused(pay(after), 'not_whitelisted')
    await signed({...intent, ...higherFees})
  })

  test('to an address of this service is refused, even if it is whitelisted', async () => {
    const merchant = await world.merchant()
    await world.deposit(merchant.address, 1000n)
    for (const address of [merchant.address, world.treasury, merchant.address.toLowerCase()]) {
      await world.whitelist(merchant.id, address)
      await refused(pay(await forged(merchant, {address})), 'not_whitelisted')
    }
  })

  test('whose amount is not the net is refused', async () => {
    await world.db.rows('alter table app.payout drop constraint payout_check')
    const merchant = await world.merchant()
    await world.deposit(merchant.address, 1000n)
    await refused(pay(await forged(merchant, {net: 991})), 'amount_not_net')
    await refused(pay(await forged(merchant, {net: 989})), 'amount_not_net')
  })

  test('of more than the final deposits of its merchant in its token is refused', async () => {
    const merchant = await world.merchant()
    await world.deposit((await world.merchant()).address, 10_000n)
    await world.deposit(merchant.address, 10_000n, {token: 'USDC'})
    await world.deposit(merchant.address, 989n)
    const payout = await forged(merchant)
    expect(await refused(pay(payout), 'exceeds_received')).toBe(
      'the chain has 0.000000000000000989 ETH that this merchant received (final deposits); 0 are signed already, and 0.00000000000000099 more would exceed that',
    )
    await world.deposit(merchant.address, 1n, {final: false})
    await refused(pay(payout), 'exceeds_received')
    await world.finalise()
    await signed(pay(payout))
    await refused(pay(await forged(merchant, {gross: 2, fee: 0, net: 2})), 'exceeds_received')
  })

  test('counts earlier signatures of the same request', async () => {
    const merchant = await world.merchant()
    await world.deposit(merchant.address, 1500n)
    const intents = [pay(await forged(merchant)), pay(await forged(merchant))]
    for (const intent of intents) await world.forgeOutgoingPayment(intent)
    const results = await world.sign(...intents)
    await nextNonce()
    expect(results).toMatchObject([{ok: true}, {ok: false, code: 'exceeds_received'}])
  })

  test('that can never confirm makes room for another; one that may confirm, or did, does not', async () => {
    const merchant = await world.merchant()
    await world.deposit(merchant.address, 1000n)
    const reverted = pay(await forged(merchant))
    const {txid} = await signed(reverted)
    await world.include(txid, reverted.nonce, {success: false, final: false})
    const next = await forged(merchant)
    await refused(pay(next), 'exceeds_received')
    await world.finalise()
    const cancelled = pay(next)
    await signed(cancelled)
    const {txid: cancelTxid} = await signed(cancel({nonce: cancelled.nonce, ...higherFees}))
    const last = await forged(merchant)
    await refused(pay(last), 'exceeds_received')
    await world.include(cancelTxid, cancelled.nonce)
    const paid = pay(last)
    const {txid: paidTxid} = await signed(paid)
    const {txid: replacement} = await signed({...paid, ...higherFees})
    expect(replacement).not.toBe(paidTxid)
    await world.include(replacement, paid.nonce)
    await refused(pay(await forged(merchant, {gross: 100, fee: 1, net: 99})), 'exceeds_received')
  })

  test('above the limit for one payout, or for the day, is refused', async () => {
    const merchant = await world.merchant()
    await world.deposit(merchant.address, 3_000_000n, {token: 'USDC'})
    const of = (net: number) => forged(merchant, {token: 'USDC', gross: net, fee: 0, net})
    expect(await refused(pay(await of(1_000_001), tokenGas), 'above_limit')).toContain('ETH_PAYOUT_LIMIT')
    const intent = pay(await of(1_000_000), tokenGas)
    await signed(intent)
    const second = await of(600_000)
    expect(await refused(pay(second, tokenGas), 'daily_limit')).toContain('ETH_DAILY_LIMIT')
    expect((await world.custody.ask('/check', {payout_id: second})).body).toMatchObject({code: 'daily_limit'})
    await signed({...intent, ...higherFees, ...tokenGas}) // a replacement does not pay a second time
    await signed(pay(await of(400_000), tokenGas))
  })

  test('with a nonce that was signed for another purpose is refused', async () => {
    const merchant = await world.merchant()
    const [one, other] = [await world.swept(merchant), await world.swept(merchant)]
    const intent = pay(one)
    await signed(intent)
    await refused({...intent, ...higherFees, payout_id: other}, 'nonce_taken')
    const swept = sweepIntent(merchant.address, {token: 'USDC', amount: '5000000', nonce: nonce++, ...tokenGas})
    await signed(swept)
    await refused({...pay(other, higherFees), nonce: swept.nonce}, 'nonce_taken')
    await nextNonce()
    const free = cancel()
    await signed(free)
    await refused({...pay(other, higherFees), nonce: free.nonce}, 'nonce_taken')
    await refused({...swept, outgoing_payment_id: randomUUID(), ...higherFees, ...tokenGas}, 'nonce_taken')
  })

  test('with fees above the cap is refused', async () => {
    const payout = await world.swept(await world.merchant())
    await refused(pay(payout, {max_fee_per_gas: String(100n * gwei + 1n)}), 'fee_above_cap')
    await refused(pay(payout, {max_priority_fee_per_gas: '2000000001'}), 'fee_above_cap')
    // A contract may need any amount of gas: what counts is what it may cost (ETH_MAX_PAYMENT_FEE, 0.05 ETH).
    await refused(pay(payout, {max_fee_per_gas: String(100n * gwei), gas_limit: 500_001}), 'fee_above_cap')
    await signed(pay(payout, {max_fee_per_gas: String(100n * gwei), gas_limit: 500_000}))
  })
})

describe('a sweep', () => {
  test('of native coins goes from the address to the treasury, and a replacement may move less, never more', async () => {
    const {address, id} = await world.merchant()
    const intent = sweepIntent(address)
    const first = await signed(intent)
    expect(await read(first.raw)).toMatchObject({
      by: address,
      to: world.treasury.toLowerCase(),
      value: 500_000_000_000_000n,
      nonce: 0,
    })
    expect((await world.journal()).at(-1)).toMatchObject({
      subject_id: intent.outgoing_payment_id,
      merchant_id: id,
      source: address,
    })
    expect(await signed(intent)).toEqual(first)
    await refused({...intent, ...higherFees, amount: '500000000000001'}, 'settlement_changed')
    await refused({...intent, ...higherFees, nonce: 1}, 'settlement_changed')
    await refused({...intent, ...higherFees, address: (await world.merchant()).address}, 'settlement_changed')
    expect((await read((await signed({...intent, ...higherFees, amount: '400000000000000'})).raw)).value).toBe(
      400_000_000_000_000n,
    )
    await refused(sweepIntent(address, {amount: '0', nonce: 1}), 'settlement_changed')
    await refused(sweepIntent(address, {nonce: 1, gas_limit: 125_001}), 'sweep_too_dear')
  })

  test('of less than is worth a sweep is signed only if it is all that counts for the merchant on its address', async () => {
    const {address, id} = await world.merchant()
    const intent = sweepIntent(address, {token: 'USDC', amount: '500000', nonce, ...tokenGas})
    await refused(intent, 'sweep_too_small')
    await world.db.rows(
      `insert into app.holding (chain, address, token, merchant_id, amount) values ('ETH', $1, 'USDC', $2, 500000)`,
      [address, id],
    )
    await refused({...intent, amount: '499999'}, 'sweep_too_small')
    const first = await signed(intent)
    await world.db.rows(`update app.holding set amount = 900000 where address = $1`, [address]) // more has come meanwhile
    expect(await signed(intent)).toEqual(first)
    nonce++
  })

  test('of a token is relayed by the treasury, with one authorisation for all attempts', async () => {
    const {address} = await world.merchant()
    const intent = sweepIntent(address, {token: 'USDC', amount: '5000000', nonce: nonce++, ...tokenGas})
    const first = await signed(intent)
    const second = await signed({...intent, ...higherFees, ...tokenGas})
    const {by, to, value, data} = await read(first.raw)
    expect([by, to, value]).toEqual([world.treasury, usdc, 0n])
    expect((await read(second.raw)).data).toBe(data)
    const abi = parseAbi([
      'function receiveWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)',
    ])
    expect(decodeFunctionData({abi, data: data!}).args.slice(0, 6)).toEqual([
      address,
      world.treasury,
      5_000_000n,
      0n,
      2n ** 256n - 1n,
      authorisationNonce(intent.outgoing_payment_id),
    ])
    await refused({...intent, ...higherFees, ...tokenGas, amount: '4999999'}, 'settlement_changed')
  })

  test('of a foreign address, of the treasury, or of an unknown token is refused', async () => {
    await refused(sweepIntent(newAddress()), 'not_ours')
    await refused(sweepIntent(world.treasury), 'not_ours')
    await refused(sweepIntent(world.treasury, {token: 'DAI'}), 'unknown_settlement')
  })
})

describe('a cancel', () => {
  test('moves nothing, from the sender to itself, and replaces the signed transaction for fees an eighth higher', async () => {
    const payout = await world.swept(await world.merchant())
    const intent = pay(payout)
    await signed(intent)
    const asked = cancel({nonce: intent.nonce})
    await refused(asked, 'fee_too_low')
    const {needed} = await world.signForged(asked)
    expect(needed).toEqual({max_fee_per_gas: '2250000000', max_priority_fee_per_gas: '1125000000'})
    const cancelled = await signed({...asked, ...needed})
    expect(cancelled.amount).toBe('0')
    expect(await read(cancelled.raw)).toMatchObject({
      by: world.treasury,
      to: world.treasury.toLowerCase(),
      value: 0n,
      nonce: intent.nonce,
    })
    expect((await world.journal()).at(-1)).toMatchObject({kind: 'cancel', subject_id: payout})
    expect(await signed({...asked, ...needed})).toEqual(cancelled)
    await world.include(cancelled.txid, intent.nonce)
    await refused({...asked, max_fee_per_gas: '9000000000', max_priority_fee_per_gas: '8000000000'}, 'wrong_state')
  })

  test('of a nonce that is not next, of a foreign address, or that costs too much is refused', async () => {
    await refused(cancel({nonce: nonce + 1}), 'nonce_too_high')
    await refused(cancel({sender: newAddress(), nonce: 0}), 'not_ours')
    await refused(cancel({nonce, max_fee_per_gas: String(100n * gwei), gas_limit: 500_001}), 'fee_above_cap')
    const {address} = await world.merchant()
    await refused(cancel({sender: address, nonce: 1}), 'nonce_too_high')
    expect(await read((await signed(cancel({sender: address, nonce: 0}))).raw)).toMatchObject({
      by: address,
      to: address.toLowerCase(),
    })
  })
})

describe('a withdrawal', () => {
  const withdraw = (outgoing_payment_id: string, of: number, more: object = {}) => ({
    intent: 'withdraw',
    outgoing_payment_id,
    nonce: of,
    ...fees,
    ...more,
  })

  async function begun(recipient: string): Promise<{id: string; nonce: number}> {
    await world.db.rows(
      `insert into app.sender (chain, address, next_nonce) values ('ETH', $1, $2)
      on conflict (chain, address) do update set next_nonce = excluded.next_nonce`,
      [world.treasury, await nextNonce()],
    )
    const [row] = await world.db.rows<{id: string}>(`select app.begin_withdrawal('ETH', 'ETH', 700, $1, 100) as id`, [
      recipient,
    ])
    return {id: row!.id, nonce: nonce++}
  }

  test("goes only to the operator's whitelist, from the treasury, as it was begun", async () => {
    await world.deposit(world.treasury, 10n ** 18n)
    const recipient = newAddress()
    const {id, nonce: taken} = await begun(recipient)
    await refused(withdraw(id, taken), 'not_whitelisted')
    await world.whitelist((await world.merchant()).id, recipient)
    await refused(withdraw(id, taken), 'not_whitelisted')
    await world.whitelist(null, recipient)
    await refused(withdraw(id, taken + 1), 'settlement_changed')
    const first = await signed(withdraw(id, taken))
    expect(await read(first.raw)).toMatchObject({
      by: world.treasury,
      to: recipient.toLowerCase(),
      value: 700n,
      nonce: taken,
    })
    expect(await signed(withdraw(id, taken))).toEqual(first)
    await signed(withdraw(id, taken, higherFees))
    await world.db.rows('select app.cancel_outgoing_payment($1)', [id])
    await refused(withdraw(id, taken, higherFees), 'wrong_state')
    await refused(withdraw(randomUUID(), taken), 'unknown_settlement')
  })

  test('to an address of this service is refused', async () => {
    const {address} = await world.merchant()
    await world.whitelist(null, address)
    const {id, nonce: taken} = await begun(address)
    await refused(withdraw(id, taken), 'not_whitelisted')
  })

  test('to where it would be lost is refused, also if that is whitelisted', async () => {
    const burn = '0x000000000000000000000000000000000000dEaD'
    await world.whitelist(null, burn)
    const {id, nonce: taken} = await begun(burn)
    await refused(withdraw(id, taken), 'destination_not_payable')
  })
})
