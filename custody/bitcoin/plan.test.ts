// What custody signs on Bitcoin and what it refuses: a real custody, asked over its socket, on a real database. Each
// refusal is recorded, and nothing is signed. The tests have the token, and the worker's rights in the database.
import {randomUUID} from 'node:crypto'
import {afterAll, beforeAll, describe, expect, test} from 'vitest'
import {destinations, newTxid, WrittenBitcoin} from '../../test/support/bitcoin/written-world.ts'
import {fees} from '../../test/support/evm/written-world.ts'

let btc: WrittenBitcoin

beforeAll(async () => {
  btc = await WrittenBitcoin.open({BTC_PAYOUT_LIMIT: 'BTC:0.01', BTC_MAX_FEE_RATE: '50'})
})
afterAll(() => btc.close())

const pay = (payout_id: string, inputs: string[], fee = 1000) => ({
  intent: 'pay_outputs',
  payout_id,
  inputs,
  fee: String(fee),
})
const sweep = (inputs: string[], fee = 1000, outgoing_payment_id: string = randomUUID()) => ({
  intent: 'sweep_outputs',
  outgoing_payment_id,
  chain: 'BTC',
  inputs,
  fee: String(fee),
})
const cpfp = (outgoing_payment_id: string, inputs: string[], fee = 1000, more: object = {}) => ({
  intent: 'cpfp_outputs',
  outgoing_payment_id,
  chain: 'BTC',
  inputs,
  fee: String(fee),
  ...more,
})
const withdraw = (outgoing_payment_id: string, inputs: string[], fee = 1000) => ({
  intent: 'withdraw_outputs',
  outgoing_payment_id,
  inputs,
  fee: String(fee),
})
const cancel = (inputs: string[], fee = 2000, outgoing_payment_id: string = randomUUID()) => ({
  intent: 'cancel_outputs',
  outgoing_payment_id,
  chain: 'BTC',
  inputs,
  fee: String(fee),
})

/** Expects a refusal with this code, recorded with the unchanged request, and no signature. */
async function refused(
  intent: Record<string, unknown>,
  code: string,
): Promise<{message: string; needed?: {fee: string}}> {
  const before = await btc.journal()
  const result = await btc.signForged(intent)
  expect(result).toMatchObject({ok: false, code})
  expect(Object.keys(result)).not.toContain('raw')
  expect(await btc.journal()).toEqual(before)
  const [noted] = await btc.db.rows('select code, message, request from custody.refusal order by id desc limit 1')
  expect(noted).toEqual({code, message: result.message, request: intent})
  return result
}

async function signed(intent: Record<string, unknown>) {
  const result = await btc.signForged(intent)
  expect(result).toMatchObject({ok: true})
  return result as {ok: true; txid: string; raw: string; amount: string; fee: string; vsize: number}
}

const lastEntry = async () => (await btc.journal()).at(-1)!

