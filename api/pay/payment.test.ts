// What the page shows where a number of confirmations makes a payment final, and where no public site shows
// transactions.
import {expect, test} from 'vitest'
import {readSettings} from '../../chains/settings.ts'
import {type Payment, shownOf} from './payment.ts'
import {voiceFor} from './voice.ts'

const payment: Payment = {
  chain: 'BTC',
  token: 'BTC',
  merchant_name: 'Shop',
  brand: {accent: null, site_url: null, help_url: null, has_logo: false, sites: []},
  address: 'tb1q',
  amount: '1',
  status: 'detected',
  amount_received: '0',
  amount_pending: '1',
  amount_missing: '0',
  confirmations: 2,
  late: false,
  txid: 'ab'.repeat(32),
  expires_at: new Date(Date.now() + 60_000).toISOString(),
  late_at: null,
  external_id: 'shop-1',
  return_url: null,
  created_at: new Date(Date.now() - 60_000).toISOString(),
  paid_at: null,
  network: null,
  pace: null,
  receipts: [],
  has_other: false,
  has_lost: false,
  late_is_pending: false,
}

test.each([
  ['testnet4', 2, 'Confirmations: 2 of 6.', `https://mempool.space/testnet4/tx/${payment.txid}`],
  ['testnet4', 9, 'Confirmations: 6 of 6.', `https://mempool.space/testnet4/tx/${payment.txid}`],
  ['signet', 1, 'Confirmations: 1 of 2.', `https://mempool.space/signet/tx/${payment.txid}`],
  ['regtest', 0, 'It is in no block yet.', null],
])('a payment on %s with %i confirmations is shown %s', async (network, confirmations, words, url) => {
  const settings = readSettings({BTC_NETWORK: network}).chains.get('BTC')!
  const shown = await shownOf({...payment, confirmations}, settings, voiceFor('en', undefined))
  expect([shown.text, shown.more]).toEqual(['1 BTC seen. You may close this page.', words])
  expect(shown.transaction_url).toBe(url)
})
