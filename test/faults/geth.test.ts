// The whole service on a real geth, under the rules of the main network, and under those of its next fork: deposits,
// kills, reorganisations, payouts.
import {afterEach, describe, expect, test} from 'vitest'
import {checkNode} from '../conformance/node/run.ts'
import {Geth, hasGeth, rules} from '../support/evm/geth.ts'

/** Final soon, and later than the reorganisations are deep. */
const settings = {ETH_FINALITY: '5', ETH_TRACES: 'debug'}
const limitMs = 120_000

let geth: Geth | undefined
afterEach(async () => await geth?.stop())

describe.skipIf(!hasGeth)('the service on geth (skipped without it: set GETH_BIN)', () => {
  test.each(Object.entries(rules))(
    'passes every check of a node under the rules of %s',
    {
      timeout: 900_000,
    },
    async (_, forks) => {
      geth = await Geth.start(forks)
      const {key, wsUrl: url} = geth
      const results = await checkNode({chain: 'ETH', url, key, settings, limitMs, mayReorganise: true})
      expect(results.filter(({verdict}) => verdict !== 'right')).toEqual([])
      expect(results).toHaveLength(13)
    },
  )
})
