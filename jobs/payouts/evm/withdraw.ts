// Begins a withdrawal on a chain of accounts: reserves nonce, amount and highest fee. plan-attempt.ts plans the fees, as for any outgoing payment.
import type pg from 'pg'
import type {EvmSettings} from '../../../chains/evm/settings.ts'
import {insertWithdrawal} from '../accounts.ts'
import type {Withdrawal} from '../family.ts'

export const asksBeforeWithdrawal = false

export async function beginWithdrawal(
  db: pg.Client,
  {chain, maxPaymentFee}: EvmSettings,
  withdrawal: Withdrawal,
): Promise<string> {
  return await insertWithdrawal(db, chain.code, withdrawal, maxPaymentFee)
}
