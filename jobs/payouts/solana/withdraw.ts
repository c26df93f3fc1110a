// Begins a withdrawal on Solana: reserves the amount, the most that it may cost, and what the treasury must keep. The node is asked first: programs are no
// wallets, and an account takes no less than the rent.
import type pg from 'pg'
import {PermanentError} from '../../../base/errors.ts'
import {SolanaNodes} from '../../../chains/solana/client.ts'
import type {SolanaSettings} from '../../../chains/solana/settings.ts'
import {insertWithdrawal} from '../accounts.ts'
import type {Withdrawal} from '../family.ts'
import {paymentReserve, type Solana, unpayable} from './node.ts'

export async function beginWithdrawal(
  db: pg.Client,
  settings: SolanaSettings,
  withdrawal: Withdrawal,
): Promise<string> {
  const chain: Solana = {settings, nodes: new SolanaNodes(settings)}
  const why = await unpayable(chain, {recipient: withdrawal.to, amount: withdrawal.amount})
  if (why) throw new PermanentError(`${why.detail}; withdraw another amount, or to another address`)
  return await insertWithdrawal(db, settings.chain.code, withdrawal, await paymentReserve(chain))
}
