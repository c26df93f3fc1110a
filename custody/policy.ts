// What custody signs and what it refuses, as far as all families of chains share it. Custody trusts no other process. An intent names only a
// purpose. Everything else is read here, from rows that neither the API nor the worker can write (custody.*, chain.*), or from rows that do no
// harm if they are forged (app.payout says whom to pay how much, and counts only within what that merchant received and whitelisted).
//
// Promises: the signatures of a payout exclude each other for ever, so at most one of them can be mined (evm/judge.ts and bitcoin/judge.ts
// say how). The sum of what is signed for a merchant, chain and token, and not dead, never exceeds the final amount that the indexers
// saw arrive on addresses handed to that merchant. Sweeps go only to the treasury. Every signature needs a row that gives its nonce, or
// outputs, and stays within the network fees that budget.ts allows.
import type pg from 'pg'
import {formatUnits} from 'viem'
import type {CommonSettings} from '../chains/chain-settings.ts'
import type {ChainSettings} from '../chains/families.ts'
import {noWallet} from '../chains/no-wallet.ts'
import type {Asset, ChainCode, Family} from '../chains/registry.ts'
import {type Attempt, checkJournal, checkRows, type Details} from './attempts.ts'
import {entryColumns, type Journal} from './journal.ts'
import type {Entry} from './journal-file.ts'
import type {KeyPath} from './keys.ts'
import {type Kind, Refusal} from './refusal.ts'

/** An address of ours, and the path of its key. */
export interface Own {
  address: string
  path: KeyPath
  merchantId: string | null
}

/** The purpose of a signature, after all checks have passed. */
export interface Purpose {
  kind: Kind
  chain: ChainCode
  subjectId: string | null
  merchantId: string | null
  token: string
  amount: bigint
  destination: string
  /** What else the journal records, so that a lost payout can be entered again. */
  details: Details
}

/** What will be signed. */
export interface Plan extends Purpose {
  /** The address that the money comes from. */
  source: string
  /** Our address that pays the network fee; where nonces exclude, it sends the transaction. */
  feePayer: string
  /** Null where attempts do not exclude each other by nonces. */
  nonce: number | null
  /** What all attempts use, and only one transaction can use up: feePayer:nonce, or the first input. Null where attempts expire. */
  conflictKey: string | null
  /** The highest network fee that it may cost. */
  maxFee: bigint
  /** The id of the row of app.outgoing_payment that it is an attempt for. */
  outgoingPaymentId: string
  /** It replaces a signed payment or withdrawal, or cancels one that has begun. */
  isForPaymentUnderWay: boolean
}

/** A plan to sign, or an earlier attempt for the same purpose. */
export type Decision<P extends Plan> = {plan: P} | {attempt: Attempt}

export interface PolicyContext {
  client: pg.Client
  chains: Map<ChainCode, ChainSettings>
  journal: Journal
  /** The family that judges; it signs only on its own chains. Absent where nothing is signed yet. */
  family?: Family
}

/** What a family needs to judge. */
export interface FamilyContext extends PolicyContext {
  family: Family
  treasury: Own
  timeLeft: TimeLeft
}

/** How long this turn may still wait for rows that others hold. Meanwhile others wait for the rows that it has locked itself. */
export interface TimeLeft {
  ms: number
}

// --- a payout ---

export interface Payout {
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
  is_whitelisted: boolean
  is_ours: boolean
}

export async function findPayout(context: PolicyContext, id: string): Promise<Payout> {
  const {rows} = await context.client.query<Payout>({
    name: 'find_payout',
    text: `select p.id, p.merchant_id, p.chain, p.token, p.status, p.gross::text as gross, p.fee::text as fee, p.fee_bps, p.net::text as net,
        p.address,
        exists (select from custody.whitelist w where w.merchant_id = p.merchant_id and w.chain = p.chain and w.address = p.address
          and w.active_at <= clock_timestamp() and w.removed_at is null) as is_whitelisted,
        exists (select from custody.address a where a.match_key = app.match_key(p.address, c.folds_addresses)) as is_ours
      from app.payout p join app.chain c on c.chain = p.chain where p.id = $1`,
    values: [id],
  })
  const [payout] = rows
  if (!payout) throw new Refusal('unknown_settlement', `there is no payout ${id}`)
  checkAsset(context, payout)
  checkJournal(context, payout.chain)
  return payout
}

/**
 * Throws a Refusal if the payout would not be signed now. It cannot check the nonce, outputs and fees, which are not known yet. One that is signed
 * passes: its payment may have been signed since the worker read it.
 */
