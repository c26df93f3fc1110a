// The checks of a node on a geth of these rules, which runs only for them.
import {expect} from 'vitest'
import {checkNode} from '../../conformance/node/run.ts'
import {Geth, type rules} from './geth.ts'

/** Final soon, and later than the reorganisations are deep. */
const settings = {ETH_FINALITY: '5', ETH_TRACES: 'debug'}
const limitMs = 120_000

export async function expectRightOnGeth(forks: (typeof rules)[keyof typeof rules]): Promise<void> {
  const geth = await Geth.start(forks)
  try {
    const {key, wsUrl: url} = geth
    const results = await checkNode({chain: 'ETH', url, key, settings, limitMs, mayReorganise: true})
    expect(results.filter(({verdict}) => verdict !== 'right')).toEqual([])
    expect(results).toHaveLength(13)
  } finally {
    await geth.stop()
  }
}
