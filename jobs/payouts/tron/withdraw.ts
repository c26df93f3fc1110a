// Begins a withdrawal on Tron: reserves the amount and the most that it may cost. The node is asked first, because nobody can pay a contract.
import type pg from 'pg'
import {PermanentError} from '../../../base/errors.ts'
import {TronNodes} from '../../../chains/tron/client.ts'
import type {TronSettings} from '../../../chains/tron/settings.ts'
import {insertWithdrawal} from '../accounts.ts'
import type {Withdrawal} from '../family.ts'
import {unpayable} from './node.ts'

export async function beginWithdrawal(db: pg.Client, settings: TronSettings, withdrawal: Withdrawal): Promise<string> {
  const why = await unpayable({settings, nodes: new TronNodes(settings)}, withdrawal.to)
  if (why) throw new PermanentError(`${why.detail}; withdraw to another address`)
  return await insertWithdrawal(db, settings.chain.code, withdrawal, settings.maxPaymentFee)
}
