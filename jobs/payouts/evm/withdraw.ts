// Begins a withdrawal on a chain of accounts: reserves nonce, amount and highest fee. plan-attempt.ts plans the fees, as for any outgoing payment.
import type pg from 'pg'
import type {EvmSettings} from '../../../chains/evm/settings.ts'
import type {Withdrawal} from '../family.ts'

/** More than a transfer of any asset needs. Unused gas is never paid. */
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