describe('a payout', () => {
  test('is one transaction that pays its net to its address, and the rest after the fee to the treasury', async () => {
    const merchant = await btc.merchant()
    const [own, ofTreasury] = [await btc.output(merchant.bitcoin, 100_000n), await btc.output(btc.treasury, 50_000n)]
    const payout = await btc.swept(merchant)
    expect((await btc.custody.ask('/check', {payout_id: payout})).body).toEqual({ok: true})
    const intent = pay(payout, [own, ofTreasury])
    const {txid, raw, amount, fee, vsize} = await signed(intent)
    const found = btc.read(raw)
    expect(found).toEqual({
      txid,
      inputs: [own, ofTreasury],
      outputs: [
        [merchant.payoutAddress, 99_000n],
        [btc.treasury, 50_000n],
      ],
      fee: 1000n,
      vsize,
    })
    expect([amount, fee]).toEqual(['99000', '1000'])
    expect(await lastEntry()).toMatchObject({
      stream: 'BTC',
      kind: 'pay',
      subject_id: payout,
      merchant_id: merchant.id,
      token: 'BTC',
      amount: '99000',
      destination: merchant.payoutAddress,
      source: btc.treasury,
      sender: btc.treasury,
      nonce: null,
      conflict_key: own,
      max_fee: '1000',
      txid,
      raw,
      details: {
        inputs: [own, ofTreasury],
        network_fee: '1000',
        vsize,
        change: '50000',
        gross: '100000',
        fee: '1000',
        fee_bps: 100,
      },
    })
  })

  test('can go to every kind of address', async () => {
    for (const [kind, make] of Object.entries(destinations)) {
      const merchant = await btc.merchant(make())
      const own = await btc.output(merchant.bitcoin, 100_000n)
      const {raw} = await signed(pay(await btc.swept(merchant), [own]))
      expect(btc.read(raw).outputs, kind).toEqual([[merchant.payoutAddress, 99_000n]])
    }
  })

  test('gets the same bytes again, and other bytes only for a higher fee with the same inputs', async () => {
    const merchant = await btc.merchant()
    const [own, ...more] = await btc
      .outputs(btc.treasury, [40_000n, 30_000n, 20_000n])
      .then(async ofTreasury => [await btc.output(merchant.bitcoin, 100_000n), ...ofTreasury])
    const payout = await btc.swept(merchant)
    const intent = pay(payout, [own!, more[0]!])
    const first = await signed(intent)
    const count = (await btc.journal()).length
    expect(await signed(intent)).toEqual(first)
    // The worker may have died before it stored the bytes, and then estimates again.
    for (const fee of [0, 999, 1001, 1100]) expect(await signed({...intent, fee: String(fee)})).toEqual(first)
    expect(await btc.journal()).toHaveLength(count)
    await btc.db.rows(`update app.payout set status = 'paying' where id = $1`, [payout])

    const second = await signed({...intent, fee: '1300'})
    expect(btc.read(second.raw)).toMatchObject({fee: 1300n, inputs: [own, more[0]]})
    expect(await signed(intent)).toEqual(first)
    expect(await signed({...intent, fee: '1305'})).toEqual(second)
    const third = await signed(pay(payout, [own!, more[1]!, more[0]!, more[2]!], 3000))
    expect(btc.read(third.raw)).toMatchObject({
      outputs: [
        [merchant.payoutAddress, 99_000n],
        [btc.treasury, 88_000n],
      ],
    })
    for (const inputs of [[own!], [own!, ...more.slice(0, 2)], more, [more[0]!, own!, ...more.slice(1)]])
      await refused(pay(payout, inputs, 9000), 'settlement_changed')
  })

  test("is replaced for at least the node's minimum: a higher fee rate, and the cost of relaying it", async () => {
    const merchant = await btc.merchant()
    const own = await btc.output(merchant.bitcoin, 100_000n)
    const ofTreasury = await btc.outputs(btc.treasury, Array<bigint>(10).fill(10_000n))
    const payout = await btc.swept(merchant)
    const before = await signed(pay(payout, [own, ofTreasury[0]!], 4000))
    const {needed} = await refused(pay(payout, [own, ...ofTreasury], 5000), 'fee_too_low')
    expect(Number(needed!.fee)).toBeGreaterThan(4000 + 1.02 * 820) // ten more inputs: the fee rate decides, not the relay fee
    await refused(pay(payout, [own, ...ofTreasury], Number(needed!.fee) - 1), 'fee_too_low')
    const {fee, vsize} = await signed(pay(payout, [own, ...ofTreasury], Number(needed!.fee)))
    expect(Number(fee) / vsize).toBeGreaterThan(4000 / before.vsize)
  })

  test('is never signed with another first input, however the inputs overlap', async () => {
    const merchant = await btc.merchant()
    const [a, b, c] = (await btc.outputs(merchant.bitcoin, [100_000n, 100_000n, 100_000n])) as [string, string, string]
    const payout = await btc.swept(merchant)
    await signed(pay(payout, [a]))
    await refused(pay(payout, [b]), 'settlement_changed')
    await refused(pay(payout, [b, c], 40_000), 'settlement_changed')
    await refused(pay(payout, [b, a], 4000), 'settlement_changed')
  })

  test('with outputs of another merchant is refused', async () => {
    const [merchant, other] = [await btc.merchant(), await btc.merchant()]
    const [own, theirs] = [await btc.output(merchant.bitcoin, 100_000n), await btc.output(other.bitcoin, 100_000n)]
    const payout = await btc.swept(merchant)
    await refused(pay(payout, [theirs]), 'not_ours')
    await refused(pay(payout, [own, theirs]), 'not_ours')
    await signed(pay(payout, [own]))
    await refused(pay(payout, [own, theirs], 4000), 'not_ours') // nor later
  })

  test('with outputs that are not final, not ours, of another token, or unknown is refused', async () => {
    const merchant = await btc.merchant()
    await btc.output(merchant.bitcoin, 100_000n)
    const payout = await btc.swept(merchant)
    const early = await btc.output(merchant.bitcoin, 100_000n, {final: false})
    await refused(pay(payout, [early]), 'not_ours')
    await btc.finalise()
    const [known] = await btc.outputs(merchant.bitcoin, [100_000n])
    const stranger = await btc.output(destinations.p2wpkh(), 100_000n)
    const odd = await btc.output(merchant.bitcoin, 100_000n, {token: 'RUNE'})
    for (const wrong of [stranger, odd, `${newTxid()}:0`, known!.replace(/0$/, '1')]) {
      expect((await refused(pay(payout, [known!, wrong]), 'not_ours')).message).toContain(wrong)
    }
    await signed(pay(payout, [early]))
  })

  test('with spent outputs is refused once the spending transaction is final', async () => {
    const merchant = await btc.merchant()
    const [a, b] = (await btc.outputs(merchant.bitcoin, [100_000n, 100_000n])) as [string, string]
    const payout = await btc.swept(merchant)
    await btc.include(newTxid(), [b])
    await refused(pay(payout, [b]), 'wrong_state')
    await refused(pay(payout, [a, b]), 'wrong_state')
    const intent = pay(payout, [a])
    const {txid} = await signed(intent)
    await btc.include(txid, [a])
    await refused({...intent, fee: '4000'}, 'wrong_state')
    expect((await signed(intent)).txid).toBe(txid) // a signature that was given out before does no harm
  })

  test("of more than the merchant's final deposits is refused, however much the treasury has", async () => {
    const merchant = await btc.merchant()
    const ofTreasury = await btc.outputs(btc.treasury, [900_000n, 900_000n])
    const payout = await btc.swept(merchant)
    await refused(pay(payout, [ofTreasury[0]!]), 'exceeds_received')
    await btc.output((await btc.merchant()).bitcoin, 100_000n)
    await btc.output(merchant.bitcoin, 99_000n)
    await signed(pay(payout, [ofTreasury[0]!]))
    await refused(pay(await btc.swept(merchant, 1000n), [ofTreasury[1]!]), 'exceeds_received')
  })

  test('is refused if its amount is not the net or above the limit, or its address is ours, of another network, or not whitelisted', async () => {
    await btc.db.rows('alter table app.payout drop constraint payout_check')
    const merchant = await btc.merchant()
    const inputs = await btc.outputs(merchant.bitcoin, [3_000_000n])
    await refused(pay(await btc.swept(merchant, 100_000n, {net: 99_001n}), inputs), 'amount_not_net')
    await refused(pay(await btc.swept(merchant, 1_100_000n), inputs), 'above_limit')
    const mainnet = 'bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu'
    for (const address of [merchant.bitcoin, btc.treasury, btc.treasury.toUpperCase(), mainnet, destinations.p2tr()]) {
      await refused(pay(await btc.swept(merchant, 100_000n, {address}), inputs), 'not_whitelisted')
      await btc.whitelist(merchant.id, address, 'BTC')
      const now = pay(await btc.swept(merchant, 100_000n, {address}), inputs)
      if (address.startsWith('bcrt1p')) await signed(now)
      else await refused(now, 'not_whitelisted')
    }
  })

  test('in another state, or on another chain than the intent, is refused', async () => {
    const merchant = await btc.merchant()
    const inputs = await btc.outputs(merchant.bitcoin, [100_000n])
    await refused(pay(randomUUID(), inputs), 'unknown_settlement')
    for (const status of ['pending', 'sweeping', 'paying', 'completed', 'failed'])
      await refused(pay(await btc.swept(merchant, 100_000n, {status}), inputs), 'wrong_state')
    const payout = await btc.swept(merchant)
    await refused({intent: 'pay', payout_id: payout, nonce: 0, ...fees}, 'unknown_settlement')
    const onEth = await btc.swept(merchant, 100_000n, {chain: 'ETH', token: 'ETH'})
    await refused(pay(onEth, inputs), 'unknown_settlement')
  })

  test('that takes more than its outputs hold, or leaves dust, is refused; a payout without change is accepted', async () => {
    const merchant = await btc.merchant()
    const inputs = await btc.outputs(merchant.bitcoin, [100_000n])
    const payout = await btc.swept(merchant)
    await refused(pay(payout, inputs, 1001), 'insufficient_inputs')
    await refused(pay(payout, inputs, 999), 'dust')
    await refused(pay(payout, inputs, 707), 'dust')
    const {raw} = await signed(pay(payout, inputs, 706))
    expect(btc.read(raw).outputs[1]).toEqual([btc.treasury, 294n])
    expect(btc.read((await signed(pay(payout, inputs, 1000))).raw).outputs).toHaveLength(1)
    const ofTreasury = await btc.outputs(btc.treasury, [10_000n])
    await btc.output(merchant.bitcoin, 1000n)
    const tiny = await btc.swept(merchant, 294n, {fee: 1n, net: 293n})
    await refused(pay(tiny, ofTreasury), 'dust')
  })

  test('with a fee above the cap is refused, at first and for replacements', async () => {
    const merchant = await btc.merchant()
    const inputs = await btc.outputs(merchant.bitcoin, [100_000n, 500_000n])
    const payout = await btc.swept(merchant)
    const cap = 50 * 209 // for two inputs and two outputs
    expect((await refused(pay(payout, inputs, cap + 1), 'fee_above_cap')).message).toContain('BTC_MAX_FEE_RATE')
    await signed(pay(payout, inputs, cap - 1000))
    await refused(pay(payout, inputs, cap + 1), 'fee_above_cap')
    await signed(pay(payout, inputs, cap))
  })
})

