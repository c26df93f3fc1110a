// A withdrawal where the treasury is an account: its nonce, its amount and its highest fee are reserved; what it offers is planned as for all.
import type pg from 'pg'
import type {EvmSettings} from '../../../chains/evm/settings.ts'
import type {Withdrawal} from '../family.ts'

/** More than a transfer of any asset needs; what the transaction does not use is never paid. */
const gasMost = 100_000n

export const asksBeforeWithdrawal = false

export async function beginWithdrawal(
  db: pg.Client,
  {chain, maxFeePerGas}: EvmSettings,
  {token, amount, to}: Withdrawal,
): Promise<string> {
  const {rows} = await db.query<{id: string}>('select app.begin_withdrawal($1, $2, $3, $4, $5) as id', [
    chain.code,
    token,
    amount.toString(),
    to,
    (gasMost * maxFeePerGas).toString(),
  ])
  return rows[0]!.id
}
