// A second reader of what custody signed. Before a signed transaction is stored, and so before any node gets it, a
// library that did not make it reads its bytes: what it does must be what was asked, in every field. Else an incident
// is open (signed_otherwise), nothing is stored, and the payment waits.
//
// It is no proof that custody is honest: a thief in custody's process has the keys. It finds what custody's own code
// got wrong, and bytes that were changed on the way.
//
// Safe to run twice: custody returns the same bytes again, which read the same, and the incident of a payment is opened
// once.
import {inWords} from '../../db/client/failure.ts'
import {type Context, type PayoutChain, type PlannedAttempt, type Reading, retryMs, type Wait} from './context.ts'
import type {Signed} from './custody-client.ts'

/** Why the transaction is not stored; undefined if it says what was asked. */
export async function readAgain(
  to: Context,
  chain: PayoutChain,
  planned: PlannedAttempt,
  signed: Signed,
): Promise<Wait | undefined> {
  const {wrong, waits} = await read(to, chain, planned, signed)
  if (!wrong.length) return waits
  const {id, chain: code} = planned.outgoingPayment
  to.log.error({outgoingPayment: id, chain: code, txid: signed.txid}, 'custody signed something else than was asked')
  const detail = wrong.join('; ')
  await to.pool.query('select app.note_signed_otherwise($1, $2, $3)', [id, signed.txid, detail])
  return {reason: 'signed_otherwise', detail, ms: retryMs.refused}
}

/** It was here when custody signed, and is not now: nothing is wrong with it, and it may never be mined here. */
export const blockUnknown: Wait = {
  reason: 'block_unknown',
  detail:
    'what custody signed names a block that is not here any more, or not final; if it stays so, another one is signed once it has expired',
  ms: retryMs.soon,
}

async function read(
  to: Context,
  chain: PayoutChain,
  planned: PlannedAttempt,
  signed: Signed,
): Promise<{wrong: string[]; waits?: Wait | undefined}> {
  try {
    const reading = await chain.readSigned(to, planned, signed)
    return {wrong: differences(reading), waits: reading.waits}
  } catch (error) {
    if (error instanceof Unreadable) return {wrong: [error.message]}
    throw error
  }
}

/** The bytes are no transaction that the library can read. */
export class Unreadable extends Error {}

/** The result of reading, or an Unreadable for whatever the library throws. */
export async function readBy<T>(library: string, reading: () => T | Promise<T>): Promise<T> {
  try {
    return await reading()
  } catch (error) {
    throw new Unreadable(`${library} cannot read it: ${inWords(error)}`)
  }
}

/** What an attempt must move, in base units. A sweep moves what custody found worth it, to the treasury. */
export function amountOf({kind, outgoingPayment}: PlannedAttempt, signed: Signed): bigint {
  if (kind === 'cancel') return 0n
  return ['sweep', 'defund'].includes(outgoingPayment.kind) ? BigInt(signed.amount) : outgoingPayment.amount
}

/** In words; empty if both say the same. */
export function differences({asked, says}: Reading): string[] {
  const names = new Set([...Object.keys(asked), ...Object.keys(says)])
  return [...names]
    .filter(name => asked[name] !== says[name])
    .map(name => `${name} is ${says[name] ?? 'missing'}, not ${asked[name] ?? 'there'}`)
}