describe('an output', () => {
  test('that was signed for one payout is not signed for another, nor for any other purpose', async () => {
    const merchant = await btc.merchant()
    const [a, b, c] = (await btc.outputs(merchant.bitcoin, [100_000n, 100_000n, 300_000n])) as [string, string, string]
    const [one, other] = [await btc.swept(merchant), await btc.swept(merchant)]
    await signed(pay(one, [a, b]))
    for (const inputs of [[a], [b], [c, b], [b, c]]) await refused(pay(other, inputs, 2000), 'nonce_taken')
    await refused(sweep([b]), 'nonce_taken')
    const intents = [sweep([c]), pay(other, [c])]
    for (const intent of intents.toReversed()) await btc.forgeOutgoingPayment(intent)
    const results = await btc.sign(...intents)
    expect(results).toMatchObject([{ok: true}, {ok: false, code: 'nonce_taken'}]) // in one request, too
  })

  test('is free again once every signature with it is dead: another final transaction has spent its first input', async () => {
    const merchant = await btc.merchant()
    const [a, b, c] = (await btc.outputs(merchant.bitcoin, [100_000n, 100_000n, 100_000n])) as [string, string, string]
    const [one, other] = [await btc.swept(merchant), await btc.swept(merchant)]
    const first = await signed(pay(one, [a]))
    await btc.db.rows(`update app.payout set status = 'paying' where id = $1`, [one])
    const second = await signed(pay(one, [a, b], 2000))
    await btc.include(first.txid, [a], {final: false})
    await refused(pay(other, [b]), 'nonce_taken')
    await btc.finalise()
    await signed(pay(other, [b])) // the second transaction, the only one with this output, cannot be mined any more
    expect(second.txid).not.toBe(first.txid)
    const last = await btc.swept(merchant, 10_000n)
    await signed(pay(last, [c], 500))
    await refused(pay(await btc.swept(merchant, 100_000n), [c], 500), 'exceeds_received') // the first payment is not dead
  })
})

