// The chains of Solana in custody.
import {z} from 'zod'
import {addressOf} from '../../chains/solana/address.ts'
import {Key} from '../../chains/solana/responses.ts'
import type {SolanaSettings} from '../../chains/solana/settings.ts'
import type {CustodyFamily} from '../family.ts'
import {intentsOf, units} from '../intents.ts'
import {ed25519} from '../keys/ed25519.ts'
import {checkSweep, type SolanaTerms, termsOf} from './plan.ts'
import {type SolanaDetails, sign} from './sign.ts'

const [pay, , withdraw] = intentsOf('solana', 'solana', {priority_fee: units})
const [, sweep] = intentsOf('solana', 'solana', {
  priority_fee: units,
  account: Key.optional(),
  new_account: z.boolean().optional(),
})
const Intent = z.discriminatedUnion('intent', [pay, sweep, withdraw])

export const solana: CustodyFamily<SolanaSettings, z.infer<typeof Intent>, SolanaTerms, SolanaDetails> = {
  curve: ed25519,
  // As in wallets, whose accounts are the index. The last one is the treasury's: there are not so many deposit
  // addresses.
  branches: {deposit: "m/44'/501'/i'/0'", treasury: "m/44'/501'/2147483647'/i'"},
  address: addressOf,
  intents: Intent,
  async plan(context, of, intent) {
    const priorityFee = BigInt(intent.priority_fee)
    if (intent.intent !== 'sweep_solana') return {plan: await termsOf(context, of, {priorityFee})}
    const {account, new_account: isNewAccount} = intent
    return {plan: await termsOf(context, of, {priorityFee, account, isNewAccount})}
  },
  checkSweep,
  sign: async (_settings, keys, plan) => await sign(keys, plan),
  fees: ({max_fee, priority_fee, rent}) => ({max_fee, priority_fee, ...(rent && {rent})}),
}
