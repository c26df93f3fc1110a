// Payment requests against a model that was written without reading the SQL. Payers, the chain, operators, merchants
// and the clock act in any order. After every commit the state of every request follows from its payments, the balance
// is what was received, and there is no event about it. LIFE_STEPS=20000 takes more steps than the quick suite.
import fc from 'fast-check'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {assertBooks} from '../test/support/books.ts'
import type {TestTransfer} from '../test/support/chain-writer.ts'
import {Money} from '../test/support/money.ts'
import {PaymentRequests, type PaymentState} from '../test/support/payment-requests.ts'
import type {TestUser} from '../test/support/people.ts'

const steps = Number(process.env.LIFE_STEPS ?? 150)
const runs = Math.ceil(steps / 50)
const tokens = ['USDC', 'ETH'] as const
const longAgo = new Date('2020-01-01')
/** Less is no payment. Payments are of 5, 10, 15 …, and requests of 10, 20 … */
const smallest = 8

let money: Money
let requests: PaymentRequests
let world: World

beforeAll(async () => {
  money = await Money.open()
  requests = await PaymentRequests.open(money.db)
  await money.db.rows(`update app.asset set min_payment = ${smallest} where chain = 'ETH'`)
  world = await World.create()
})
afterAll(() => money.close())

interface Request {
  id: string
  merchantId: string
  address: string
  token: string
  amount: number
  tolerance: number
  /** When it expired or was cancelled, by the model's own clock. */
  expiresAt: number
  isCancelled: boolean
  /** Its last state in the database. */
  last: PaymentState | undefined
  /** The receipts of that state. */
  lastReceipts: string
}

interface Payment {
  id: string
  txid: string
  address: string
  token: string
  amount: number
  credited: boolean
  status: 'pending' | 'final' | 'reorged'
  /** When it was first seen, or earlier, if a block that held it says so. */
  cameAt: number
  seq: number
  /** The number of the finalisation that made it final. */
  finalisation: number
}

type Told = Pick<PaymentState, 'status' | 'late' | 'txid'> & {received: number; pending: number}

const pick = <T>(list: readonly T[], n: number): T | undefined => list[n % list.length]
const sum = (payments: Payment[]) => payments.reduce((total, {amount}) => total + amount, 0)
const placeOf = ({txid, outputIndex = 0}: TestTransfer) => `${txid}:${outputIndex}`

/** The model: requests, their payments, the chain and the clock. */
class Model {
  readonly requests: Request[] = []
  readonly payments = new Map<string, Payment>()
  now = 0
  finalHeight = 0

  /** Takes over the test's chain, without the places that an operator took back. */
  sync(takenBack = new Set<string>()): void {
    this.now += 1
    const here = new Map<string, {transfer: TestTransfer; height: number; time: Date | undefined}>()
    for (const {height, transfers, time} of money.eth.blocks)
      for (const transfer of transfers) {
        const {recipient, token = 'USDC'} = transfer
        here.set(`${placeOf(transfer)} ${recipient} ${token}`, {transfer, height, time})
      }
    for (const payment of this.payments.values()) {
      const isHere = here.has(payment.id)
      if (payment.status === 'final' && takenBack.has(payment.id.split(' ')[0]!)) payment.status = 'reorged'
      if (payment.status !== 'final') payment.status = isHere ? 'pending' : 'reorged'
    }
    for (const [id, {transfer, height, time}] of here) {
      const payment = this.payments.get(id) ?? this.#see(id, transfer)
      if (!payment || payment.status === 'final') continue
      payment.amount = Number(transfer.amount)
      if (time && time < new Date()) payment.cameAt = Number.NEGATIVE_INFINITY
      if (height > this.finalHeight) continue
      payment.status = 'final'
      payment.finalisation = this.now
    }
  }

