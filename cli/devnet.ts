// sluice devnet: the local chains. It starts devnet/cli.ts, a separate program: production imports nothing of devnet/.
import {spawn} from 'node:child_process'
import {existsSync} from 'node:fs'
import {fileURLToPath} from 'node:url'
import type {Command} from 'commander'
import {PermanentError} from '../base/errors.ts'

const program = fileURLToPath(new URL('../devnet/cli.ts', import.meta.url))

export function addDevnetCommand(sluice: Command): void {
  sluice
    .command('devnet')
    .description('local test chains: send, mine, reorg')
    .argument('[arguments...]')
    .helpOption(false)
    .allowUnknownOption()
    .passThroughOptions()
    .action(async (given: string[]) => {
      if (!existsSync(program)) throw new PermanentError('this installation has no local chains')
      process.exitCode = await new Promise<number>((resolve, reject) => {
        const child = spawn(process.execPath, [program, ...given], {stdio: 'inherit'})
        child.once('error', reject)
        child.once('exit', code => resolve(code ?? 1))
      })
    })
}
