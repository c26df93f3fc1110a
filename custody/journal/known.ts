// The part of the journal's file that judging needs, in memory. Write access to the database cannot change it.
// Promises: a row of custody.journal can be compared with the file's entry of the same number. What was signed for a
// merchant, or on a day, is the sum over the file, and so are the fees that may be paid for it: a changed or missing
// row makes neither smaller nor larger. The number of attempts is known for every payment.
//
// A million payments take some 120 MB. An entry of the open transaction is noted before it is in the file, and removed
// if the transaction fails.
import {createHash} from 'node:crypto'
import {most} from '../../base/bigints.ts'
import {findChain} from '../../chains/registry.ts'

const hashBytes = 32

/** The fields used of an entry (file.ts). */
interface Entry {
  stream: string
  seq: number
  kind: string
  destination: string | null
  source: string | null
  subject_id: string | null
  merchant_id: string | null
  token: string | null
  amount: string | null
  sender: string | null
  nonce: number | null
  max_fee: string | null
  txid: string | null
  details: {inputs?: unknown; lifetime?: unknown; stake?: unknown; may_burn?: unknown; rent?: unknown}
  signed_at: string
  hash: string
}

/**
 * What may be paid for what was signed with a conflict key; where attempts expire, for one attempt: its key is the
 * txid.
 */
export interface Promised {
  conflictKey: string
  /** The highest network fee. */
  fee: bigint
  /** The gas that a fund sends: its address burns it later. */
  gas: bigint
}

/** What an account may cost that a payment makes for its recipient, in base units. */
export interface Rent {
  txid: string
  rent: bigint
  /** What its transaction costs besides. */
  rest: bigint
}

/** A transaction that brings an address gas or energy, takes it back, or may use some. */
export interface GasEntry {
  seq: number
  kind: string
  conflictKey: string
  txid: string
  /** What a fund brings, or a defund takes back; of a delegate, or an undelegate, the stake. */
  amount: bigint
  /** The highest network fee. */
  fee: bigint
}

export class Known {
  readonly #hashes = new Map<string, Hashes>()
  /**
   * Attempts for each payout or withdrawal, by a number made from its id: as text, a million ids would take twice the
   * memory.
   */
  readonly #attempts = new Map<number, number>()
  readonly #paid = new Map<string, bigint>()
  readonly #days = new Map<string, Day>()
  readonly #fees = new Map<string, FeeDay>()
  /** By stream and merchant: those of the last day that has any. */
  readonly #rents = new Map<string, {date: string; rents: Rent[]}>()
  /** By stream and address. */
  readonly #gas = new Map<string, GasEntry[]>()

  note(entry: Entry): void {
    const hashes = this.#hashes.get(entry.stream) ?? new Hashes()
    this.#hashes.set(entry.stream, hashes)
    hashes.push(entry.hash)
    if (counts(entry)) this.#feesOf(entry)?.push(promisedBy(entry))
    this.#gasOf(entry)?.push(gasEntry(entry))
    this.#rentsOf(entry)?.push(rentOf(entry))
    if (!isPaid(entry)) return
    const subject = numberOf(entry.subject_id)
    const attempts = this.#attempts.get(subject) ?? 0
    this.#attempts.set(subject, attempts + 1)
    if (attempts === 0) this.#pay(entry, BigInt(entry.amount ?? 0))
    if (attempts === 0 || expires(entry)) this.#addToDay(entry, subject)
  }

  /** Removes the entry that was noted last. */
  forget(entry: Entry): void {
    this.#hashes.get(entry.stream)!.pop()
    if (counts(entry)) this.#feesOf(entry)?.pop()
    this.#gasOf(entry)?.pop()
    this.#rentsOf(entry)?.pop()
    if (!isPaid(entry)) return
    const subject = numberOf(entry.subject_id)
    const attempts = this.#attempts.get(subject)! - 1
    if (attempts) this.#attempts.set(subject, attempts)
    else this.#attempts.delete(subject)
    if (attempts === 0) this.#pay(entry, 0n - BigInt(entry.amount ?? 0))
    if (attempts === 0 || expires(entry)) this.#removeFromDay(entry, subject)
  }

