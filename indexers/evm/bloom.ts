// The bloom filter over the logs of a block (Yellow Paper 4.3.1), which its header commits to: whether a node told of all of them.
import type {Hex} from 'viem'
import {keccak256} from 'viem/utils'
import type {EvmLog} from './transfers.ts'

/** The filter of these logs, as headers have it: 256 bytes in hex. */
export function logsBloom(logs: Pick<EvmLog, 'address' | 'topics'>[]): string {
  const filter = Buffer.alloc(256)
  for (const {address, topics} of logs) for (const item of [address, ...topics]) add(filter, item as Hex)
  return `0x${filter.toString('hex')}`
}

function add(filter: Buffer, item: Hex): void {
  const hash = keccak256(item, 'bytes')
  for (const i of [0, 2, 4]) {
    const bit = ((hash[i]! << 8) | hash[i + 1]!) & 2047
    filter[255 - (bit >> 3)]! |= 1 << (bit & 7)
  }
}
