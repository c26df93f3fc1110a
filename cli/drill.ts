// sluice drill: whether a backup is one. Restores it beside the running service and does with it what an operator does after a loss, up to the
// audit; rehearsal.ts has how. Promises: each step is told with its result and time; the service's database has a record of what came of it, from
// which alarms count; exit code 0 if all of them succeeded, else 1.
import type {Command} from 'commander'
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
      'Takes a backup, restores it beside the running service, and checks that it would do: a rehearsal of a loss.',
      '',
      'The copy has a directory and a database server of its own, and is removed in the end. Nothing is signed, sent or delivered.',
    ].join('\n'),
    'sluice drill',
  )
    .option('--from <directory>', 'a backup that was made before, instead of one that is made now')
    .option('--database <url>', "instead of a backup: a database that was restored by other means, by its owner's URL")
    .action(
      action(async (sluice: Sluice, {json = false, ...source}: Source & {json?: boolean}) => {
        const steps = await rehearse(sluice, source, json ? () => {} : step => console.log(line(step)))
        const right = steps.every(step => step.right)
        if (!right) process.exitCode = 1
        const text = right
          ? 'The backup would do.'
          : 'The backup would not do as it is; docs/operations/backup.md says what each step needs.'
        return {json: {right, steps}, text}
      }),
    )
}

/** Step by step, until one fails. What came of it is noted, unless somebody interrupted it. */
async function rehearse(sluice: Sluice, source: Source, tell: (step: Step) => void): Promise<Step[]> {
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

function line({step, right, seconds, result}: Step): string {
  return `${right ? 'right' : 'WRONG'}  ${step.padEnd(17)}  ${`${seconds.toFixed(1)} s`.padStart(8)}  ${result}`
}
