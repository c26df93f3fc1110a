// Writes a batch of blocks and what they moved to addresses of ours. Promises: addresses are looked up in the transaction that writes
// the blocks, so one that was handed out a moment before its first deposit is found; a block that does not link to the one below it
// is refused, and nothing of its batch is written; what is not ours is never stored.
import type {Store} from '@subsquid/typeorm-store'
import type {EntityManager} from 'typeorm'
import {RetryableError} from '../service/errors.ts'
import {Block, Transfer} from './entities.ts'

/** A block as every chain's reader hands it over. */
export interface ReadBlock {
  height: number
  hash: string
  parentHash: string
  time: Date
  /** Every transfer in it that may be to us; which are is decided here. */
  candidates: Candidate[]
}

export interface Candidate {
  txid: string
  outputIndex: number
  /** Token code, or the contract's address where the token is none of ours. */
  token: string
  /** In base units, above 0. */
  amount: bigint
  sender: string
  /** The recipient in the form of app.address.match_key. */
  recipientKey: string
}

export interface WriteOptions {
  chain: string
  /** The form in which people see an address that came in the form of a match key. */
  display: (address: string) => string
}

/** Inserts blocks, in ascending order and without holes, through the store. Throws RetryableError if they do not link. */
export async function writeBlocks(store: Store, blocks: ReadBlock[], {chain, display}: WriteOptions): Promise<void> {
  const first = blocks[0]
  if (!first) return
  const keys = new Set(blocks.flatMap(block => block.candidates.map(candidate => candidate.recipientKey)))
  const {parentHash, addresses} = await lookUp(store, chain, first.height - 1, [...keys])
  assertLinked(blocks, parentHash)

  await store.insert(
    blocks.map(({height, hash, parentHash, time}) => {
      return new Block({id: `${chain}:${height}`, chain, height, hash, parentHash, time})
    }),
  )
  await store.insert(
    blocks.flatMap(block =>
      block.candidates.flatMap(({txid, outputIndex, token, amount, sender, recipientKey}) => {
        const recipient = addresses[recipientKey]
        if (!recipient) return []
        const id = `${chain}:${txid}:${outputIndex}`
        const at = {blockHeight: block.height, blockHash: block.hash, blockTime: block.time}
        return [new Transfer({id, chain, txid, outputIndex, ...at, token, amount, sender: display(sender), recipient})]
      }),
    ),
  )
}

interface Found {
  parentHash: string | null
  addresses: Record<string, string>
}

async function lookUp(store: Store, chain: string, parentHeight: number, keys: string[]): Promise<Found> {
  const manager = (store as unknown as {em(): EntityManager}).em() // private; reading through it is all we do
  const [row]: [Found] = await manager.query(
    `select (select hash from chain.block where id = $1) as "parentHash",
       coalesce((select json_object_agg(match_key, address) from app.address where chain = $2 and match_key = any($3)), '{}') as addresses`,
    [`${chain}:${parentHeight}`, chain, keys],
  )
  return row
}

function assertLinked(blocks: ReadBlock[], parentHash: string | null): void {
  let below = parentHash
  let height = blocks[0]!.height
  for (const block of blocks) {
    if (block.parentHash !== below || block.height !== height) {
      throw new RetryableError(`block ${block.height} (${block.hash}) does not link to the block below it (${below})`)
    }
    below = block.hash
    height += 1
  }
}
