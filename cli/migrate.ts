// sluice migrate: brings the database up to date. npm start does this itself; the command is for operators who start
// the processes one by one.
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
      'Run it with the same settings as the service: tokens and minimums of the database become those of the settings. It prints each one that changes.',
      '',
      "DATABASE_URL must be the owner's URL. npm start does this itself.",
    ].join('\n'),
    'sluice migrate',
  ).action(async ({json = false}: {json?: boolean}) => {
    const {migrate} = await import('../db/migrate/migrate.ts') // takes longer to load than most commands to run
    const {writeAssets} = await import('../db/migrate/assets.ts')
    const {assetChanges, changesInWords, storedAssets} = await import('../db/migrate/asset-changes.ts')
    const {connectionsLacking} = await import('../db/server/requirements.ts')
    const settings = readSettings()
    const url = databaseUrlOf(settings)
    const before = await storedAssets(url)
    const {applied} = await migrate(url)
    await writeAssets(url, settings.chains.values())
    const assets = assetChanges(before, await storedAssets(url))
    const first = applied.length
      ? `The database is up to date now: ${applied.join(', ')}`
      : 'The database is up to date.'
    const lacking = await connectionsLacking(url)
    const warning = lacking ? [`Warning: ${lacking}.`] : []
    show({json: {applied, assets}, text: [first, ...changesInWords(assets), ...warning].join('\n')}, json)
  })
}
