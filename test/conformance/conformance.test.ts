// What every chain's indexer must do, on all chains in parallel, since most of the time is waiting. Run one chain by
// name: -t bitcoin
import {ethereum} from './evm/driver.ts'
import {families} from './families.ts'
import {interruptedReindexing} from './reindex.ts'
import {conformance} from './suite.ts'

for (const chain of Object.values(families).flat()) conformance(chain)
interruptedReindexing(ethereum)
