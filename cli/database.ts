// sluice database: the password of the database's owner. The passwords of all roles are derived from it.
import {randomBytes} from 'node:crypto'
import {writeFileSync} from 'node:fs'
import path from 'node:path'
import type {Command} from 'commander'
import {PermanentError} from '../base/errors.ts'
import {lockHome} from '../base/home.ts'
import {readSettings} from '../chains/settings.ts'
import {leaf} from './command.ts'
import {show} from './output.ts'

export function addDatabaseCommands(program: Command): void {
  const database = program.command('database').description("the database's passwords")

  leaf(
    database,
    'rotate-password',
    [
      "Gives the database's owner and every role a new password. The old passwords stop working.",
      '',
      'If npm start runs Postgres: stop the service first; it uses the new password at its next start. With DATABASE_URL: its new value is written to',
      'a file first. Running processes keep their connections, but cannot open new ones until they are started with the new password.',
    ].join('\n'),
    'sluice database rotate-password --to database_url.new',
  )
    .option('--to <file>', 'with DATABASE_URL: a file that does not exist yet, for its new value')
    .action(async ({to, json = false}: {to?: string; json?: boolean}) => {
      const {home, databaseUrl} = readSettings()
      if (!databaseUrl && to !== undefined)
        throw new PermanentError(
          '--to is for a database that DATABASE_URL names; DATABASE_URL is not set, and npm start finds the new password without --to',
        )
      if (databaseUrl) await rotateNamed(databaseUrl, to)
      else await rotateEmbedded(path.resolve(home))
      const text = databaseUrl
        ? `The owner and all roles have new passwords. ${to} has the new DATABASE_URL: restart every process with it, or with what npm run database-url prints for its role.`
        : 'The owner and all roles have new passwords; npm start uses them.'
      show({json: {rotated: true}, text}, json)
    })
}

async function rotateNamed(ownerUrl: string, to: string | undefined): Promise<void> {
  if (to === undefined)
    throw new PermanentError('give --to FILE: the new DATABASE_URL, with the password, is written to it')
  const {changeOwnerPassword, withPassword} = await import('../db/migrate/migrate.ts') // takes longer to load than most commands to run
  const password = randomBytes(24).toString('hex')
  try {
    writeFileSync(to, `${withPassword(ownerUrl, password)}\n`, {flag: 'wx', mode: 0o600, flush: true}) // before the server has it: else a failure would lose it
  } catch (error) {
    const {code, message} = error as NodeJS.ErrnoException
    throw new PermanentError(
      `${to} ${code === 'EEXIST' ? 'exists' : `cannot be written (${message})`}; nothing was changed`,
    )
  }
  await changeOwnerPassword(ownerUrl, password)
}

async function rotateEmbedded(home: string): Promise<void> {
  const {renewPassword, startPostgres} = await import('../db/server/embedded.ts')
  const {findCluster} = await import('../db/server/cluster-file.ts')
  const {changeOwnerPassword} = await import('../db/migrate/migrate.ts')
  const dir = path.join(home, 'postgres')
  if (!(await findCluster(dir)))
    throw new PermanentError(
      `${home} has no database; set SLUICE_HOME to the directory of the service, or DATABASE_URL`,
    )
  const unlock = await lockHome(home)
  try {
    const postgres = await startPostgres({dir})
    try {
      await renewPassword(dir, password => changeOwnerPassword(postgres.url, password))
    } finally {
      await postgres.stop()
    }
  } finally {
    unlock()
  }
}
