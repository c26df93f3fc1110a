// Custody is stopped between judging and the journal's commit, while it holds locks; or somebody else holds the row
// that it wants. Nobody waits for ever, nothing is signed for a payment that has ended, and the worker goes on by
// itself. custody/lock.test.ts has what each intent does.
import {once} from 'node:events'
import {readFileSync} from 'node:fs'
import path from 'node:path'
import {afterAll, beforeAll, describe, expect, test} from 'vitest'
import {ChainWriter, hashOf} from '../support/chain-writer.ts'
import {EvmWorld, ether} from '../support/evm/world.ts'
import {fees, higherFees, WrittenEvm} from '../support/evm/written-world.ts'
import {kill, stops} from '../support/processes.ts'
import {until} from '../support/until.ts'

/** As in custody/main.ts, and what a busy machine adds. */
const patienceMs = 10_000 + 5000

describe('custody stopped between judging and the commit', () => {
  let world: WrittenEvm
  let bitcoin: ChainWriter

  beforeAll(async () => {
    world = await WrittenEvm.open()
    bitcoin = await ChainWriter.open(world.db, 'BTC')
    await world.deposit(world.treasury, 10n * ether)
  })
  afterAll(async () => {
    await bitcoin?.close()
    await world?.close()
  })

  /** A payout whose payment has a nonce, and the intent to sign it. */
  async function begun(): Promise<{payout: string; intent: {nonce: number; [field: string]: unknown}}> {
    const payout = await world.swept(await world.merchant())
    await world.db.rows('select app.begin_payment($1, $2)', [payout, 21_000 * Number(fees.max_fee_per_gas)])
    const [row] = await world.db.rows<{nonce: number}>('select nonce from app.outgoing_payment where payout_id = $1', [
      payout,
    ])
    return {payout, intent: {intent: 'pay', payout_id: payout, nonce: row!.nonce, ...fees}}
  }

  const everythingSigned = async () => ({
    table: await world.journal(),
    file: readFileSync(path.join(world.home, 'custody', 'journal.jsonl'), 'utf8'),
  })

  /**
   * Stops custody after it has judged this intent, and ends the payment. Custody goes on once the end has gone through,
   * and dies without a signature. Resolves once another custody runs.
   */
  async function stopWhile(intent: object, end: () => Promise<unknown>, meanwhile: () => Promise<unknown>) {
    await world.filled() // so that the next transaction of custody is ours
    await world.killCustody()
    const custody = await world.startCustody({stopAt: 'custody: judged'})
    const before = await everythingSigned()
    const response = world.custody.ask('/sign', {intents: [intent]}).then(JSON.stringify, String)
    await stops(custody.pid!)
    const stoppedAt = performance.now()
    await meanwhile()
    const isOver = {ended: false}
    const ended = end().then(() => {
      isOver.ended = true
    })
    const waits = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    await until(async () => (await world.db.rows(waits)).length, {timeoutMs: 5000, what: 'the end to wait for custody'})
    await bitcoin.write({add: [[]]}) // other chains go on, with a payment of this one waiting
    expect(await bitcoin.finalise(bitcoin.head.height)).toBe(true)
    expect(isOver.ended).toBe(false)
    await ended
    expect(performance.now() - stoppedAt).toBeLessThan(patienceMs)
    expect(await everythingSigned()).toEqual(before)
    const exited = once(custody, 'exit', {signal: AbortSignal.timeout(20_000)})
    kill(custody.pid!, 'SIGCONT')
    expect(await exited).toEqual([70, null])
    expect(world.custody.log()).toContain('the database is away')
    expect(await response).not.toContain('raw')
    expect(await everythingSigned()).toEqual(before)
    await world.startCustody()
    expect(await everythingSigned()).toEqual(before)
  }

  test("an operator's cancel waits, goes through, and nothing is signed for the payout", async () => {
    const {payout, intent} = await begun()
    const another = await begun()
    const cancel = (of: string) => world.db.rows('select app.cancel_payout_by_operator($1)', [of])
    await stopWhile(
      intent,
      () => cancel(payout),
      () => cancel(another.payout), // other payments of the chain go on
    )
    expect(await world.payout(payout)).toMatchObject({status: 'failed', error_code: 'cancelled'})
    expect(await world.sign(intent)).toMatchObject([{ok: false, code: 'wrong_state'}])
    const cancelIntent = {intent: 'cancel', chain: 'ETH', sender: world.treasury, nonce: intent.nonce, ...fees}
    expect(await world.sign(cancelIntent)).toMatchObject([{ok: true}])
    expect(await world.sign({...cancelIntent, nonce: another.intent.nonce})).toMatchObject([{ok: true}])
  })

  test('a final block with another use of its nonce waits, ends it, and no replacement is signed', async () => {
    const {payout, intent} = await begun()
    expect(await world.sign(intent)).toMatchObject([{ok: true}])
    await stopWhile(
      {...intent, ...higherFees},
      () => world.include(hashOf('somebody with the key'), intent.nonce),
      async () => {},
    )
    expect(await world.payout(payout)).toMatchObject({status: 'failed'})
    const [row] = await world.db.rows('select status, outcome from app.outgoing_payment where payout_id = $1', [payout])
    expect(row).toEqual({status: 'final', outcome: 'conflicted'})
    expect(await world.sign({...intent, ...higherFees})).toMatchObject([{ok: false, code: 'wrong_state'}])
    const next = await begun()
    expect(await world.sign(next.intent)).toMatchObject([{ok: true}])
  })
})

test('the worker waits while somebody else holds the row of a payment, and goes on by itself: nothing is cancelled, nothing fails', async () => {
  const world = await EvmWorld.open()
  const client = await world.db.pool.connect()
  try {
    const worker = await world.startWorker({stopAt: 'send: before sign'})
    const shop = await world.openShop('ETH', [ether])
    const id = await world.request(shop, 'ETH', true)
    await stops(worker.pid!)
    await client.query('begin')
    await client.query('select from app.outgoing_payment for update')
    kill(worker.pid!, 'SIGCONT')
    const refused = async () =>
      (await world.db.rows(`select from custody.refusal where code = 'payment_locked'`)).length
    await until(refused, {timeoutMs: 20_000, what: 'custody to refuse'})
    await client.query('commit')
    const waits = async () => {
      const [sweep] = await world.outgoingPayments(id)
      return sweep?.waiting_reason === 'payment_locked' && sweep
    }
    const sweep = await until(waits, {timeoutMs: 20_000, what: 'the sweep to wait'})
    expect(sweep).toMatchObject({kind: 'sweep', status: 'allocated', cancelling: false})
    await world.becomes(id, 'completed', 60_000)
    const done = (await world.outgoingPayments(id)).map(({kind, outcome}) => `${kind} ${outcome}`)
    expect(done).toEqual(['sweep done', 'payout done'])
  } finally {
    client.release()
    await world.close()
  }
})
