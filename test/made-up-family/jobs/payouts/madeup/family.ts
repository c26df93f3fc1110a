// Payouts of the made-up family: custody plans no transactions for them, so nothing leaves its chains. Payouts that began wait.
import type pg from 'pg'
import {z} from 'zod'
import type {MadeUpSettings} from '../../../chains/madeup/settings.ts'
import {type PayoutChain, resendByAge, retryMs} from '../context.ts'
import {responses} from '../custody.ts'
import type {Withdrawal} from '../family.ts'

export function open({chain}: MadeUpSettings): PayoutChain<never> {
  return {
    sweep: async () => ({
      reason: 'unpayable',
      detail: `nothing leaves ${chain.displayName}`,
      ms: retryMs.refused,
    }),
    plan: async () => [],
    intentOf: planned => planned,
    responses: responses(z.never(), z.never()),
    raise: async () => undefined,
    isStuck: () => false,
    resendAfterMs: resendByAge,
    broadcast: async raws => raws.map(() => 'the node takes no transactions'),
    async collect() {},
    close() {},
  }
}

export const asksBeforeWithdrawal = false

export async function beginWithdrawal(
  db: pg.Client,
  {chain}: MadeUpSettings,
  {token, amount, to}: Withdrawal,
): Promise<string> {
  const {rows} = await db.query<{id: string}>('select app.begin_withdrawal($1, $2, $3, $4, 0) as id', [
    chain.code,
    token,
    amount.toString(),
    to,
  ])
  return rows[0]!.id
}
