// Finds what is ours in blocks. Promises: addresses are looked up in the transaction that writes the blocks, so an
// address that was handed out a moment before its first deposit is found. A source is asked for the sender only if the
// payment is to us.
import type {ReadBlock} from './block.ts'

/** Queries the database in the transaction that writes. */
export type Query = <T>(sql: string, values: unknown[]) => Promise<T[]>

/** What is ours in the blocks. */
export interface Found {
  /** The hash of the block below them. */
  parentHash: string | null
  addresses: Record<string, string>
  senders: Record<string, string>
  /** The senders of payments to us, by txid, if the source had to be asked for them. */
  askedSenders: Map<string, string>
}

// Each key is looked up by index. "lateral … offset 0" keeps the planner from scanning all addresses: without it, it
// does so with 20,000 keys and a million addresses, and takes ten times as long (measured).
export async function lookUp(query: Query, chain: string, blocks: ReadBlock[]): Promise<Found> {
  const recipientKeys = new Set(blocks.flatMap(block => block.candidates.map(candidate => candidate.recipientKey)))
  const senderKeys = new Set(blocks.flatMap(block => block.sent.map(transaction => transaction.senderKey)))
  const [row] = await query<Omit<Found, 'askedSenders'>>(
    `select (select hash from chain.block where id = $1) as "parentHash",
       coalesce((select json_object_agg(match_key, address) from unnest($3::text[]) key cross join lateral (
         select match_key, address from app.address where chain = $2 and match_key = key offset 0) a), '{}') as addresses,
       coalesce((select json_object_agg(match_key, address) from unnest($4::text[]) key cross join lateral (
         select match_key, address from custody.address where match_key = key offset 0) a), '{}') as senders`,
    [`${chain}:${blocks[0]!.height - 1}`, chain, [...recipientKeys], [...senderKeys]],
  )
  return {...row!, askedSenders: await askSenders(blocks, row!.addresses)}
}

async function askSenders(blocks: ReadBlock[], addresses: Found['addresses']): Promise<Map<string, string>> {
  const asked = await Promise.all(
    blocks.map(async block => {
      const ours = block.sendersOf && block.candidates.filter(({recipientKey}) => addresses[recipientKey])
      return ours?.length ? [...(await block.sendersOf!([...new Set(ours.map(({txid}) => txid))]))] : []
    }),
  )
  return new Map(asked.flat())
}
