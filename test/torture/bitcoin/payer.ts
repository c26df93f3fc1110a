// Pays on Bitcoin, where a payment can be seen unconfirmed, and there are more faults: payments are replaced by others
// that keep or drop our outputs, leave the mempool, return much later, or are double-spent by blocks that replace
// others. Our own transactions leave the mempool, too, and older attempts are mined in place of newer ones.
import {randomBytes} from 'node:crypto'
import {setTimeout as sleep} from 'node:timers/promises'
import {address, networks, Transaction} from 'bitcoinjs-lib'
import {xOnlyPointFromScalar} from 'tiny-secp256k1'
import type {BitcoinClient, Made, Output} from '../../../devnet/bitcoin/client.ts'
import {families} from '../../../devnet/families.ts'
import type {Cast} from '../family.ts'
import type {Payer} from '../payer.ts'
import type {Payments} from '../payments.ts'
import type {Random} from '../random.ts'
import type {Service} from '../service.ts'
import type {Ours, Truth} from '../truth.ts'
import type {Users} from '../users.ts'
import {Observations} from './observations.ts'
import {outpointsSpent, readTruth} from './truth.ts'

/** More than a local chain usually has, so that reorganisations can have more than one block. */
export const confirmations = 6
const deepest = confirmations - 1
const firstPayments = 12
const floatOutputs = 12
const floatEach = 50_000_000n
/** Shorter absences do not end a payment: the service's 30 s, less what lying servers may hide before and after. */
const graceMs = 24_000

/** Output counts: several users, the same user twice, many and few. */
const shapes = {one: 40, several: 25, 'the same twice': 10, many: 5, 'a payment request': 25}
const sizes = {dust: 2, usual: 8, large: 2}
const tampering = {
  'replaced, outputs kept': 4,
  'replaced, outputs dropped': 3,
  'replaced, others paid': 3,
  forgotten: 3,
}
const reorgs = {
  dropped: 3,
  unconfirmed: 3,
  'same-height': 3,
  later: 2,
  'some again': 3,
  'double spent': 4,
  'taken away': 2,
}
const fates = ['dropped', 'unconfirmed', 'same-height', 'later'] as const

const {bech32, pubKeyHash, scriptHash} = networks.regtest
const newAddresses = [
  () => address.toBech32(randomBytes(20), 0, bech32), // P2WPKH
  () => address.toBech32(randomBytes(32), 0, bech32), // P2WSH
  () => address.toBech32(xOnlyPointFromScalar(randomBytes(32)), 1, bech32), // P2TR
  () => address.toBase58Check(randomBytes(20), scriptHash),
  () => address.toBase58Check(randomBytes(20), pubKeyHash),
]

export class BitcoinPayer implements Payer {
  readonly chain = 'BTC'
  readonly #service: Service
  readonly #users: Users
  readonly #payments: Payments
  readonly #random: Random
  /** In the order of creation. */
  readonly #made = new Map<string, Made>()
  readonly #spenders = new Map<string, Set<string>>()
  readonly #observations = new Observations()
  readonly #over = new AbortController()
  /** Blocks whose coinbase was spent, from the first on. */
  #coinbases = 0
  /** The greatest known height of the chain. */
  #highest = 0
  readonly counts: Record<string, number> = {}

  constructor({service, users, payments, random}: Cast) {
    this.#service = service
    this.#users = users
    this.#payments = payments
    this.#random = random.fork('payer BTC')
  }

  async #client(): Promise<BitcoinClient> {
    const {connect} = await families.bitcoin()
    return await connect(this.#service.controlUrl(this.chain))
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1
  }

  /** The treasury gets enough outputs for several payouts at once: its change cannot be spent before it is final. */
  async begin(treasury: string): Promise<void> {
    const client = await this.#client()
    void this.#observations.watch(() => this.#client(), this.#over.signal)
    await client.pay(Array.from({length: floatOutputs}, () => ({to: treasury, amount: floatEach})))
    for (let i = 0; i < firstPayments; i++) await this.#payOnce(client)
    await client.mine(deepest + 2)
  }

