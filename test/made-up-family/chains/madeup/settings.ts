// The settings of a chain of the made-up family, which is read from one node.
import {z} from 'zod'
import {url, type Variables, variables, whole} from '../../base/variables.ts'
import {type CommonSettings, commonSettings, commonVariables} from '../chain-settings.ts'
import type {MadeUpChain} from '../registry.ts'

export interface MadeUpSettings extends CommonSettings<MadeUpChain> {
  rpcUrl?: string
  /** A block is final when it and the blocks above it are this many. */
  confirmations: number
}

export function madeUpVariables(chain: MadeUpChain): Variables<MadeUpSettings> {
  return variables({
    schema: z.object({
      RPC_URL: url('http://node.example', 'http', 'https').optional(),
      FINALITY: whole(1, 999, 2).default(2),
      ...commonVariables(chain),
    }),
    make: given => ({...commonSettings(chain, given), rpcUrl: given.RPC_URL, confirmations: given.FINALITY}),
    prefix: `${chain.code}_`,
  })
}
