// The processes of a service, as data: what runs, in which order, with which role, on which port, and with which
// settings of its own.
import {randomBytes} from 'node:crypto'
import {dashboardSecretFile, readIfThere, writeWhole} from '../base/home.ts'
import {portIn} from '../base/listen.ts'
import {type ChainSettings, familyOf} from '../chains/families.ts'
import type {ChainCode} from '../chains/registry.ts'
import {metricsPorts, type Settings} from '../chains/settings.ts'
import type {Role} from '../db/migrate/migrate.ts'
import type {LocalChains} from './local-chains.ts'
import type {ProcessRole} from './users.ts'

/** What is known of a service while it runs. */
export interface Place {
  home: string
  settings: Settings
  localChains: LocalChains
  /** Where a process listens: as it said, or else as the settings say. Started again, it keeps its port. */
  urlOf(listener: Listener): string
}

export interface Listener {
  /** As in a sentence. */
  what: 'the API' | 'the dashboard'
  /** The variable of its port. */
  variable: 'PORT' | 'DASHBOARD_PORT'
  portOf(settings: Settings): number
}

export interface ServiceProcess {
  name: string
  module: string
  args?: string[]
  role: ProcessRole
  /** Besides custody, what must be ready before it is started; both stand before it in the list. */
  after?: string
  /** The service is ready without it: its node may not respond for long. */
  mayLag?: boolean
  /** The chains that it follows. */
  chains?: ChainCode[]
  listener?: Listener
  /** Variables besides those that every process gets. Asked at each start, so that a restart sees a node that moved. */
  variables?(place: Place): Record<string, string>
}

export const api: Listener = {what: 'the API', variable: 'PORT', portOf: ({port}) => port}
export const dashboard: Listener = {
  what: 'the dashboard',
  variable: 'DASHBOARD_PORT',
  portOf: ({dashboardPort}) => dashboardPort,
}

/** What runs besides the indexers. The first two have the lowest metrics ports, the others the highest. */
const fixed: ServiceProcess[] = [
  {
    name: 'custody', // first: it checks the database, which may be an older copy
    module: 'custody/main.ts',
    role: 'sluice_custody',
    variables: ({localChains}) => localChains.identities(), // it signs for a chain, and never connects to it
  },
  {
    name: 'jobs',
    module: 'jobs/main.ts',
    role: 'sluice_jobs',
    variables: ({localChains}) => localChains.environment(),
  },
  {
    name: 'api',
    module: 'api/main.ts',
    role: 'sluice_api',
    listener: api,
    variables: ({localChains, urlOf}) => ({...localChains.identities(), PORT: String(portIn(urlOf(api)))}),
  },
  {
    name: 'dashboard-auth',
    module: 'dashboard/auth/main.ts',
    role: 'sluice_auth',
    listener: dashboard,
    variables: ({home, settings, urlOf}) => ({
      DASHBOARD_PORT: String(portIn(urlOf(dashboard))),
      DASHBOARD_SECRET: settings.dashboardSecret ?? dashboardSecret(home),
      DASHBOARD_SECRET_FILE: '',
    }),
  },
  {
    name: 'dashboard-pages', // they show the API's URL
    module: 'dashboard/pages/main.ts',
    role: 'sluice_dashboard',
    after: 'api',
    variables: ({settings, localChains, urlOf}) => ({
      ...localChains.identities(),
      PUBLIC_URL: settings.publicUrl ?? urlOf(api),
    }),
  },
]

export const indexerName = (chain: ChainCode): string => `indexer-${chain.toLowerCase()}`

/** One process that follows these chains. */
const indexerOf = (chains: ChainCode[]): ServiceProcess => ({
  name: chains.length === 1 ? indexerName(chains[0]!) : 'indexers',
  module: 'indexers/main.ts',
  args: ['--chain', chains.join(',')],
  role: 'sluice_indexer',
  mayLag: true,
  chains,
  variables: ({localChains}) => Object.assign({}, ...chains.map(chain => localChains.environment(chain))),
})

/** With an indexer for every chain in the settings; a chain that has no node is not followed. */
export function processesOf(settings: Settings): ServiceProcess[] {
  return [...fixed, ...[...settings.chains.keys()].map(chain => indexerOf([chain]))]
}

/** The indexers share a process, which takes a fraction of the memory; those of busy chains have their own. */
export function together(processes: ServiceProcess[], chains: ChainSettings[]): ServiceProcess[] {
  const quiet = chains.filter(chain => !familyOf(chain).isBusy?.(chain)).map(({chain: {code}}) => code)
  const shared = processes.filter(each => each.chains?.every(code => quiet.includes(code)))
  if (shared.length < 2) return processes
  return [...processes.filter(each => !shared.includes(each)), indexerOf(shared.flatMap(each => each.chains!))]
}

/** The same, each in its own process. */
export function apart({chains = []}: ServiceProcess): ServiceProcess[] {
  return chains.map(chain => indexerOf([chain]))
}

/**
 * Where a process shows its metrics; undefined without metrics. Always the same for each, however many chains there
 * will be. A process that follows several chains has the place of the first.
 */
export function metricsPortOf(
  {name: given, chains: [first] = []}: ServiceProcess,
  settings: Settings,
): number | undefined {
  if (settings.metricsPort === undefined) return
  const name = first ? indexerName(first) : given
  const names = processesOf(settings).map(each => each.name)
  const fromAbove = names.slice(2, fixed.length).indexOf(name)
  const fromBelow = [...names.slice(0, 2), ...names.slice(fixed.length)].indexOf(name)
  return settings.metricsPort + (fromAbove >= 0 ? metricsPorts - 1 - fromAbove : fromBelow)
}

/**
 * Settings for one role only: the seed's passphrase is for custody, the replica for the API, the dashboard's secret for
 * its sign-in.
 */
const belongings: [prefix: string, role: Role][] = [
  ['CUSTODY_PASSPHRASE', 'sluice_custody'],
  ['DATABASE_REPLICA_URL', 'sluice_api'],
  ['DASHBOARD_SECRET', 'sluice_auth'],
]

/** What a process of this role inherits. */
export function inheritedBy(role: Role): NodeJS.ProcessEnv {
  const isAnothers = (name: string) => belongings.some(([prefix, owner]) => owner !== role && name.startsWith(prefix))
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !isAnothers(name)))
}

/** Made once, and kept: with another one, everybody would need a new authenticator. */
function dashboardSecret(home: string): string {
  const file = dashboardSecretFile(home)
  const kept = readIfThere(file)?.trim()
  if (kept) return kept
  const made = randomBytes(32).toString('hex')
  writeWhole(file, `${made}\n`)
  return made
}