  clear(): void {
    for (const part of [this.#hashes, this.#attempts, this.#paid, this.#days, this.#fees, this.#rents, this.#gas])
      part.clear()
  }

  /** All attempts of a payout move the same amount: only the first one counts. */
  #pay({kind, stream, token, merchant_id}: Entry, amount: bigint): void {
    const whose = `${stream} ${token} ${merchant_id}`
    if (kind === 'pay') this.#paid.set(whose, (this.#paid.get(whose) ?? 0n) + amount)
  }

  /** Where attempts expire, each is a first signature on its day: the others are dead. */
  #addToDay(entry: Entry, subject: number): void {
    const {stream, token, signed_at, amount} = entry
    const date = dateOf(signed_at)
    const last = this.#days.get(`${stream} ${token}`)
    if (last && last.date > date) return
    const day: Day = last?.date === date ? last : {date, subjects: new Map()}
    this.#days.set(`${stream} ${token}`, day)
    const before = day.subjects.get(subject)
    day.subjects.set(subject, {amount: BigInt(amount ?? 0), attempts: (before?.attempts ?? 0) + 1})
    if (expires(entry)) day.firstExpiring ??= this.#hashes.get(stream)!.count
  }

  #removeFromDay(entry: Entry, subject: number): void {
    const {stream, token, signed_at} = entry
    const day = this.#days.get(`${stream} ${token}`)
    if (day?.date !== dateOf(signed_at)) return
    const {amount, attempts} = day.subjects.get(subject)!
    if (attempts > 1) day.subjects.set(subject, {amount, attempts: attempts - 1})
    else day.subjects.delete(subject)
    if (day.firstExpiring! > this.#hashes.get(stream)!.count) day.firstExpiring = undefined
  }

  /**
   * The highest fees of all attempts signed on the entry's day with the entry's conflict key. The list is created if it
   * does not exist.
   */
  #feesOf(entry: Entry): Omit<Promised, 'conflictKey'>[] | undefined {
    const conflictKey = conflictKeyOf(entry)
    if (conflictKey === undefined) return undefined
    const {stream, signed_at} = entry
    const date = dateOf(signed_at)
    const last = this.#fees.get(stream)
    const day = last && last.date >= date ? last : {date, fees: new Map()} // a clock that is set back begins no new day
    this.#fees.set(stream, day)
    const fees = day.fees.get(conflictKey) ?? []
    day.fees.set(conflictKey, fees)
    return fees
  }

  /**
   * What was signed on the day (UTC) of that moment, or later: for each conflict key, the highest fee of its attempts,
   * and the most gas, which may be those of two: a fund that was cancelled for a higher fee can still be mined.
   */
  promisedOn(moment: string, stream: string): Promised[] {
    const day = this.#fees.get(stream)
    if (!day || day.date < dateOf(moment)) return []
    return [...day.fees]
      .filter(([, fees]) => fees.length)
      .map(([conflictKey, all]) => ({
        conflictKey,
        fee: all.map(({fee}) => fee).reduce(most),
        gas: all.map(({gas}) => gas).reduce(most),
      }))
  }

  #rentsOf({stream, kind, merchant_id, signed_at, details}: Entry): Rent[] | undefined {
    if (kind !== 'pay' || details.rent === undefined) return undefined
    const date = dateOf(signed_at)
    const last = this.#rents.get(`${stream} ${merchant_id}`)
    const day = last && last.date >= date ? last : {date, rents: []}
    this.#rents.set(`${stream} ${merchant_id}`, day)
    return day.rents
  }

  /**
   * What accounts for a merchant's recipients may cost by what was signed on the day (UTC) of that moment, or later.
   */
  rentsOn(moment: string, stream: string, merchantId: string): readonly Rent[] {
    const day = this.#rents.get(`${stream} ${merchantId}`)
    return day && day.date >= dateOf(moment) ? day.rents : []
  }

  #gasOf(entry: Entry): GasEntry[] | undefined {
    const {stream, kind, destination, sender} = entry
    const address =
      kind === 'fund' || isDelegation(entry)
        ? destination
        : isPaidWithGas(entry) || isCancelOfAddress(entry)
          ? sender
          : undefined
    if (!address) return undefined
    const key = `${stream} ${address}`
    const entries = this.#gas.get(key) ?? []
    this.#gas.set(key, entries)
    return entries
  }

  /** What was ever signed that brings an address gas or energy, takes it back, or may use some, in order. */
  gasOf(stream: string, address: string): readonly GasEntry[] {
    return this.#gas.get(`${stream} ${address}`) ?? []
  }

  /** The hash of an entry; '' before the first one, undefined after the last one. */
  hashAt(stream: string, seq: number): string | undefined {
    return seq === 0 ? '' : this.#hashes.get(stream)?.at(seq)
  }

  /** How many attempts a payout or a withdrawal has. */
  attemptsOf(subjectId: string | null): number {
    return this.#attempts.get(numberOf(subjectId)) ?? 0
  }

  /** The sum of everything ever signed for a merchant, dead or not. */
  paid(stream: string, token: string, merchantId: string): bigint {
    return this.#paid.get(`${stream} ${token} ${merchantId}`) ?? 0n
  }

  /**
   * The sum of what was signed for the first time on the day (UTC) of that moment, without this subject. Where attempts
   * expire: of what was signed on that day, expired or not.
   */
  paidOn(moment: string, stream: string, token: string, exceptSubject: string): bigint {
    const except = numberOf(exceptSubject)
    return [...(this.#dayOf(moment, stream, token)?.subjects ?? [])].reduce(
      (sum, [subject, {amount}]) => (subject === except ? sum : sum + amount),
      0n,
    )
  }

  /** The number of the first entry of that day whose transaction expires; undefined if there is none. */
  firstExpiring(moment: string, stream: string, token: string): number | undefined {
    return this.#dayOf(moment, stream, token)?.firstExpiring
  }

  #dayOf(moment: string, stream: string, token: string): Day | undefined {
    const day = this.#days.get(`${stream} ${token}`)
    return day?.date === dateOf(moment) ? day : undefined
  }
}

