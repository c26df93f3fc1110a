// What every chain's indexer must do, on all chains beside each other: most of the time goes by in waiting. One of them by its name: -t bitcoin
import {families} from './families.ts'
import {conformance} from './suite.ts'

for (const chain of Object.values(families).flat()) conformance(chain)
