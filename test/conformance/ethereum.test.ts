import {ethereum} from './ethereum.ts'
import {conformance} from './suite.ts'

conformance(ethereum)
