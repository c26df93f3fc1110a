// Histories with real processes: custody and a worker are killed with kill -9, at steps and at any moment, while blocks
// take nothing, fail transactions and are replaced. `npm run model -- --kill` runs it. After each history everything
// ends, and the chain paid what the database says, once.
import {setTimeout as sleep} from 'node:timers/promises'
import {expect, onTestFinished, test} from 'vitest'
import {newAddress} from '../../devnet/madeup/client.ts'
import {assertBooks} from '../support/books.ts'
import {chain, gross, MadeUpWorld} from '../support/madeup/world.ts'
import {until} from '../support/until.ts'
import type {Shop} from '../support/world.ts'
import {Random} from '../torture/random.ts'
import {Victim} from './victims.ts'

const given: {seed: number; histories: number; only?: number} = JSON.parse(
  process.env.MODEL_KILLS ?? `{"seed": ${Date.now() % 2 ** 31}, "histories": 2}`,
)
/** The local chain takes longer with each block. */
const historiesPerWorld = 20
const shops = 3
const steps = {
  jobs: [
    'payout: before check',
    'payout: before begin_sweeping',
    'send: before sign',
    'send: after sign',
    'send: after store',
    'send: before broadcast',
    'send: after broadcast',
  ],
  custody: [
    'custody: before journal',
    'custody: judged',
    'custody: after database',
    'custody: after file',
    'custody: before answer',
  ],
}
const counts = new Map<string, number>()
const count = (what: string) => counts.set(what, (counts.get(what) ?? 0) + 1)

interface Withdrawal {
  id: string
  to: string
}

class Killing {
  readonly world: MadeUpWorld
  readonly #victims: {custody: Victim; jobs: Victim}
  readonly #shops: Shop[] = []
  readonly #withdrawals: Withdrawal[] = []

  private constructor(world: MadeUpWorld) {
    this.world = world
    this.#victims = {custody: new Victim(world, 'custody', counts), jobs: new Victim(world, 'jobs', counts)}
  }

  static async open(): Promise<Killing> {
    const preload = new URL('kill.ts', import.meta.url).href
    const world = await MadeUpWorld.open({MADEUP_FEE_BUDGET: '1000000', NODE_OPTIONS: `--import=${preload}`})
    await world.give([world.treasury], 100_000n)
    await world.stopWorker()
    const killing = new Killing(world)
    for (let n = 0; n < shops; n++) killing.#shops.push(await world.shop())
    return killing
  }

  async close(): Promise<void> {
    await Promise.all(Object.values(this.#victims).map(victim => victim.end()))
    await this.world.close()
  }

  async run(random: Random): Promise<void> {
    const {world} = this
    await world.give(
      this.#shops.flatMap(({addresses}) => addresses),
      gross,
    )
    world.blockEveryMs = 1000 // a process starts again before what it signed expires
    await Promise.all([this.#ask(random.fork('users')), this.#disturb(random.fork('chain')), this.#kill(random)])
    world.held = 'nothing'
    world.blockEveryMs = 250
    await Promise.all(Object.values(this.#victims).map(victim => victim.calm()))
    await this.#sendAll()
    await this.#end()
    await this.#check()
  }

  async #ask(random: Random): Promise<void> {
    const {world} = this
    for (const shop of this.#shops) {
      await sleep(random.between(0, 600))
      const id = await world.request(shop, 'MADE', random.chance(0.4)).catch(ofHaltedChain)
      count(id ? 'payouts' : 'payouts refused: the chain is halted')
      if (id && random.chance(0.2)) await this.#cancel('select app.cancel_payout_by_operator($1)', id, random)
    }
    const to = newAddress()
    const id = await world.withdraw(to, BigInt(random.between(10, 99))).catch(ofHaltedChain)
    count(id ? 'withdrawals' : 'withdrawals refused: the chain is halted')
    if (!id) return
    this.#withdrawals.push({id, to})
    if (random.chance(0.3)) await this.#cancel('select app.cancel_outgoing_payment($1)', id, random)
  }

  /** Unless it is too late. */
  async #cancel(sql: string, id: string, random: Random): Promise<void> {
    await sleep(random.between(0, 1000))
    const done = await this.world.db.rows(sql, [id]).then(
      () => 'cancelled',
      () => 'refused to cancel',
    )
    count(done)
  }

  async #disturb(random: Random): Promise<void> {
    const {world} = this
    for (let n = 0; n < 4; n++) {
      world.held = random.pick(['nothing', 'nothing', 'payments', 'all'] as const)
      await sleep(random.between(100, 800))
      await this.#sendAll()
      const open = await this.#open()
      const some = open.filter(() => random.chance(0.5))
      if (random.chance(0.5)) {
        await world.client.rpc('devnet_reorg', [1, {inside: [some.map(({raw}) => raw), []]}])
        count('blocks replaced')
      } else if (random.chance(0.3)) {
        await world.client.mine(1, {failed: some.map(({txid}) => txid)})
        count('blocks in which transactions fail')
      }
    }
  }

  /** Whatever custody signed may have left it, also what a dead process did not store. */
  async #sendAll(): Promise<void> {
    const {client, db} = this.world
    const signed = await db.rows<{raw: string}>(
      'select raw from custody.journal where stream = $1 and lifetime_end > $2 order by seq',
      [chain, (await client.head()).height],
    )
    for (const {raw} of signed)
      await client.submit(raw).then(
        () => count('transactions sent by others'),
        () => {}, // it is in a block
      )
  }

  #open(): Promise<{txid: string; raw: string}[]> {
    return this.world.db.rows(
      `select o.txid, o.raw from app.outgoing_attempt o join app.outgoing_payment s on s.id = o.outgoing_payment_id where s.status <> 'final' order by 1`,
    )
  }

  async #kill(random: Random): Promise<void> {
    const one = async (name: 'custody' | 'jobs', choices: Random) => {
      for (let n = 0; n < 2; n++) {
        await sleep(choices.between(0, 500))
        if (choices.chance(0.6))
          (await this.#victims[name].dieAt(choices.pick(steps[name]))) || count('steps that were not reached in time')
        else await this.#victims[name].dieIn(choices.between(0, 700))
      }
    }
    await Promise.all([one('custody', random.fork('custody')), one('jobs', random.fork('jobs'))])
  }

  /** Everything ends once nobody dies; what was put off goes on now. */
  async #end(): Promise<void> {
    const {db} = this.world
    const unfinished = `
      select 'payout' as kind, id, status, waiting_reason, waiting_detail from app.payout where status not in ('completed', 'failed')
      union all select kind, id, status, waiting_reason, waiting_detail from app.outgoing_payment where status <> 'final'`
    const why = `
      select 'transaction', txid, subject_id::text, fate from app.attempt_fate where fate not in ('final', 'dead')
      union all select kind, subject, details::text, null from app.incident where resolved_at is null`
    let left: unknown[] = []
    await until(
      async () => {
        await db.rows(
          `update app.outgoing_payment set next_step_at = now() where status <> 'final' and next_step_at > now() + interval '1 s'`,
        )
        await this.#decide()
        for (const {id} of await db.rows(`select id from app.payout where status not in ('completed', 'failed')`))
          await this.world.wake(id)
        left = await db.rows(unfinished)
        return left.length === 0
      },
      {timeoutMs: 90_000, what: 'everything to end', intervalMs: 200},
    ).catch(async error => {
      throw new Error(`${error.message}: ${JSON.stringify([...left, ...(await db.rows(why))])}`)
    })
  }

