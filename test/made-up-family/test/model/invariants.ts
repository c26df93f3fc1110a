// What must hold in every history, by the model's own truth: its tree of blocks, and the file of custody's journal.
import {assertBooks} from '../support/books.ts'
import {balancesAt, branch, lentTo} from './chain.ts'
import {nativeOf, type World} from './world.ts'

/** What a history found wrong. */
export class Violation extends Error {
  override name = 'Violation'
}

export function assertThat(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Violation(what)
}

/** After every command. */
export async function check(world: World): Promise<void> {
  await assertLapsesStand(world)
  if (!world.chain.isBroken) {
    assertPaidOnce(world)
    await assertDeadAreDead(world)
    if (world.kind.expires) {
      assertOneCanPay(world)
      await assertEndedIsUnpaid(world)
    }
  }
}

/** No purpose is paid by two transactions in final blocks. */
function assertPaidOnce({chain, signed}: World): void {
  const paid = new Map<string, string>()
  for (const {included} of branch(chain.final))
    for (const {transaction, failed} of included) {
      const entry = failed ? undefined : signed.get(transaction.txid)
      if (!entry?.subject_id || (entry.kind !== 'pay' && entry.kind !== 'withdraw')) continue
      const other = paid.get(entry.subject_id)
      assertThat(!other, `${entry.kind} ${entry.subject_id} is paid twice, by ${other} and ${transaction.txid}`)
      paid.set(entry.subject_id, transaction.txid)
    }
}

/**
 * Of all that was signed for a payment, one transaction at most can still be mined, or has had its effect in a final
 * block. Sweeps move our own money.
 */
function assertOneCanPay({chain, kind, signed}: World): void {
  const able = new Map<string, string>()
  for (const [txid, {subject_id, raw, kind: of}] of signed) {
    if (!subject_id || !raw || (of !== 'pay' && of !== 'withdraw')) continue
    const found = chain.find(chain.final, txid)
    if (found ? found.failed : !chain.mayStillBeMined(kind.parse(raw))) continue
    const other = able.get(subject_id)
    assertThat(!other, `${subject_id} can be paid twice, by ${other} and ${txid}`)
    able.set(subject_id, txid)
  }
}

/** As many transactions of a payment as may expire, in custody's settings. */
const mostLapses = 3

/** A lapse stands on a final block of ours, and a payment has no more of them than custody allows. */
async function assertLapsesStand({db, kind: {chain}}: World): Promise<void> {
  const fallen = await db.rows<{txid: string}>(
    'select txid from chain.lapse l join chain.cursor c using (chain) where chain = $1 and l.final_height > c.final_height',
    [chain],
  )
  assertThat(!fallen.length, `${fallen[0]?.txid} has lapsed by a block that is not final any more`)
  const many = await db.rows<{subject: string}>(
    `select subject_id as subject from app.attempt_fate where chain = $1 and kind <> 'sweep' group by subject_id
     having count(*) filter (where lapsed) > $2`,
    [chain, mostLapses],
  )
  assertThat(!many.length, `${many[0]?.subject} was signed again after ${mostLapses} lapses`)
}

/** What the chain may still hold is not called dead. */
async function assertDeadAreDead({db, kind, chain, signed}: World): Promise<void> {
  const rows = await db.rows<{txid: string; lapsed: boolean}>(
    `select txid, lapsed from app.attempt_fate where chain = $1 and fate = 'dead'`,
    [kind.chain],
  )
  for (const {txid, lapsed} of rows) {
    const transaction = kind.parse(signed.get(txid)!.raw!)
    const found = chain.find(chain.final, txid)
    assertThat(
      !chain.mayStillBeMined(transaction),
      `${txid} is called dead${lapsed ? ' (lapsed)' : ''}, and may still be mined`,
    )
    assertThat(!found || found.failed, `${txid} is called dead${lapsed ? ' (lapsed)' : ''}, and is in a final block`)
  }
}

/** What has not ended, with what it waits for. */
export async function unfinished({db, kind: {chain}}: World): Promise<string[]> {
  const rows = await db.rows<{what: string}>(
    `select 'payout ' || id || ' is ' || status || coalesce(', waits: ' || waiting_reason || ' ' || coalesce(waiting_detail, ''), '') as what from app.payout
     where chain = $1 and status not in ('completed', 'failed')
     union all select kind || ' ' || id || ' is ' || status || case when cancelling then ', cancelling' else '' end || coalesce(', waits: ' || waiting_reason || ' ' || coalesce(waiting_detail, ''), '')
     from app.outgoing_payment where chain = $1 and status <> 'final'
     union all select 'attempt ' || f.kind || ' ' || f.txid || ' of ' || f.subject_id || ' is ' || f.fate || case when f.lapsed then ', lapsed' else '' end
       || case when o.txid is null then ', not stored' else '' end || coalesce(case when f.success then ', in block ' else ', failed in block ' end || f.block_height, '')
     from app.outgoing_payment s join app.attempt_fate f on f.subject_id in (s.id, s.payout_id) left join app.outgoing_attempt o on o.chain = f.chain and o.txid = f.txid
     where s.chain = $1 and s.status <> 'final'
     union all select 'energy is lent to ' || address from app.delegation where chain = $1
     union all select 'deposit ' || txid || ' is pending' from app.deposit where chain = $1 and status = 'pending'
     union all select 'incident ' || kind || ' ' || subject || ' ' || details from app.incident where resolved_at is null`,
    [chain],
  )
  return rows.map(({what}) => what)
}