describe('a payout that can never confirm', () => {
  test('makes room for another when a final cancel, or other transaction, spent its first input; it is not signed again', async () => {
    const merchant = await btc.merchant()
    const [a, b] = (await btc.outputs(merchant.bitcoin, [100_000n, 100_000n])) as [string, string]
    const payouts = [await btc.swept(merchant, 150_000n), await btc.swept(merchant, 150_000n)] as [string, string]
    await signed(pay(payouts[0], [a, b]))
    const next = pay(payouts[1], [await btc.output(btc.treasury, 500_000n)])
    await refused(next, 'exceeds_received')
    const cancelled = await signed(cancel([a, b], 3000))
    await refused(next, 'exceeds_received')
    await btc.include(cancelled.txid, [a, b], {final: false})
    await refused(next, 'exceeds_received')
    await btc.finalise()
    await refused(pay(payouts[0], [a, b], 9000), 'wrong_state')
    await refused(pay(payouts[0], [await btc.output(btc.treasury, 500_000n)]), 'settlement_changed')
    await signed(next)
  })
})

describe('a sweep', () => {
  test('takes outputs of one merchant to the treasury, less the fee', async () => {
    const merchant = await btc.merchant()
    const inputs = await btc.outputs(merchant.bitcoin, [70_000n, 30_000n])
    const intent = sweep(inputs)
    const {raw, amount, txid, vsize} = await signed(intent)
    expect(btc.read(raw)).toMatchObject({inputs, outputs: [[btc.treasury, 99_000n]], fee: 1000n})
    expect(amount).toBe('99000')
    expect(await lastEntry()).toMatchObject({
      kind: 'sweep',
      subject_id: intent.outgoing_payment_id,
      merchant_id: merchant.id,
      amount: '99000',
      destination: btc.treasury,
      conflict_key: inputs[0],
      txid,
      details: {inputs, network_fee: '1000', vsize, change: '0'},
    })
    expect(await signed(intent)).toMatchObject({txid})
    expect((await signed({...intent, fee: '2000'})).amount).toBe('98000')
    const [more] = await btc.outputs(merchant.bitcoin, [50_000n])
    expect((await signed({...intent, inputs: [...inputs, more!], fee: '4000'})).amount).toBe('146000')
    await refused({...intent, inputs: [more!], fee: '9000'}, 'settlement_changed')
  })

  test('of outputs of the treasury, of two merchants, or of less than fee and dust is refused', async () => {
    const [one, other] = [await btc.merchant(), await btc.merchant()]
    const [a, b] = [await btc.output(one.bitcoin, 10_000n), await btc.output(other.bitcoin, 10_000n)]
    await refused(sweep([await btc.output(btc.treasury, 10_000n)]), 'not_ours')
    await refused(sweep([a, await btc.output(btc.treasury, 10_000n)]), 'not_ours')
    await refused(sweep([a, b]), 'not_ours')
    const small = await btc.output(one.bitcoin, 1200n)
    await refused(sweep([small], 1000), 'dust')
    await refused(sweep([small], 1201), 'insufficient_inputs')
  })
})