  /** Payments are first seen in the order in which blocks have them. */
  #see(id: string, transfer: TestTransfer): Payment | undefined {
    const {txid, recipient: address, token = 'USDC', amount} = transfer
    const request = this.requests.find(request => request.address === address)
    if (!request) return
    const payment: Payment = {
      id,
      txid,
      address,
      token,
      amount: Number(amount),
      credited: token === request.token,
      status: 'pending',
      cameAt: this.now,
      seq: this.payments.size,
      finalisation: 0,
    }
    this.payments.set(id, payment)
    return payment
  }

  receiptsOf({address, token}: Request): Payment[] {
    return [...this.payments.values()].filter(
      payment => payment.address === address && payment.token === token && payment.status !== 'reorged',
    )
  }

  told(request: Request, isOver: boolean): Told {
    const isLate = ({cameAt}: Payment) => cameAt > request.expiresAt
    const receipts = this.receiptsOf(request)
    const pending = receipts.filter(({status}) => status === 'pending')
    const final = receipts.filter(({status}) => status === 'final')
    final.sort((a, b) => a.finalisation - b.finalisation || a.seq - b.seq)
    const {amount, tolerance} = request
    const isEnough = (came: number) => came >= smallest && amount - came <= tolerance // a hundredth of the amount is less than 1
    const enough = final.findIndex((_, n) => isEnough(sum(final.slice(0, n + 1))))
    const told = {
      received: sum(final),
      pending: sum(pending),
      late: final.some(isLate),
      txid: final.at(enough)?.txid ?? null, // at(-1), the last one, where it is not enough
    }
    return {
      ...told,
      status: this.#statusOf(
        enough >= 0,
        sum(final),
        pending,
        pending.some(p => !isLate(p)),
        isOver && (request.isCancelled ? 'cancelled' : 'expired'),
      ),
    }
  }

  #statusOf(isPaid: boolean, final: number, pending: Payment[], mayBeInTime: boolean, over: string | false): string {
    if (isPaid) return 'paid'
    if (final + sum(pending) < smallest) return over || 'awaiting'
    return !over || mayBeInTime || final < smallest ? 'detected' : 'underpaid'
  }

  /** What a merchant received of a token. */
  receivedBy(merchantId: string, token: string): number {
    const addresses = this.requests.filter(request => request.merchantId === merchantId).map(({address}) => address)
    return sum(
      [...this.payments.values()].filter(
        p => p.token === token && p.credited && p.status === 'final' && addresses.includes(p.address),
      ),
    )
  }
}

class World {
  readonly model = new Model()
  readonly merchants: TestUser[] = []
  /** What was on the chain, is not now, and may come back. */
  readonly #gone = new Map<string, TestTransfer>()
  #highest = 0
  /** How often requests went from one status to another. */
  readonly seen: Record<string, number> = {}

  static async create(): Promise<World> {
    const world = new World()
    for (let n = 0; n < 2; n++) world.merchants.push(await money.merchant())
    await money.topUp('ETH', 1_000_000)
    await money.topUp('USDC', 1_000_000)
    world.model.finalHeight = money.eth.head.height
    for (let n = 0; n < 3; n++) await world.actions.ask!(n, n, n)
    return world
  }

