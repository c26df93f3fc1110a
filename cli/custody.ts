// sluice custody: the seed, the journal, and what signing may cost. It hands over to custody/cli.ts, a program of its own: nothing but custody
// imports custody/.
import {spawn} from 'node:child_process'
import {fileURLToPath} from 'node:url'
import type {Command} from 'commander'

const program = fileURLToPath(new URL('../custody/cli.ts', import.meta.url))

export function addCustodyCommand(sluice: Command): void {
  sluice
    .command('custody')
    .description(
      'the seed and the journal of what was signed: init, backup, restore, passphrase, verify, reconcile, budget',
    )
    .argument('[arguments...]')
    .helpOption(false)
    .allowUnknownOption()
    .passThroughOptions()
    .action(async (given: string[]) => {
      process.exitCode = await new Promise<number>((resolve, reject) => {
        const child = spawn(process.execPath, [program, ...given], {stdio: 'inherit'})
        child.once('error', reject)
        child.once('exit', code => resolve(code ?? 1))
      })
    })
}
