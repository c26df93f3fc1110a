// The row that each signature is for: app.outgoing_payment. The worker creates it through functions that bind it to a
// payout, to what an address holds, or to an operator's decision. A forged row yields only a signature that is allowed
// anyway and counts in the budget.
import type {ChainCode} from '../../chains/registry.ts'
import type {Intent, StakingKind} from '../intents.ts'
import {type FamilyContext, findOwn} from './plan.ts'
import {Refusal} from './refusal.ts'

export interface OutgoingPayment {
  id: string
  /** A cancel is of a nonce that only has to be used up. */
  kind: 'payout' | 'sweep' | 'withdrawal' | 'cancel' | 'fund' | 'defund' | StakingKind
  payoutId: string | null
  chain: ChainCode
  token: string
  amount: bigint
  source: string
  recipient: string
  feePayer: string
  nonce: number | null
  firstInput: string | null
  conflictKey: string | null
  status: string
  cancelling: boolean
  /** Of a fund, or a delegate: the token whose sweep it is for. */
  forToken: string | null
  /** Its network fee is paid with gas on its address. */
  fromGas: boolean
  /** What is staked or lent. */
  resource: 'energy' | 'bandwidth' | null
}

/**
 * The outgoing payment of an intent, which is kept from ending until custody's transaction does: what is judged from
 * here on is still true when the journal is committed. So the judge calls it before it reads anything that may change.
 * Undefined if there is none. Throws a Refusal that passes if somebody else is changing the payment.
 */
export async function lockOutgoingPayment(
  context: FamilyContext,
  intent: Intent,
): Promise<OutgoingPayment | undefined> {
  const {client, timeLeft} = context
  const {name, where, values} = await whereIs(context, intent)
  const {rows: locked} = await client.query<{id: string; waited: number | null}>({
    name: `lock_outgoing_payment_${name}`,
    text: `select s.id, custody.lock_outgoing_payment(s.id, $1) as waited from app.outgoing_payment s where ${where}`,
    values: [Math.max(0, timeLeft.ms), ...values],
  })
  const [row] = locked
  if (!row) return undefined
  timeLeft.ms -= row.waited ?? timeLeft.ms
  if (row.waited === null)
    throw new Refusal('payment_locked', 'the outgoing payment is being changed at this moment; ask again')
  const {rows} = await client.query<Omit<OutgoingPayment, 'amount'> & {amount: string}>({
    name: 'find_outgoing_payment',
    text: `select s.id, s.kind, s.payout_id as "payoutId", s.chain, s.token, s.amount::text as amount, s.source, s.recipient, s.fee_payer as "feePayer",
        s.nonce, s.first_input as "firstInput", s.conflict_key as "conflictKey", s.status, s.cancelling, s.for_token as "forToken", s.from_gas as "fromGas", s.resource
      from app.outgoing_payment s where s.id = $1`,
    values: [row.id],
  })
  return rows[0] && {...rows[0], amount: BigInt(rows[0].amount)}
}

/** An intent names its outgoing payment by its id, by the payout that it pays, or by the nonce that it uses. */
async function whereIs(
  context: FamilyContext,
  intent: Intent,
): Promise<{name: string; where: string; values: unknown[]}> {
  if ('payout_id' in intent)
    return {name: 'by_payout', where: `s.payout_id = $2 and s.kind = 'payout'`, values: [intent.payout_id]}
  if ('outgoing_payment_id' in intent) return {name: 'by_id', where: 's.id = $2', values: [intent.outgoing_payment_id]}
  const {chain, sender, nonce} = intent
  const {address} = await findOwn(context, sender)
  return {name: 'by_nonce', where: 's.chain = $2 and s.conflict_key = $3', values: [chain, `${address}:${nonce}`]}
}
