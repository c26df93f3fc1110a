// The smallest payouts: settings of the operator that the database judges by (app.request_payout), so that every API process, and whoever else
// asks for payouts, judges alike. Promises: they are those of the settings once this resolves; what was accepted before stays.
import pg from 'pg'
import type {ChainSettings} from '../chains/families.ts'

/** Writes them into the database of this owner's URL. */
export async function setMinPayouts(ownerUrl: string, chains: Iterable<ChainSettings>): Promise<void> {
  const client = new pg.Client({connectionString: ownerUrl, application_name: 'sluice-settings'})
  await client.connect()
  try {
    for (const {chain, minPayout} of chains) {
      await client.query(
        `update app.asset a set min_payout = given.amount
         from unnest($2::text[], $3::numeric[]) as given (token, amount)
         where a.chain = $1 and a.token = given.token and a.min_payout is distinct from given.amount`,
        [chain.code, [...minPayout.keys()], [...minPayout.values()].map(String)],
      )
    }
  } finally {
    await client.end()
  }
}
