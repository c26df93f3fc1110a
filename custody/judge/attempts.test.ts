// What custody asks before each signature, about what it signed before.
import {randomUUID} from 'node:crypto'
import {expect, test} from 'vitest'
import {testDatabase} from '../../test/support/database.ts'
import {explaining, manyPayments, pagesOf} from '../../test/support/many-payments.ts'
import type {Journal} from '../journal/journal.ts'
import {findAttempts} from './attempts.ts'

test('with 40,000 payments, finding the attempts with some nonces or outputs, and their fates, reads few pages', async () => {
  const db = await manyPayments()
  try {
    const {pool: client, plan} = explaining(db)
    const journal = {checkAttempts: () => undefined} as unknown as Journal
    const nonces = Array.from({length: 10}, (_, n) => `0xA:${n}`)
    await findAttempts({client: client as never, journal}, 'ETH', nonces, randomUUID())
    expect(plan(), plan()).not.toMatch(/Seq Scan on (journal|journal_key|confirmed_tx)/)
    expect(pagesOf(plan()), plan()).toBeLessThan(500)
  } finally {
    await db.drop()
  }
})

test('what was signed on one chain is not signed on another', async () => {
  const db = await testDatabase()
  try {
    const payout = randomUUID()
    await db.rows(
      `insert into custody.journal (stream, seq, kind, subject_id, token, amount, destination, source, sender, nonce, txid, signed_at, hash)
       values ('ETH', 1, 'pay', $1, 'USDC', 5, '0xTheirs', '0xOurs', '0xOurs', 7, '0xtx', now(), '')`,
      [payout],
    )
    const context = {client: db.pool as never, journal: {checkAttempts: () => undefined} as unknown as Journal}
    expect(await findAttempts(context, 'ETH', [], payout)).toMatchObject([{txid: '0xtx', nonce: 7, amount: 5n}])
    const refused = findAttempts(context, 'POLYGON', ['0xOurs:7'], payout)
    await expect(refused).rejects.toMatchObject({code: 'settlement_changed', message: 'it was signed on ETH before'})
  } finally {
    await db.drop()
  }
})
