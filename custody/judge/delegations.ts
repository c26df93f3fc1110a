// The treasury's stake: energy that it lends an address for the sweep of a token, and takes back; and what an operator
// stakes and unstakes. Promises: none of it moves coins to anybody; energy is lent to our own deposit addresses alone,
// for a sweep that is worth it, never for a fixed time, to each once at a time, and in all no more than the operator
// allows. It is not taken back while a sweep may still be mined that counts on it: that would burn the coins of the
// address's merchant. An address sweeps by lent energy only if that was lent in a final block.
//
// What was signed is read from the journal's file, whatever the database says. What became of it is read from the
// blocks, which only the indexers write. How much is lent in all is the sum of the database's rows: a stolen worker may
// lend more of the stake, to our own addresses, until it is taken back. Only the owner of the database can begin to
// stake or to unstake.
import {most} from '../../base/bigints.ts'
import {chain as registered} from '../../chains/registry.ts'
import type {CustodyFamily} from '../family.ts'
import type {Kind} from '../intents.ts'
import {checkWorth, readSigned} from './funds.ts'
import type {OutgoingPayment} from './outgoing-payments.ts'
import {type FamilyContext, findOwn, type Plan, type Purpose} from './plan.ts'
import {Refusal} from './refusal.ts'

/** Of any kind of staking. What it is about (`stake`, in base units) does not move, so its amount is 0. */
export async function stakingPurpose(
  context: FamilyContext,
  outgoingPayment: OutgoingPayment,
  kind: Kind,
  funds: CustodyFamily['funds'],
): Promise<Purpose> {
  const {id: subjectId, chain, token, amount, recipient, forToken, resource} = outgoingPayment
  const isOfNative = token === registered(chain).assets[0].token
  if (outgoingPayment.kind !== kind || !isOfNative || amount <= 0n || !funds?.mostLent)
    throw new Refusal('settlement_changed', `this outgoing payment was not begun as a ${kind}`)
  const whose = kind === 'delegate' || kind === 'undelegate' ? await borrower(context, recipient) : undefined
  if (kind === 'delegate' && !funds.isFunded(context.chains.get(chain)!, forToken ?? ''))
    throw new Refusal('settlement_changed', 'energy is lent for the sweep of a token alone')
  return {
    kind,
    chain,
    subjectId,
    merchantId: whose?.merchantId ?? null,
    token,
    amount: 0n,
    destination: whose?.address ?? context.treasury.address,
    details: {
      stake: String(amount),
      ...(resource && {resource}),
      ...(kind === 'delegate' && {for_token: forToken!}),
    },
  }
}

async function borrower(context: FamilyContext, recipient: string) {
  const own = await findOwn(context, recipient)
  if (own.path.purpose !== 'deposit') throw new Refusal('not_ours', 'energy is lent to deposit addresses alone')
  return own
}

const stakeOf = ({details}: Pick<Plan, 'details'>) => BigInt(String(details.stake))

/** Throws a Refusal unless energy may be lent. `before`: the delegate's earlier attempts. */
export async function checkDelegate(
  context: FamilyContext,
  plan: Plan,
  before: Pick<Plan, 'details' | 'destination'>[],
  funds: NonNullable<CustodyFamily['funds']>,
): Promise<void> {
  const {chain, destination, details, outgoingPaymentId} = plan
  const stake = stakeOf(plan)
  if (before.some(was => stakeOf(was) !== stake || was.destination !== destination))
    throw new Refusal('settlement_changed', 'a delegate keeps the address and the stake of its first signature')
  if (!before.length) await checkWorth(context, plan, String(details.for_token))
  const {most: atMost} = await lentTo(context, chain, destination)
  if (atMost > 0n) throw new Refusal('energy_in_use', `the address may have ${atMost} base units of the stake already`)
  const {rows} = await context.client.query<{lent: string}>({
    name: 'lent_in_all',
    text: 'select app.lent_in_all($1, $2)::text as lent',
    values: [chain, outgoingPaymentId],
  })
  const allowed = funds.mostLent!(context.chains.get(chain)!)
  if (BigInt(rows[0]!.lent) + stake > allowed)
    throw new Refusal(
      'stake_lent',
      `${rows[0]!.lent} base units of the stake are lent, and ${stake} more would exceed ${chain}_MAX_DELEGATED (${allowed})`,
    )
}

/**
 * Throws a Refusal unless what the address has may be taken back. As much as anybody asks for: more than is lent cannot
 * be mined, and this journal may lack what was lent.
 */
export async function checkUndelegate(context: FamilyContext, plan: Plan): Promise<void> {
  const {chain, destination} = plan
  const {isSweeping} = await lentTo(context, chain, destination)
  if (isSweeping) throw new Refusal('energy_in_use', 'a sweep of the address may still be mined, and needs its energy')
}

/** Whether an address has energy that nothing signed can take away before its sweep. */
export async function isLent(context: FamilyContext, chain: Plan['chain'], address: string): Promise<boolean> {
  return (await lentTo(context, chain, address)).least > 0n
}

interface Lent {
  /**
   * The most, and the least, of the stake that the address can have, in base units, whatever becomes of what is not
   * final.
   */
  most: bigint
  least: bigint
  /** A sweep of it that pays for itself may still be mined. */
  isSweeping: boolean
}

async function lentTo(context: FamilyContext, chain: Plan['chain'], address: string): Promise<Lent> {
  const lent: Lent = {most: 0n, least: 0n, isSweeping: false}
  for (const {kind, amount, isFinal} of await readSigned(context, chain, address)) {
    if (kind === 'delegate') {
      lent.most += amount
      if (isFinal) lent.least += amount
    } else if (kind === 'undelegate') {
      // Never below nothing: it may have taken back what this journal does not have.
      lent.least = most(lent.least - amount, 0n)
      if (isFinal) lent.most = most(lent.most - amount, 0n)
    } else if (kind === 'sweep' && !isFinal) lent.isSweeping = true
  }
  return lent
}
