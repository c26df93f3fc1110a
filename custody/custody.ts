// Custody's work, one turn at a time: judge (judge/judge.ts), sign (family.ts), write the journal (journal/journal.ts),
// and only then respond. Promises: signed bytes in a response are in the journal, in the database and on disk. Every
// refusal is a row of custody.refusal and a log line. A failed turn returns nothing, and the request can be repeated
// safely.
import type pg from 'pg'
import type {Logger} from '../base/log.ts'
import {step} from '../base/step.ts'
import type {ChainSettings} from '../chains/families.ts'
import {type ChainCode, type Family, chain as registered} from '../chains/registry.ts'
import {readTokens} from '../db/client/tokens.ts'
import {familyOf} from './families.ts'
import type {CustodyFamily, Signed} from './family.ts'
import type {Authorise, AuthoriseResult, CheckResult, Intent, Refused, SignedResult, SignResult} from './intents.ts'
import type {Draft, Journal} from './journal/journal.ts'
import type {Attempt} from './judge/attempts.ts'
import {Budget} from './judge/budget.ts'
import {detailsOfNew} from './judge/expiring.ts'
import {checkWhole, judge} from './judge/judge.ts'
import {checkPayout} from './judge/payments.ts'
import type {Own, Plan, PolicyContext, TimeLeft} from './judge/plan.ts'
import {Refusal} from './judge/refusal.ts'
import type {KeyStore} from './keys/key-store.ts'
import {refusals, signatures} from './metrics.ts'
import type {Asked} from './requests.ts'

/**
 * How long a turn waits, in all, for outgoing payments that others are changing. Others may be waiting for what it has
 * locked.
 */
const lockWaitMs = 500

/** The result of an intent. Without a draft, nothing new was signed. */
interface Outcome {
  response: SignResult
  draft?: Draft
}

export interface CustodyOptions {
  client: pg.Client
  keys: KeyStore
  journal: Journal
  chains: Map<ChainCode, ChainSettings>
  treasuries: Record<Family, Own>
  log: Logger
}

export class Custody {
  readonly #context: PolicyContext
  readonly #keys: KeyStore
  readonly #treasuries: Record<Family, Own>
  readonly #log: Logger
  #turn: Promise<unknown> = Promise.resolve()

  constructor({client, keys, journal, chains, treasuries, log}: CustodyOptions) {
    this.#context = {client, chains, journal}
    this.#keys = keys
    this.#treasuries = treasuries
    this.#log = log
  }