export async function checkPayout(context: PolicyContext, payoutId: string): Promise<Payout> {
  const payout = await findPayout(context, payoutId)
  if (payout.status === 'paying') return payout
  if (!['pending', 'sweeping', 'swept'].includes(payout.status))
    throw new Refusal('wrong_state', `the payout is ${payout.status}`)
  checkNet(payout)
  await checkFirst(context, payout, {withBegun: true})
  return payout
}

/**
 * Throws a Refusal unless the payout may be signed now. Earlier attempts (`before`) fix its destination, token and amount. Only the first
 * signature checks whitelist and limits: later ones cannot pay more, and the money may be on its way. Where attempts expire, the next one is a first
 * signature again once every earlier one is dead.
 */
export async function checkPay(
  context: PolicyContext,
  payout: Payout,
  before: {amount: bigint; destination: string; token: string}[],
  {isFirst} = {isFirst: !before.length},
): Promise<void> {
  if (payout.status !== 'paying' && payout.status !== 'swept')
    throw new Refusal('wrong_state', `the payout is ${payout.status}; it can be paid once it is swept`)
  if (!before.length && payout.status === 'paying')
    throw new Refusal('wrong_state', 'the payout is paying, but the journal has no signature for it')
  for (const {amount, destination, token} of before)
    if (amount !== BigInt(payout.net) || destination !== payout.address || token !== payout.token)
      throw new Refusal('settlement_changed', 'a payout keeps the destination, token and amount of its first signature')
  checkNet(payout)
  if (isFirst) await checkFirst(context, payout)
}

/** What the journal records of a payout, so that it can be entered again. */
export function purposeOfPayout({id, merchant_id, chain, token, net, address, gross, fee, fee_bps}: Payout): Purpose {
  return {
    kind: 'pay',
    chain,
    subjectId: id,
    merchantId: merchant_id,
    token,
    amount: BigInt(net),
    destination: address,
    details: {gross, fee, fee_bps},
  }
}

function checkNet({gross, fee, net}: Payout): void {
  if (BigInt(net) !== BigInt(gross) - BigInt(fee) || BigInt(net) <= 0n || BigInt(fee) < 0n)
    throw new Refusal('amount_not_net', 'the net amount is not the gross amount less the fee')
}

/** Throws a Refusal if what is paid there is lost, whatever a whitelist says. */
function checkWallet({chains}: PolicyContext, chain: ChainCode, address: string): void {
  const what = noWallet(chains.values(), chain, address)
  if (what) throw new Refusal('destination_not_payable', `the destination is ${what}: what is paid there is lost`)
}

async function checkFirst(context: PolicyContext, payout: Payout, more = {withBegun: false}): Promise<void> {
  const {chain, token, address, is_ours, is_whitelisted} = payout
  checkWallet(context, chain, address)
  if (is_ours) throw new Refusal('not_whitelisted', 'the destination is an address of this service')
  if (!is_whitelisted)
    throw new Refusal(
      'not_whitelisted',
      `the destination is not on the merchant's whitelist for ${chain}, or not active yet`,
    )
  const net = BigInt(payout.net)
  await checkLimits(context, chain, token, net, payout.id, more)
  const {rows} = await context.client.query<{received: string}>({
    name: 'received',
    text: `select coalesce(sum(t.amount), 0)::text as received from chain.cursor c
      join custody.address a on a.merchant_id = $1 and a.purpose = 'deposit'
      join chain.transfer t on t.recipient = a.address and t.chain = $2 and t.token = $3 and t.block_height <= c.final_height
      where c.chain = $2`,
    values: [payout.merchant_id, chain, token],
  })
  const {received} = rows[0]!
  const signed = await signedFor(context, payout)
  if (signed + net <= BigInt(received)) return
  const coins = inCoins(context, payout)
  throw new Refusal(
    'exceeds_received',
    `the chain has ${coins(received)} ${token} that this merchant received (final deposits); ${coins(signed)} are signed already, and ${coins(net)} more would exceed that`,
  )
}

/** Amounts of an asset in whole coins, for people. */
function inCoins(context: PolicyContext, asset: {chain: ChainCode; token: string}): (units: bigint | string) => string {
  const {decimals} = checkAsset(context, asset)
  return units => formatUnits(BigInt(units), decimals)
}

/**
 * What is signed for the payout's merchant, chain and token, without the payout itself, and not dead. The sum comes from the journal's
 * file. The table only says what to subtract: each entry is compared with the file, and a payment counts with all its attempts or not at all.
 */
