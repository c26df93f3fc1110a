// The tasks' context, with the payout chain of each chain that has a node.
import type pg from 'pg'
import type {Logger} from '../../base/log.ts'
import {type ChainSettings, hasNode} from '../../chains/families.ts'
import type {Settings} from '../../chains/settings.ts'
import {openBitcoin} from './bitcoin/chain.ts'
import type {Context, PayoutChain} from './context.ts'
import {Custody} from './custody.ts'
import {openEvm} from './evm/chain.ts'

export function openContext(settings: Settings, pool: pg.Pool, log: Logger): Context {
  const chains = [...settings.chains.values()].flatMap(of => {
    const chain = open(of, log)
    return chain ? [[of.chain.code, chain] as const] : []
  })
  const {payoutTimeoutMs, replaceAfterMs} = settings
  return {
    pool,
    chains: new Map(chains),
    custody: new Custody(settings.home),
    payoutTimeoutMs,
    replaceAfterMs,
    log,
  }
}

/** Undefined where no node is named. */
function open(settings: ChainSettings, log: Logger): PayoutChain | undefined {
  if (!hasNode(settings)) return undefined
  return settings.family === 'bitcoin' ? openBitcoin(settings, log) : openEvm(settings, settings.rpcUrl!)
}

export async function closeContext({chains, custody}: Context): Promise<void> {
  for (const chain of chains.values()) chain.close()
  await custody.close()
}
