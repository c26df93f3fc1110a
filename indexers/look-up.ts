// Finds what is ours in blocks. Promises: addresses are looked up in the transaction that writes the blocks, so an
// address that was handed out a moment before its first deposit is found. A source is asked for the sender only if the
// payment is to us. What an address of ours sends to a deposit address pays nobody: it is not found.
import type {Candidate, ReadBlock} from './block.ts'

/** Queries the database in the transaction that writes. */
export type Query = <T>(sql: string, values: unknown[]) => Promise<T[]>

/** What is ours in the blocks. */
export interface Found {
  /** The hash of the block below them. */
  parentHash: string | null
  senders: Record<string, string>
  /** The address of ours that a candidate pays, and who pays it; undefined if it pays none of ours. */
  paid(candidate: Candidate): {recipient: string; sender: string} | undefined
}

interface Row {
  parentHash: string | null
  addresses: Record<string, {address: string; isTreasury: boolean}>
  senders: Record<string, string>
}

// Each key is looked up by index. "lateral … offset 0" keeps the planner from scanning all addresses: without it, it
// does so with 20,000 keys and a million addresses, and takes ten times as long (measured).
export async function lookUp(query: Query, chain: string, blocks: ReadBlock[]): Promise<Found> {
  const recipientKeys = new Set(blocks.flatMap(block => block.candidates.map(candidate => candidate.recipientKey)))
  const senderKeys = new Set(blocks.flatMap(block => block.sent.map(transaction => transaction.senderKey)))
  const [row] = await query<Row>(
    `select (select hash from chain.block where id = $1) as "parentHash",
       coalesce((select json_object_agg(match_key, json_build_object('address', address, 'isTreasury', merchant_id is null))
         from unnest($3::text[]) key cross join lateral (
         select match_key, address, merchant_id from app.address where chain = $2 and match_key = key offset 0) a), '{}') as addresses,
       coalesce((select json_object_agg(match_key, address) from unnest($4::text[]) key cross join lateral (
         select match_key, address from custody.address where match_key = key offset 0) a), '{}') as senders`,
    [`${chain}:${blocks[0]!.height - 1}`, chain, [...recipientKeys], [...senderKeys]],
  )
  const {parentHash, addresses, senders} = row!
  const asked = await askSenders(blocks, addresses)
  const senderOf = ({txid, sender}: Candidate) => asked.get(txid) ?? sender
  const toUsers = blocks.flatMap(({candidates}) =>
    candidates.filter(({recipientKey}) => addresses[recipientKey]?.isTreasury === false),
  )
  const ours = await oursAmong(query, new Set(toUsers.map(senderOf)))
  return {
    parentHash,
    senders,
    paid(candidate) {
      const to = addresses[candidate.recipientKey]
      const sender = senderOf(candidate)
      if (!to || (to.isTreasury ? candidate.isOutOfReach?.() : ours.has(sender))) return undefined
      return {recipient: to.address, sender}
    },
  }
}

/** Which of these senders are addresses of ours, by custody's list: it knows them also if nothing else does. */
async function oursAmong(query: Query, senders: Set<string>): Promise<Set<string>> {
  if (!senders.size) return new Set()
  const rows = await query<{sender: string}>(
    `select sender from unnest($1::text[]) sender cross join lateral (
       select from custody.address where match_key in (sender, lower(sender)) limit 1) own`,
    [[...senders]],
  )
  return new Set(rows.map(({sender}) => sender))
}

async function askSenders(blocks: ReadBlock[], addresses: Row['addresses']): Promise<Map<string, string>> {
  const asked = await Promise.all(
    blocks.map(async block => {
      const ours = block.sendersOf && block.candidates.filter(({recipientKey}) => addresses[recipientKey])
      return ours?.length ? [...(await block.sendersOf!([...new Set(ours.map(({txid}) => txid))]))] : []
    }),
  )
  return new Map(asked.flat())
}