  actors(stopped: AbortSignal): Promise<void>[] {
    const often = async (
      what: string,
      [least, most]: [number, number],
      work: (client: BitcoinClient) => Promise<void>,
    ) => {
      while (!stopped.aborted) {
        await sleep(this.#random.between(least, most))
        if (stopped.aborted) return
        try {
          await work(await this.#client())
        } catch {
          this.#count(`${what} that failed`) // the chain is down, or its state has changed
        }
      }
    }
    return [
      often('payments', [50, 500], async client => {
        for (let i = this.#random.between(1, 3); i > 0; i--) await this.#payOnce(client)
      }),
      often('blocks', [300, 1200], client => this.#mine(client)),
      often('changes of payments', [300, 1500], client => this.#tamper(client)),
      often('payments again', [500, 2500], client => this.#sendAgain(client)),
      often('changes of ours', [1000, 3000], client => this.#tamperWithOurs(client)),
      often('reorgs', [2000, 6000], client => this.#reorganise(client)),
    ]
  }

  newAddress(random: Random): string {
    return random.pick(newAddresses)()
  }

  mayBeReorged(txid: string): boolean {
    if (!this.#made.has(txid)) return true // the chain was killed after making it, and before responding
    return this.#hasRival(txid) || this.#observations.longestAbsenceMs(txid) >= graceMs
  }

  /** The next blocks take everything that waits. */
  async lastHeight(): Promise<number | undefined> {
    const client = await this.#client()
    return (await client.mempool()).length === 0 ? (await client.head()).height : undefined
  }

  async truth(ours: Ours): Promise<Truth> {
    this.#over.abort()
    const finalAt = (time: number) => this.#observations.highestAt(time) - deepest
    return await readTruth(await this.#client(), {
      ...ours,
      finalAt,
      made: new Set([...this.#made.keys(), ...this.#observations.shown]),
      madeAt: txid => this.#observations.madeAt(txid),
    })
  }

  // --- payments ---

  async #payOnce(client: BitcoinClient): Promise<void> {
    const to = this.#random.chance(0.35) ? await this.#users.fresh('BTC') : this.#users.any('BTC')
    const outputs = this.#outputs(to)
    await this.#note(this.#random.chance(0.8) ? this.#payAlone(client, outputs) : client.pay(outputs))
    this.#count('sent')
  }

  /**
   * From an output of the faucet that no other payment uses: a lost payment can be sent again, unless it is
   * double-spent on purpose.
   */
  async #payAlone(client: BitcoinClient, outputs: Output[]): Promise<Made> {
    for (;;) {
      const {txids} = await client.block(++this.#coinbases)
      try {
        return await client.pay(outputs, {inputs: [`${txids[0]}:0`]})
      } catch (error) {
        if (!/not an unspent output|insufficient fee/.test(String(error))) throw error // else the treasury was given it
      }
    }
  }

  async #note(making: Promise<Made>): Promise<Made> {
    const at = Date.now()
    const made = await making
    this.#made.set(made.txid, made)
    for (const outpoint of outpointsSpent(Transaction.fromHex(made.raw)))
      this.#spenders.set(outpoint, (this.#spenders.get(outpoint) ?? new Set()).add(made.txid))
    this.#observations.expect(made.txid, at)
    return made
  }

  /** Whether a conflicting transaction was made. */
  #hasRival(txid: string): boolean {
    return outpointsSpent(Transaction.fromHex(this.#made.get(txid)!.raw)).some(
      outpoint => this.#spenders.get(outpoint)!.size > 1,
    )
  }

  #outputs(to = this.#users.any('BTC')): Output[] {
    const shape = this.#random.weighted(shapes)
    this.#count(shape)
    const request = shape === 'a payment request' && this.#payments.any('BTC', this.#random)
    if (request) return this.#payments.parts(request, this.#random).map(amount => ({to: request.address, amount}))
    const others = (count: number) => Array.from({length: count}, () => this.#users.any('BTC'))
    const recipients = {
      one: () => [to],
      several: () => [to, ...others(this.#random.between(1, 4))],
      'the same twice': () => [to, to],
      many: () => [to, ...others(30)],
      'a payment request': () => [to], // there is none yet
    }[shape]()
    return recipients.map(to => ({to, amount: this.#amount()}))
  }

  #amount(): bigint {
    const [least, most] = {dust: [294, 2000], usual: [10_000, 5_000_000], large: [5_000_000, 200_000_000]}[
      this.#random.weighted(sizes)
    ]
    return BigInt(this.#random.between(least!, most!))
  }

  // --- faults ---

  /** Mines more blocks than the chain does automatically; some leave out waiting transactions. */
  async #mine(client: BitcoinClient): Promise<void> {
    const how = this.#random.weighted({all: 6, some: 3, none: 1})
    const waiting = how === 'some' ? await client.mempool() : []
    const some = waiting.filter(() => this.#random.chance(0.5))
    await client.mine(1, how === 'all' ? {} : {only: some})
  }

  /** Changes unconfirmed payments. */
  async #tamper(client: BitcoinClient): Promise<void> {
    const waiting = (await client.mempool()).filter(txid => this.#made.has(txid))
    if (waiting.length === 0) return
    const txid = this.#random.pick(waiting)
    const how = this.#random.weighted(tampering)
    if (how === 'forgotten') {
      await client.forget([txid])
      await this.#bringBack(client, [txid])
    } else {
      const outputs = {
        'replaced, outputs kept': undefined,
        'replaced, outputs dropped': [],
        'replaced, others paid': this.#outputs(),
      }[how]
      await this.#note(client.replace(txid, outputs && {outputs}))
    }
    this.#count(how)
  }

  /** Returns missing payments, at once or after a long time. */
  async #sendAgain(client: BitcoinClient): Promise<void> {
    const lost = [...this.#made.values()].filter(({txid}) => this.#observations.isMissing(txid))
    if (lost.length === 0) return
    await client.submit(this.#random.pick(this.#random.chance(0.5) ? lost.slice(-10) : lost).raw)
    this.#count('found again')
  }

  /** Most of the missing ones are sent again soon: too soon to be given up. */
  async #bringBack(client: BitcoinClient, txids: string[]): Promise<void> {
    await sleep(this.#random.between(0, 4000))
    for (const txid of txids) {
      if (!this.#random.chance(0.7)) continue
      await client.submit(this.#made.get(txid)!.raw).then(
        () => this.#count('sent again'),
        () => {}, // its input is spent
      )
    }
  }

  async #tamperWithOurs(client: BitcoinClient): Promise<void> {
    const attempts = await this.#ourAttempts()
    if (attempts.length === 0) return
    const {txid, raw} = this.#random.pick(attempts)
    if (this.#random.chance(0.5)) {
      await client.forget([txid])
      this.#count('ours forgotten')
    } else {
      await client.mine(1, {include: [raw], only: []})
      this.#count('any attempt of ours mined')
    }
  }

  /** Attempts signed for unfinished outgoing payments, replaced or not, that are in no known block. */
  async #ourAttempts(): Promise<Made[]> {
    const rows = await this.#service.query(
      `select o.txid, o.raw from app.outgoing_attempt o join app.outgoing_payment s on s.id = o.outgoing_payment_id
       where s.chain = 'BTC' and s.status <> 'final'
         and not exists (select from chain.confirmed_tx i where i.chain = o.chain and i.txid = o.txid)
       order by random() limit 20`,
    )
    return rows.map(({txid, raw}) => ({txid: String(txid), raw: String(raw)}))
  }

  // --- reorganisations ---

  async #reorganise(client: BitcoinClient): Promise<void> {
    const {height} = await client.head()
    this.#noteHead(height)
    const most = height - this.#highest + deepest
    if (most < 1) return
    const depth = this.#random.between(1, most)
    const how = this.#random.weighted(reorgs)
    const mined = await this.#minedAbove(client, height - depth)
    const rest = this.#random.pick(['dropped', 'unconfirmed'] as const)
    if (how === 'taken away') await this.#takeAway(client, depth, rest)
    else if (how === 'some again')
      await client.reorg(depth, {transactions: 'same-height', only: mined.filter(() => this.#random.chance(0.5)), rest})
    else if (how === 'double spent')
      await client.reorg(depth, {transactions: this.#random.pick(fates), include: await this.#rivals(client, mined)})
    else await client.reorg(depth, {transactions: how})
    this.#count(`reorg: ${how}`)
    this.counts['deepest reorg'] = Math.max(this.counts['deepest reorg'] ?? 0, depth)
    if (how === 'dropped')
      await this.#bringBack(
        client,
        mined.filter(txid => this.#made.has(txid)),
      )
  }

  #noteHead(height: number): void {
    this.#highest = Math.max(this.#highest, height)
    this.#observations.noteHead(height)
  }

  /** Blocks that the chain mined automatically meanwhile were on top of the known ones. */
  async #takeAway(client: BitcoinClient, depth: number, transactions: 'dropped' | 'unconfirmed'): Promise<void> {
    try {
      const {height} = await client.invalidate(depth, {transactions})
      this.#noteHead(height + depth)
    } catch (error) {
      this.#highest += 2 // it may have happened or not
      throw error
    }
  }

  async #minedAbove(client: BitcoinClient, height: number): Promise<string[]> {
    const mined: string[] = []
    for (let at = height + 1; at <= height + deepest; at++) {
      const block = await client.block(at).catch(() => undefined)
      mined.push(...(block?.txids.slice(1) ?? []))
    }
    return mined
  }

  /** Transactions that replace some mined ones; ours are replaced by another attempt. */
  async #rivals(client: BitcoinClient, mined: string[]): Promise<string[]> {
    const payments = mined.filter(txid => this.#made.has(txid))
    const rivals: string[] = []
    if (payments.length) {
      const outputs = this.#random.chance(0.5) ? this.#outputs() : []
      rivals.push((await this.#note(client.conflict(this.#random.pick(payments), outputs))).raw)
    }
    const [attempt] = await this.#ourAttempts()
    if (attempt && this.#random.chance(0.5) && !mined.includes(attempt.txid)) rivals.push(attempt.raw)
    return rivals
  }
}