  /**
   * Runs `work` after all earlier requests are done: only one at a time may use the connection and the end of the
   * journal.
   */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#turn.then(work, work)
    this.#turn = mine
    return mine
  }

  /** The results are in the order of the requests. */
  async sign(asked: Asked[]): Promise<SignResult[]> {
    return await this.inTurn(async () => {
      await this.#readTokens()
      const outcomes = await this.#context.journal.write(add => this.#outcomesOf(asked, add))
      for (const {draft} of outcomes) if (draft) this.#noteSigned(draft)
      step('custody: before answer')
      return outcomes.map(({response}) => response)
    })
  }

  /** The authorisations of sweeps that were begun, and trials, in the order of the requests. */
  async authorise(sweeps: Authorise[]): Promise<AuthoriseResult[]> {
    return await this.inTurn(async () => {
      await this.#readTokens()
      return await this.#context.journal.write(async add => {
        const budget = this.#budget()
        const timeLeft = {ms: lockWaitMs}
        const results: AuthoriseResult[] = []
        for (const sweep of sweeps) results.push(await this.#authorised(sweep, budget, timeLeft, add))
        return results
      })
    })
  }

  /** What an operator added since the last turn can be asked for. */
  async #readTokens(): Promise<void> {
    await readTokens(this.#context.client, this.#context.chains)
  }

  async #authorised(
    sweep: Authorise,
    budget: Budget,
    timeLeft: TimeLeft,
    add: (draft: Draft) => Promise<void>,
  ): Promise<AuthoriseResult> {
    const {chain} = sweep
    const subject = 'outgoing_payment_id' in sweep ? sweep.outgoing_payment_id : null
    const {family} = registered(chain)
    const context = {...this.#context, family, treasury: this.#treasuries[family], timeLeft}
    try {
      const {authorise} = familyOf({family})
      if (!authorise) throw new Refusal('unknown_settlement', `sweeps on ${chain} need no authorisation`)
      await budget.checkHalt(chain, subject)
      const {data, draft} = await authorise(context, this.#keys, sweep)
      if (draft) {
        await add(draft)
        this.#log.info({kind: draft.kind, chain, subject}, 'signed')
      }
      return {ok: true, data}
    } catch (error) {
      return await this.#refuse(error, {intent: 'authorise', ...sweep}, subject ?? sweep.address)
    }
  }

  /** Whether a payout would be signed now, as far as custody can know before its nonce and fees are set. */
  async check(payoutId: string): Promise<CheckResult> {
    return await this.inTurn(async () => {
      await this.#context.journal.level()
      await this.#readTokens()
      try {
        const chain = await checkPayout(this.#context, payoutId)
        checkWhole(this.#context, chain)
        await this.#budget().check(chain, payoutId)
        return {ok: true}
      } catch (error) {
        return await this.#refuse(error, {intent: 'check', payout_id: payoutId}, payoutId)
      }
    })
  }

  #noteSigned({kind, stream: chain, sender, nonce, subject_id: subject, txid}: Draft): void {
    signatures.inc({chain, kind})
    this.#log.info({kind, chain, sender, nonce, subject, txid}, 'signed')
  }

  /** A budget for this turn. */
  #budget(): Budget {
    const {client, chains, journal} = this.#context
    return new Budget(client, chains, journal.known)
  }

  async #outcomesOf(asked: Asked[], add: (draft: Draft) => Promise<void>): Promise<Outcome[]> {
    const budget = this.#budget()
    const timeLeft = {ms: lockWaitMs}
    const outcomes = new Map<Asked, Outcome>()
    for (const one of inPlace(asked)) {
      const outcome = await this.#outcomeOf(one, budget, timeLeft)
      if (outcome.draft) await add(outcome.draft)
      outcomes.set(one, outcome)
    }
    return asked.map(one => outcomes.get(one)!)
  }

  async #outcomeOf(asked: Asked, budget: Budget, timeLeft: TimeLeft): Promise<Outcome> {
    const {intent} = asked
    const family = familyOf(asked)
    const context = {...this.#context, family: asked.family, treasury: this.#treasuries[asked.family], timeLeft}
    try {
      const decision = await judge(context, family, intent, budget)
      if ('attempt' in decision) return {response: responseOf(family, decision.attempt)}
      const {plan} = decision
      const signed = await family.sign(context.chains.get(plan.chain)!, this.#keys, plan)
      const more = plan.conflictKey === null ? await detailsOfNew(context, plan, signed.txid) : {}
      const draft = draftOf(plan, {...signed, details: {...signed.details, ...more}})
      return {response: responseOf(family, {...signed, amount: plan.amount}), draft}
    } catch (error) {
      return {response: await this.#refuse(error, intent, subjectOf(intent))}
    }
  }

  async #refuse(
    error: unknown,
    request: Intent | {intent: 'check' | 'authorise'; [field: string]: unknown},
    subject: string,
  ): Promise<Refused> {
    if (!(error instanceof Refusal)) throw error
    const {code, message, needed} = error
    await this.#context.client.query({
      name: 'insert_refusal',
      text: 'insert into custody.refusal (code, message, request) values ($1, $2, $3)',
      values: [code, message, JSON.stringify(request)],
    })
    refusals.inc({code})
    this.#log.warn({code, intent: request.intent, subject}, 'refused')
    return {ok: false, code, message, ...(needed && {needed})}
  }
}

/** Of an intent, in the log. */
function subjectOf(intent: Intent): string {
  if ('payout_id' in intent) return intent.payout_id
  return 'outgoing_payment_id' in intent ? intent.outgoing_payment_id : `${intent.chain} nonce ${intent.nonce}`
}

function inPlace(asked: Asked[]): Asked[] {
  const placeOf = (one: Asked) => familyOf(one).place?.(one.intent) ?? 0
  return asked.toSorted((a, b) => placeOf(a) - placeOf(b))
}

function responseOf(
  family: CustodyFamily,
  {txid, raw, amount, details}: Pick<Attempt, 'txid' | 'raw' | 'amount' | 'details'>,
): SignedResult {
  return {ok: true, txid, raw, amount: String(amount), ...family.fees(details)}
}

function draftOf(plan: Plan, {txid, raw, details}: Signed): Draft {
  return {
    stream: plan.chain,
    kind: plan.kind,
    subject_id: plan.subjectId,
    merchant_id: plan.merchantId,
    token: plan.token,
    amount: String(plan.amount),
    destination: plan.destination,
    source: plan.source,
    sender: plan.feePayer,
    nonce: plan.nonce,
    max_fee: String(plan.maxFee),
    txid,
    raw,
    details: {...plan.details, ...details},
    signed_at: new Date().toISOString(),
  }
}
