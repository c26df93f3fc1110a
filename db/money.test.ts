// Everything that moves money, in any order: deposits, reorganisations, claims, allocation, sweeps, payments with every
// outcome, failures, cancels, withdrawals, and an operator's decisions about final deposits that are gone. After every
// step the books are right, and ledger and chain agree about each address. MONEY_STEPS=5000 takes more steps than the
// quick suite.
import fc from 'fast-check'
import {parseUnits} from 'viem'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {Database} from '../api/database.ts'
import {pageOfList} from '../api/page.ts'
import {partsList} from '../api/routes/payouts.ts'
import {assertBooks} from '../test/support/books.ts'
import {Money, networkFee} from '../test/support/money.ts'
import type {TestUser} from '../test/support/people.ts'

const steps = Number(process.env.MONEY_STEPS ?? 200)
const tokens = ['USDC', 'ETH'] as const

let money: Money
let api: Database
let world: World

beforeAll(async () => {
  money = await Money.open()
  api = new Database(money.db.url('sluice_api'), {max: 1})
  world = await World.create()
})
afterAll(async () => {
  await api.close()
  await money.close()
})

interface OutgoingPayment {
  id: string
  kind: string
  token: string
  amount: string
  sender: string
  nonce: number
  cancelling: boolean
}

/** What refuses a step in the way that it should. */
const refusals = ['SLPAY', 'SL422', 'SL404']

/** The amounts of what a payout is made of, as the API lists them. */
async function amountsOf(merchantId: string, payout: string): Promise<string[]> {
  const amounts: string[] = []
  for (let cursor: string | undefined; ; ) {
    const query = {limit: 2, cursor}
    const {deposits, next_cursor} = JSON.parse(await pageOfList(api, partsList, {merchantId, asked: {payout}, query}))
    amounts.push(...deposits.map((part: {amount: string}) => part.amount))
    if (next_cursor === null) return amounts
    cursor = next_cursor
  }
}

const pick = <T>(list: readonly T[], n: number): T | undefined => list[n % list.length]

class World {
  readonly merchants: TestUser[][] = []
  /** Users of the same merchants, for whom what arrives on the chain is unattributed until an operator decides. */
  readonly strangers: TestUser[] = []
  /** Deposits that left the chain and that an operator took back; they may return. */
  readonly #lost = new Map<string, {address: string; amount: number}>()
  /** Deposits that left the chain and that an operator decided to keep. */
  readonly #kept: {address: string; token: string; amount: number}[] = []

  /** Deposits that were collectable once. */
  readonly #collectable = new Set<string>()

  static async create(): Promise<World> {
    const world = new World()
    for (let n = 0; n < 2; n++) {
      const user = await money.merchant()
      world.merchants.push([user, await money.user(user.merchantId)])
      world.strangers.push(await money.user(user.merchantId, []))
    }
    await money.db.rows(`insert into custody.whitelist (chain, address) values ('ETH', '0xSender')`)
    await money.topUp('ETH', 2_000)
    await money.topUp('USDC', 500)
    for (const token of tokens) await money.db.rows(`select app.set_sweep_min('ETH', $1, 150)`, [token])
    return world
  }

