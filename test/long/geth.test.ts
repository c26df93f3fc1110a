// The whole service on a real geth, under the rules of the main network's next fork. (Under those of today:
// test/faults/geth.test.ts.)
import {test} from 'vitest'
import {hasGeth, rules} from '../support/evm/geth.ts'
import {expectRightOnGeth} from '../support/evm/geth-checks.ts'

test.skipIf(!hasGeth)(
  'on geth (skipped without it: set GETH_BIN), the service passes every check after the next fork',
  {
    timeout: 900_000,
  },
  async () => await expectRightOnGeth(rules.amsterdam),
)
