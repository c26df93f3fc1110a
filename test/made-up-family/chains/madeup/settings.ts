// The settings of a chain of the made-up family, which is read from one node.
import {z} from 'zod'
import {url, type Variables, variables, whole} from '../../base/variables.ts'
import {type CommonSettings, commonSettings, commonVariables} from '../chain-settings.ts'
import {type ExpirySettings, expirySettings, expiryVariables} from '../expiry-settings.ts'
import type {MadeUpChain} from '../registry.ts'

export interface MadeUpSettings extends CommonSettings<MadeUpChain>, ExpirySettings {
  rpcUrl?: string
  /** A block is final when it and the blocks above it are this many. */
  confirmations: number
}

export function madeUpVariables(chain: MadeUpChain): Variables<MadeUpSettings> {
  return variables({
    schema: z.object({
      RPC_URL: url('http://node.example', 'http', 'https').optional(),
      FINALITY: whole(1, 999, 2).default(2),
      ...expiryVariables(),
      ...commonVariables(chain),
    }),
    make: given => ({
      ...commonSettings(chain, given),
      ...expirySettings(given),
      rpcUrl: given.RPC_URL,
      confirmations: given.FINALITY,
    }),
    prefix: `${chain.code}_`,
  })
}

export function madeUpSettings(settings: CommonSettings | undefined): MadeUpSettings {
  if (settings?.family !== 'madeup') throw new Error(`${settings?.chain.code} is not a made-up chain`)
  return settings as MadeUpSettings
}
