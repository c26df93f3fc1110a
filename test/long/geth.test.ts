// The whole service on a real geth: deposits, kills, reorganisations, payouts; under the rules of the main network, and
// under those of its next fork. (Geth has to be built: test/install-geth.)
import {test} from 'vitest'
import {hasGeth, rules} from '../support/evm/geth.ts'
import {expectRightOnGeth} from '../support/evm/geth-checks.ts'

for (const [when, of] of [
  ['today', rules.today],
  ['after the next fork', rules.amsterdam],
] as const)
  test.skipIf(!hasGeth)(
    `on geth (skipped without it: set GETH_BIN), the service passes every check of a node ${when}`,
    {timeout: 900_000},
    async () => await expectRightOnGeth(of),
  )