async function signedFor({client, journal}: PolicyContext, {id, merchant_id, chain, token}: Payout): Promise<bigint> {
  const {rows} = await client.query<Entry>({
    name: 'dead_and_own',
    text: `select ${entryColumns} from custody.journal j
      where j.kind = 'pay' and j.merchant_id = $1 and j.stream = $2 and j.token = $3 and j.subject_id <> $4
        and not exists (select from app.attempt_fate f
          where f.chain = j.stream and f.subject_id = j.subject_id and f.kind = 'pay' and f.fate <> 'dead')
      union all
      select ${entryColumns} from custody.journal j where j.kind = 'pay' and j.stream = $2 and j.subject_id = $4`,
    values: [merchant_id, chain, token, id],
  })
  return amountsOf(journal, chain, rows)
    .filter(dead => dead.merchantId === merchant_id && dead.token === token)
    .reduce((sum, {amount}) => sum - amount, journal.known.paid(chain, token, merchant_id))
}

/**
 * `withBegun` also counts payments that have a nonce and are not signed yet: a payment with a nonce and no signature before tomorrow would
 * hold up every later one.
 */
async function checkLimits(
  context: PolicyContext,
  chain: ChainCode,
  token: string,
  amount: bigint,
  subjectId: string,
  {withBegun} = {withBegun: false},
): Promise<void> {
  const {payoutLimit, dailyLimit} = context.chains.get(chain)!
  const coins = inCoins(context, {chain, token})
  const limit = payoutLimit.get(token)
  if (limit !== undefined && amount > limit)
    throw new Refusal(
      'above_limit',
      `${coins(amount)} ${token} is more than ${chain}_PAYOUT_LIMIT allows for one payout (${coins(limit)})`,
    )
  const daily = dailyLimit.get(token)
  if (daily === undefined) return
  const moment = new Date().toISOString()
  const paid = context.journal.known.paidOn(moment, chain, token, subjectId)
  let signed = paid + (withBegun ? await begunBy(context, chain, token, subjectId) : 0n)
  if (signed + amount > daily) signed -= await deadOn(moment, context, chain, token, subjectId)
  if (signed + amount > daily)
    throw new Refusal(
      'daily_limit',
      `payments of ${coins(signed)} ${token} are signed today (UTC); ${coins(amount)} more would exceed ${chain}_DAILY_LIMIT (${coins(daily)})`,
    )
}

/**
 * Where attempts expire: how much of what was signed on the day (UTC) of that moment can never be paid any more. The sum that it is subtracted from comes
 * from the journal's file; the table only says what to subtract: each payment with all its entries, compared with the file, or not at all.
 */
async function deadOn(
  moment: string,
  {client, journal}: PolicyContext,
  chain: ChainCode,
  token: string,
  exceptSubject: string,
): Promise<bigint> {
  const firstExpiring = journal.known.firstExpiring(moment, chain, token)
  if (firstExpiring === undefined) return 0n
  const {rows} = await client.query<Entry>({
    name: 'dead_of_day',
    text: `select ${entryColumns} from custody.journal j
      where j.kind in ('pay', 'withdraw') and j.subject_id in (
          select t.subject_id from custody.journal t where t.stream = $1 and t.seq >= $2 and t.token = $3 and t.lifetime_end is not null
            and (t.signed_at at time zone 'UTC')::date = $5::date)
        and j.subject_id <> $4
        and not exists (select from app.attempt_fate f
          where f.chain = j.stream and f.subject_id = j.subject_id and f.kind = j.kind and f.fate <> 'dead')`,
    values: [chain, firstExpiring, token, exceptSubject, moment.slice(0, 10)],
  })
  return amountsOf(journal, chain, rows).reduce((sum, {amount}) => sum + amount, 0n)
}

/** The payments of these rows, each once. Throws a Refusal unless the rows are all that the file has of them. */
function amountsOf(
  journal: Journal,
  chain: ChainCode,
  rows: Entry[],
): {merchantId: string | null; token: string | null; amount: bigint}[] {
  return [...Map.groupBy(rows, ({subject_id}) => subject_id)].map(([subject, attempts]) => {
    checkRows(journal.checkAttempts(attempts, chain, subject))
    const {merchant_id, token, amount} = attempts[0]! // all move the same amount
    return {merchantId: merchant_id, token, amount: BigInt(amount!)}
  })
}

