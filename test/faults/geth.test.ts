// The whole service on a real geth, under the rules of the main network: deposits, kills, reorganisations, payouts.
import {test} from 'vitest'
import {hasGeth, rules} from '../support/evm/geth.ts'
import {expectRightOnGeth} from '../support/evm/geth-checks.ts'

test.skipIf(!hasGeth)(
  'on geth (skipped without it: set GETH_BIN) the service passes every check of a node',
  {
    timeout: 900_000,
  },
  async () => await expectRightOnGeth(rules.today),
)
