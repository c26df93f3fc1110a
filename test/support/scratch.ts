// Where tests put what nobody keeps.
import {statfsSync} from 'node:fs'
import {tmpdir} from 'node:os'

const memory = '/dev/shm'
const enoughBytes = 4 * 2 ** 30

/**
 * A folder in memory, where there is plenty of it: a bitcoind waits hundreds of times for its disk until its chain is
 * there, and a database at each commit, so that on a disk that others keep busy every limit would be missed.
 */
export function scratchFolder(): string {
  try {
    const {bavail, bsize} = statfsSync(memory)
    return bavail * bsize >= enoughBytes ? memory : tmpdir()
  } catch {
    return tmpdir() // not Linux
  }
}