  get #recent(): Request[] {
    return this.model.requests.slice(-6)
  }

  readonly actions: Record<string, (a: number, b: number, c: number) => Promise<unknown>> = {
    ask: async (a, b, c) => {
      if (this.model.requests.length >= 490) return
      const {merchantId} = pick(this.merchants, a)!
      const token = b % 4 ? 'USDC' : 'ETH'
      const amount = 10 * (1 + (c % 5))
      const coins = (BigInt(amount) * (token === 'ETH' ? 1n : 10n ** 12n)).toString().padStart(19, '0')
      const {id, address} = await requests.create(money.api, merchantId, {
        currency: token === 'ETH' ? 'ETH' : 'ETH-USDC',
        amount: `${coins.slice(0, -18)}.${coins.slice(-18)}`.replace(/0+$/, ''),
        tolerance: `${10 * (a % 3)}%`,
      })
      this.model.requests.push({
        id,
        merchantId,
        address,
        token,
        amount,
        tolerance: amount * 0.1 * (a % 3),
        expiresAt: Number.POSITIVE_INFINITY,
        isCancelled: false,
        last: undefined,
        lastReceipts: '[]',
      })
    },

    pay: async (a, b, c) => this.#block([this.#transfer(a, b, c)]),
    /** In time, by what its block says; or with a timestamp of tomorrow. */
    payAtAnotherTime: async (a, b, c) =>
      money.eth.write({
        add: [{transfers: [this.#transfer(a, b, c)], time: a % 3 ? longAgo : new Date(Date.now() + 86_400_000)}],
      }),
    /** Several transactions, or outputs of one, in one block. */
    payMuch: async (a, b, c) => {
      const txid = this.#newTxid()
      await this.#block(
        Array.from({length: 2 + (c % 3)}, (_, n) => ({
          ...this.#transfer(a + n * (b % 2), b + n, c + n * 7),
          ...(a % 2 ? {txid, outputIndex: n} : {}),
        })),
      )
    },
    nothing: async a => money.eth.write({add: Array.from({length: 1 + (a % 2)}, () => [])}),
    comeBack: async (a, b, c) => {
      const back = pick([...this.#gone.values()], a)
      if (!back) return
      const changed = this.#changed(back, b, c)
      await this.#block([changed])
      this.#gone.delete(placeOf(changed))
    },

    /** Blocks that are not final leave; what they held stays out, comes in another block, or comes changed. */
    reorg: async (a, b, c) => {
      const depth = Math.min(1 + (a % 4), money.eth.head.height - this.model.finalHeight)
      const old = money.eth.blocks.slice(money.eth.blocks.length - depth)
      const length = Math.max(0, depth - 1 + (b % 3))
      const add = Array.from({length}, (_, n) => ({
        transfers: [] as TestTransfer[],
        time: (b >> n) % 7 ? undefined : longAgo,
      }))
      const txids = [...new Set(old.flatMap(({transfers}) => transfers.map(({txid}) => txid)))]
      for (const transfer of old.flatMap(({transfers}) => transfers)) {
        const n = txids.indexOf(transfer.txid)
        const to = (c >> (n % 8)) % 4 ? pick(add, (c >> (n % 8)) + n) : undefined
        if (to) to.transfers.push(this.#changed(transfer, b >> (n % 8), c))
        else this.#gone.set(placeOf(transfer), transfer)
      }
      await money.eth.write({drop: depth, add})
    },
    readAgain: async a => {
      const count = Math.min(1 + (a % 4), money.eth.head.height - this.model.finalHeight)
      if (count) await money.eth.readAgain(count)
    },
    finalise: async a => this.#finalise(Math.min(this.model.finalHeight + 1 + (a % 3), money.eth.head.height)),
    finaliseAll: async () => this.#finalise(money.eth.head.height),

    /** The request expires; the worker has noticed, or not yet. */
    expire: async (a, b) => {
      const request = pick(this.#recent, a)!
      if (request.expiresAt === Number.POSITIVE_INFINITY) {
        await money.db.rows(
          'update app.payment_request set expires_at = clock_timestamp(), decide_at = case when decide_at is not null then clock_timestamp() end where id = $1',
          [request.id],
        )
        request.expiresAt = this.model.now
        this.model.now += 1
      }
      if (b % 2) await money.work('decide_payment_requests')
    },
    /** Refused once something counts as a payment. */
    cancel: async a => {
      const request = pick(this.#recent, a)!
      const [row] = await money.db.rows<{external_id: string}>(
        'select external_id from app.payment_request where id = $1',
        [request.id],
      )
      await money.api.query('select app.cancel_payment_request($1, $2)', [request.merchantId, row!.external_id])
      if (request.isCancelled) return
      Object.assign(request, {expiresAt: this.model.now, isCancelled: true})
      this.model.now += 1
    },
    poll: async () => money.work('decide_payment_requests'),

    /** Something final leaves the chain, and an operator decides. */
    lose: async (a, b) => {
      const {finalHeight} = this.model
      const at = money.eth.blocks.slice(-12).filter(({height}) => height <= finalHeight)
      const lost = pick(
        at.flatMap(({transfers}) => transfers).filter(({recipient}) => recipient !== money.treasury),
        a,
      )
      if (!lost) return
      const gone = money.eth.blocks.flatMap(({transfers}) => transfers).filter(({txid}) => txid === lost.txid)
      await money.lose(lost.txid, finalHeight)
      const decision = b % 4 ? 'reorged' : 'kept'
      await money.resolve(decision)
      if (decision === 'kept') return
      for (const transfer of gone) this.#gone.set(placeOf(transfer), transfer)
      this.model.sync(new Set(gone.map(placeOf)))
    },

    claim: async (a, b) => money.claim(pick(this.merchants, a)!, pick(tokens, b)),
    fail: async a => {
      const [payout] = await money.db.rows<{id: string}>(`select id from app.payout where status = 'pending' limit 1`)
      if (payout && a % 2) await money.work('fail_payout', payout.id, 'timed_out', 'because')
    },
    complete: async () => {
      const [payout] = await money.db.rows<{id: string}>(`select id from app.payout where status = 'pending' limit 1`)
      if (!payout) return
      await money.mine([await money.payAndSign(payout.id)])
      await this.#finalise(money.eth.head.height)
    },
    credit: async a => {
      const all = await money.db.rows<{id: string; place: string}>(
        `select id, concat_ws(' ', txid || ':' || output_index, address, token) as place from app.deposit
         where not credited and payment_request_id is not null and status = 'final' order by seq desc limit 5`,
      )
      const one = pick(all, a)
      if (!one) return
      await money.db.rows('select app.credit_unattributed($1)', [one.id])
      this.model.payments.get(one.place)!.credited = true
    },
    fold: a => money.work(a % 2 ? 'fold_balances' : 'fold_totals', 5),
  }

  #txids = 0
  /** Which sort in the order in which they are made, as those of blocks do in the order of their positions. */
  #newTxid(): string {
    this.#txids += 1
    return `0xpaid${String(this.#txids).padStart(7, '0')}`
  }

  #block(transfers: TestTransfer[]): Promise<void> {
    return money.block(transfers, [])
  }

  async #finalise(height: number): Promise<void> {
    await money.finalise(height)
    this.model.finalHeight = height
  }

  #transfer(a: number, b: number, c: number): TestTransfer {
    const {address, token} = pick(this.#recent, a)!
    const other = tokens.find(other => other !== token)!
    return {txid: this.#newTxid(), token: b % 6 ? token : other, amount: BigInt(5 * (1 + (c % 12))), recipient: address}
  }

  /** As a transaction may run again in another block: to the same, or with another amount or recipient. */
  #changed(transfer: TestTransfer, b: number, c: number): TestTransfer {
    if (b % 5 === 1) return {...transfer, amount: BigInt(5 * (1 + (c % 12)))}
    if (b % 5 === 2) return {...transfer, recipient: pick(this.#recent, c)!.address}
    return transfer
  }

  async step(name: string, a: number, b: number, c: number): Promise<void> {
    const before = this.model.now
    try {
      await this.actions[name]!(a, b, c)
    } catch (error) {
      if (!['SLPAY', 'SL422'].includes((error as {code?: string}).code ?? '')) throw error
    }
    this.model.sync()
    for (const request of this.#recent) await this.#compare(request, name, before)
    this.#highest = Math.max(this.#highest, ...this.#recent.map(({last}) => Number(last?.position ?? 0)))
  }

  /** Database and model agree about a request. Its position in the list is new if what the list shows of it is new. */
  async #compare(request: Request, name: string, before: number): Promise<void> {
    const found = await requests.state(request.id)
    const receipts = JSON.stringify(this.model.receiptsOf(request).map(({id, status, amount}) => [id, status, amount]))
    const {last} = request
    const isOver = request.expiresAt < this.model.now
    // The database may notice the expiry only when a receipt changes, or when the worker runs.
    const noticed = found.expired_at !== null
    if (!isOver) expect(noticed).toBe(false)
    else if (last?.expired_at || (receipts !== request.lastReceipts && request.expiresAt <= before))
      expect(noticed).toBe(true)
    else if (name === 'look') expect(noticed || !['awaiting', 'detected'].includes(found.status)).toBe(true)
    const {status, late, txid} = found
    const told = {status, late, txid, received: Number(found.received), pending: Number(found.pending)}
    expect(told, `${name}: ${receipts}`).toEqual(this.model.told(request, noticed))
    expect(found.paid_at !== null).toBe(status === 'paid')
    expect(found.position !== null).toBe(['paid', 'underpaid'].includes(status))
    const isNew =
      !last ||
      ['status', 'received', 'late', 'txid', 'paid_at'].some(
        of => JSON.stringify(last[of as 'late']) !== JSON.stringify(found[of as 'late']),
      )
    const highest = name === 'check' ? Number(last?.position) : this.#highest
    if (found.position && isNew) expect(Number(found.position), name).toBeGreaterThan(highest)
    else if (!isNew && name !== 'lose' && name !== 'check') expect(found.position, name).toBe(last?.position ?? null)
    await this.#compareEvents(request, found)
    const transition = `${last?.status} -> ${status}${late ? ' late' : ''}`
    if (isNew) this.seen[transition] = (this.seen[transition] ?? 0) + 1
    Object.assign(request, {last: found, lastReceipts: receipts})
  }

  /** The events of a request lead to its status; each says what was true then. */
  async #compareEvents({id}: Request, {status}: PaymentState): Promise<void> {
    const kinds = await requests.events(id)
    const last = kinds.filter(kind => kind !== 'partially_paid').at(-1)
    if (last === undefined) expect(status).toBe('awaiting')
    else if (last !== 'reopened') expect(last, kinds.join()).toBe(status)
    else expect(status).not.toBe('paid')
  }

  /** Old requests, the money, and the invariants. */
  async check(): Promise<void> {
    for (const request of this.model.requests) await this.#compare(request, 'check', this.model.now)
    for (const {merchantId} of this.merchants)
      for (const token of tokens) {
        const [books] = await money.db.rows<{total: string}>(
          `select coalesce((select sum(amount) from app.balance_now where merchant_id = $1 and token = $2), 0)
             + coalesce((select sum(gross) from app.payout where merchant_id = $1 and token = $2 and status <> 'failed'), 0) as total`,
          [merchantId, token],
        )
        expect(Number(books!.total)).toBe(this.model.receivedBy(merchantId, token))
      }
    const events = `select e.type from app.event e join app.deposit d on d.id = e.subject_id where d.payment_request_id is not null`
    expect(await money.db.rows(events)).toEqual([])
    expect(await money.incidents()).toEqual([])
    // Money has no signer, whose journal would know what the payments of payouts say.
    const wrong = `select name, found from app.audit_checks() where count > 0 and name <> 'journal'`
    expect(await money.db.rows(wrong)).toEqual([])
    await assertBooks(money.db)
  }
}

test('after any events of payments, in any order, the status of every request follows from its payments', {
  timeout: 30_000 + steps * 200,
}, async () => {
  const often = [
    'pay',
    'pay',
    'pay',
    'payMuch',
    'payAtAnotherTime',
    'reorg',
    'reorg',
    'finalise',
    'finaliseAll',
    'comeBack',
    'expire',
    'expire',
  ]
  const name = fc.constantFrom(...Object.keys(world.actions), ...often)
  const list = fc.array(fc.tuple(name, fc.nat(1000), fc.nat(1000), fc.nat(1000)), {minLength: 50, maxLength: 50})
  await fc.assert(
    fc.asyncProperty(list, async list => {
      for (const [name, a, b, c] of list) await world.step(name, a, b, c)
      await world.check()
    }),
    {numRuns: runs, endOnFailure: true},
  )
  if (steps > 150) console.table(world.seen)
})