describe('a CPFP child', () => {
  test('takes exactly the unconfirmed outputs it was begun with to the treasury, and is recorded as a sweep', async () => {
    const merchant = await btc.merchant()
    const [a, b, c] = (await btc.unconfirmed([70_000n, 30_000n, 20_000n].map(value => [merchant.bitcoin, value]))) as [
      string,
      string,
      string,
    ]
    const id = await btc.cpfp([a, b], 200)
    for (const inputs of [[b, a], [a], [a, b, c], [a, c], [c]]) await refused(cpfp(id, inputs), 'settlement_changed')
    const {raw, amount, txid, vsize} = await signed(cpfp(id, [a, b]))
    expect(btc.read(raw)).toMatchObject({inputs: [a, b], outputs: [[btc.treasury, 99_000n]], fee: 1000n})
    expect(amount).toBe('99000')
    expect(await lastEntry()).toMatchObject({
      kind: 'sweep',
      subject_id: id,
      merchant_id: merchant.id,
      amount: '99000',
      destination: btc.treasury,
      conflict_key: a,
      txid,
      details: {inputs: [a, b], network_fee: '1000', vsize, change: '0'},
    })
    expect(await signed(cpfp(id, [a, b]))).toMatchObject({txid})
  })

  test('can spend an output of the treasury', async () => {
    const inputs = await btc.unconfirmed([[btc.treasury, 70_000n]])
    const {raw} = await signed(cpfp(await btc.cpfp(inputs, 200), inputs))
    expect(btc.read(raw).outputs).toEqual([[btc.treasury, 69_000n]])
  })

  test('that was not begun, is over, or belongs to another chain is refused', async () => {
    const merchant = await btc.merchant()
    const inputs = await btc.unconfirmed([[merchant.bitcoin, 70_000n]])
    await refused(cpfp(randomUUID(), inputs), 'unknown_settlement')
    const id = await btc.cpfp(inputs, 200)
    await btc.db.rows(`update app.outgoing_payment set status = 'final' where id = $1`, [id])
    await refused(cpfp(id, inputs), 'wrong_state')
    const other = await btc.unconfirmed([[merchant.bitcoin, 70_000n]])
    await refused(cpfp(await btc.cpfp(other, 200, 'ETH'), other), 'unknown_settlement')
  })

  test('of outputs of others, of two owners, of two transactions, of another token, or unknown to the source is refused', async () => {
    const [one, other] = [await btc.merchant(), await btc.merchant()]
    const refusedWith = async (inputs: string[]) => await refused(cpfp(await btc.cpfp(inputs, 200), inputs), 'not_ours')
    await refusedWith([`${newTxid()}:0`])
    await refusedWith(
      await btc.unconfirmed([
        [one.bitcoin, 50_000n],
        [other.bitcoin, 50_000n],
      ]),
    )
    await refusedWith(
      await btc.unconfirmed([
        [one.bitcoin, 50_000n],
        [btc.treasury, 50_000n],
      ]),
    )
    await refusedWith([
      ...(await btc.unconfirmed([[one.bitcoin, 50_000n]])),
      ...(await btc.unconfirmed([[one.bitcoin, 50_000n]])),
    ])
    await refusedWith(await btc.unconfirmed([[one.bitcoin, 50_000n]], {token: 'TOKEN'}))
  })

  test('pays for parent and child, up to the cap for both together', async () => {
    const merchant = await btc.merchant()
    const inputs = await btc.unconfirmed([[merchant.bitcoin, 100_000n]])
    const id = await btc.cpfp(inputs, 1000)
    const cap = 50 * (110 + 1000) // for one input and one output, and the parent
    await refused(cpfp(id, inputs, cap + 1), 'fee_above_cap')
    await signed(cpfp(id, inputs, cap - 1000))
    await refused(cpfp(id, inputs, cap + 1), 'fee_above_cap')
    await signed(cpfp(id, inputs, cap))
    const small = await btc.unconfirmed([[merchant.bitcoin, 1293n]])
    await refused(cpfp(await btc.cpfp(small, 1000), small), 'dust')
  })

  test('serves no other purpose, and no other intent can spend unconfirmed outputs', async () => {
    const merchant = await btc.merchant()
    const inputs = await btc.unconfirmed([[merchant.bitcoin, 100_000n]])
    const id = await btc.cpfp(inputs, 200)
    await refused(sweep(inputs, 1000, id), 'not_ours')
    await refused(cancel(inputs, 1000, id), 'not_ours')
    await btc.db.rows('update app.outgoing_payment set cancelling = false where id = $1', [id])
    await btc.output(merchant.bitcoin, 100_000n)
    await refused(pay(await btc.swept(merchant), inputs), 'not_ours')
    await signed(cpfp(id, inputs))
    await btc.mine(inputs)
    await refused(pay(await btc.swept(merchant), inputs, 3000), 'nonce_taken')
  })

  test('becomes an ordinary sweep of the same outputs once they are final: it replaces the child, and never conflicts with it', async () => {
    const merchant = await btc.merchant()
    const inputs = await btc.unconfirmed([[merchant.bitcoin, 100_000n]])
    const id = await btc.cpfp(inputs, 1000)
    await signed(cpfp(id, inputs))
    await btc.mine(inputs, {final: false})
    const {fee} = await signed(cpfp(id, inputs, 2000))
    expect(fee).toBe('2000')
    await btc.finalise()
    await refused(cpfp(id, inputs, 3000), 'not_ours')
    await btc.noteAgain(inputs) // like a block that is written again
    await refused(cpfp(id, inputs, 3000), 'not_ours')
    await refused(sweep(inputs, 3000), 'nonce_taken')
    const {raw} = await signed(sweep(inputs, 3000, id))
    expect(btc.read(raw)).toMatchObject({inputs, outputs: [[btc.treasury, 97_000n]]})
    await refused(sweep(inputs, 50 * 110 + 1, id), 'fee_above_cap')
  })
})

