// Chains that merchants may use although no process follows them: addresses may be handed out there, and what is paid
// to them is not seen.
import type pg from 'pg'
import type {Sluice} from './command.ts'

/** Those of these chains that no node is known for here, and that no indexer ever began to follow. */
export async function unfollowed({db, service}: Pick<Sluice, 'db' | 'service'>, chains: string[]): Promise<string[]> {
  const {rows} = await db.query<{chain: string}>(
    `select given.chain from unnest($1::text[]) as given (chain)
     where not exists (select from chain.cursor c where c.chain = given.chain)
       and not exists (select from chain.configured g where g.chain = given.chain)`,
    [chains],
  )
  return rows.map(({chain}) => chain).filter(chain => !service.chains[chain])
}

/** The chains that merchants may use, with the number of those merchants. */
export async function chainsOfMerchants(db: pg.Client): Promise<{chain: string; merchants: number}[]> {
  const {rows} = await db.query<{chain: string; merchants: number}>(
    'select chain, count(*)::int as merchants from app.merchant_chain where enabled group by chain order by chain',
  )
  return rows
}
