// What the database has of the transactions that a server lists.
import type pg from 'pg'
import type {Place} from './electrum-headers.ts'

export interface Named {
  address: string
  txid: string
  height: number
  /** The block's hash. */
  hash: string
}

/**
 * Which of these transactions in stored blocks have no row there, neither for a payment to the address nor for an
 * output of it that they spend.
 */
export async function withoutRow<N extends Named>(db: pg.Pool, chain: string, named: N[]): Promise<N[]> {
  if (!named.length) return []
  const {rows} = await db.query<{n: string}>(
    `select s.n from unnest($2::text[], $3::text[], $4::int[], $5::text[]) with ordinality as s (address, txid, height, hash, n)
     join chain.block b on b.chain = $1 and b.height = s.height and b.hash = s.hash
     where not exists (
       select from chain.transfer t
       where t.chain = $1 and t.block_height = s.height and t.txid = s.txid and t.recipient = s.address
     ) and not exists (
       select from chain.confirmed_tx i
       where i.chain = $1 and i.block_height = s.height and i.txid = s.txid and i.account = s.address
     )`,
    [
      chain,
      named.map(({address}) => address),
      named.map(({txid}) => txid),
      named.map(({height}) => height),
      named.map(({hash}) => hash),
    ],
  )
  return rows.map(({n}) => named[Number(n) - 1]!)
}

/** The transactions that have a row in exactly these blocks. */
export async function rowsIn(db: pg.Pool, chain: string, blocks: Place[]): Promise<{height: number; txid: string}[]> {
  if (!blocks.length) return []
  const {rows} = await db.query<{height: number; txid: string}>(
    `select b.height, r.txid from unnest($2::int[], $3::text[]) as b (height, hash)
     cross join lateral (
       select txid, block_hash from chain.transfer where chain = $1 and block_height = b.height
       union select txid, block_hash from chain.confirmed_tx where chain = $1 and block_height = b.height
     ) r where r.block_hash = b.hash`,
    [chain, blocks.map(({height}) => height), blocks.map(({header}) => header.hash)],
  )
  return rows
}
