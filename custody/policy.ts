// What custody signs, and what it refuses. Everything outside is taken to be in somebody else's hands: an intent names a purpose, and what
// follows from it is read here, from rows that neither the API nor the worker can write (custody.*, chain.*), or that do no harm if they are
// forged (app.payout says whom to pay how much, and is believed only within what that merchant received and whitelisted).
//
// Promises: a payout has one nonce for ever, so at most one of its signatures can be mined; the sum of what is signed for a merchant, chain
// and token, and not proven dead, never exceeds what the indexers saw arrive, final, on addresses that were handed to that merchant; sweeps
// go to the treasury and nowhere else; a nonce serves one purpose, or is cancelled.
import type pg from 'pg'
import type {Asset, ChainCode} from '../chains/registry.ts'
import {type ChainSettings, evmSettings} from '../service/settings.ts'
import type {Cancel, Pay, RefusalCode, Sweep, WireFees, Withdraw} from './intents.ts'
import type {KeyPath} from './keys.ts'
import type {Fees} from './signers/evm.ts'

export class Refusal extends Error {
  readonly code: RefusalCode
  readonly needed: WireFees | undefined

  constructor(code: RefusalCode, message: string, needed?: WireFees) {
    super(message)
    this.code = code
    this.needed = needed
  }
}

/** An address of ours, and the key that it has. */
export interface Own {
  address: string
  path: KeyPath
  merchantId: string | null
}

/** What is to be signed, once nothing speaks against it. */
export interface Plan {
  kind: 'pay' | 'sweep' | 'withdraw' | 'cancel'
  chain: ChainCode
  subjectId: string | null
  merchantId: string | null
  token: string
  amount: bigint
  destination: string
  source: Own
  sender: Own
  nonce: number
  fees: Fees
  /** What else the journal keeps, so that a lost settlement can be entered again. */
  details: Record<string, string | number>
}

/** An attempt that was signed before. */
export interface Attempt {
  kind: Plan['kind']
  subjectId: string | null
  token: string
  amount: bigint
  destination: string
  source: string
  nonce: number
  fees: Fees
  txid: string
  raw: string
}

/** A plan to sign, or the bytes that were signed for it before. */
export type Decision = {plan: Plan} | {attempt: Attempt}

export interface PolicyContext {
  client: pg.Client
  chains: Map<ChainCode, ChainSettings>
  treasury: Own
  /** Why nothing is signed on a chain, if the journal says so. */
  whyBlocked(chain: string): string | undefined
}

const transferGas = 21_000n
const gasCap = 300_000n

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
  is_whitelisted: boolean
  is_ours: boolean
}

// --- a payout ---

export async function judgePay(context: PolicyContext, intent: Pay): Promise<Decision> {
  const payout = await findPayout(context, intent.payout_id)
  const fees = checkFees(context, payout.chain, intent, gasCap)
  const attempts = await findAttempts(context, payout.chain, context.treasury.address, intent.nonce, payout.id)
  const before = attempts.filter(({kind, subjectId}) => kind === 'pay' && subjectId === payout.id)
  if (payout.status !== 'paying' && payout.status !== 'swept')
    throw new Refusal('wrong_state', `the payout is ${payout.status}; it is paid once it is swept`)
  if (!before.length && payout.status === 'paying')
    throw new Refusal('wrong_state', 'the payout is paying, and nothing was signed for it')
  for (const {nonce, amount, destination, token} of before)
    if (
      nonce !== intent.nonce ||
      amount !== BigInt(payout.net) ||
      destination !== payout.address ||
      token !== payout.token
    )
      throw new Refusal(
        'settlement_changed',
        'a payout keeps the nonce, destination, token and amount of its first signature',
      )
  checkNet(payout)
  if (!before.length) await checkFirst(context, payout)
  const plan: Plan = {
    kind: 'pay',
    chain: payout.chain,
    subjectId: payout.id,
    merchantId: payout.merchant_id,
    token: payout.token,
    amount: BigInt(payout.net),
    destination: payout.address,
    source: context.treasury,
    sender: context.treasury,
    nonce: intent.nonce,
    fees,
    details: {gross: payout.gross, fee: payout.fee, fee_bps: payout.fee_bps},
  }
  return decide(plan, attempts)
}

