// sluice drill: tests a backup. It restores the backup beside the running service and does what an operator does after
// a loss, up to the audit; the steps are in rehearsal.ts. Promises: each step is shown with its result and time; the
// service's database records the result, which alarms use; the exit code is 0 if all steps succeeded, else 1.
import {existsSync} from 'node:fs'
import path from 'node:path'
import type {Command} from 'commander'
import {PermanentError} from '../base/errors.ts'
import {onInterrupt} from '../base/interrupt.ts'
import {action, leaf, type Sluice} from './command.ts'
import type {Source} from './rehearsal.ts'

interface Step {
  step: string
  right: boolean
  seconds: number
  result: string
}

export function addDrillCommand(program: Command): void {
  leaf(
    program,
    'drill',
    [
      'Tests the backup: makes one, restores it beside the running service, and audits the restored copy.',
      '',
      'The copy has its own directory and its own database server, and is removed at the end. Nothing is signed, sent or delivered.',
    ].join('\n'),
    'sluice drill',
  )
    .option('--from <directory>', 'an existing backup, instead of a new one')
    .option('--database <url>', "instead of a backup: the owner's URL of a database that you restored by other means")
    .action(
      action(async (sluice: Sluice, {json = false, ...source}: Source & {json?: boolean}) => {
        const steps = await rehearse(sluice, source, json ? () => {} : step => console.log(line(step)))
        const right = steps.every(step => step.right)
        if (!right) process.exitCode = 1
        const text = right
          ? 'The backup works.'
          : 'The backup does not work as it is; docs/operations/backup.md says what each step needs.'
        return {json: {right, steps}, text}
      }),
    )
}

/** Step by step, until one fails. The result is recorded, unless the drill was interrupted. */
async function rehearse(sluice: Sluice, source: Source, tell: (step: Step) => void): Promise<Step[]> {
  await requirePassphrase(sluice.home)
  const {Rehearsal} = await import('./rehearsal.ts') // takes longer to load than most commands to run
  const rehearsal = new Rehearsal(sluice, source)
  let isInterrupted = false
  onInterrupt({
    first: () => {
      isInterrupted = true
      void rehearsal.end().then(() => process.exit(130))
    },
    again: () => process.exit(130),
  })
  const steps: Step[] = []
  try {
    for (const [step, work] of rehearsal.steps) {
      const before = performance.now()
      const [right, result] = await work().then(
        result => [true, result] as const,
        error => [false, (error as Error).message] as const,
      )
      steps.push({step, right, seconds: Math.round((performance.now() - before) / 100) / 10, result})
      tell(steps.at(-1)!)
      if (!right) break
    }
  } finally {
    await rehearsal.end()
  }
  const failed = steps.find(step => !step.right)
  const error = failed ? `${failed.step}: ${failed.result}` : null
  if (!isInterrupted) await sluice.db.query('select app.note_drill($1)', [error])
  return steps
}

/** Without it every backup would look unusable. That says nothing about the backup, so it is not recorded. */
async function requirePassphrase(home: string): Promise<void> {
  if (!existsSync(path.join(home, 'custody', 'seed.json'))) return // the restored files of custody are tested then
  const {custody} = await import('./backup-files.ts') // takes longer to load than most commands to run
  await custody(home, ['open']).catch(cause => {
    throw new PermanentError(`a drill opens the seed, and needs custody's passphrase: ${cause.message}`, {cause})
  })
}

function line({step, right, seconds, result}: Step): string {
  return `${right ? 'right' : 'WRONG'}  ${step.padEnd(17)}  ${`${seconds.toFixed(1)} s`.padStart(8)}  ${result}`
}
