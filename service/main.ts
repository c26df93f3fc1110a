// npm start: runs the service on this machine until it is interrupted; --without leaves out the processes that it
// names. What runs where is printed on stdout, for a person; logs are JSON lines on stderr.
import {parseArgs} from 'node:util'
import {PermanentError} from '../base/errors.ts'
import {onInterrupt} from '../base/interrupt.ts'
import {familyOf} from '../chains/families.ts'
import {chains as known} from '../chains/registry.ts'
import {loadEnvironmentFile, readSettings} from '../chains/settings.ts'
import {inWords} from '../db/client/failure.ts'
import {type RunningService, Supervisor} from './supervisor.ts'

async function main(): Promise<void> {
  const startedAt = performance.now()
  process.stdout.on('error', () => {}) // the reader is gone; the service keeps running
  const {without} = options()
  loadEnvironmentFile()
  const settings = readSettings()
  const supervisor = new Supervisor(settings, {without, onStep: what => console.log(`Starting ${what} ...`)})
  let interrupted = false
  onInterrupt({
    first: () => {
      interrupted = true
      console.log('\nStopping ...')
      supervisor.stop().then(() => {
        console.log('Everything is stopped.')
        process.exit(0)
      }, fail)
    },
    again: () => void supervisor.kill().finally(() => process.exit(130)),
  })
  const service = await supervisor.start().catch(async error => {
    if (interrupted) return
    await supervisor.stop()
    throw error
  })
  const tookMs = performance.now() - startedAt
  if (service) console.log(summary(service, {embedded: settings.databaseUrl === undefined, without, tookMs}))
}

function options(): {without: string[]} {
  try {
    const {values} = parseArgs({options: {without: {type: 'string', multiple: true, default: []}}})
    return {without: values.without.flatMap(names => names.split(',')).map(name => name.trim())}
  } catch (error) {
    console.error(`sluice: ${(error as Error).message}\nusage: npm start [-- --without jobs,indexer-eth]`)
    process.exit(2)
  }
}

interface HowStarted {
  /** Postgres, too, was started here. */
  embedded: boolean
  without: string[]
  tookMs: number
}

function summary(
  {home, apiUrl, dashboardUrl, chains}: RunningService,
  {embedded, without, tookMs}: HowStarted,
): string {
  const row = (name: string, value: string) => `  ${name.padEnd(10)} ${value}`
  return [
    '',
    `Sluice is running (ready in ${(tookMs / 1000).toFixed(1)} s).`,
    '',
    ...(without.includes('api') ? [] : [row('API', apiUrl), row('', `${apiUrl}/docs`)]),
    ...(dashboardUrl ? [row('dashboard', dashboardUrl)] : []),
    ...(without.length ? [row('without', without.join(', '))] : []),
    ...chains.map(({chain, local, rpcUrl}) => row(chain, local ? `local chain at ${rpcUrl}` : new URL(rpcUrl).host)),
    ...(chains.length
      ? []
      : [
          row(
            'chains',
            `none: set ${known.map(of => familyOf(of).endpointVariable(of)).join(', ')}, or SLUICE_DEVNET=on`,
          ),
        ]),
    row('database', embedded ? 'PostgreSQL, started here' : 'the one of DATABASE_URL'),
    row('data', home),
    '',
    '  npm run -s sluice -- status       the state of the service',
    '  npm run -s sluice -- --help       all commands',
    '  Ctrl-C                            stops everything',
    '',
  ].join('\n')
}

function fail(error: Error): void {
  const cause = error.cause instanceof Error ? `\n  ${error.cause.message}` : ''
  console.error(`sluice: ${error instanceof PermanentError ? error.message : `${inWords(error)}${cause}`}`)
  process.exit(1)
}

main().catch(fail)
