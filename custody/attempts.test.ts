// What custody asks before each signature, about what it signed before.
import {randomUUID} from 'node:crypto'
import {expect, test} from 'vitest'
import {explaining, manyPayments, pagesOf} from '../test/support/many-payments.ts'
import {findAttempts} from './attempts.ts'
import type {Journal} from './journal.ts'

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
