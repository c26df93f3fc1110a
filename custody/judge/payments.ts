// What may leave: payouts, which rows of app.payout describe, and withdrawals of the operator's own money. Promises:
// the first signature needs an entry of the whitelist and room in the limits; later ones cannot pay more, or somebody
// else. A payout row that is forged (the worker may write none, the API only through functions) counts only within what
// its merchant received and whitelisted.
import {noWallet} from '../../chains/no-wallet.ts'
import type {ChainCode} from '../../chains/registry.ts'
import {checkJournal} from './attempts.ts'
import {checkLimits, checkReceived} from './limits.ts'
import type {OutgoingPayment} from './outgoing-payments.ts'
import {checkAsset, type PolicyContext, type Purpose} from './plan.ts'
import {Refusal} from './refusal.ts'

interface Payout {
  id: string
  merchant_id: string
  chain: ChainCode
  token: string
  status: string
  gross: string
  fee: string
  fee_bps: number
  net: string
  address: string
}

/**
 * The purpose of a payout's payment, and the payout's status. Throws a Refusal if there is no payout, its amounts do
 * not add up, or its journal is blocked.
 */
export async function payoutPurpose(
  context: PolicyContext,
  payoutId: string,
): Promise<{purpose: Purpose; status: string}> {
  const {rows} = await context.client.query<Payout>({
    name: 'find_payout',
    text: `select p.id, p.merchant_id, p.chain, p.token, p.status, p.gross::text as gross, p.fee::text as fee, p.fee_bps, p.net::text as net, p.address
      from app.payout p where p.id = $1`,
    values: [payoutId],
  })
  const [payout] = rows
  if (!payout) throw new Refusal('unknown_settlement', `there is no payout ${payoutId}`)
  checkAsset(context, payout)
  checkJournal(context, payout.chain)
  const {id: subjectId, merchant_id, chain, token, status, gross, fee, fee_bps, net, address} = payout
  if (BigInt(net) !== BigInt(gross) - BigInt(fee) || BigInt(net) <= 0n || BigInt(fee) < 0n)
    throw new Refusal('amount_not_net', 'the net amount is not the gross amount less the fee')
  const details = {gross, fee, fee_bps} // so that a lost payout can be entered again
  const amount = BigInt(net)
  const purpose: Purpose = {
    kind: 'pay',
    chain,
    subjectId,
    merchantId: merchant_id,
    token,
    amount,
    destination: address,
    details,
  }
  return {purpose, status}
}

/** Only the owner of the database can make the row, where the operator's balance was checked. */
export function withdrawalPurpose({id, chain, token, amount, recipient}: OutgoingPayment): Purpose {
  return {
    kind: 'withdraw',
    chain,
    subjectId: id,
    merchantId: null,
    token,
    amount,
    destination: recipient,
    details: {},
  }
}

/**
 * Throws a Refusal unless the payment may be signed now. Earlier attempts (`before`) fix its destination, token and
 * amount. Only the first signature checks whitelist and limits: later ones cannot pay more, and the money may be on its
 * way. Where attempts expire, the next one is a first signature again once every earlier one is dead.
 */
export async function checkPayment(
  context: PolicyContext,
  payment: Purpose,
  before: {amount: bigint; destination: string; token: string}[],
  {isFirst}: {isFirst: boolean},
): Promise<void> {
  const {kind, amount, destination, token} = payment
  if (before.some(was => was.amount !== amount || was.destination !== destination || was.token !== token))
    throw new Refusal(
      'settlement_changed',
      `a ${kind === 'pay' ? 'payout' : 'withdrawal'} keeps the destination, token and amount of its first signature`,
    )
  if (isFirst) await checkFirst(context, payment)
}

/** Throws a Refusal if the payout is not at the step at which it is paid. */
export function checkStatus(status: string, {isSigned}: {isSigned: boolean}): void {
  if (status !== 'paying' && status !== 'swept')
    throw new Refusal('wrong_state', `the payout is ${status}; it can be paid once it is swept`)
  if (!isSigned && status === 'paying')
    throw new Refusal('wrong_state', 'the payout is paying, but the journal has no signature for it')
}

/**
 * Throws a Refusal if the payout would not be signed now. It cannot check the nonce, outputs and fees, which are not
 * known yet. One that is signed passes: its payment may have been signed since the worker read it. Resolves to its
 * chain.
 */
export async function checkPayout(context: PolicyContext, payoutId: string): Promise<ChainCode> {
  const {purpose, status} = await payoutPurpose(context, payoutId)
  if (status !== 'paying' && !['pending', 'sweeping', 'swept'].includes(status))
    throw new Refusal('wrong_state', `the payout is ${status}`)
  if (status !== 'paying') await checkFirst(context, purpose, {withBegun: true})
  return purpose.chain
}

async function checkFirst(context: PolicyContext, payment: Purpose, counts = {withBegun: false}): Promise<void> {
  await checkDestination(context, payment)
  await checkLimits(context, payment, counts)
  if (payment.kind === 'pay') await checkReceived(context, payment)
}

/**
 * The destination must be on the whitelist; what is paid to ourselves, or where it is lost, is refused whatever the
 * whitelist says.
 */
async function checkDestination(
  {client, chains}: PolicyContext,
  {chain, merchantId, destination}: Purpose,
): Promise<void> {
  const what = noWallet(chains.values(), chain, destination)
  if (what) throw new Refusal('destination_not_payable', `the destination is ${what}: what is paid there is lost`)
  const {rows} = await client.query<{is_ours: boolean; is_whitelisted: boolean}>({
    name: `check_destination_${merchantId ? 'of_merchant' : 'of_operator'}`,
    text: `select exists (select from custody.whitelist w where ${merchantId ? 'w.merchant_id = $3' : 'w.merchant_id is null and $3::uuid is null'}
          and w.chain = $1 and w.address = $2 and w.active_at <= clock_timestamp() and w.removed_at is null) as is_whitelisted,
        exists (select from custody.address a where a.match_key = app.match_key($2, c.folds_addresses)) as is_ours
      from app.chain c where c.chain = $1`,
    values: [chain, destination, merchantId],
  })
  const {is_ours, is_whitelisted} = rows[0]!
  if (is_ours) throw new Refusal('not_whitelisted', 'the destination is an address of this service')
  const whose = merchantId ? "the merchant's" : "the operator's"
  if (!is_whitelisted)
    throw new Refusal('not_whitelisted', `the destination is not on ${whose} whitelist for ${chain}, or not active yet`)
}
