// The payout chain of the EVM family: the flow of accounts (../accounts/flow.ts). Each transaction takes the next nonce
// of its sender, and is replaced by one that offers more while no block takes it.
import type pg from 'pg'
import {codeHashes} from '../../../chains/evm/inspect-token.ts'
import type {EvmSettings} from '../../../chains/evm/settings.ts'
import {beginWithdrawalBy, flowOf} from '../accounts/flow.ts'
import {type PayoutChain, resendByAge} from '../context.ts'
import type {Withdrawal} from '../family.ts'
import {evm} from './node.ts'
import {type EvmAttempt, plan} from './plan-attempt.ts'
import {refusalOf} from './refusals.ts'
import {rulesOf, unpayable} from './rules.ts'
import {readSigned} from './second-reader.ts'
import {intentOf, type Offered, raised, responses} from './signing.ts'

export function open(settings: EvmSettings): PayoutChain<EvmAttempt, Offered> {
  const chain = evm(settings)
  return {
    ...flowOf(rulesOf(chain)),
    unpayable: payout => unpayable(chain, payout),
    plan: (to, outgoingPayments) => plan(to, chain, outgoingPayments),
    intentOf,
    responses,
    raise: async (_to, attempt, needed) => raised(attempt, needed),
    readSigned: (_to, planned, signed) => readSigned(chain, planned, signed),
    isStuck: ({isOverdue, isBehind}) => isOverdue && !isBehind,
    resendAfterMs: resendByAge,
    broadcast: raws => chain.node.broadcast(raws),
    codeHashes: () => codeHashes(settings),
    refusal: (to, of) => refusalOf(to, chain, of),
    close: () => chain.node.close(),
  }
}

export async function beginWithdrawal(db: pg.Client, settings: EvmSettings, withdrawal: Withdrawal): Promise<string> {
  const chain = evm(settings)
  try {
    return await beginWithdrawalBy(db, rulesOf(chain), withdrawal, settings.maxPaymentFee)
  } finally {
    chain.node.close()
  }
}