describe('a cancel', () => {
  test('replaces a payment: all its inputs go to the treasury, for a higher fee than the payment', async () => {
    const merchant = await btc.merchant()
    const [a, b] = (await btc.outputs(merchant.bitcoin, [100_000n, 50_000n])) as [string, string]
    const payout = await btc.swept(merchant)
    const paid = await signed(pay(payout, [a, b]))
    const {needed} = await refused(cancel([a, b], 1000), 'fee_too_low')
    const asked = cancel([a, b], Number(needed!.fee))
    const {raw, amount, txid} = await signed(asked)
    expect(txid).not.toBe(paid.txid)
    expect(amount).toBe('0')
    expect(btc.read(raw)).toMatchObject({inputs: [a, b], outputs: [[btc.treasury, 150_000n - BigInt(needed!.fee)]]})
    expect(await lastEntry()).toMatchObject({
      kind: 'cancel',
      subject_id: payout,
      conflict_key: a,
      amount: '0',
      destination: btc.treasury,
      details: {change: String(150_000n - BigInt(needed!.fee))},
    })
    expect(await signed(asked)).toMatchObject({txid})
  })

  test('that leaves out an input of the payment, or has another first input, is refused: the payment could still confirm', async () => {
    const merchant = await btc.merchant()
    const [a, b, c] = (await btc.outputs(merchant.bitcoin, [100_000n, 50_000n, 50_000n])) as [string, string, string]
    const payout = await btc.swept(merchant)
    await signed(pay(payout, [a, b]))
    for (const outgoing_payment_id of [payout, randomUUID()]) {
      await refused(cancel([a], 5000, outgoing_payment_id), 'settlement_changed')
      await refused(cancel([a, c], 5000, outgoing_payment_id), 'settlement_changed')
    }
    for (const inputs of [[b], [b, a], [c, a, b]]) {
      await refused(cancel(inputs, 5000), 'nonce_taken')
      await refused(cancel(inputs, 5000, payout), 'settlement_changed')
    }
    const other = await btc.merchant()
    await refused(cancel([a, b, await btc.output(other.bitcoin, 10_000n)], 5000), 'not_ours')
  })

  test('of an outgoing payment that was never signed takes its outputs, and nothing else can use them afterwards', async () => {
    const merchant = await btc.merchant()
    const [a] = (await btc.outputs(merchant.bitcoin, [100_000n])) as [string]
    const asked = cancel([a])
    await signed(asked)
    expect(await lastEntry()).toMatchObject({
      kind: 'cancel',
      subject_id: asked.outgoing_payment_id,
      merchant_id: merchant.id,
    })
    await refused(pay(await btc.swept(merchant), [a], 9000), 'nonce_taken')
  })
})

