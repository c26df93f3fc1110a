// New blocks of a local Bitcoin chain, each on the one before. Promises: their times rise as consensus asks (a block is
// younger than the median of the eleven before it), and end with now.
import type {Transaction} from 'bitcoinjs-lib'
import {hashOf, makeBlock} from './block.ts'
import {faucet} from './faucet.ts'
import type {BitcoinJournal} from './journal.ts'

const medianBlocks = 11

/** Begins on the journal's block at `height`. Coinbases pay `script`. */
export function newBranch(journal: BitcoinJournal, height: number, script = faucet.script) {
  if (height < journal.head!.height) journal.countFork()
  const {forks: fork} = journal
  let parent = {height, hash: journal.find(height)!.hash}
  const times = Array.from(
    {length: Math.min(height + 1, medianBlocks)},
    (_, i) => journal.find(height - i)!.timestamp,
  ).reverse()
  return {
    get height() {
      return parent.height
    },
    /** `after` more blocks follow: their times end with now, or run ahead of it. */
    extend(transactions: Transaction[], after: number): Buffer {
      const recent = times.slice(-medianBlocks).sort((a, b) => a - b)
      const median = recent[Math.floor(recent.length / 2)]!
      const timestamp = Math.max(median + 1, Math.floor(Date.now() / 1000) - after)
      const block = makeBlock({parent, timestamp, script, fork, transactions})
      times.push(timestamp)
      parent = {height: parent.height + 1, hash: hashOf(block)}
      return block
    },
  }
}