/** Throws a Refusal if the payout would not be signed now, apart from nonce and fees, which are not known yet. */
export async function checkPayout(context: PolicyContext, payoutId: string): Promise<void> {
  const payout = await findPayout(context, payoutId)
  if (!['pending', 'sweeping', 'swept'].includes(payout.status))
    throw new Refusal('wrong_state', `the payout is ${payout.status}`)
  checkNet(payout)
  await checkFirst(context, payout)
}

async function findPayout(context: PolicyContext, id: string): Promise<Payout> {
  const {rows} = await context.client.query<Payout>({
    name: 'find_payout',
    text: `select p.id, p.merchant_id, p.chain, p.token, p.status, p.gross::text as gross, p.fee::text as fee, p.fee_bps, p.net::text as net,
        p.address,
        exists (select from custody.whitelist w where w.merchant_id = p.merchant_id and w.chain = p.chain and w.address = p.address
          and w.active_at <= clock_timestamp() and w.removed_at is null) as is_whitelisted,
        exists (select from custody.address a where a.match_key in (p.address, lower(p.address))) as is_ours
      from app.payout p where p.id = $1`,
    values: [id],
  })
  const [payout] = rows
  if (!payout) throw new Refusal('unknown_settlement', `there is no payout ${id}`)
  checkAsset(context, payout)
  checkJournal(context, payout.chain)
  return payout
}

function checkNet({gross, fee, net}: Payout): void {
  if (BigInt(net) !== BigInt(gross) - BigInt(fee) || BigInt(net) <= 0n || BigInt(fee) < 0n)
    throw new Refusal('amount_not_net', 'the amount is not what is left of the gross after the fee')
}

/** What is asked before the first signature alone: later ones cannot pay more, and the money may be on its way. */
async function checkFirst(context: PolicyContext, payout: Payout): Promise<void> {
  const {chain, token, is_ours, is_whitelisted} = payout
  if (is_ours) throw new Refusal('not_whitelisted', 'the destination is an address of this service')
  if (!is_whitelisted)
    throw new Refusal(
      'not_whitelisted',
      `the destination is not on the merchant's whitelist for ${chain}, or not active yet`,
    )
  const net = BigInt(payout.net)
  await checkLimits(context, chain, token, net, payout.id)
  const {rows} = await context.client.query<{received: string; signed: string}>({
    name: 'received_and_signed',
    text: `select received::text as received, signed::text as signed from
      (select final_height from chain.cursor where chain = $2) c,
      lateral (
        select coalesce(sum(t.amount), 0) as received from custody.address a
        join chain.transfer t on t.recipient = a.address and t.chain = $2 and t.token = $3
        where a.merchant_id = $1 and a.purpose = 'deposit' and t.block_height <= c.final_height
      ) r, lateral (
        select coalesce(sum(p.amount), 0) as signed from (
          select j.sender, j.nonce, max(j.amount) as amount, array_agg(j.txid) as txids from custody.journal j
          where j.kind = 'pay' and j.merchant_id = $1 and j.stream = $2 and j.token = $3 and j.subject_id <> $4
          group by j.subject_id, j.sender, j.nonce
        ) p
        where not exists ( -- proven dead
          select from chain.inclusion i where i.chain = $2 and i.sender = p.sender and i.nonce = p.nonce
            and i.block_height <= c.final_height and (not i.success or i.txid <> all(p.txids)))
      ) s`,
    values: [payout.merchant_id, chain, token, payout.id],
  })
  const {received, signed} = rows[0] ?? {received: '0', signed: '0'}
  if (BigInt(signed) + net > BigInt(received))
    throw new Refusal(
      'exceeds_received',
      `${received} base units of ${token} arrived for this merchant and are final; ${signed} were signed for, and ${net} more would exceed them`,
    )
}

