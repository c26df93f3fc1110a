// Begins a withdrawal on a chain of accounts: reserves nonce, amount and highest fee. plan-attempt.ts plans the fees, as for any outgoing payment. The node
// is asked first: a recipient that refuses it would hold up the treasury's nonces.
import type pg from 'pg'
import {PermanentError} from '../../../base/errors.ts'
import type {EvmSettings} from '../../../chains/evm/settings.ts'
import {insertWithdrawal, treasuryOf} from '../accounts.ts'
import type {Withdrawal} from '../family.ts'
import {evm} from './node.ts'
import {refusedByRecipient} from './payment.ts'

export async function beginWithdrawal(db: pg.Client, settings: EvmSettings, withdrawal: Withdrawal): Promise<string> {
  const {token, amount, to: recipient} = withdrawal
  const chain = evm(settings)
  const source = await treasuryOf(db, settings.chain.code)
  const why = await refusedByRecipient(chain, {token, amount, source, recipient})
  chain.node.close()
  if (why) throw new PermanentError(`${why.detail}; withdraw to another address`)
  return await insertWithdrawal(db, settings.chain.code, withdrawal, settings.maxPaymentFee)
}
