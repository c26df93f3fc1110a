import {bitcoin} from './bitcoin.ts'
import {conformance} from './suite.ts'

conformance(bitcoin('electrum', 'bcoin'))
conformance(bitcoin('electrum', 'bitcoind'))