async function checkLimits(
  {client, chains}: PolicyContext,
  chain: ChainCode,
  token: string,
  amount: bigint,
  subjectId: string,
): Promise<void> {
  const {payoutLimit, dailyLimit} = chains.get(chain)!
  const limit = payoutLimit.get(token)
  if (limit !== undefined && amount > limit)
    throw new Refusal(
      'above_limit',
      `${amount} base units of ${token} are more than one payout may be (${chain}_PAYOUT_LIMIT: ${limit})`,
    )
  const daily = dailyLimit.get(token)
  if (daily === undefined) return
  const {rows} = await client.query<{signed: string}>({
    name: 'signed_today',
    text: `select coalesce(sum(amount), 0)::text as signed from (
        select max(j.amount) as amount from custody.journal j
        where j.stream = $1 and j.token = $2 and j.kind in ('pay', 'withdraw') and j.subject_id <> $3
          and j.signed_at >= date_trunc('day', now(), 'UTC')
          and not exists (select from custody.journal e
            where e.subject_id = j.subject_id and e.kind in ('pay', 'withdraw') and e.signed_at < date_trunc('day', now(), 'UTC'))
        group by j.subject_id) today`,
    values: [chain, token, subjectId],
  })
  const signed = BigInt(rows[0]!.signed)
  if (signed + amount > daily)
    throw new Refusal(
      'daily_limit',
      `${signed} base units of ${token} were signed for today (UTC); ${amount} more would exceed ${chain}_DAILY_LIMIT: ${daily}`,
    )
}

// --- a sweep ---

export async function judgeSweep(context: PolicyContext, intent: Sweep): Promise<Decision> {
  const {chain, token, nonce} = intent
  checkJournal(context, chain)
  const isNative = checkAsset(context, intent).contract === undefined
  const fees = checkFees(context, chain, intent, isNative ? transferGas : gasCap)
  const source = await findOwn(context, intent.address)
  if (source.path.purpose !== 'deposit') throw new Refusal('not_ours', 'only deposit addresses are swept')
  const amount = BigInt(intent.amount)
  if (amount === 0n) throw new Refusal('settlement_changed', 'a sweep moves more than nothing')
  const sender = isNative ? source : context.treasury
  const attempts = await findAttempts(context, chain, sender.address, nonce, intent.spend_id)
  for (const before of attempts.filter(({subjectId, kind}) => subjectId === intent.spend_id && kind !== 'cancel')) {
    const isOther =
      before.nonce !== nonce || before.token !== token || before.source !== source.address || before.kind !== 'sweep'
    if (isOther || (isNative ? amount > before.amount : amount !== before.amount))
      throw new Refusal(
        'settlement_changed',
        'a sweep keeps its nonce, address and token, and moves no more than at first',
      )
  }
  const {treasury} = context
  const {merchantId} = source
  return decide(
    {
      kind: 'sweep',
      chain,
      subjectId: intent.spend_id,
      merchantId,
      token,
      amount,
      destination: treasury.address,
      source,
      sender,
      nonce,
      fees,
      details: {},
    },
    attempts,
  )
}

// --- a withdrawal ---

interface Withdrawal {
  chain: ChainCode
  token: string
  amount: string
  recipient: string
  nonce: number
  status: string
  cancelling: boolean
  is_whitelisted: boolean
  is_ours: boolean
}

/** The operator's own money. The row can be made by the owner of the database alone; how much is the operator's was checked there. */
export async function judgeWithdraw(context: PolicyContext, intent: Withdraw): Promise<Decision> {
  const {rows} = await context.client.query<Withdrawal>({
    name: 'find_withdrawal',
    text: `select s.chain, s.token, s.amount::text as amount, s.recipient, s.nonce, s.status, s.cancelling,
        exists (select from custody.whitelist w where w.merchant_id is null and w.chain = s.chain and w.address = s.recipient
          and w.active_at <= clock_timestamp() and w.removed_at is null) as is_whitelisted,
        exists (select from custody.address a where a.match_key in (s.recipient, lower(s.recipient))) as is_ours
      from app.spend s where s.id = $1 and s.kind = 'withdrawal'`,
    values: [intent.spend_id],
  })
  const [spend] = rows
  if (!spend) throw new Refusal('unknown_settlement', `there is no withdrawal ${intent.spend_id}`)
  checkAsset(context, spend)
  const {chain, token, recipient} = spend
  checkJournal(context, chain)
  if (spend.status === 'final' || spend.cancelling)
    throw new Refusal('wrong_state', `the withdrawal is ${spend.cancelling ? 'being cancelled' : spend.status}`)
  const fees = checkFees(context, chain, intent, gasCap)
  const amount = BigInt(spend.amount)
  const attempts = await findAttempts(context, chain, context.treasury.address, intent.nonce, intent.spend_id)
  const before = attempts.filter(({subjectId, kind}) => subjectId === intent.spend_id && kind === 'withdraw')
  for (const {nonce, amount: was, destination, token: of} of [...before, {...spend, amount, destination: recipient}])
    if (nonce !== intent.nonce || was !== amount || destination !== recipient || of !== token)
      throw new Refusal(
        'settlement_changed',
        'a withdrawal keeps the nonce, destination, token and amount of its first signature',
      )
  if (!before.length) {
    if (spend.is_ours) throw new Refusal('not_whitelisted', 'the destination is an address of this service')
    if (!spend.is_whitelisted)
      throw new Refusal(
        'not_whitelisted',
        `the destination is not on the operator's whitelist for ${chain}, or not active yet`,
      )
    await checkLimits(context, chain, token, amount, intent.spend_id)
  }
  const {treasury} = context
  return decide(
    {
      kind: 'withdraw',
      chain,
      subjectId: intent.spend_id,
      merchantId: null,
      token,
      amount,
      destination: recipient,
      source: treasury,
      sender: treasury,
      nonce: intent.nonce,
      fees,
      details: {},
    },
    attempts,
  )
}

