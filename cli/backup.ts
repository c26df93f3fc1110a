// sluice backup and sluice restore: a copy of a whole service, and a service from it. (sluice drill, which tries that out, is in drill.ts.)
import path from 'node:path'
import type {Command} from 'commander'
import {readSettings} from '../chains/settings.ts'
import {action, leaf} from './command.ts'
import {show} from './output.ts'

export function addBackupCommands(program: Command): void {
  leaf(
    program,
    'backup',
    [
      'Copies the database, and the encrypted seed and the journal of custody, into a new directory, while the service runs.',
      '',
      'It holds the password of the database, and is of no use to a thief of coins without the passphrase of custody. Local chains are not in it.',
    ].join('\n'),
    'sluice backup --to /backups/sluice-2026-11-20',
  )
    .requiredOption('--to <directory>', 'a directory that does not exist yet')
    .action(
      action(async ({home, service, db}, {to}: {to: string}) => {
        const {makeBackup} = await files()
        const made = await makeBackup(home, service.database_url, path.resolve(to))
        await db.query(`select app.note_backup('sluice backup')`)
        const size = `${(made.database_bytes / 1e6).toFixed(0)} MB`
        return {
          json: made,
          text: `${made.directory} has the database (${size}), the encrypted seed and the journal. Keep it at another place, and the passphrase at a third.`,
        }
      }),
    )

  leaf(
    program,
    'restore',
    [
      'Makes a service of a backup, in a directory without a database. Start it with npm start then.',
      '',
      "Custody's files that are there already stay: they know what was signed since the backup was made.",
    ].join('\n'),
    'sluice restore --from /backups/sluice-2026-11-20',
  )
    .requiredOption('--from <directory>', 'what sluice backup made')
    .option('--home <directory>', 'of the service that is made (default: SLUICE_HOME)')
    .action(async ({from, home = readSettings().home, json = false}: {from: string; home?: string; json?: boolean}) => {
      const {restoreBackup} = await files()
      await restoreBackup(path.resolve(from), path.resolve(home))
      show(
        {
          json: {home: path.resolve(home)},
          text:
            `The service of ${path.resolve(home)} has the database of ${from}. Now start it, run sluice custody reconcile, and then sluice audit;\n` +
            'docs/operations/backup.md says what else an older copy has forgotten.',
        },
        json,
      )
    })
}

/** Takes longer to load than most commands to run. */
function files(): Promise<typeof import('./backup-files.ts')> {
  return import('./backup-files.ts')
}