  /**
   * What custody signed and nobody stored is in a block: the chain waits for an operator, who looks at the block and
   * goes on.
   */
  async #decide(): Promise<void> {
    const open = `select id from app.incident where kind = 'unknown_transaction' and resolved_at is null`
    for (const {id} of await this.world.db.rows(open)) {
      await this.world.db.rows(`select app.resolve_incident($1, 'kept')`, [id])
      count('unknown transactions decided')
    }
  }

  async #check(): Promise<void> {
    const {world} = this
    for (const {wrong} of Object.values(this.#victims)) expect(wrong).toBeUndefined()
    await assertBooks(world.db)
    expect(await world.db.rows('select * from audit.no_double_pay')).toEqual([])
    const [row] = await world.db.rows('select halted_at from chain.cursor where chain = $1', [chain])
    expect(row).toEqual({halted_at: null})
    await this.#paidOnce()
    for (const shop of this.#shops) {
      const paid = `select coalesce(sum(net), 0)::text as net from app.payout where status = 'completed' and merchant_id = $1`
      expect(String(await world.received(shop))).toBe((await world.db.rows(paid, [shop.id]))[0]!.net)
    }
    for (const {id, to} of this.#withdrawals) {
      const [ended] = await world.db.rows(
        'select outcome, amount::text as amount from app.outgoing_payment where id = $1',
        [id],
      )
      expect(String(await world.client.balance('MADE', to))).toBe(ended!.outcome === 'done' ? ended!.amount : '0')
    }
  }

  /** By custody's journal, and the blocks that were read. */
  async #paidOnce(): Promise<void> {
    const twice = await this.world.db.rows(
      `select j.subject_id, array_agg(i.txid) from custody.journal j join chain.confirmed_tx i on i.chain = j.stream and i.txid = j.txid
       where i.success and j.kind in ('pay', 'withdraw') group by j.subject_id having count(distinct i.txid) > 1`,
    )
    expect(twice).toEqual([])
  }
}

/** An incident stops what is asked anew. */
function ofHaltedChain(error: Error): undefined {
  if (!/are stopped: incident/.test(error.message)) throw error
}

test('with processes that are killed, each purpose is paid once at most, and everything ends', {
  timeout: given.histories * 120_000,
}, async () => {
  const {seed, histories, only} = given
  const seeds = new Random(seed)
  const chosen = only === undefined ? Array.from({length: histories}, (_, n) => n) : [only]
  const began = performance.now()
  let killing: Killing | undefined
  onTestFinished(async () => await killing?.close())
  for (const [done, n] of chosen.entries()) {
    if (done % historiesPerWorld === 0) {
      await killing?.close()
      killing = await Killing.open()
    }
    await killing!.run(seeds.fork(`history ${n}`)).catch(error => {
      throw new Error(`history ${n} failed; again: npm run model -- --kill --seed ${seed} --path ${n}`, {cause: error})
    })
    count('histories')
  }
  const each = Math.round((performance.now() - began) / chosen.length)
  const lines = [...counts].sort().map(([what, times]) => `${String(times).padStart(8)}  ${what}`)
  console.log([`seed ${seed}, ${chosen.length} histories with kill -9, ${each} ms each`, ...lines].join('\n'))
})