/** The sum of all payments, without this subject, that have a nonce and were never signed according to the journal's file. */
async function begunBy(
  {client, journal}: PolicyContext,
  chain: ChainCode,
  token: string,
  exceptSubject: string,
): Promise<bigint> {
  const {rows} = await client.query<{subject: string; amount: string}>({
    name: 'find_begun',
    text: `select coalesce(s.payout_id, s.id) as subject, s.amount::text as amount from app.outgoing_payment s
      where s.chain = $1 and s.token = $2 and s.kind in ('payout', 'withdrawal') and s.status = 'allocated' and not s.cancelling
        and coalesce(s.payout_id, s.id) <> $3`,
    values: [chain, token, exceptSubject],
  })
  const unsigned = rows.filter(({subject}) => journal.known.attemptsOf(subject) === 0)
  return unsigned.reduce((sum, {amount}) => sum + BigInt(amount), 0n)
}

// --- a withdrawal ---

interface Withdrawal {
  id: string
  chain: ChainCode
  token: string
  amount: string
  recipient: string
  nonce: number | null
  status: string
  cancelling: boolean
  is_whitelisted: boolean
  is_ours: boolean
}

/** A withdrawal of the operator's own money. Only the owner of the database can make the row, where the operator's balance was checked. */
export async function findWithdrawal(context: FamilyContext, {lockedId: id}: Locked): Promise<Withdrawal> {
  const {rows} = await context.client.query<Withdrawal>({
    name: 'find_withdrawal',
    text: `select s.id, s.chain, s.token, s.amount::text as amount, s.recipient, s.nonce, s.status, s.cancelling,
        exists (select from custody.whitelist w where w.merchant_id is null and w.chain = s.chain and w.address = s.recipient
          and w.active_at <= clock_timestamp() and w.removed_at is null) as is_whitelisted,
        exists (select from custody.address a where a.match_key = app.match_key(s.recipient, c.folds_addresses)) as is_ours
      from app.outgoing_payment s join app.chain c on c.chain = s.chain where s.id = $1 and s.kind = 'withdrawal'`,
    values: [id],
  })
  const [outgoingPayment] = rows
  if (!outgoingPayment) throw new Refusal('unknown_settlement', 'there is no such withdrawal')
  checkAsset(context, outgoingPayment)
  checkJournal(context, outgoingPayment.chain)
  if (outgoingPayment.status === 'final' || outgoingPayment.cancelling)
    throw new Refusal(
      'wrong_state',
      `the withdrawal is ${outgoingPayment.cancelling ? 'being cancelled' : outgoingPayment.status}`,
    )
  return outgoingPayment
}

/** Like checkPay, for a withdrawal. */
export async function checkWithdraw(
  context: PolicyContext,
  {id, chain, token, amount, recipient, is_ours, is_whitelisted}: Withdrawal,
  before: {amount: bigint; destination: string; token: string}[],
  {isFirst} = {isFirst: !before.length},
): Promise<void> {
  for (const {amount: was, destination, token: of} of before)
    if (was !== BigInt(amount) || destination !== recipient || of !== token)
      throw new Refusal(
        'settlement_changed',
        'a withdrawal keeps the destination, token and amount of its first signature',
      )
  if (!isFirst) return
  checkWallet(context, chain, recipient)
  if (is_ours) throw new Refusal('not_whitelisted', 'the destination is an address of this service')
  if (!is_whitelisted)
    throw new Refusal(
      'not_whitelisted',
      `the destination is not on the operator's whitelist for ${chain}, or not active yet`,
    )
  await checkLimits(context, chain, token, BigInt(amount), id)
}

export function purposeOfWithdrawal({id, chain, token, amount, recipient}: Withdrawal): Purpose {
  return {
    kind: 'withdraw',
    chain,
    subjectId: id,
    merchantId: null,
    token,
    amount: BigInt(amount),
    destination: recipient,
    details: {},
  }
}

// --- shared by all ---

/**
 * What we pay for one purpose: app.outgoing_payment. The worker creates it through functions that bind it to a payout, to
 * what an address holds, or to an operator's decision. A forged row yields only a signature that is allowed anyway and counts in the budget.
 */
export interface OutgoingPayment {
  id: string
  kind: 'payout' | 'sweep' | 'withdrawal'
  token: string
  amount: bigint
  source: string
  feePayer: string
  nonce: number | null
  firstInput: string | null
  status: string
  cancelling: boolean
}

/** Finds an outgoing payment by its id, by the payout that it pays, or by the nonce that it uses. */
type OutgoingPaymentKey = {id: string} | {payoutId: string} | {chain: string; feePayer: string; nonce: number}

/** The id of an outgoing payment that is locked; null if there was none. */
export interface Locked {
  lockedId: string | null
}

