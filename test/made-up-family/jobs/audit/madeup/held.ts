// The made-up family in the audit: its node reports no balances.
import type {MadeUpSettings} from '../../../chains/madeup/settings.ts'
import type {AuditFamily} from '../observation.ts'

export const madeup: AuditFamily<MadeUpSettings> = {
  claim: 'nothing: balances are not compared',
  ask: (db, {chain}) => ({
    batch: 1000,
    async poll(addresses) {
      const {rows} = await db.query<{height: number}>(
        'select final_height as height from chain.cursor where chain = $1',
        [chain.code],
      )
      return {height: rows[0]!.height, differences: [], unread: addresses.map(address => `${address}: nobody tells`)}
    },
    heightAt: async () => undefined,
    close() {},
  }),
}
