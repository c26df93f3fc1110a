// Whether the id of each stored transaction is the hash of its bytes, which SQL cannot tell.
import type pg from 'pg'
import type {Hex} from 'viem'
import {keccak256} from 'viem/utils'
import {parseTransaction} from '../../chains/bitcoin/block.ts'
import {type Chain, findChain} from '../../chains/registry.ts'

const page = 5000

const txidOf: Record<Chain['family'], (raw: string) => string> = {
  evm: raw => keccak256(raw as Hex),
  bitcoin: raw => parseTransaction(Buffer.from(raw, 'hex')).txid,
}

/** Those for which it is not. */
export async function wrongBytes(db: pg.Client): Promise<{chain: string; txid: string}[]> {
  const wrong = []
  for (let last = {chain: '', txid: ''}; ; ) {
    const {rows} = await db.query<{chain: string; txid: string; raw: string}>(
      'select chain, txid, raw from app.outbound_tx where (chain, txid) > ($1, $2) order by chain, txid limit $3',
      [last.chain, last.txid, page],
    )
    if (!rows.length) return wrong
    for (const {chain, txid, raw} of rows) if (hashOf(chain, raw) !== txid) wrong.push({chain, txid})
    last = rows.at(-1)!
  }
}

/** Undefined for bytes that cannot be read, which are wrong, too. */
function hashOf(chain: string, raw: string): string | undefined {
  try {
    return txidOf[findChain(chain)!.family](raw)
  } catch {
    return
  }
}
