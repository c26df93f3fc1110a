import {bitcoin} from './bitcoin.ts'
import {conformance} from './suite.ts'

conformance(bitcoin('node', 'bcoin'))
conformance(bitcoin('node', 'bitcoind'))
