// What a family of chains is to torture: a folder here, and one line in families.ts. Everything that knows how its chains pay, go wrong, and are
// read at the end is in that folder.
import type {ChainCode} from '../../chains/registry.ts'
import type {Asset} from './asset.ts'
import type {GoBetween} from './go-between.ts'
import type {Payer} from './payer.ts'
import type {Payments} from './payments.ts'
import type {Random} from './random.ts'
import type {Service} from './service.ts'
import type {Users} from './users.ts'

/** Who a payer pays, and with whose chance. */
export interface Cast {
  service: Service
  users: Users
  payments: Payments
  random: Random
}

export interface TortureFamily {
  /** Before the service starts: gives it the settings under which the chain moves enough within a run. What stands between it and its nodes. */
  prepare(chain: ChainCode, service: Service, random: Random): GoBetween[]
  /** Once it runs: what the chain has that the service was told of. */
  assets(chain: ChainCode, service: Service): Promise<Asset[]>
  payer(chain: ChainCode, cast: Cast): Payer
}
