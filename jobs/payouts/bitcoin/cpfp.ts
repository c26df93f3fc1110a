// Speeds up an unconfirmed incoming payment with a child transaction (CPFP): the child spends the payment, with a fee
// that makes both worth mining.
import type pg from 'pg'
import {PermanentError} from '../../../base/errors.ts'
import type {BitcoinSettings} from '../../../chains/bitcoin/settings.ts'
import type {Cpfp} from '../family.ts'
import {askOnce, type Waiting} from './node.ts'
import {mostInputs, type Output, selectAll, sweepCap, sweepSize} from './select.ts'

export async function beginCpfp(
  db: pg.Client,
  settings: BitcoinSettings,
  {txid, feeRate}: {txid: string; feeRate: number},
): Promise<Cpfp> {
  const {maxFeeRate} = settings
  const chain = settings.chain.code
  if (feeRate > maxFeeRate)
    throw new PermanentError(`${feeRate} sat/vB is more than ${chain}_MAX_FEE_RATE allows (${maxFeeRate} sat/vB)`)
  await requireForeign(db, chain, txid)
  const inputs = await ofOneOwner(db, chain, txid)
  const parent = await parentOf(settings, txid)
  if (Number(parent.fee) >= feeRate * parent.vsize)
    throw new PermanentError(
      `there is nothing to speed up: ${txid} pays ${(Number(parent.fee) / parent.vsize).toFixed(2)} sat/vB already`,
    )
  const both = sweepSize(inputs.length) + parent.vsize
  const least = BigInt(Math.ceil(feeRate * both - 1e-9)) - parent.fee
  const found = selectAll(inputs, {rate: feeRate, cap: sweepCap(inputs.length, parent.vsize, maxFeeRate), least})
  if (!('inputs' in found))
    throw new PermanentError(
      'short' in found
        ? `the payment in ${txid} is too small for a fee of ${least} sat: ${found.short} sat are missing`
        : `a fee of ${least} sat is more than ${chain}_MAX_FEE_RATE allows (${maxFeeRate} sat/vB)`,
    )
  const {rows} = await db.query<{id: string}>('select app.begin_cpfp($1, $2, $3, $4) as id', [
    chain,
    inputs.map(({outpoint}) => outpoint),
    found.fee.toString(),
    parent.vsize,
  ])
  return {id: rows[0]!.id, fee: found.fee, amount: found.change}
}

async function requireForeign(db: pg.Client, chain: string, txid: string): Promise<void> {
  const {rows} = await db.query<{is_own: boolean; height: number | null}>(
    `select exists (select from app.outgoing_attempt o where o.chain = $1 and o.txid = $2) as is_own,
       (select min(t.block_height) from app.deposit d join chain.transfer t on t.id = d.chain || ':' || d.txid || ':' || d.output_index
         where d.chain = $1 and d.txid = $2) as height`,
    [chain, txid],
  )
  const {is_own, height} = rows[0]!
  if (is_own) throw new PermanentError(`${txid} is our own transaction: Sluice raises its fee automatically (RBF)`)
  if (height !== null) throw new PermanentError(`${txid} is in block ${height} already`)
}

/** The outputs that pay us. If the transaction pays several merchants, those of the merchant that gets the most. */
async function ofOneOwner(db: pg.Client, chain: string, txid: string): Promise<Output[]> {
  const {rows} = await db.query<{outpoint: string; amount: string; owner: string | null}>(
    `select u.txid || ':' || u.output_index as outpoint, u.amount, d.merchant_id as owner
     from chain.unconfirmed u join app.deposit d on d.chain = u.chain and d.txid = u.txid and d.output_index = u.output_index and d.address = u.recipient
     where u.chain = $1 and u.txid = $2 and d.status = 'pending' and (d.credited or d.merchant_id is null)
     order by sum(u.amount) over (partition by d.merchant_id) desc, d.merchant_id, u.amount desc`,
    [chain, txid],
  )
  if (!rows.length) throw new PermanentError(`${txid} has no unconfirmed payment to an address of ours`)
  return rows
    .filter(({owner}) => owner === rows[0]!.owner)
    .slice(0, mostInputs)
    .map(({outpoint, amount, owner}) => ({outpoint, amount: BigInt(amount), isTreasury: owner === null}))
}

async function parentOf(settings: BitcoinSettings, txid: string): Promise<Waiting> {
  const parent = await askOnce(settings, node => node.waiting(txid))
  if (parent) return parent
  throw new PermanentError(
    `the node or server of ${settings.chain.code} does not have ${txid} now, so it would not accept a child of it`,
  )
}