/**
 * Where finality holds, what ended without a payment is not paid by what was signed for it. Where nonces or outputs
 * exclude, that rests on a worker that stores what it has signed; what a thief did not store is booked as a second
 * payment, once its incident is decided.
 */
async function assertEndedIsUnpaid({db, kind, chain, signed, forgotten}: World): Promise<void> {
  const ended = await db.rows<{id: string; how: string}>(
    `select id, status || ' ' || error_code as how from app.payout where chain = $1 and status = 'failed'
     union all select id, outcome from app.outgoing_payment where chain = $1 and kind = 'withdrawal' and status = 'final' and outcome <> 'done'`,
    [kind.chain],
  )
  const booked = await db.rows<{txid: string}>(
    'select txid from app.second_payment where chain = $1 and booked_at is not null and not $2',
    [kind.chain, kind.expires],
  )
  const isBooked = new Set(booked.map(({txid}) => txid))
  const paid = new Set<string | null>()
  for (const {included} of branch(chain.final))
    for (const {transaction, failed} of included) {
      const {txid} = transaction
      const entry = forgotten.has(txid) ? undefined : signed.get(txid)
      if (entry && !failed && entry.kind !== 'cancel' && !isBooked.has(txid)) paid.add(entry.subject_id)
    }
  for (const {id, how} of ended) assertThat(!paid.has(id), `${id} ended (${how}), and a final block pays it`)
}

/**
 * What was final left the chain, and no block holds it again, or it failed there: an operator who keeps it makes up for
 * it by hand.
 */
async function lacksWhatWasFinal({db, kind, chain}: World): Promise<boolean> {
  const rows = await db.rows<{txid: string}>(
    `select txid from app.outgoing_payment where chain = $1 and outcome = 'done'
     union all select d.txid from app.deposit d join app.incident i on i.subject = d.id::text
     where d.chain = $1 and d.status = 'final' and i.kind = 'final_deposit_vanished'`,
    [kind.chain],
  )
  return chain.isBroken && rows.some(({txid}) => chain.find(chain.final, txid)?.failed ?? true)
}

/** Nothing is lent, and no sweep burnt that counted on lent energy. */
function assertReturned({chain, kind, start, signed}: World): void {
  if (kind.staked === undefined) return
  for (const {address} of start.merchants)
    assertThat(lentTo(chain.final, address) === 0n, `${address} still has what it was lent`)
  for (const {included} of branch(chain.final))
    for (const {transaction} of included)
      assertThat(
        signed.get(transaction.txid)?.details.may_burn === undefined || transaction.fee === 0n,
        `${transaction.txid} burnt ${transaction.fee} although its energy was lent`,
      )
}

/** When all is quiet: the books are right, and the ledger says what the chain holds. */
export async function checkEnd(world: World): Promise<void> {
  const {db, kind, chain, start} = world
  await assertBooks(db).catch(error => {
    throw new Violation(`the books are wrong: ${error.message}`)
  })
  if (!chain.isBroken) {
    const twice = await db.rows('select * from audit.no_double_pay')
    assertThat(!twice.length, `audit.no_double_pay: ${JSON.stringify(twice)}`)
    await assertEndedIsUnpaid(world)
  }
  // Nothing is booked of what is in no journal: an operator writes it off by what the audit of balances shows.
  for (const txid of world.forgotten) if (chain.find(chain.final, txid)) return
  assertReturned(world)
  if (await lacksWhatWasFinal(world)) return
  const balances = balancesAt(chain.final, nativeOf(kind))
  const addresses = [start.treasury, ...start.merchants.map(({address}) => address)]
  const held = await db.rows<{address: string; token: string; amount: string}>(
    'select * from app.ledger_holdings($1, $2)',
    [kind.chain, addresses],
  )
  for (const {address, token, amount} of held) {
    const onChain = balances.get(`${address} ${token}`) ?? 0n
    assertThat(
      BigInt(amount) === onChain,
      `the ledger has ${amount} ${token} on ${address}${address === start.treasury ? ' (treasury)' : ''}, the chain ${onChain}`,
    )
  }
}
