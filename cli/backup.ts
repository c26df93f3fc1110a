// sluice backup and sluice restore: makes a copy of a whole service, and a service from that copy. sluice drill, which
// tests both, is in drill.ts.
import {existsSync} from 'node:fs'
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
      "Copies the database, custody's encrypted seed and custody's journal into a new directory, while the service runs.",
      '',
      "The backup contains the database's password: keep it secret. Nobody can take coins with it without custody's passphrase. It does not contain",
      'local chains.',
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
          text: `${made.directory} has the database (${size}), the encrypted seed and the journal. Keep it in another place, and the passphrase in a third.`,
        }
      }),
    )

  leaf(
    program,
    'restore',
    [
      'Restores a backup into a directory that has no database. Then start the service with npm start.',
      '',
      'Files of custody that are there already stay: they know what was signed after the backup was made.',
    ].join('\n'),
    'sluice restore --from /backups/sluice-2026-11-20',
  )
    .requiredOption('--from <directory>', 'the directory that sluice backup made')
    .option('--home <directory>', 'directory of the restored service (default: SLUICE_HOME)')
    .action(async ({from, home = readSettings().home, json = false}: {from: string; home?: string; json?: boolean}) => {
      const {restoreBackup} = await files()
      await restoreBackup(path.resolve(from), path.resolve(home))
      show(
        {
          json: {home: path.resolve(home)},
          text:
            `The service of ${path.resolve(home)} has the database of ${from}. Now start it, run sluice custody reconcile, and then sluice audit;\n` +
            `docs/operations/backup.md lists what else an older copy does not know.${withoutPassphrase(path.resolve(home))}`,
        },
        json,
      )
    })
}

/** What to do where nothing says the passphrase; else empty. */
function withoutPassphrase(home: string): string {
  const {custodyPassphrase, custodyPassphraseFile, custodyPassphraseCommand} = readSettings()
  const isKnown = custodyPassphrase || custodyPassphraseFile || custodyPassphraseCommand
  return isKnown || existsSync(path.join(home, 'custody', 'passphrase'))
    ? ''
    : "\nNo setting names custody's passphrase, and custody does not start without it. If it is lost, use the 24 words: docs/operations/from-the-words.md."
}

/** Loaded only here: loading it takes longer than most commands run. */
function files(): Promise<typeof import('./backup-files.ts')> {
  return import('./backup-files.ts')
}
