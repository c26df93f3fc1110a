// An intent on Bitcoin, from what was asked to what is answered: judged (judge.ts), signed (sign.ts), and written down as
// the journal has it. Promises: no draft without a signature of exactly what it says; no I/O but policy's and the key store's.
import type {BitcoinIntent, SignedResult} from '../intents.ts'
import type {Draft} from '../journal.ts'
import type {KeyStore} from '../keys.ts'
import type {Outcome, PolicyContext} from '../policy.ts'
import {type Attempt, judge, type Plan} from './judge.ts'
import {type Signed, signTransaction} from './sign.ts'

export async function signBitcoin(context: PolicyContext, keys: KeyStore, intent: BitcoinIntent): Promise<Outcome> {
  const decision = await judge(context, intent)
  if ('attempt' in decision) return {answer: answer(decision.attempt)}
  const {plan} = decision
  await context.budget.charge({...plan, sender: plan.inputs[0]!.outpoint, nonce: 0, maxFee: plan.fee})
  const signed = await signTransaction(plan, keys)
  return {
    answer: answer({...plan, ...signed}),
    draft: draftOf(plan, signed, context.treasuries.bitcoin.address),
  }
}

/** The lead stands where other chains have the sender: (stream, sender, nonce) is what excludes, here, too. */
function draftOf(plan: Plan, {txid, raw, vsize}: Signed, treasury: string): Draft {
  const inputs = plan.inputs.map(({outpoint}) => outpoint)
  return {
    stream: plan.chain,
    kind: plan.kind,
    subject_id: plan.subjectId,
    merchant_id: plan.merchantId,
    token: plan.token,
    amount: String(plan.amount),
    destination: plan.destination,
    source: treasury,
    sender: inputs[0]!,
    nonce: 0,
    max_fee: String(plan.fee),
    txid,
    raw,
    details: {...plan.details, inputs, network_fee: String(plan.fee), vsize, change: String(plan.change)},
    signed_at: new Date().toISOString(),
  }
}

function answer({
  txid,
  raw,
  amount,
  fee,
  vsize,
}: Pick<Attempt, 'txid' | 'raw' | 'amount' | 'fee' | 'vsize'>): SignedResult {
  return {ok: true, txid, raw, amount: String(amount), fee: String(fee), vsize}
}
