// sluice devnet: the local chains. It hands over to devnet/cli.ts, a program of its own: production imports nothing of devnet/.
import {spawn} from 'node:child_process'
import {fileURLToPath} from 'node:url'
import type {Command} from 'commander'

const program = fileURLToPath(new URL('../devnet/cli.ts', import.meta.url))

export function addDevnetCommand(sluice: Command): void {
  sluice
    .command('devnet')
    .description('the local chains: send, mine, reorg')
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
