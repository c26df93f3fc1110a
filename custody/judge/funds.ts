// Gas for addresses that sweep a token themselves: a fund is signed from the treasury to the address, then the address
// signs its sweep; what it does not need goes back by a defund. Promises: a fund is signed only for a sweep that is
// worth it. What is on an address as gas, the fund, and the fees of all funds and defunds since its last sweep cost
// together no more than *_TOKEN_SWEEP_FEE. A sweep that pays with gas, its cancel, and what a defund moves and costs,
// are no more than is left of what was sent: never the coins of the address's merchant. A fund counts with its gas in
// the fee budget of its day, and what uses it not again, so what is burnt never exceeds what the budgets allowed,
// whoever asks.
//
// Where attempts expire, each counts alone, and nothing once it has expired in no block.
//
// What was sent is the sum over the journal's file, whatever the database says (journal/known.ts). What became of it is
// read from the blocks, which only the indexers write.
import {most} from '../../base/bigints.ts'
import {chain as registered} from '../../chains/registry.ts'
import type {CustodyFamily, Matter} from '../family.ts'
import type {GasEntry} from '../journal/known.ts'
import type {OutgoingPayment} from './outgoing-payments.ts'
import {type FamilyContext, findOwn, type Own, type Plan, type Purpose} from './plan.ts'
import {Refusal} from './refusal.ts'

/** From the treasury to the address whose sweep the gas is for. */
export async function fundPurpose(
  context: FamilyContext,
  {id: subjectId, kind, chain, token, amount, recipient, forToken}: OutgoingPayment,
  funds: CustodyFamily['funds'],
): Promise<{purpose: Purpose; from: Own}> {
  const isFunded = funds?.isFunded(context.chains.get(chain)!, forToken ?? '')
  if (kind !== 'fund' || token !== registered(chain).assets[0].token || amount <= 0n || !isFunded)
    throw new Refusal('settlement_changed', 'this outgoing payment was not begun as gas for the sweep of a token')
  const {address, path, merchantId} = await findOwn(context, recipient)
  if (path.purpose !== 'deposit') throw new Refusal('not_ours', 'only deposit addresses are swept')
  const common = {kind, chain, subjectId, merchantId, token, amount, destination: address} as const
  return {purpose: {...common, details: {for_token: forToken!}}, from: context.treasury}
}

/** From an address to the treasury. */
export async function defundMatter(
  context: FamilyContext,
  {id: subjectId, kind, chain, token, amount, source, feePayer}: OutgoingPayment,
): Promise<Matter> {
  if (kind !== 'defund' || token !== registered(chain).assets[0].token || amount <= 0n || feePayer !== source)
    throw new Refusal('settlement_changed', 'this outgoing payment was not begun as gas that goes back')
  const from = await findOwn(context, source)
  if (from.path.purpose !== 'deposit') throw new Refusal('not_ours', 'only deposit addresses have gas')
  const {merchantId} = from
  const destination = context.treasury.address
  return {purpose: {kind, chain, subjectId, merchantId, token, amount, destination, details: {}}, from, payer: from}
}

/** Throws a Refusal unless the fund (`plan`) may be signed. `before`: its earlier attempts. */
export async function checkFund(
  context: FamilyContext,
  plan: Plan,
  before: {amount: bigint; destination: string}[],
  funds: NonNullable<CustodyFamily['funds']>,
): Promise<void> {
  const {chain, amount, destination, maxFee, conflictKey, details} = plan
  if (before.some(was => was.amount !== amount || was.destination !== destination))
    throw new Refusal('settlement_changed', 'gas keeps the address and the amount of its first signature')
  const token = String(details.for_token)
  if (!before.length) await checkWorth(context, plan, token)
  const allowed = funds.most(context.chains.get(chain)!)
  const others = (await readGas(context, chain, destination)).filter(entry => entry.conflictKey !== conflictKey)
  const cost = leftOf(others, 'most') + feesOfFunds(others) + amount + maxFee
  if (cost > allowed)
    throw new Refusal(
      'gas_too_dear',
      `the sweep of ${token} and its gas may cost ${cost} base units: more than ${chain}_TOKEN_SWEEP_FEE allows (${allowed})`,
    )
}