  readonly actions: Record<string, (a: number, b: number, c: number) => Promise<unknown>> = {
    deposit: async (a, b, c) => {
      const transfers = Array.from({length: 1 + (c % 3)}, (_, n) => {
        const {address} = pick(this.merchants.flat(), a + n)!
        return {txid: money.newTxid(), token: pick(tokens, b)!, amount: BigInt(20 + (c % 400)), recipient: address}
      })
      await money.block(transfers, [])
    },
    topUp: async (a, b) =>
      money.block(
        [{txid: money.newTxid(), token: pick(tokens, a)!, amount: BigInt(50 + b), recipient: money.treasury}],
        [],
      ),
    finalise: async a => money.finalise(Math.min((await this.#finalHeight()) + 1 + (a % 4), money.eth.head.height)),
    finaliseAll: async () => money.finalise(),
    depositToStranger: async (a, b, c) => {
      const {address: recipient} = pick(this.strangers, a)!
      await money.block(
        [{txid: money.newTxid(), token: pick(tokens, b)!, amount: BigInt(20 + (c % 400)), recipient}],
        [],
      )
    },
    credit: async a => this.#decide(a, 'credit_unattributed($1)'),
    return: async a => this.#decide(a, `return_unattributed($1, '0xSender')`),
    beginReturns: async a => {
      const due = await money.db.rows<{deposit_id: string; token: string; amount: string; step: string}>(
        'select * from app.due_return order by deposit_id',
      )
      for (const {deposit_id, token, amount, step} of due.slice(0, 1 + (a % 20))) {
        const moved = Number(amount) - (token === 'ETH' ? networkFee : 0)
        if (step === 'sweep') await money.work('begin_return_sweep', deposit_id, moved, networkFee)
        else await money.work('begin_return_withdrawal', deposit_id, networkFee)
      }
    },
    fold: () => money.work('fold_balances', 5),
    setSweepMin: (a, b) => money.db.rows(`select app.set_sweep_min('ETH', $1, $2)`, [pick(tokens, a), 1 + (b % 400)]),

    block: async (a, b, c) => {
      const {address} = pick(this.merchants.flat(), a)!
      if (c % 2) await money.work('block_address', 'ETH', pick(tokens, b), address, 'it is frozen')
    },
    unblock: async (a, b) => {
      const {address} = pick(this.merchants.flat(), a)!
      await money.work('unblock_address', 'ETH', pick(tokens, b), address)
    },
    unblockAll: async () => money.db.rows('select app.unblock_address(chain, token, address) from app.blocked_address'),

    /** Blocks that are not final leave; some of what they held comes back in another block. */
    reorg: async (a, b) => {
      const depth = Math.min(1 + (a % 3), money.eth.head.height - (await this.#finalHeight()))
      const gone = money.eth.blocks.slice(money.eth.blocks.length - depth)
      const stays = (_: unknown, n: number) => (b >> n) % 2 === 0
      const transfers = gone.flatMap(block => block.transfers).filter(stays)
      const confirmedTxs = gone
        .flatMap(block => block.confirmedTxs)
        .filter(({txid}, n) => stays(txid, n) && this.#inOrder(gone, txid, stays))
      const swept = ({txid}: {txid: string}) =>
        !gone.some(block => block.confirmedTxs.some(i => i.txid === txid)) || confirmedTxs.some(i => i.txid === txid)
      const all = gone.flatMap(block => block.transfers)
      const sweeps = all.filter(transfer => confirmedTxs.some(({txid}) => txid === transfer.txid))
      const rest = transfers.filter(transfer => swept(transfer) && !sweeps.includes(transfer))
      await money.eth.write({drop: depth, add: [{transfers: [...rest, ...sweeps], confirmedTxs}]})
    },

    claim: async (a, b, c) => {
      const [user] = pick(this.merchants, a)!
      const token = pick(tokens, b)!
      if (c % 2) return money.claim(user!, token)
      return money.withoutAllocation(user!, token, () => money.claim(user!, token)) // everything is left to a job
    },
    allocate: async (a, b, c) => money.allocate(pick(this.merchants, a)![0]!, 1 + (c % 3), pick(tokens, b)),

    sweep: async (a, b) => {
      const payout = pick(await this.#payouts('pending', 'sweeping'), a)
      if (payout) await money.work('begin_sweeping', payout.id)
      const addresses = pick(this.merchants, b)!.map(({address}) => address)
      return money.sweep(payout?.id ?? null, addresses, payout?.token ?? pick(tokens, b))
    },
    pay: async a => {
      const payout = pick(await this.#payouts('pending', 'sweeping', 'swept'), a)
      return payout && money.pay(payout.id)
    },
    attempt: async (a, b) => {
      for (const outgoingPayment of (await this.#outgoingPayments()).slice(0, 1 + (a % 4)))
        await this.#attempt(outgoingPayment, b)
    },
    fail: async (a, b) => {
      const payout = pick(await this.#payouts('pending', 'sweeping', 'swept', 'paying'), a)
      if (payout && b % 3 === 0) await money.work('fail_payout', payout.id, 'timed_out', 'because')
    },
    cancel: async (a, b) => {
      const payout = pick(await this.#payouts('pending', 'sweeping', 'swept', 'paying', 'completed'), a)
      if (payout && b % 3 === 0) await money.db.rows('select app.cancel_payout_by_operator($1)', [payout.id])
    },
    cancelOutgoingPayment: async (a, b) => {
      const outgoingPayment = pick(await this.#outgoingPayments(), a)
      if (outgoingPayment && b % 3 === 0) await money.work('cancel_outgoing_payment', outgoingPayment.id)
    },
    withdraw: async (a, b) => {
      const values = [pick(tokens, a), 1 + (b % 60), networkFee]
      if (b % 2) await money.db.rows(`select app.begin_withdrawal('ETH', $1, $2, '0xOperator', $3)`, values)
    },

    /** Attempts whose nonces are next are mined, with or without their effect. */
    mine: async (a, b, c) => {
      for (let n = 0; n <= a % 4; n++) {
        const attempt = pick(await this.#minable(), b + n)
        if (!attempt) return
        const cannotFail = attempt.kind === 'sweep' && attempt.token === 'ETH'
        await money.mine([attempt.txid], {success: cannotFail || (b + n) % 5 > 0, fee: c % 10})
      }
    },
    /** The same, by a thief who has our key. */
    conflict: async (a, b) => {
      const attempt = pick(await this.#minable(), a)
      if (!attempt || b % 3 > 0) return
      await money.block([], [{txid: money.newTxid(), account: attempt.account, nonce: attempt.nonce, fee: 3n}])
      await money.resolve('kept')
    },

    /** A final deposit is gone, and an operator decides. */
    lose: async (a, b) => {
      const finalHeight = await this.#finalHeight()
      const deposits = money.eth.blocks.slice(-12).flatMap(block => (block.height > finalHeight ? [] : block.transfers))
      const lost = pick(
        deposits.filter(({recipient}) => recipient !== money.treasury),
        a,
      )
      if (!lost) return
      const {txid, recipient: address, token = 'USDC'} = lost
      const amount = Number(lost.amount)
      await money.lose(txid, finalHeight)
      const decision = b % 3 ? 'reorged' : 'kept'
      if (decision === 'kept') this.#kept.push({address, token, amount})
      else if (token === 'USDC') this.#lost.set(txid, {address, amount})
      await money.resolve(decision)
    },
    giveBack: async (a, b) => {
      const lost = pick([...this.#lost], a)
      if (!lost) return
      const [txid, {address, amount}] = lost
      this.#lost.delete(txid)
      await money.block([{txid, amount: BigInt(b % 3 ? amount : amount + 1), recipient: address}], [])
    },
  }

  async #decide(n: number, how: string): Promise<void> {
    const all = await money.db.rows<{id: string}>(
      'select d.id from app.deposit d where not d.credited and d.user_id is not null order by d.seq',
    )
    const one = pick(all, n)
    if (one) await money.db.rows(`select app.${how}`, [one.id])
  }

  async #attempt(outgoingPayment: OutgoingPayment, n: number): Promise<void> {
    const isNative = outgoingPayment.kind === 'sweep' && outgoingPayment.token === 'ETH' // which may move less, to pay a higher fee
    const amount = isNative
      ? String(Math.max(Number(outgoingPayment.amount) - 10 * (n % 3), 1))
      : outgoingPayment.amount
    await money.attempt(outgoingPayment.id, {
      kind: outgoingPayment.cancelling ? 'cancel' : 'effect',
      price: 1 + (n % 3),
      amount,
    })
  }

  /** From now on nothing fails. */
  async finish(): Promise<void> {
    const next = async () => {
      await this.actions.beginReturns!(19, 0, 0)
      return this.#outgoingPayments()
    }
    for (let open = await next(); open.length; open = await next()) {
      for (const outgoingPayment of open) await this.#attempt(outgoingPayment, 0)
      for (let next = await this.#minable(); next.length; next = await this.#minable())
        await money.mine([next.at(-1)!.txid])
      await money.finalise()
    }
    for (const [user] of this.merchants) for (const token of tokens) while (await money.allocate(user!, 100, token));
  }

  async step(name: string, a: number, b: number, c: number): Promise<void> {
    try {
      await this.actions[name]!(a, b, c)
    } catch (error) {
      if (!refusals.includes((error as {code?: string}).code ?? '')) throw error
    }
  }

  /**
   * No payout has claimed what is held back. What was collectable stays so, and what has become so was worth a sweep:
   * its address has received the minimum (with what was lost since), or a sweep of it was begun. (The books have the
   * reverse.) Only on a blocked address is held back again what is still there, claimed or not.
   */
  async checkCollectable(): Promise<void> {
    const rows = await money.db.rows<{
      deposit: string
      isHeldBack: boolean
      isClaimed: boolean
      wasWorthIt: boolean
      isBlocked: boolean
    }>(
      `select d.id || ' ' || d.finalised_at as deposit, d.held_back as "isHeldBack", d.settlement_id is not null as "isClaimed",
         app.is_blocked(d.chain, d.token, d.address) as "isBlocked",
         exists (select from app.outgoing_payment s where (s.chain, s.source, s.token, s.kind) = (d.chain, d.address, d.token, 'sweep'))
           or a.sweep_min <= (select sum(o.amount) from app.deposit o
             where (o.chain, o.address, o.token) = (d.chain, d.address, d.token) and o.status in ('final', 'reorged') and o.credited) as "wasWorthIt"
       from app.deposit d join app.asset a using (chain, token) where d.status = 'final' and d.credited`,
    )
    for (const {deposit, isHeldBack, isClaimed, wasWorthIt, isBlocked} of rows) {
      const before = this.#collectable.has(deposit)
      const shouldBeFree = isHeldBack && !isBlocked
      expect(
        [shouldBeFree && isClaimed, shouldBeFree && before, !isHeldBack && !before && !wasWorthIt],
        deposit,
      ).toEqual([false, false, false])
      if (!isHeldBack) this.#collectable.add(deposit)
    }
  }

  /**
   * As merchants read it, page by page, what a payout is made of adds up to its gross; of one that still collects there
   * is no list, not even a part.
   */
  async checkParts(): Promise<void> {
    const payouts = await money.db.rows<{
      id: string
      merchantId: string
      gross: string
      decimals: number
      state: 'failed' | 'collecting' | 'whole'
    }>(
      `select p.id, p.merchant_id as "merchantId", p.gross, a.decimals, case when p.status = 'failed' then 'failed'
         when exists (select from app.claim c where c.payout_id = p.id and c.finished_at is null) then 'collecting' else 'whole' end as state
       from app.payout p join app.asset a using (chain, token) order by p.seq`,
    )
    for (const {id, merchantId, gross, decimals, state} of payouts) {
      const amounts = amountsOf(merchantId, id)
      if (state === 'collecting') await expect(amounts).rejects.toMatchObject({code: 'SLCOL'})
      else if (state === 'failed') expect(await amounts).toEqual([])
      else expect((await amounts).reduce((sum, amount) => sum + parseUnits(amount, decimals), 0n)).toBe(BigInt(gross))
    }
  }

  /** What each address holds, by the final blocks. */
  async onChain(): Promise<Record<string, number>> {
    const finalHeight = await this.#finalHeight()
    const sums: Record<string, number> = {}
    const add = (address: string, token: string, amount: number) => {
      sums[`${address} ${token}`] = (sums[`${address} ${token}`] ?? 0) + amount
    }
    const attempts = new Map((await this.#attempts()).map(attempt => [attempt.txid, attempt]))
    for (const {address, token, amount} of this.#kept) add(address, token, amount)
    for (const {height, transfers, confirmedTxs} of money.eth.blocks) {
      if (height > finalHeight) break
      for (const {recipient, token = 'USDC', amount} of transfers) add(recipient, token, Number(amount))
      for (const {txid, account, success, fee} of confirmedTxs) {
        add(account!, 'ETH', -Number(fee))
        const attempt = attempts.get(txid)
        if (attempt && success) add(attempt.source, attempt.token, -Number(attempt.amount))
      }
    }
    return Object.fromEntries(Object.entries(sums).filter(([, sum]) => sum !== 0))
  }

  /** The same, by the ledger. */
  async inLedger(): Promise<Record<string, number>> {
    const rows = await money.db.rows<{held: string; amount: string}>(
      `select coalesce(address, $1) || ' ' || token as held, sum(amount) as amount from app.ledger_entry
       where account in ('address', 'treasury') group by 1 having sum(amount) <> 0`,
      [money.treasury],
    )
    return Object.fromEntries(rows.map(({held, amount}) => [held, Number(amount)]))
  }

  async #finalHeight(): Promise<number> {
    const [row] = await money.db.rows<{height: number}>('select final_height as height from chain.cursor')
    return row!.height
  }

  #payouts(...statuses: string[]): Promise<{id: string; token: string}[]> {
    return money.db.rows('select id, token from app.payout where status = any($1) order by seq', [statuses])
  }

  #outgoingPayments(): Promise<OutgoingPayment[]> {
    return money.db.rows(`select * from app.outgoing_payment where status <> 'final' order by nonce, id`)
  }

  #attempts(): Promise<
    {txid: string; token: string; amount: string; source: string; kind: string; account: string; nonce: number}[]
  > {
    return money.db.rows(
      `select o.txid, o.token, case o.kind when 'cancel' then 0 else o.amount end as amount, o.source, s.kind, s.fee_payer as account, s.nonce
       from app.outgoing_attempt o join app.outgoing_payment s on s.id = o.outgoing_payment_id order by o.stored_at`,
    )
  }

  /** A chain takes a sender's nonces in their order. */
  async #minable() {
    const next = new Map<string, number>()
    for (const {confirmedTxs} of money.eth.blocks)
      for (const {account} of confirmedTxs) next.set(account!, (next.get(account!) ?? 0) + 1)
    return (await this.#attempts()).filter(({account, nonce}) => nonce === (next.get(account) ?? 0))
  }

  /** Whether every earlier transaction of the sender stays, too. */
  #inOrder(gone: Money['eth']['blocks'], txid: string, stays: (_: unknown, n: number) => boolean): boolean {
    const all = gone.flatMap(block => block.confirmedTxs)
    const {account, nonce} = all.find(confirmedTx => confirmedTx.txid === txid)!
    return all.every((other, n) => other.account !== account || other.nonce! >= nonce! || stays(other, n))
  }
}

test('after any operations with money, in any order, the books balance and agree with the chain', {
  timeout: 180_000 + steps * 200,
}, async () => {
  const often = [
    'deposit',
    'finalise',
    'finaliseAll',
    'claim',
    'allocate',
    'sweep',
    'pay',
    'pay',
    'credit',
    'return',
    'beginReturns',
    'attempt',
    'attempt',
    'mine',
    'mine',
    'mine',
  ]
  const name = fc.constantFrom(...Object.keys(world.actions), ...often)
  const list = fc.array(fc.tuple(name, fc.nat(1000), fc.nat(1000), fc.nat(1000)), {
    minLength: steps / 10,
    maxLength: steps / 10,
  })
  await fc.assert(
    fc.asyncProperty(list, async list => {
      for (const [name, a, b, c] of list) {
        await world.step(name, a, b, c)
        await assertBooks(money.db)
        expect(await world.inLedger(), `${name} ${a} ${b} ${c}`).toEqual(await world.onChain())
        await world.checkCollectable()
      }
      await world.checkParts()
    }),
    {numRuns: 10, endOnFailure: true},
  )
  const reached = await money.db.rows(
    `select coalesce(s.outcome, p.error_code, p.status) as outcome, coalesce(s.kind, 'unpaid') as kind, count(*)::int
     from app.outgoing_payment s full join app.payout p on p.id = s.payout_id and s.kind = 'payout' group by 1, 2 order by 1, 2`,
  )
  const decided = await money.db.rows(
    `select u.decision, coalesce(w.outcome, w.status, s.outcome, s.status) as outcome, count(*)::int from app.unattributed_decision u
     left join app.outgoing_payment s on s.id = u.sweep_id left join app.outgoing_payment w on w.id = u.withdrawal_id group by 1, 2 order by 1, 2`,
  )
  if (steps > 200) console.table([...reached, ...decided])

  await world.actions.unblockAll!(0, 0, 0)
  await world.finish()
  await assertBooks(money.db)
  await world.checkParts()
  expect(await world.inLedger()).toEqual(await world.onChain())
  expect(await money.db.rows('select * from app.claim where finished_at is null')).toEqual([])
  const stillHeld = `select sum(u.amount) from app.unattributed_decision u join app.deposit d on d.id = u.deposit_id
    where app.is_held(u) and (d.status <> 'final' or u.withdrawal_id is not null) and (d.chain, d.token) = (t.chain, t.token)` // waits for the operator
  expect(await money.db.rows(`select * from app.treasury t where reserved <> coalesce((${stillHeld}), 0)`)).toEqual([])
})

test('concurrent workers, requests, operators and an indexer keep the books right, without a deadlock', {
  timeout: 180_000 + steps * 200,
}, async () => {
  const ofChain = [
    'deposit',
    'depositToStranger',
    'topUp',
    'finalise',
    'finaliseAll',
    'reorg',
    'mine',
    'mine',
    'mine',
    'conflict',
    'lose',
    'giveBack',
  ]
  const ofOthers = Object.keys(world.actions).filter(name => !ofChain.includes(name))
  const number = fc.nat(1000)
  const lane = async (names: string[], length: number) => {
    const list = fc.sample(fc.tuple(fc.constantFrom(...names), number, number, number), length)
    for (const [name, a, b, c] of list) await world.step(name, a, b, c)
  }
  let done = false
  const audit = async () => {
    while (!done) await assertBooks(money.db)
  }
  const others = Array.from({length: 4}, () => lane([...ofOthers, 'pay', 'attempt'], steps))
  const work = Promise.all([lane(ofChain, steps), ...others]).finally(() => {
    done = true
  })
  await Promise.all([work, audit()])
  await world.finish()
  await assertBooks(money.db)
  await world.checkParts()
  expect(await world.inLedger()).toEqual(await world.onChain())
})
