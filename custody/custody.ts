// Custody's work, one turn after the other: judge and sign (evm/, bitcoin/), journal (journal.ts), and only then answer. Promises: whatever
// is answered with signed bytes stands in the journal, in the database and on disk; every refusal is a row of custody.refusal and a log line;
// a turn that fails answers nothing, and asking again is safe.
import type pg from 'pg'
import type {Logger} from '../base/log.ts'
import {step} from '../base/step.ts'
import type {ChainSettings} from '../chains/families.ts'
import type {ChainCode} from '../chains/registry.ts'
import {signBitcoin} from './bitcoin/outcome.ts'
import {Budget} from './budget.ts'
import {signEvm} from './evm/outcome.ts'
import type {CheckResult, Intent, Refused, SignResult} from './intents.ts'
import type {Draft, Journal} from './journal.ts'
import type {Family, KeyStore} from './keys.ts'
import {refusals, signatures} from './metrics.ts'
import {checkPayout, type Outcome, type Own, type PolicyContext} from './policy.ts'
import {Refusal} from './refusal.ts'

type Add = (draft: Draft) => Promise<void>

export interface CustodyOptions {
  client: pg.Client
  keys: KeyStore
  journal: Journal
  chains: Map<ChainCode, ChainSettings>
  treasuries: Record<Family, Own>
  log: Logger
}

export class Custody {
  readonly #client: pg.Client
  readonly #keys: KeyStore
  readonly #journal: Journal
  readonly #context: Omit<PolicyContext, 'budget'>
  readonly #log: Logger
  #turn: Promise<unknown> = Promise.resolve()

  constructor({client, keys, journal, chains, treasuries, log}: CustodyOptions) {
    this.#client = client
    this.#keys = keys
    this.#journal = journal
    this.#log = log
    this.#context = {
      client,
      chains,
      treasuries,
      journal,
    }
  }

  /** Runs when everything that was asked before is done: the connection, and the journal's end, belong to one at a time. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#turn.then(work, work)
    this.#turn = mine
    return mine
  }

  async sign(intents: Intent[]): Promise<SignResult[]> {
    return await this.inTurn(async () => {
      const signed: Draft[] = []
      const results = await this.#journal.write(async enter => {
        const add: Add = async draft => {
          await enter(draft)
          signed.push(draft)
        }
        const context = this.#ofThisTurn()
        const results = new Map<Intent, SignResult>()
        for (const intent of inOrderOfNonces(intents))
          results.set(intent, await this.#orRefuse(intent, () => this.#signOne(context, intent, add)))
        return intents.map(intent => results.get(intent)!)
      })
      for (const {stream: chain, kind} of signed) signatures.inc({chain, kind})
      step('custody: before answer')
      return results
    })
  }

  /** Whether a payout would be signed now, as far as that can be known before its nonce and fees are. */
  async check(payoutId: string): Promise<CheckResult> {
    return await this.inTurn(async () => {
      await this.#journal.level()
      return await this.#orRefuse({intent: 'check', payout_id: payoutId}, async () => {
        await checkPayout(this.#ofThisTurn(), payoutId)
        return {ok: true}
      })
    })
  }

  #ofThisTurn(): PolicyContext {
    return {...this.#context, budget: new Budget(this.#client, this.#context.chains, this.#journal.known)}
  }

  async #orRefuse<T>(
    request: Intent | {intent: 'check'; payout_id: string},
    work: () => Promise<T>,
  ): Promise<T | Refused> {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      const {code, message, needed} = error
      await this.#client.query({
        name: 'insert_refusal',
        text: 'insert into custody.refusal (code, message, request) values ($1, $2, $3)',
        values: [code, message, JSON.stringify(request)],
      })
      refusals.inc({code})
      const {intent} = request
      this.#log.warn({code, intent, subject: subjectOf(request)}, 'refused')
      return {ok: false, code, message, ...(needed && {needed})}
    }
  }

  async #signOne(context: PolicyContext, intent: Intent, add: Add): Promise<SignResult> {
    const {answer, draft} = await this.#outcomeOf(context, intent)
    if (!draft) return answer
    await add(draft)
    const {kind, stream: chain, sender, nonce, subject_id: subject, txid} = draft
    this.#log.info({kind, chain, sender, nonce, subject, txid}, 'signed')
    return answer
  }

  async #outcomeOf(context: PolicyContext, intent: Intent): Promise<Outcome> {
    return 'inputs' in intent
      ? await signBitcoin(context, this.#keys, intent)
      : await signEvm(context, this.#keys, intent)
  }
}

/** A nonce is signed with after the one below it, in whatever order they are asked for. */
function inOrderOfNonces(intents: Intent[]): Intent[] {
  const nonceOf = (intent: Intent) => ('nonce' in intent ? intent.nonce : 0)
  return intents.toSorted((a, b) => nonceOf(a) - nonceOf(b))
}

function subjectOf(request: Intent | {intent: 'check'; payout_id: string}): string {
  if ('payout_id' in request) return request.payout_id
  return 'spend_id' in request ? request.spend_id : `${request.chain} nonce ${request.nonce}`
}
