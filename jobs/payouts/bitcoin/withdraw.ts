// Begins a withdrawal on a chain with outputs: chooses outputs of the treasury and a fee, like a payout, and reserves
// the outputs.
import type pg from 'pg'
import {PermanentError} from '../../../base/errors.ts'
import {dustLimit, scriptOfAddress} from '../../../chains/bitcoin/script.ts'
import type {BitcoinSettings} from '../../../chains/bitcoin/settings.ts'
import type {Withdrawal} from '../family.ts'
import {askOnce} from './node.ts'
import {freeOutputs} from './outputs.ts'
import {ratesOf} from './rates.ts'
import {mostInputs, selectPayment} from './select.ts'

export async function beginWithdrawal(
  db: pg.Client,
  settings: BitcoinSettings,
  {amount, to}: Withdrawal,
): Promise<string> {
  const chain = settings.chain.code
  const script = scriptOfAddress(to, settings.chain.networks[settings.network])
  if (amount < dustLimit(script))
    throw new PermanentError(
      `${amount} sat to ${to} would be dust; send at least ${dustLimit(script)} sat, the least that nodes relay`,
    )
  const rate = await rateOf(settings)
  const price = {rate, cap: settings.maxFeeRate}
  const found = selectPayment({amount, scriptLength: script.length}, [], await freeOutputs(db, chain, null), price)
  if ('inputs' in found && found.inputs.length > mostInputs)
    throw new PermanentError(
      `${amount} sat need ${found.inputs.length} outputs of the treasury, and one transaction spends at most ${mostInputs}; withdraw less at a time`,
    )
  if (!('inputs' in found))
    throw new PermanentError(
      `the treasury's free outputs are not enough for ${amount} sat and the network fee; withdraw less, or wait until open transactions are final: their change is free then`,
    )
  const {rows} = await db.query<{id: string}>('select app.begin_output_withdrawal($1, $2, $3, $4, $5) as id', [
    chain,
    amount.toString(),
    to,
    found.inputs.map(({outpoint}) => outpoint),
    found.fee.toString(),
  ])
  return rows[0]!.id
}

async function rateOf(settings: BitcoinSettings): Promise<number> {
  const rates = await askOnce(settings, async node => ratesOf(await node.feeRates(), settings))
  if (rates) return rates.first
  throw new PermanentError(
    `the network asks for more than ${settings.chain.code}_MAX_FEE_RATE allows (${settings.maxFeeRate} sat/vB)`,
  )
}
