// Checks whether the id of each stored transaction is the hash of its bytes, which SQL cannot compute. One that custody
// reconcile found in a block has none.
import type pg from 'pg'
import {formsOf} from '../../chains/families.ts'
import {chain} from '../../chains/registry.ts'

const page = 5000

/** The transactions whose id is not the hash of their bytes. */
export async function wrongBytes(db: pg.Client): Promise<{chain: string; txid: string}[]> {
  const wrong = []
  for (let last = {chain: '', txid: ''}; ; ) {
    const {rows} = await db.query<{chain: string; txid: string; raw: string}>(
      `select chain, txid, raw from app.outgoing_attempt where (chain, txid) > ($1, $2) and raw <> '' order by chain, txid limit $3`,
      [last.chain, last.txid, page],
    )
    if (!rows.length) return wrong
    for (const {chain, txid, raw} of rows) if ((await hashOf(chain, raw)) !== txid) wrong.push({chain, txid})
    last = rows.at(-1)!
  }
}

/** The id of the bytes; undefined for bytes that cannot be read, which count as wrong. */
async function hashOf(code: string, raw: string): Promise<string | undefined> {
  try {
    return (await formsOf(chain(code))).txid(raw)
  } catch {
    return
  }
}
