// What an operator does who follows the docs: decides incidents, and has read again what is missing. Promises: an
// operator knows what other nodes show, and nothing else; what cannot be decided yet stays.
import {branch} from './chain.ts'
import {follow, rewindTo, tryTo} from './reading.ts'
import type {World} from './world.ts'

interface Incident {
  id: string
  kind: string
  subject: string
  txid: string | null
}

const decisions: Record<string, string> = {
  second_payment: 'loss',
  unknown_transaction: 'kept',
  payment_of_failed_payout: 'kept',
  final_payment_vanished: 'kept',
  unproven_expiry: 'absent',
  final_deposit_vanished: 'kept',
  final_deposit_moved: 'kept',
}

export async function decide(world: World): Promise<void> {
  await readMissing(world)
  const open = await world.db.rows<Incident>(
    `select id, kind, subject, details ->> 'txid' as txid from app.incident where resolved_at is null order by id`,
  )
  for (const incident of open) {
    world.count(`incident: ${incident.kind}`)
    await decideOne(world, incident)
  }
}

/**
 * Balances and other nodes show what the node had omitted, and a gap is no secret: the chain is read again from below.
 */
async function readMissing(world: World): Promise<void> {
  const {missingAbove, omitted} = world.indexer
  if (missingAbove === undefined || (await world.indexer.at()).halted !== null) return
  omitted.clear()
  await rewindTo(world, missingAbove)
  await follow(world)
  world.count('missing blocks read again')
}

async function decideOne(world: World, {id, kind, txid}: Incident): Promise<void> {
  const {db, indexer, chain} = world
  if (kind === 'fork_below_final') {
    const theirs = new Set(branch(chain.head))
    let common = indexer.head
    while (!theirs.has(common)) common = common.parent!
    await rewindTo(world, common.height)
    await follow(world)
    return
  }
  if (kind === 'unproven_expiry' && chain.find(chain.head, txid!)) return
  if (kind === 'unknown_transaction') await cancelWhatIsPaid(world, id)
  const decision = decisions[kind]
  if (decision)
    await tryTo(world, `decisions: ${kind}`, () => db.rows('select app.resolve_incident($1, $2)', [id, decision]))
}

/** What a forgotten transaction has paid must not be paid again. */
async function cancelWhatIsPaid(world: World, incident: string): Promise<void> {
  const rows = await world.db.rows<{txid: string}>('select txid from app.unknown_transaction where incident_id = $1', [
    incident,
  ])
  for (const {txid} of rows) {
    const entry = world.forgotten.has(txid) ? world.signed.get(txid) : undefined
    if (!entry) continue
    world.count('forgotten transactions found')
    const cancel = entry.kind === 'pay' ? 'cancel_payout_by_operator' : 'cancel_outgoing_payment'
    if (entry.kind === 'pay' || entry.kind === 'withdraw')
      await tryTo(world, 'paid already, cancelled', () => world.db.rows(`select app.${cancel}($1)`, [entry.subject_id]))
  }
}
