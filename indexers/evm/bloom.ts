// The bloom filter over logs (Yellow Paper 4.3.1). It is part of each receipt, but evm-processor does not return it.
import type {EvmLog} from './transfers.ts'
import {keccak256} from './trie.ts'

/** The filter of these logs in the form of receipts and headers: 256 bytes in hex. */
export function logsBloom(logs: Pick<EvmLog, 'address' | 'topics'>[]): string {
  const filter = Buffer.alloc(256)
  for (const {address, topics} of logs) for (const item of [address, ...topics]) add(filter, item)
  return `0x${filter.toString('hex')}`
}

function add(filter: Buffer, item: string): void {
  const hash = keccak256(item.slice(2))
  for (const at of [0, 4, 8]) {
    const bit = Number.parseInt(hash.slice(at, at + 4), 16) & 2047
    filter[255 - (bit >> 3)]! |= 1 << (bit & 7)
  }
}
