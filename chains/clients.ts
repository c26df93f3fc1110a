// The node clients of each family. They are separate from families.ts, because custody and the database must not reach
// a node (.dependency-cruiser.cjs).
import type {ChainSettings, SettingsOf} from './families.ts'
import type {InspectedToken, NodeHead} from './family.ts'
import type {Family} from './registry.ts'

interface Client<Settings> {
  /** Opens a connection; each request has a timeout. */
  openHead(settings: Settings, timeoutMs: number): NodeHead
}

interface Inspector<Settings> {
  /**
   * What a contract is, and how its token would be swept, before an operator adds it. Throws PermanentError, in words,
   * if it cannot be paid out exactly. `accepts`: what the operator accepts of it that is refused otherwise.
   */
  inspectToken(settings: Settings, contract: string, accepts: string[]): Promise<InspectedToken>
}

/** Loaded only when needed, because loading takes longer than most commands run. */
const clients: {[F in Family]: () => Promise<Client<SettingsOf<F>>>} = {
  evm: () => import('./evm/client.ts'),
  bitcoin: () => import('./bitcoin/client.ts'),
  tron: () => import('./tron/client.ts'),
  solana: () => import('./solana/client.ts'),
}

export async function openHead(settings: ChainSettings, timeoutMs: number): Promise<NodeHead> {
  const client: Client<ChainSettings> = await clients[settings.family]()
  return client.openHead(settings, timeoutMs)
}

/** Absent where no token can be added. */
const inspectors: {[F in Family]?: () => Promise<Inspector<SettingsOf<F>>>} = {
  evm: () => import('./evm/inspect-token.ts'),
  tron: () => import('./tron/inspect-token.ts'),
  solana: () => import('./solana/inspect-token.ts'),
}

/** Undefined on chains where no token can be added. */
export async function inspectorOf({family}: ChainSettings): Promise<Inspector<ChainSettings> | undefined> {
  return await inspectors[family]?.()
}
