// The context of the payout tasks, with a PayoutChain for each chain that has a node.
import type pg from 'pg'
import type {Logger} from '../../base/log.ts'
import {hasNode} from '../../chains/families.ts'
import type {Settings} from '../../chains/settings.ts'
import type {Context} from './context.ts'
import {Custody} from './custody-client.ts'
import {payoutFamilyOf} from './families.ts'

export async function openContext(settings: Settings, pool: pg.Pool, log: Logger): Promise<Context> {
  const {payoutTimeoutMs, replaceAfterMs} = settings
  const chains: Context['chains'] = new Map()
  for (const of of settings.chains.values())
    if (hasNode(of)) chains.set(of.chain.code, (await payoutFamilyOf(of)).open(of, log))
  return {pool, chains, custody: new Custody(settings.home), payoutTimeoutMs, replaceAfterMs, log}
}

export async function closeContext({chains, custody}: Context): Promise<void> {
  for (const chain of chains.values()) chain.close()
  await custody.close()
}
