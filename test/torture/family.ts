// A family of chains under torture: a folder here, and one line in families.ts. That folder holds everything about how
// its chains pay, fail, and are read at the end.
import type {ChainCode} from '../../chains/registry.ts'
import type {Asset} from './asset.ts'
import type {GoBetween} from './go-between.ts'
import type {Payer} from './payer.ts'
import type {Payments} from './payments.ts'
import type {Random} from './random.ts'
import type {Service} from './service.ts'
import type {Users} from './users.ts'

/** The addresses that a payer pays, and its random numbers. */
export interface Cast {
  service: Service
  users: Users
  payments: Payments
  random: Random
}

export interface TortureFamily {
  /**
   * Before the service starts: sets what makes the chain fast enough for a run. Returns the proxies before its nodes.
   */
  prepare(chain: ChainCode, service: Service, random: Random): GoBetween[]
  /** Once it runs: the assets that the chain has and the service knows. */
  assets(chain: ChainCode, service: Service): Promise<Asset[]>
  payer(chain: ChainCode, cast: Cast): Payer
}
