// The outputs that a transaction may spend. Promises: they are ours, final and unspent, by what the indexer saw, and
// reserved for the outgoing payment; only a CPFP child spends unconfirmed ones. No merchant's money pays for another
// merchant.
import type {OutgoingPayment} from '../judge/outgoing-payments.ts'
import {type FamilyContext, type Own, type OwnRow, ownOf, type Purpose} from '../judge/plan.ts'
import {Refusal} from '../judge/refusal.ts'

export interface OwnOutput {
  outpoint: string
  value: bigint
  own: Own
}

interface OutputRow extends OwnRow {
  outpoint: string
  value: string
}

/**
 * The outputs, in the order of the request. Refuses those that are not ours, not final, already spent, not reserved, or
 * that may not serve this purpose.
 */
export async function findOutputs(
  {client}: FamilyContext,
  purpose: Purpose,
  {id}: OutgoingPayment,
  outpoints: string[],
): Promise<OwnOutput[]> {
  const {chain, token} = purpose
  const {rows} = await client.query<OutputRow & {is_spent: boolean; is_reserved: boolean}>({
    name: 'find_outputs',
    text: `select i.outpoint, t.amount::text as value, a.address, a.purpose, a.derivation_index as index, a.merchant_id,
        exists (select from chain.confirmed_tx s
          where s.chain = $1 and s.conflict_key = i.outpoint and s.block_height <= c.final_height) as is_spent,
        exists (select from app.output u
          where u.chain = $1 and u.txid = split_part(i.outpoint, ':', 1) and u.vout = split_part(i.outpoint, ':', 2)::int
            and u.outgoing_payment_id = $4) as is_reserved
      from unnest($2::text[]) with ordinality i (outpoint, place)
      join chain.cursor c on c.chain = $1
      join chain.transfer t on t.id = $1 || ':' || i.outpoint and t.chain = $1 and t.token = $3 and t.block_height <= c.final_height
      join custody.address a on a.address = t.recipient and a.family = 'bitcoin'
      order by i.place`,
    values: [chain, outpoints, token, id],
  })
  checkFound(outpoints, rows, 'is not a final output of an address of this service')
  const spent = rows.find(({is_spent}) => is_spent)
  if (spent) throw new Refusal('wrong_state', `${spent.outpoint} is spent: its transaction is final`)
  const outputs = rows.map(ownOutput)
  checkOwners(purpose, outputs)
  const foreign = rows.find(({is_reserved}) => !is_reserved) // each input costs fees
  if (foreign) throw new Refusal('settlement_changed', `${foreign.outpoint} is not reserved for this outgoing payment`)
  return outputs
}

/**
 * The same for a CPFP child: outputs of one transaction that is not final yet. Once it is final, its outputs are like
 * any others.
 */
export async function findUnconfirmed(
  {client}: FamilyContext,
  {chain, token}: Purpose,
  outpoints: string[],
): Promise<OwnOutput[]> {
  const {rows} = await client.query<OutputRow & {txid: string}>({
    name: 'find_unconfirmed',
    text: `select i.outpoint, u.txid, u.amount::text as value, a.address, a.purpose, a.derivation_index as index, a.merchant_id
      from unnest($2::text[]) with ordinality i (outpoint, place)
      join chain.cursor c on c.chain = $1
      join chain.unconfirmed u on u.id = $1 || ':' || i.outpoint and u.chain = $1 and u.token = $3
      join custody.address a on a.address = u.recipient and a.family = 'bitcoin'
      where not exists (select from chain.transfer t where t.id = u.id and t.block_height <= c.final_height)
      order by i.place`,
    values: [chain, outpoints, token],
  })
  checkFound(outpoints, rows, 'is not an unconfirmed output of an address of this service')
  const [first] = rows
  if (rows.some(({txid, merchant_id}) => txid !== first!.txid || merchant_id !== first!.merchant_id))
    throw new Refusal(
      'not_ours',
      'a CPFP child may only spend outputs of one transaction, to addresses of one merchant or of the treasury',
    )
  return rows.map(ownOutput)
}

function ownOutput(row: OutputRow): OwnOutput {
  return {outpoint: row.outpoint, value: BigInt(row.value), own: ownOf('bitcoin', row)}
}

function checkFound(outpoints: string[], rows: OutputRow[], isNone: string): void {
  if (rows.length === outpoints.length) return
  const known = new Set(rows.map(({outpoint}) => outpoint))
  throw new Refusal('not_ours', `${outpoints.find(one => !known.has(one))} ${isNone}`)
}

/** A transaction spends outputs of one merchant and of the treasury only. */
function checkOwners({kind, merchantId}: Purpose, outputs: OwnOutput[]): void {
  const isDeposit = ({own}: OwnOutput) => own.path.purpose === 'deposit'
  const owner = kind === 'pay' ? merchantId : outputs.find(isDeposit)?.own.merchantId
  for (const output of outputs) {
    const input = `input ${output.outpoint} belongs to`
    if (!isDeposit(output)) {
      if (kind === 'sweep')
        throw new Refusal('not_ours', `${input} the treasury; a sweep spends merchants' outputs only`)
    } else if (kind === 'withdraw')
      throw new Refusal('not_ours', `${input} a merchant; a withdrawal spends the treasury's outputs only`)
    else if (output.own.merchantId !== owner) throw new Refusal('not_ours', `${input} another merchant`)
  }
}
