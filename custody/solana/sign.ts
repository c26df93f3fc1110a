// Builds and signs payments of SOL. Promises: equal plans give equal bytes, and these say what the plan says. They are the bytes that @solana/kit makes,
// which is not used: custody's process would have to load it, next to the keys, for a message of 202 bytes.
import {messageOf, type Payment, parsePayment, rawOf} from '../../chains/solana/message.ts'
import type {Details} from '../attempts.ts'
import type {Signed} from '../family.ts'
import type {KeyStore} from '../keys.ts'
import type {SolanaPlan} from './judge.ts'

export type SolanaDetails = Details & {max_fee: string; priority_fee: string}

export async function sign(keys: KeyStore, plan: SolanaPlan): Promise<Signed<SolanaDetails>> {
  const {path, source: from, destination: to, amount, blockhash, computeUnitLimit, lifetime, priorityFee} = plan
  const payment: Payment = {from, to, amount, blockhash, computeUnitLimit, priorityFee}
  const message = messageOf(payment)
  const raw = rawOf(message, await keys.sign(path, message))
  return {
    txid: parsePayment(raw).txid,
    raw,
    details: {lifetime: {...lifetime}, max_fee: String(plan.maxFee), priority_fee: String(priorityFee)},
  }
}
