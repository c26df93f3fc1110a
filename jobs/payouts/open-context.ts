// The tasks' context, with the payout chain of each chain that has a node.
import type pg from 'pg'
import type {Logger} from '../../service/log.ts'
import type {ChainSettings, Settings} from '../../service/settings.ts'
import type {Context, PayoutChain} from './context.ts'
import {Custody} from './custody.ts'
import {openEvm} from './evm/chain.ts'

export function openContext(settings: Settings, pool: pg.Pool, log: Logger): Context {
  const chains = [...settings.chains.values()].flatMap(of => {
    const chain = open(of)
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
function open(settings: ChainSettings): PayoutChain | undefined {
  if (settings.family === 'bitcoin') return undefined
  return settings.rpcUrl ? openEvm(settings, settings.rpcUrl) : undefined
}

export async function closeContext({chains, custody}: Context): Promise<void> {
  for (const chain of chains.values()) chain.close()
  await custody.close()
}
