// Builds and signs payments of SOL, and of tokens. Promises: equal plans give equal bytes, and these say what the plan
// says. They are the bytes that @solana/kit makes, which is not used: custody's process would have to load it, next to
// the keys, for a message of some hundred bytes.
import {messageOf, type Payment, parsePayment, rawOf} from '../../chains/solana/message.ts'
import type {Signed} from '../family.ts'
import type {Details} from '../judge/attempts.ts'
import type {Plan} from '../judge/plan.ts'
import type {KeyStore} from '../keys/key-store.ts'
import type {SolanaTerms} from './plan.ts'

export type SolanaDetails = Details & {max_fee: string; priority_fee: string; rent?: string}

export async function sign(keys: KeyStore, plan: Plan & SolanaTerms): Promise<Signed<SolanaDetails>> {
  const {paths, source: from, destination, feePayer, lifetime, priorityFee, rent, transfer, ...rest} = plan
  const {amount, blockhash, computeUnitLimit} = rest
  const {to, ...token} = transfer ?? {to: destination}
  const common = {from, to, feePayer, amount, blockhash, computeUnitLimit, priorityFee}
  const payment: Payment = 'mint' in token ? {...common, token} : common
  const message = messageOf(payment)
  const signers = feePayer === from ? [paths.source] : [paths.feePayer, paths.source] // in the order of signersOf
  const signatures: Uint8Array[] = []
  for (const signer of signers) signatures.push(await keys.sign(signer, message))
  const raw = rawOf(message, signatures)
  return {
    txid: parsePayment(raw).txid,
    raw,
    details: {
      lifetime: {...lifetime},
      max_fee: String(plan.maxFee),
      priority_fee: String(priorityFee),
      ...(rent && {rent: String(rent)}),
    },
  }
}