// --- a cancel ---

/** Uses up a nonce by a transaction that moves nothing. It harms nobody but whoever wanted the nonce, and that one can be told from the journal. */
export async function judgeCancel(context: PolicyContext, intent: Cancel): Promise<Decision> {
  const {chain, nonce} = intent
  checkJournal(context, chain)
  const fees = checkFees(context, chain, intent, transferGas)
  const sender = await findOwn(context, intent.sender)
  const attempts = await findAttempts(context, chain, sender.address, nonce, null)
  const {rows} = await context.client.query<{highest: number | null; is_final: boolean}>({
    name: 'find_nonce',
    text: `select (select max(nonce)::int from custody.journal j where j.stream = $1 and j.sender = $2) as highest,
        exists (select from chain.inclusion i join chain.cursor c using (chain)
          where i.chain = $1 and i.sender = $2 and i.nonce = $3 and i.block_height <= c.final_height) as is_final`,
    values: [chain, sender.address, nonce],
  })
  const {highest, is_final} = rows[0]!
  if (is_final) throw new Refusal('wrong_state', `nonce ${nonce} is used up: its transaction is final`)
  if (nonce > (highest ?? -1) + 1)
    throw new Refusal('wrong_state', `nonce ${nonce} is not next: ${highest ?? 'none'} is the highest that was signed`)
  const subjectId = attempts.find(attempt => attempt.subjectId)?.subjectId ?? null
  const {native} = {native: context.chains.get(chain)!.chain.assets[0].token}
  return decide(
    {
      kind: 'cancel',
      chain,
      subjectId,
      merchantId: sender.merchantId,
      token: native,
      amount: 0n,
      destination: sender.address,
      source: sender,
      sender,
      nonce,
      fees,
      details: {},
    },
    attempts,
  )
}

// --- what all of them share ---

/** Among the attempts with this nonce: another purpose refuses, the same one is repeated, or replaced for at least an eighth more. */
function decide(plan: Plan, attempts: Attempt[]): Decision {
  const atNonce = attempts.filter(({nonce}) => nonce === plan.nonce)
  const isSame = ({kind, subjectId}: Attempt) =>
    kind === plan.kind && (kind === 'cancel' || subjectId === plan.subjectId)
  if (plan.kind !== 'cancel' && atNonce.some(({subjectId}) => subjectId !== plan.subjectId))
    throw new Refusal('nonce_taken', `nonce ${plan.nonce} was signed for something else`)
  const newest = atNonce.at(-1)
  if (!newest) return {plan}
  const needed = {
    maxFeePerGas: anEighthMore(newest.fees.maxFeePerGas),
    maxPriorityFeePerGas: anEighthMore(newest.fees.maxPriorityFeePerGas),
  }
  const {maxFeePerGas, maxPriorityFeePerGas} = plan.fees
  if (maxFeePerGas >= needed.maxFeePerGas && maxPriorityFeePerGas >= needed.maxPriorityFeePerGas) return {plan}
  const identical = atNonce.find(
    attempt =>
      isSame(attempt) &&
      attempt.amount === plan.amount &&
      attempt.fees.maxFeePerGas === maxFeePerGas &&
      attempt.fees.maxPriorityFeePerGas === maxPriorityFeePerGas,
  )
  if (identical) return {attempt: identical}
  if (isSame(newest)) return {attempt: newest}
  throw new Refusal(
    'fee_too_low',
    `nonce ${plan.nonce} was signed for something else before; both fees must be an eighth higher`,
    {
      max_fee_per_gas: String(needed.maxFeePerGas),
      max_priority_fee_per_gas: String(needed.maxPriorityFeePerGas),
    },
  )
}