/** Throws a Refusal unless an address (`destination`) holds enough of a token for a sweep. */
export async function checkWorth({client}: FamilyContext, {chain, destination}: Plan, token: string): Promise<void> {
  const {rows} = await client.query<{is_worth: boolean}>({
    name: 'is_worth_funding',
    text: 'select app.is_worth_funding($1, $2, $3) as is_worth',
    values: [chain, destination, token],
  })
  if (rows[0]!.is_worth) return
  throw new Refusal('sweep_too_small', `the address holds no ${token} that is worth a sweep (${chain}_SWEEP_MIN)`)
}

/** Throws a Refusal unless the gas on the address pays for what is to be signed. */
export async function checkGasLeft(context: FamilyContext, plan: Plan): Promise<void> {
  const {kind, chain, feePayer, conflictKey, amount, maxFee} = plan
  const others = (await readGas(context, chain, feePayer)).filter(entry => entry.conflictKey !== conflictKey)
  const left = leftOf(others, 'least')
  const uses = kind === 'defund' ? amount + maxFee : maxFee
  if (uses > left)
    throw new Refusal(
      'gas_missing',
      `the transaction may use ${uses} base units, and ${left} are left of the address's gas`,
    )
}

/** What was signed with one conflict key, and what became of it. */
export interface Fate extends Pick<GasEntry, 'seq' | 'kind' | 'conflictKey'> {
  /** The most that it moves; once it is final, what it moved. */
  amount: bigint
  /** The highest fee; once it is final, what it cost. */
  fee: bigint
  /** Whether a final transaction has used the key up. */
  isFinal: boolean
}

/** What was signed for an address's gas. */
const readGas = async (context: FamilyContext, chain: string, address: string): Promise<Fate[]> =>
  (await readSigned(context, chain, address)).filter(({kind}) => kind !== 'delegate' && kind !== 'undelegate')

/**
 * What was signed for an address's gas and energy, once for each conflict key, in the order of their first signatures.
 */
export async function readSigned({client, journal}: FamilyContext, chain: string, address: string): Promise<Fate[]> {
  const byKey = Map.groupBy(journal.known.gasOf(chain, address), ({conflictKey}) => conflictKey)
  const {rows} = await client.query<{key: string; txid: string; fee: string; success: boolean}>({
    name: 'fate_of_gas',
    text: `select k.key, i.txid, i.fee::text as fee, i.success from chain.cursor c cross join unnest($2::text[]) k (key)
      cross join lateral (select i.txid, i.fee, i.success from chain.confirmed_tx i
        where i.chain = $1 and i.conflict_key = k.key and i.block_height <= c.final_height
        union all select i.txid, i.fee, i.success from chain.confirmed_tx i
        where i.chain = $1 and i.conflict_key is null and i.txid = k.key and i.block_height <= c.final_height
        union all select l.txid, 0, false from chain.lapse l where l.chain = $1 and l.txid = k.key limit 1) i
      where c.chain = $1`,
    values: [chain, [...byKey.keys()]],
  })
  const final = new Map(rows.map(row => [row.key, row]))
  return [...byKey].map(([conflictKey, entries]) => {
    const {seq, kind} = entries[0]!
    const found = final.get(conflictKey)
    if (!found) {
      const amount = entries.map(entry => entry.amount).reduce(most)
      return {seq, kind, conflictKey, amount, fee: entries.map(entry => entry.fee).reduce(most), isFinal: false}
    }
    const done = found.success ? entries.find(({txid}) => txid === found.txid) : undefined
    return {seq, kind, conflictKey, amount: done?.amount ?? 0n, fee: BigInt(found.fee), isFinal: true}
  })
}

/**
 * The most, or the least, gas that can be left, in base units, whatever becomes of what is not final. Never less than
 * nothing once something is final: what a sweep burnt beyond its gas, because lent energy was gone, was no gas.
 */
function leftOf(fates: Fate[], which: 'most' | 'least'): bigint {
  let left = 0n
  for (const {kind, amount, fee, isFinal} of fates) {
    const isFund = kind === 'fund'
    if (!isFinal && isFund !== (which === 'most')) continue
    left += isFund ? amount : 0n - amount - fee
    if (isFinal) left = most(left, 0n)
  }
  return left
}

/**
 * What funds and defunds may have cost themselves since the address's last sweep: else gas could go back and forth for
 * one.
 */
function feesOfFunds(fates: Fate[]): bigint {
  const isOfFunds = ({kind}: Fate) => kind === 'fund' || kind === 'defund'
  const last = fates.findLast(fate => !isOfFunds(fate) && fate.isFinal)?.seq ?? 0
  return fates.filter(fate => isOfFunds(fate) && fate.seq > last).reduce((sum, {fee}) => sum + fee, 0n)
}
