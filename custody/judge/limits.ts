// How much may be signed. Promises: the sum of what is signed for a merchant, chain and token, and not dead, never
// exceeds the final amount that the indexers saw arrive on addresses handed to that merchant; a payment, and all
// payments of a day (UTC), stay within the operator's limits. Sums come from the journal's file. The table only says
// what to subtract: each payment with all its entries, compared with the file, or not at all.
import type {ChainCode} from '../../chains/registry.ts'
import type {Entry} from '../journal/file.ts'
import {entryColumns, type Journal} from '../journal/journal.ts'
import {checkRows} from './attempts.ts'
import {inCoins, type PolicyContext, type Purpose} from './plan.ts'
import {Refusal} from './refusal.ts'

/**
 * `withBegun` also counts payments that have a nonce and are not signed yet: a payment with a nonce and no signature
 * before tomorrow would hold up every later one.
 */
export async function checkLimits(
  context: PolicyContext,
  {chain, token, amount, subjectId}: Purpose,
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

/** No more leaves for a merchant than arrived for it. */
export async function checkReceived(context: PolicyContext, payment: Purpose): Promise<void> {
  const {chain, token, amount, merchantId} = payment
  const {rows} = await context.client.query<{received: string}>({
    name: 'received',
    text: `select coalesce(sum(t.amount), 0)::text as received from chain.cursor c
      join custody.address a on a.merchant_id = $1 and a.purpose = 'deposit'
      join chain.transfer t on t.recipient = a.address and t.chain = $2 and t.token = $3 and t.block_height <= c.final_height
      where c.chain = $2`,
    values: [merchantId, chain, token],
  })
  const {received} = rows[0]!
  const signed = await signedFor(context, payment)
  if (signed + amount <= BigInt(received)) return
  const coins = inCoins(context, payment)
  throw new Refusal(
    'exceeds_received',
    `the chain has ${coins(received)} ${token} that this merchant received (final deposits); ${coins(signed)} are signed already, and ${coins(amount)} more would exceed that`,
  )
}

/** What is signed for the payment's merchant, chain and token, without the payment itself, and not dead. */
async function signedFor({client, journal}: PolicyContext, payment: Purpose): Promise<bigint> {
  const {subjectId, merchantId, chain, token} = payment
  const {rows} = await client.query<Entry>({
    name: 'dead_and_own',
    text: `select ${entryColumns} from custody.journal j
      where j.kind = 'pay' and j.merchant_id = $1 and j.stream = $2 and j.token = $3 and j.subject_id <> $4
        and not exists (select from app.attempt_fate f
          where f.chain = j.stream and f.subject_id = j.subject_id and f.kind = 'pay' and f.fate <> 'dead')
      union all
      select ${entryColumns} from custody.journal j where j.kind = 'pay' and j.stream = $2 and j.subject_id = $4`,
    values: [merchantId, chain, token, subjectId],
  })
  return amountsOf(journal, chain, rows)
    .filter(dead => dead.merchantId === merchantId && dead.token === token)
    .reduce((sum, {amount}) => sum - amount, journal.known.paid(chain, token, merchantId!))
}

/** Where attempts expire: how much of what was signed on the day (UTC) of that moment can never be paid any more. */
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

/**
 * The sum of all payments, without this subject, that have a nonce and were never signed according to the journal's
 * file.
 */
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
