// sluice migrate: what npm start does to the database by itself, for those who start the processes one by one.
import type {Command} from 'commander'
import {databaseUrlOf, readSettings} from '../service/settings.ts'
import {leaf} from './command.ts'
import {show} from './output.ts'

export function addMigrateCommand(program: Command): void {
  leaf(
    program,
    'migrate',
    'Brings the database of DATABASE_URL, given as its owner, up to date. Does nothing where it is.',
    'sluice migrate',
  ).action(async ({json = false}: {json?: boolean}) => {
    const {migrate} = await import('../db/migrate.ts') // takes longer to load than most commands to run
    const {applied} = await migrate(databaseUrlOf(readSettings()))
    const text = applied.length
      ? `The database is up to date now: ${applied.join(', ')}`
      : 'The database is up to date.'
    show({json: {applied}, text}, json)
  })
}
