// What custody signs on chains of the made-up family: what all families of expiring transactions do (../expiring.ts), at a fee that is always the same.
import type {z} from 'zod'
import {blockMs, fee, lifetimeBlocks} from '../../chains/madeup/block.ts'
import {madeUpSettings} from '../../chains/madeup/settings.ts'
import type {ChainCode} from '../../chains/registry.ts'
import {type ExpiringPlan, expiringIntents, judgeExpiring} from '../expiring.ts'
import {type Lifetime, lifetimeInBlocks, lifetimeInTime, linkedNow} from '../expiry.ts'
import type {Decision, FamilyContext} from '../policy.ts'

export const Intent = expiringIntents('madeup', {})
export type Intent = z.infer<typeof Intent>

export async function judge(context: FamilyContext, intent: Intent): Promise<Decision<ExpiringPlan>> {
  return await judgeExpiring(context, intent, {
    maxLapses: settings => madeUpSettings(settings).maxLapses,
    terms: async (_, {chain}) => ({maxFee: fee, lifetime: await lifetimeNow(context, chain)}),
  })
}

/** It ends by height, or by time where app.chain says so. */
async function lifetimeNow(context: FamilyContext, chain: ChainCode): Promise<Lifetime> {
  const linked = await linkedNow(context, chain, madeUpSettings(context.chains.get(chain)))
  const {rowCount} = await context.client.query({
    name: 'ends_by_time',
    text: `select from app.chain where chain = $1 and ends_by = 'time'`,
    values: [chain],
  })
  return rowCount ? lifetimeInTime(linked, lifetimeBlocks * blockMs) : lifetimeInBlocks(linked, lifetimeBlocks, blockMs)
}
