// Withdrawals and payouts that an older copy of the database has begun, and that custody's journal continues.
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {assertBooks} from '../test/support/books.ts'
import {Money} from '../test/support/money.ts'

let money: Money

beforeAll(async () => {
  money = await Money.open()
  await money.topUp('ETH', 1_000_000)
  await money.topUp('USDC', 1_000_000)
})
afterEach(() => assertBooks(money.db))
afterAll(() => money.close())

/** An entry of custody's journal that the copy lacks. */
const entryOf = (subject_id: string, seq: number) => ({
  stream: 'ETH',
  seq,
  subject_id,
  merchant_id: null as string | null,
  token: 'ETH',
  source: money.treasury,
  sender: money.treasury,
  max_fee: 10,
  txid: money.newTxid(),
  raw: '0x02',
  hash: `${seq}`,
  signed_at: new Date().toISOString(),
  details: {max_fee_per_gas: '1', max_priority_fee_per_gas: '1', gas_limit: 10},
})

test('a withdrawal whose nonce a cancel used up is continued with the nonce that it was signed with since', async () => {
  const recipient = '0x52908400098527886E0F7030069857D2E4169EE7'
  const [begun] = await money.db.rows<{id: string}>(`select app.begin_withdrawal('ETH', 'ETH', 500, $1, 10) as id`, [
    recipient,
  ])
  const {id} = begun!
  const signed = [
    {kind: 'cancel', nonce: 0, destination: money.treasury, amount: 0},
    {kind: 'withdraw', nonce: 1, destination: recipient, amount: 500},
  ].map((entry, n) => ({...entryOf(id, n + 1), ...entry}))
  await money.db.rows('select custody.reconcile($1)', [JSON.stringify(signed)])
  const shown = await money.db.rows('select nonce, kind, cancelling, status from app.outgoing_payment order by nonce')
  expect(shown).toEqual([
    {nonce: 0, kind: 'cancel', cancelling: true, status: 'live'},
    {nonce: 1, kind: 'withdrawal', cancelling: false, status: 'live'},
    {nonce: 2, kind: 'cancel', cancelling: true, status: 'allocated'},
  ])
})

test.each(['the copy has', 'the copy lacks, too'])(
  'a payout that was cancelled since stays what it is: its payment, which %s, may be mined, or the cancel',
  async where => {
    const user = await money.merchant()
    await money.deposit(user.address, 1000)
    const payout = await money.claim(user)
    expect(await money.pay(payout)).toBeNull()
    const payment = await money.payment(payout)
    const [row] = await money.db.rows<{nonce: number; recipient: string}>(
      'select nonce, recipient from app.outgoing_payment where id = $1',
      [payment],
    )
    const has = where === 'the copy has'
    const pays = money.newTxid()
    if (has) await money.journal(payment, {kind: 'effect', txid: pays, amount: 990}) // and its worker has not stored it
    const [last] = await money.db.rows<{seq: number}>(
      `select coalesce(max(seq), 0)::int as seq from custody.journal where stream = 'ETH'`,
    )
    const of = {...row!, merchant_id: user.merchantId, token: 'USDC'}
    const pay = {
      ...entryOf(payout, last!.seq + 1),
      ...of,
      kind: 'pay',
      txid: pays,
      amount: 990,
      destination: of.recipient,
    }
    const details = {...pay.details, gross: '1000', fee: '10', fee_bps: 100}
    const cancel = {...entryOf(payout, last!.seq + 2), ...of, kind: 'cancel', amount: 0, destination: money.treasury}
    const missing = has ? [{...cancel, seq: last!.seq + 1}] : [{...pay, details}, cancel]
    await money.db.rows('select custody.reconcile($1)', [JSON.stringify(missing)])
    expect([await money.status(payout), await money.balance(user)]).toEqual(['paying', 0])
    const attempts = 'select kind from app.outgoing_attempt where outgoing_payment_id = $1 order by attempt'
    expect(await money.db.rows(attempts, [payment])).toEqual([{kind: 'effect'}, {kind: 'cancel'}])
    await money.mineFinally([pays])
    expect([await money.status(payout), await money.balance(user)]).toEqual(['completed', 0])
  },
)