describe('a withdrawal', () => {
  /** Begins a withdrawal, like the owner of the database. */
  async function begun(recipient: string, firstInput: string, amount = 70_000): Promise<string> {
    const [row] = await btc.db.rows<{id: string}>(
      `insert into app.outgoing_payment (kind, chain, token, amount, source, recipient, fee_payer, first_input, max_fee)
       values ('withdrawal', 'BTC', 'BTC', $1, $2, $3, $2, $4, 1000) returning id`,
      [amount, btc.treasury, recipient, firstInput],
    )
    return row!.id
  }

  test("goes from the treasury's outputs to the operator's whitelist only, as it was begun", async () => {
    const recipient = destinations.p2wsh()
    const merchant = await btc.merchant()
    const [a, b] = (await btc.outputs(btc.treasury, [50_000n, 50_000n])) as [string, string]
    const own = await btc.output(merchant.bitcoin, 50_000n)
    const id = await begun(recipient, a)
    await btc.reserve([a, b], id)
    await refused(withdraw(id, [a, b]), 'not_whitelisted')
    await btc.whitelist(merchant.id, recipient, 'BTC')
    await refused(withdraw(id, [a, b]), 'not_whitelisted')
    await btc.whitelist(null, recipient, 'BTC')
    await refused(withdraw(id, [b, a]), 'settlement_changed')
    await refused(withdraw(id, [a, own]), 'not_ours')
    const {raw} = await signed(withdraw(id, [a, b]))
    expect(btc.read(raw).outputs).toEqual([
      [recipient, 70_000n],
      [btc.treasury, 29_000n],
    ])
    await signed(withdraw(id, [a, b], 3000))
    await btc.db.rows('update app.outgoing_payment set cancelling = true where id = $1', [id])
    await refused(withdraw(id, [a, b], 9000), 'wrong_state')
    await refused(withdraw(randomUUID(), [a, b]), 'unknown_settlement')
  })

  test('to an address of this service, or above the limit, is refused', async () => {
    const [a, b] = (await btc.outputs(btc.treasury, [50_000n, 2_000_000n])) as [string, string]
    const {bitcoin} = await btc.merchant()
    await btc.whitelist(null, bitcoin, 'BTC')
    await refused(withdraw(await begun(bitcoin, a, 10_000), [a]), 'not_whitelisted')
    const recipient = destinations.p2pkh()
    await btc.whitelist(null, recipient, 'BTC')
    await refused(withdraw(await begun(recipient, b, 1_000_001), [b]), 'above_limit')
  })
})

