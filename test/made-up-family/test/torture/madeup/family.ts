// The made-up family under torture: a payer, and blocks that are replaced.
import type {TortureFamily} from '../family.ts'
import {NodeProxy} from '../node-proxy.ts'
import {MadeUpPayer} from './payer.ts'

export const madeup: TortureFamily = {
  prepare: (chain, service, random) => [new NodeProxy({chain, sending: 'submit'}, service, random)],
  assets: async chain => [{chain, token: 'MADE', name: 'MADE', decimals: 2, usual: 10_000n}],
  payer: (chain, cast) => new MadeUpPayer(chain, cast),
}
