// An intent on an EVM chain, from what was asked to what is answered: judged (judge.ts), signed (sign.ts), and written down as the
// journal has it. Promises: no draft without a signature of exactly what it says; no I/O but policy's and the key store's.
import {evmSettings} from '../../chains/evm/settings.ts'
import type {EvmIntent, SignedResult} from '../intents.ts'
import type {Draft} from '../journal.ts'
import type {KeyPath, KeyStore} from '../keys.ts'
import type {Outcome, PolicyContext} from '../policy.ts'
import {type Attempt, judge, type Plan} from './judge.ts'
import {
  authorisationNonce,
  receiveCall,
  type Sign,
  type Signed,
  signTransaction,
  type Token,
  transferCall,
} from './sign.ts'

export async function signEvm(context: PolicyContext, keys: KeyStore, intent: EvmIntent): Promise<Outcome> {
  const decision = await judge(context, intent)
  if ('attempt' in decision) return {answer: answer(decision.attempt)}
  const {plan} = decision
  const {maxFeePerGas, gasLimit} = plan.fees
  const {address: sender} = plan.sender
  await context.budget.charge({...plan, sender, maxFee: maxFeePerGas * gasLimit, isBump: false})
  const signed = await signPlan(context, keys, plan)
  return {answer: answer({...plan, ...signed}), draft: draftOf(plan, signed)}
}

async function signPlan(context: PolicyContext, keys: KeyStore, plan: Plan): Promise<Signed> {
  const {chain, nonce, fees, sender, source, destination, amount} = plan
  const signerOf =
    (path: KeyPath): Sign =>
    digest =>
      keys.sign(path, digest)
  const {chainId} = evmSettings(context.chains.get(chain))
  const token = tokenOf(context, plan)
  const common = {chainId, nonce, ...fees}
  if (!token) return await signTransaction({...common, to: destination, value: amount}, signerOf(sender.path))
  const data =
    plan.kind === 'sweep'
      ? await receiveCall(
          token,
          {from: source.address, to: destination, value: amount, nonce: authorisationNonce(plan.subjectId!)},
          signerOf(source.path),
        )
      : transferCall(destination, amount)
  return await signTransaction({...common, to: token.contract, value: 0n, data}, signerOf(sender.path))
}

/** The contract of the token that a plan moves; undefined for the native coin. */
function tokenOf(context: PolicyContext, {chain, token}: Plan): Token | undefined {
  const {tokens, chainId, usdcDomain} = evmSettings(context.chains.get(chain))
  const contract = [...tokens].find(([, known]) => known === token)?.[0]
  return contract === undefined ? undefined : {contract, chainId, ...usdcDomain}
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
