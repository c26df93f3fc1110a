// sluice devnet, trigger and listen: for local chains, and for a merchant's developer. They start programs of devnet/
// and sdk/: production imports nothing of these.
import {spawn} from 'node:child_process'
import {existsSync} from 'node:fs'
import {fileURLToPath} from 'node:url'
import type {Command} from 'commander'
import {PermanentError} from '../base/errors.ts'

export function addDevnetCommands(sluice: Command): void {
  passOn(
    sluice.command('devnet').description('local test chains: send, mine, reorg'),
    '../devnet/cli.ts',
    'this installation has no local chains',
  )
  passOn(
    sluice
      .command('trigger')
      .description("makes an event happen, such as deposit.confirmed, for a merchant's developer"),
    '../devnet/trigger.ts',
    'this installation has no local chains; the client library (sdk/README.md) sends signed examples of events',
  )
  passOn(
    sluice.command('listen').description("brings a merchant's events to a program on this machine"),
    '../sdk/command/main.ts',
    'this installation is without it; the client library (sdk/README.md) has it, too',
    ['listen'],
  )
}

/** Has another program do the command, with the same arguments behind its own. */
function passOn(command: Command, file: string, missing: string, own: string[] = []): void {
  const program = fileURLToPath(new URL(file, import.meta.url))
  command
    .argument('[arguments...]')
    .helpOption(false)
    .allowUnknownOption()
    .passThroughOptions()
    .action(async (given: string[]) => {
      if (!existsSync(program)) throw new PermanentError(missing)
      process.exitCode = await new Promise<number>((resolve, reject) => {
        const child = spawn(process.execPath, [program, ...own, ...given], {stdio: 'inherit'})
        for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.once(signal, () => child.kill(signal))
        child.once('error', reject)
        child.once('exit', code => resolve(code ?? 1))
      })
    })
}
