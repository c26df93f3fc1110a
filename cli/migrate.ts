// sluice migrate: brings the database up to date. npm start does this itself; the command is for operators who start the processes one by one.
import type {Command} from 'commander'
import {databaseUrlOf, readSettings} from '../chains/settings.ts'
import {leaf} from './command.ts'
import {show} from './output.ts'

export function addMigrateCommand(program: Command): void {
  leaf(
    program,
    'migrate',
    [
      'Updates the database schema and the list of assets to this release and the settings. Does nothing if both are up to date.',
      '',
      "DATABASE_URL must be the owner's URL. npm start does this itself.",
    ].join('\n'),
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
