// sluice migrate: what npm start does to the database by itself, for those who start the processes one by one.
import type {Command} from 'commander'
import {databaseUrlOf, readSettings} from '../chains/settings.ts'
import {leaf} from './command.ts'
import {show} from './output.ts'

export function addMigrateCommand(program: Command): void {
  leaf(
    program,
    'migrate',
    'Brings the database of DATABASE_URL, given as its owner, up to date, and the assets in it to what the settings say. Does nothing where they are.',
    'sluice migrate',
  ).action(async ({json = false}: {json?: boolean}) => {
    const {migrate} = await import('../db/migrate.ts') // takes longer to load than most commands to run
    const {writeAssets} = await import('../db/assets.ts')
    const settings = readSettings()
    const {applied} = await migrate(databaseUrlOf(settings))
    await writeAssets(databaseUrlOf(settings), settings.chains.values())
    const text = applied.length
      ? `The database is up to date now: ${applied.join(', ')}`
      : 'The database is up to date.'
    show({json: {applied}, text}, json)
  })
}
