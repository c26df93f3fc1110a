// Gas for addresses that sweep a token themselves: a fund is signed from the treasury to the address, then the address
// signs its sweep. Promises: a fund is signed only for a sweep that is worth it. What is on an address as gas, the fund
// and the fees of all funds since its last sweep cost together no more than *_TOKEN_SWEEP_FEE. A sweep that pays with
// gas, and its cancel, cost no more than is left of what was sent: never the coins of the address's merchant. A fund
// counts with its gas in the fee budget of its day, and a sweep that pays with it not again, so what is burnt never
// exceeds what the budgets allowed, whoever asks.
//
// Where attempts expire, each counts alone, and nothing once it has expired in no block.
//
// What was sent is the sum over the journal's file, whatever the database says (journal/known.ts). What became of it is
// read from the blocks, which only the indexers write.
import {chain as registered} from '../../chains/registry.ts'
import type {CustodyFamily} from '../family.ts'
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
  const most = funds.most(context.chains.get(chain)!)
  const others = (await readGas(context, chain, destination)).filter(entry => entry.conflictKey !== conflictKey)
  const cost = leftOf(others, {withOpen: true}) + feesOfFunds(others) + amount + maxFee
  if (cost > most)
    throw new Refusal(
      'gas_too_dear',
      `the sweep of ${token} and its gas may cost ${cost} base units: more than ${chain}_TOKEN_SWEEP_FEE allows (${most})`,
    )
}

async function checkWorth({client}: FamilyContext, {chain, destination}: Plan, token: string): Promise<void> {
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
  const {chain, feePayer, conflictKey, maxFee} = plan
  const others = (await readGas(context, chain, feePayer)).filter(entry => entry.conflictKey !== conflictKey)
  const left = leftOf(others, {withOpen: false})
  if (maxFee > left)
    throw new Refusal(
      'gas_missing',
      `the transaction may cost ${maxFee} base units, and ${left} are left of the address's gas`,
    )
}

/** The highest fee of what has a conflict key, and what became of it. */
interface Fate extends Pick<GasEntry, 'seq' | 'isFund' | 'conflictKey' | 'amount' | 'fee'> {
  /** What the final transaction cost that used the key up; undefined while none has. */
  paid: bigint | undefined
  /** Whether that transaction is one of ours and had its effect. */
  succeeded: boolean
}

/** What was signed for an address's gas, once for each conflict key, in the order of their first signatures. */
async function readGas({client, journal}: FamilyContext, chain: string, address: string): Promise<Fate[]> {
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
    const found = final.get(conflictKey)
    const {seq, isFund, amount} = entries[0]!
    const fee = entries.map(entry => entry.fee).toSorted((a, b) => (a < b ? 1 : -1))[0]!
    const succeeded = !!found?.success && entries.some(({txid}) => txid === found.txid)
    return {seq, isFund, conflictKey, amount, fee, paid: found && BigInt(found.fee), succeeded}
  })
}

/** The gas that is left, in base units; with those funds that are not final yet, or without. */
function leftOf(fates: Fate[], {withOpen}: {withOpen: boolean}): bigint {
  const brought = ({amount, paid, succeeded}: Fate) => (succeeded || (withOpen && paid === undefined) ? amount : 0n)
  return fates.reduce((left, one) => left + (one.isFund ? brought(one) : 0n - (one.paid ?? one.fee)), 0n)
}

/** What the funds since the address's last sweep may have cost themselves. */
function feesOfFunds(fates: Fate[]): bigint {
  const last = fates.findLast(({isFund, paid}) => !isFund && paid !== undefined)?.seq ?? 0
  return fates.reduce((sum, {isFund, seq, paid, fee}) => (isFund && seq > last ? sum + (paid ?? fee) : sum), 0n)
}