describe('the socket', () => {
  test('takes well-formed outputs, each once, up to 500, or refuses the whole request', async () => {
    const {bitcoin} = await btc.merchant()
    const good = sweep(await btc.outputs(bitcoin, [10_000n]))
    const [input] = good.inputs as [string]
    const before = await btc.journal()
    const bad = [
      {...good, inputs: []},
      {...good, inputs: [input, input]},
      {...good, inputs: [input.toUpperCase()]},
      {...good, inputs: [`0x${input}`]},
      {...good, inputs: [input.replace(':0', ':00')]},
      {...good, inputs: [input.replace(':0', '')]},
      {...good, inputs: Array.from({length: 501}, (_, vout) => `${newTxid()}:${vout}`)},
      {...good, fee: 1000},
      {...good, fee: '-1'},
      {...good, fee: '1.5'},
      {...good, chain: 'ETH'},
      {...good, outputs: []},
      {...good, destination: destinations.p2wpkh()},
    ]
    for (const one of bad) {
      const {status, body} = await btc.custody.ask('/sign', {intents: [good, one]})
      expect([status, body.error], JSON.stringify(one).slice(0, 200)).toEqual([400, 'invalid_request'])
    }
    expect(await btc.journal()).toEqual(before)
  })

  test('responds to a sweep of 500 outputs', async () => {
    const {bitcoin} = await btc.merchant()
    const inputs = await btc.outputs(bitcoin, Array<bigint>(500).fill(10_000n))
    const {raw, vsize} = await signed(sweep(inputs, 50_000))
    expect(btc.read(raw).inputs).toEqual(inputs)
    expect(vsize).toBeLessThan(100_000)
  })
})
