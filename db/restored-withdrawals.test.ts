// Withdrawals that an older copy of the database has begun, and that custody's journal continues.
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {assertBooks} from '../test/support/books.ts'
import {Money} from '../test/support/money.ts'

let money: Money

beforeAll(async () => {
  money = await Money.open()
  await money.topUp('ETH', 1_000_000)
})
afterEach(() => assertBooks(money.db))
afterAll(() => money.close())

test('a withdrawal whose nonce a cancel used up is continued with the nonce that it was signed with since', async () => {
  const recipient = '0x52908400098527886E0F7030069857D2E4169EE7'
  const [begun] = await money.db.rows<{id: string}>(`select app.begin_withdrawal('ETH', 'ETH', 500, $1, 10) as id`, [
    recipient,
  ])
  const {id} = begun!
  const signed = [
    {kind: 'cancel', nonce: 0, destination: money.treasury, amount: 0},
    {kind: 'withdraw', nonce: 1, destination: recipient, amount: 500},
  ].map((entry, n) => ({
    stream: 'ETH',
    seq: n + 1,
    subject_id: id,
    merchant_id: null,
    token: 'ETH',
    source: money.treasury,
    sender: money.treasury,
    max_fee: 10,
    txid: money.newTxid(),
    raw: '0x02',
    hash: `${n + 1}`,
    signed_at: new Date().toISOString(),
    details: {max_fee_per_gas: '1', max_priority_fee_per_gas: '1', gas_limit: 10},
    ...entry,
  }))
  await money.db.rows('select custody.reconcile($1)', [JSON.stringify(signed)])
  const shown = await money.db.rows('select nonce, kind, cancelling, status from app.outgoing_payment order by nonce')
  expect(shown).toEqual([
    {nonce: 0, kind: 'sweep', cancelling: true, status: 'live'},
    {nonce: 1, kind: 'withdrawal', cancelling: false, status: 'live'},
    {nonce: 2, kind: 'sweep', cancelling: true, status: 'allocated'},
  ])
})
