// Begins a withdrawal on a chain of accounts: reserves nonce, amount and highest fee. plan-attempt.ts plans the fees, as for any outgoing payment.
import type pg from 'pg'
import type {EvmSettings} from '../../../chains/evm/settings.ts'
import {insertWithdrawal} from '../accounts.ts'
import type {Withdrawal} from '../family.ts'

/** More than a transfer of any asset needs. Unused gas is never paid. */
const gasMost = 100_000n

export const asksBeforeWithdrawal = false

export async function beginWithdrawal(
  db: pg.Client,
  {chain, maxFeePerGas}: EvmSettings,
  withdrawal: Withdrawal,
): Promise<string> {
  return await insertWithdrawal(db, chain.code, withdrawal, gasMost * maxFeePerGas)
}
