// Custody's work, one turn after the other: judge (policy.ts), sign (signers/), journal (journal.ts), and only then answer. Promises: whatever
// is answered with signed bytes stands in the journal, in the database and on disk; every refusal is a row of custody.refusal and a log line;
// a turn that fails answers nothing, and asking again is safe.
import type pg from 'pg'
import type {ChainCode} from '../chains/registry.ts'
import type {Logger} from '../service/log.ts'
import {type ChainSettings, evmSettings} from '../service/settings.ts'
import {step} from '../service/step.ts'
import type {CheckResult, Intent, Refused, SignedResult, SignResult} from './intents.ts'
import type {Draft, Journal} from './journal.ts'
import type {KeyPath, KeyStore} from './keys.ts'
import {
  type Attempt,
  checkPayout,
  type Decision,
  judgeCancel,
  judgePay,
  judgeSweep,
  judgeWithdraw,
  type Plan,
  type PolicyContext,
  Refusal,
} from './policy.ts'
import {
  authorisationNonce,
  receiveCall,
  type Sign,
  type Signed,
  signTransaction,
  type Token,
  transferCall,
} from './signers/evm.ts'

type Add = (draft: Draft) => Promise<void>

export interface CustodyOptions {
  client: pg.Client
  keys: KeyStore
  journal: Journal
  chains: Map<ChainCode, ChainSettings>
  treasury: string
  log: Logger
}

export class Custody {
  readonly #client: pg.Client
  readonly #keys: KeyStore
  readonly #journal: Journal
  readonly #context: PolicyContext
  readonly #log: Logger
  #turn: Promise<unknown> = Promise.resolve()

  constructor({client, keys, journal, chains, treasury, log}: CustodyOptions) {
    this.#client = client
    this.#keys = keys
    this.#journal = journal
    this.#log = log
    this.#context = {
      client,
      chains,
      treasury: {address: treasury, path: {purpose: 'treasury', index: 0}, merchantId: null},
      whyBlocked: chain => journal.whyBlocked(chain),
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
      const results = await this.#journal.write(async add => {
        const results: SignResult[] = []
        for (const intent of intents) results.push(await this.#orRefuse(intent, () => this.#signOne(intent, add)))
        return results
      })
      step('custody: before answer')
      return results
    })
  }

  /** Whether a payout would be signed now, as far as that can be known before its nonce and fees are. */
  async check(payoutId: string): Promise<CheckResult> {
    return await this.inTurn(async () => {
      await this.#journal.level()
      return await this.#orRefuse({intent: 'check', payout_id: payoutId}, async () => {
        await checkPayout(this.#context, payoutId)
        return {ok: true}
      })
    })
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
      const {intent} = request
      this.#log.warn({code, intent, subject: subjectOf(request)}, 'refused')
      return {ok: false, code, message, ...(needed && {needed})}
    }
  }

  async #signOne(intent: Intent, add: Add): Promise<SignResult> {
    const decision = await this.#judge(intent)
    if ('attempt' in decision) return answer(decision.attempt)
    const {plan} = decision
    const signed = await this.#signPlan(plan)
    await add(draftOf(plan, signed))
    const {kind, chain, nonce, subjectId: subject} = plan
    this.#log.info({kind, chain, nonce, subject, txid: signed.txid}, 'signed')
    return answer({...plan, ...signed})
  }

  async #judge(intent: Intent): Promise<Decision> {
    if (intent.intent === 'pay') return await judgePay(this.#context, intent)
    if (intent.intent === 'sweep') return await judgeSweep(this.#context, intent)
    if (intent.intent === 'withdraw') return await judgeWithdraw(this.#context, intent)
    return await judgeCancel(this.#context, intent)
  }

  async #signPlan(plan: Plan): Promise<Signed> {
    const {chain, nonce, fees, sender, source, destination, amount} = plan
    const {chainId} = evmSettings(this.#context.chains.get(chain))
    const token = this.#tokenOf(plan)
    const common = {chainId, nonce, ...fees}
    if (!token) return await signTransaction({...common, to: destination, value: amount}, this.#signerOf(sender.path))
    const data =
      plan.kind === 'sweep'
        ? await receiveCall(
            token,
            {from: source.address, to: destination, value: amount, nonce: authorisationNonce(plan.subjectId!)},
            this.#signerOf(source.path),
          )
        : transferCall(destination, amount)
    return await signTransaction({...common, to: token.contract, value: 0n, data}, this.#signerOf(sender.path))
  }

  /** The contract of the token that a plan moves; undefined for the native coin. */
  #tokenOf({chain: code, token}: Plan): Token | undefined {
    const {tokens, chainId, usdcDomain} = evmSettings(this.#context.chains.get(code))
    const contract = [...tokens].find(([, known]) => known === token)?.[0]
    return contract === undefined ? undefined : {contract, chainId, ...usdcDomain}
  }

  #signerOf(path: KeyPath): Sign {
    return digest => this.#keys.sign(path, digest)
  }
}

function subjectOf(request: Intent | {intent: 'check'; payout_id: string}): string {
  if ('payout_id' in request) return request.payout_id
  return 'spend_id' in request ? request.spend_id : `${request.chain} nonce ${request.nonce}`
}

function draftOf(plan: Plan, {txid, raw}: Signed): Draft {
  const {maxFeePerGas, maxPriorityFeePerGas, gasLimit} = plan.fees
  return {
    stream: plan.chain,
    kind: plan.kind,
    subject_id: plan.subjectId,
    merchant_id: plan.merchantId,
    token: plan.token,
    amount: String(plan.amount),
    destination: plan.destination,
    source: plan.source.address,
    sender: plan.sender.address,
    nonce: plan.nonce,
    max_fee: String(maxFeePerGas * gasLimit),
    txid,
    raw,
    details: {
      ...plan.details,
      max_fee_per_gas: String(maxFeePerGas),
      max_priority_fee_per_gas: String(maxPriorityFeePerGas),
      gas_limit: Number(gasLimit),
    },
    signed_at: new Date().toISOString(),
  }
}

function answer({txid, raw, amount, fees}: Pick<Attempt, 'txid' | 'raw' | 'amount' | 'fees'>): SignedResult {
  return {
    ok: true,
    txid,
    raw,
    amount: String(amount),
    max_fee_per_gas: String(fees.maxFeePerGas),
    max_priority_fee_per_gas: String(fees.maxPriorityFeePerGas),
    gas_limit: Number(fees.gasLimit),
  }
}