/** Nodes replace a transaction for 10 % more; 12.5 % leaves no doubt. */
function anEighthMore(fee: bigint): bigint {
  return (fee * 9n + 7n) / 8n
}

function checkFees(
  {chains}: PolicyContext,
  chain: ChainCode,
  asked: WireFees & {gas_limit: number},
  mostGas: bigint,
): Fees {
  const fees: Fees = {
    maxFeePerGas: BigInt(asked.max_fee_per_gas),
    maxPriorityFeePerGas: BigInt(asked.max_priority_fee_per_gas),
    gasLimit: BigInt(asked.gas_limit),
  }
  const {maxFeePerGas: cap} = evmSettings(chains.get(chain))
  if (fees.maxFeePerGas > cap)
    throw new Refusal(
      'fee_above_cap',
      `${fees.maxFeePerGas} wei per gas are more than ${chain}_MAX_FEE_GWEI allows (${cap})`,
    )
  if (fees.maxPriorityFeePerGas > fees.maxFeePerGas)
    throw new Refusal('fee_above_cap', 'the priority fee is higher than the whole fee')
  if (fees.gasLimit > mostGas)
    throw new Refusal('fee_above_cap', `${fees.gasLimit} gas are more than this needs (${mostGas})`)
  return fees
}

/** Whoever can make a row can name a token of their own, of which they have sent us any amount. */
function checkAsset({chains}: PolicyContext, {chain, token}: {chain: ChainCode; token: string}): Asset {
  const asset = chains.get(chain)?.chain.assets.find(known => known.token === token)
  if (!asset) throw new Refusal('unknown_settlement', `there is no ${token} on ${chain}`)
  return asset
}

function checkJournal({whyBlocked}: PolicyContext, chain: string): void {
  const why = whyBlocked(chain)
  if (why) throw new Refusal('journal_ahead', why)
}

async function findOwn({client}: PolicyContext, address: string): Promise<Own> {
  const {rows} = await client.query<{
    address: string
    purpose: KeyPath['purpose']
    index: string
    merchant_id: string | null
  }>({
    name: 'find_own',
    text: `select address, purpose, derivation_index as index, merchant_id from custody.address where family = 'evm' and match_key = lower($1)`,
    values: [address],
  })
  const [own] = rows
  if (!own) throw new Refusal('not_ours', 'the address is none of ours')
  return {address: own.address, path: {purpose: own.purpose, index: Number(own.index)}, merchantId: own.merchant_id}
}

interface AttemptRow {
  kind: Plan['kind']
  subject_id: string | null
  token: string
  amount: string
  destination: string
  source: string
  nonce: number
  details: WireFees & {gas_limit: number}
  txid: string
  raw: string
}

/** Everything that was signed with this nonce, or for this subject, in its order. */
async function findAttempts(
  {client}: PolicyContext,
  chain: string,
  sender: string,
  nonce: number,
  subjectId: string | null,
): Promise<Attempt[]> {
  const {rows} = await client.query<AttemptRow>({
    name: 'find_attempts',
    text: `select kind, subject_id, token, amount::text as amount, destination, source, nonce::int as nonce, details, txid, raw
      from custody.journal where (stream = $1 and sender = $2 and nonce = $3) or subject_id = $4 order by seq`,
    values: [chain, sender, nonce, subjectId],
  })
  return rows.map(({subject_id, amount, details, ...row}) => ({
    ...row,
    subjectId: subject_id,
    amount: BigInt(amount),
    fees: {
      maxFeePerGas: BigInt(details.max_fee_per_gas),
      maxPriorityFeePerGas: BigInt(details.max_priority_fee_per_gas),
      gasLimit: BigInt(details.gas_limit),
    },
  }))
}