/**
 * Keeps an outgoing payment from ending until custody's transaction does: what is judged from here on is still true when the journal is committed.
 * So a judge calls it before it reads anything that may change. Throws a Refusal that passes if somebody else is changing the payment.
 */
export async function lockOutgoingPayment({client, timeLeft}: FamilyContext, key: OutgoingPaymentKey): Promise<Locked> {
  const {name, where, values} = whereIs(key)
  const {rows} = await client.query<{id: string; waited: number | null}>({
    name: `lock_outgoing_payment_${name}`,
    text: `select s.id, custody.lock_outgoing_payment(s.id, $1) as waited from app.outgoing_payment s where ${where}`,
    values: [Math.max(0, timeLeft.ms), ...values],
  })
  const [row] = rows
  if (!row) return {lockedId: null}
  timeLeft.ms -= row.waited ?? timeLeft.ms
  if (row.waited === null)
    throw new Refusal('payment_locked', 'the outgoing payment is being changed at this moment; ask again')
  return {lockedId: row.id}
}

function whereIs(key: OutgoingPaymentKey): {name: string; where: string; values: unknown[]} {
  if ('id' in key) return {name: 'by_id', where: 's.id = $2', values: [key.id]}
  if ('payoutId' in key)
    return {name: 'by_payout', where: `s.payout_id = $2 and s.kind = 'payout'`, values: [key.payoutId]}
  const {chain, feePayer, nonce} = key
  return {name: 'by_nonce', where: 's.chain = $2 and s.conflict_key = $3', values: [chain, `${feePayer}:${nonce}`]}
}

/** Throws a Refusal unless the outgoing payment exists, is not final, and is being cancelled exactly if `cancelling`. */
export async function findOutgoingPayment(
  {client}: PolicyContext,
  chain: string,
  {lockedId}: Locked,
  {cancelling} = {cancelling: false},
): Promise<OutgoingPayment> {
  const {rows} = await client.query<Omit<OutgoingPayment, 'amount'> & {amount: string}>({
    name: 'find_outgoing_payment',
    text: `select s.id, s.kind, s.token, s.amount::text as amount, s.source, s.fee_payer as "feePayer", s.nonce, s.first_input as "firstInput", s.status,
        s.cancelling
      from app.outgoing_payment s where s.chain = $1 and s.id = $2`,
    values: [chain, lockedId],
  })
  const [outgoingPayment] = rows
  if (!outgoingPayment) throw new Refusal('unknown_settlement', `there is no such outgoing payment on ${chain}`)
  if (outgoingPayment.status === 'final')
    throw new Refusal('wrong_state', `outgoing payment ${outgoingPayment.id} is final`)
  if (outgoingPayment.cancelling !== cancelling)
    throw new Refusal(
      'wrong_state',
      cancelling
        ? `outgoing payment ${outgoingPayment.id} is not being cancelled`
        : `outgoing payment ${outgoingPayment.id} is being cancelled`,
    )
  return {...outgoingPayment, amount: BigInt(outgoingPayment.amount)}
}

/** Only known tokens are signed for: a forged row could name a worthless token that the attacker has sent to us in any amount. */
export function checkAsset({chains, family}: PolicyContext, {chain, token}: {chain: ChainCode; token: string}): Asset {
  const settings = chains.get(chain)
  const asset = settings?.chain.assets.find(known => known.token === token)
  if (!settings || !asset) throw new Refusal('unknown_settlement', `there is no token ${token} on ${chain}`)
  if (family && settings.family !== family) throw new Refusal('unknown_settlement', `this intent is not for ${chain}`)
  return asset
}

/** Refuses a sweep of the native coin whose fee is too high for its amount. */
export function checkSweepFee(
  {chain: {code}, sweepFeePercent}: CommonSettings,
  {amount, maxFee}: Pick<Plan, 'amount' | 'maxFee'>,
): void {
  if (maxFee * 100n > BigInt(sweepFeePercent) * amount)
    throw new Refusal(
      'sweep_too_dear',
      `moving ${amount} base units may cost ${maxFee}: more than ${code}_SWEEP_FEE_PERCENT allows (${sweepFeePercent} %)`,
    )
}

export interface OwnRow {
  address: string
  purpose: KeyPath['purpose']
  index: string
  merchant_id: string | null
}

export function ownOf(family: Family, {address, purpose, index, merchant_id}: OwnRow): Own {
  return {address, path: {family, purpose, index: Number(index)}, merchantId: merchant_id}
}
