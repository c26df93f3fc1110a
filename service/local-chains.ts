// The local chains of a service, one for each chain of SLUICE_DEVNET without a node. Promises: each runs until it is
// stopped (local-chain.ts). The next start adopts those that outlived a service.
import type pg from 'pg'
import type {Logger} from '../base/log.ts'
import {type ChainSettings, familyOf, hasNode} from '../chains/families.ts'
import type {ChainCode} from '../chains/registry.ts'
import {readSettings, type Settings, settingsFrom} from '../chains/settings.ts'
import {LocalChain} from './local-chain.ts'

type Variables = Record<string, string>

/** A chain that has a node, and where that is. */
export interface Endpoint {
  chain: ChainCode
  rpcUrl: string
  local: boolean
}

export class LocalChains {
  readonly #settings: Settings
  readonly #home: string
  readonly #log: Logger
  /** Empty until they are started: a start that fails before leaves those alone that outlived a service. */
  #chains: LocalChain[] = []

  constructor(settings: Settings, home: string, log: Logger) {
    this.#settings = settings
    this.#home = home
    this.#log = log
  }

  get areWanted(): boolean {
    return this.#withoutNode.length > 0
  }

  get #withoutNode(): ChainSettings[] {
    const {chains, localChains} = this.#settings
    return [...chains.values()].filter(each => localChains.includes(each.chain.code) && !hasNode(each))
  }

  async start(): Promise<void> {
    this.#chains = this.#withoutNode.map(({chain}) => new LocalChain({chain, home: this.#home, log: this.#log}))
    await Promise.all(this.#chains.map(chain => chain.start()))
  }

  /** `moved` is called with a chain whose node came back at another place. */
  watch(moved: (chain: ChainCode) => void): void {
    for (const local of this.#chains) local.watch(() => moved(local.chain))
  }

  #of(code: ChainCode): LocalChain | undefined {
    return this.#chains.find(({chain}) => chain === code)
  }

  /** The settings that identify them, without a way to reach them. */
  identities(): Variables {
    return Object.assign({}, ...this.#chains.map(chain => chain.identity()))
  }

  /** The settings with which they are followed, and sent to; of one alone if it is named. */
  environment(code?: ChainCode): Variables {
    return Object.assign(
      {},
      ...this.#chains.filter(({chain}) => !code || chain === code).map(each => each.environment()),
    )
  }

  /** The settings of every chain, as the processes read them. */
  settingsOfAll(): ChainSettings[] {
    return [...this.#settings.chains.values()].map(settings => {
      const local = this.#of(settings.chain.code)
      return local ? settingsFrom(settings.chain.code, local.identity()) : settings
    })
  }

  /** The settings of a chain with its node. */
  settingsOf(code: ChainCode): ChainSettings {
    const {chains} = this.#of(code) ? readSettings({...process.env, ...this.environment(code)}) : this.#settings
    return chains.get(code)!
  }

  /** Where the chains are read, local or not. */
  endpoints(): Endpoint[] {
    return [...this.#settings.chains.values()].flatMap(settings => {
      const {code} = settings.chain
      const local = this.#of(code)
      const url = local?.url ?? familyOf(settings).endpoint(settings)
      return url ? [{chain: code, rpcUrl: url, local: local !== undefined}] : []
    })
  }

  /** Gives the treasury of each its first coins. Only once an indexer is there to see them arrive. */
  async fundTreasuries(client: pg.ClientBase): Promise<void> {
    const {rows} = await client.query<{chain: ChainCode; address: string}>(
      `select c.chain, a.address from custody.address a join app.chain c using (family) where a.purpose = 'treasury'`,
    )
    for (const {chain, address} of rows) await this.#of(chain)?.fund(address)
  }

  async stop(graceMs: number): Promise<void> {
    await Promise.all(this.#chains.map(chain => chain.stop(graceMs)))
  }

  kill(): void {
    for (const chain of this.#chains) chain.kill()
  }
}