interface Day {
  date: string
  /** What is paid to whom, and how many attempts of that day count. */
  subjects: Map<number, {amount: bigint; attempts: number}>
  /** The number of the first entry whose transaction expires. */
  firstExpiring?: number
}

interface FeeDay {
  date: string
  /** By conflict key. */
  fees: Map<string, Omit<Promised, 'conflictKey'>[]>
}

/** What uses gas counted when that was sent; what lent energy should cover, and may burn if it is gone, counts. */
const counts = (entry: Entry) => !isPaidWithGas(entry) || entry.details.may_burn !== undefined

const promisedBy = ({kind, amount, max_fee, details: {may_burn}}: Entry) => ({
  fee: BigInt(may_burn === undefined ? (max_fee ?? 0) : String(may_burn)),
  gas: kind === 'fund' ? BigInt(amount ?? 0) : 0n,
})

/**
 * An address that sweeps a token itself pays with gas, and a defund takes gas back. Nothing else does: what is on it
 * belongs to its merchant.
 */
const isPaidWithGas = ({stream, kind, token, source, sender}: Entry) =>
  kind === 'defund' || (kind === 'sweep' && source === sender && token !== findChain(stream)?.assets[0].token)

/** It may be of a sweep that was never signed, and then nothing says whose coins pay for it: gas counts as used. */
const isCancelOfAddress = ({kind, source, nonce, merchant_id}: Entry) =>
  kind === 'cancel' && source !== null && nonce !== null && merchant_id !== null

function rentOf({txid, max_fee, details}: Entry): Rent {
  const rent = BigInt(String(details.rent))
  return {txid: txid!, rent, rest: BigInt(max_fee ?? 0) - rent}
}

const isDelegation = ({kind}: Entry) => kind === 'delegate' || kind === 'undelegate'

function gasEntry(entry: Entry): GasEntry {
  const {seq, kind, txid, amount, max_fee, details} = entry
  const moved = kind === 'fund' || kind === 'defund' ? BigInt(amount ?? 0) : 0n
  const stake = isDelegation(entry) ? BigInt(String(details.stake)) : 0n
  return {seq, kind, conflictKey: conflictKeyOf(entry)!, txid: txid!, amount: moved + stake, fee: BigInt(max_fee ?? 0)}
}

const isPaid = ({kind}: Entry) => kind === 'pay' || kind === 'withdraw'
const expires = ({details}: Entry) => details.lifetime !== undefined
const dateOf = (moment: string) => moment.slice(0, 10)

/**
 * As custody.journal.conflict_key: the first input, or sender:nonce; without either the txid; undefined for an entry
 * about addresses.
 */
function conflictKeyOf({details: {inputs}, sender, nonce, txid}: Entry): string | undefined {
  if (Array.isArray(inputs)) return String(inputs[0])
  return nonce === null ? (txid ?? undefined) : `${sender}:${nonce}`
}

/**
 * 53 bits of a hash. Of 18,000 services with a million payments each, one has two payments with the same number, and
 * signs no more for these two.
 */
function numberOf(subjectId: string | null): number {
  return Number(createHash('sha256').update(String(subjectId)).digest().readBigUInt64BE() >> 11n)
}

/** The hashes of a stream in one buffer. */
class Hashes {
  #bytes = Buffer.alloc(64 * hashBytes)
  #count = 0

  push(hash: string): void {
    const end = this.#count * hashBytes
    if (end === this.#bytes.length) this.#bytes = Buffer.concat([this.#bytes, Buffer.alloc(end)])
    this.#bytes.write(hash, end, 'hex')
    this.#count++
  }

  pop(): void {
    this.#count--
  }

  get count(): number {
    return this.#count
  }

  at(seq: number): string | undefined {
    if (seq > this.#count) return undefined
    return this.#bytes.toString('hex', (seq - 1) * hashBytes, seq * hashBytes)
  }
}
