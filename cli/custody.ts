// sluice custody: the seed, the journal, and what signing may cost. It starts custody/cli.ts, a separate program: only
// custody imports custody/.
import {spawn} from 'node:child_process'
import {fileURLToPath} from 'node:url'
import type {Command} from 'commander'

const program = fileURLToPath(new URL('../custody/cli.ts', import.meta.url))

export function addCustodyCommand(sluice: Command): void {
  sluice
    .command('custody')
    .description(
      'the seed, the journal of signed transactions, and the fee budget: init, backup, restore, passphrase, verify, reconcile, budget',
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
