// Labels for the steps between which a process may die. Promises: they cost nothing and change nothing unless there is
// a subscriber, which only tests have (test/support/crash.ts ends the process at a label).
import {channel} from 'node:diagnostics_channel'

const steps = channel('sluice:step')

/** The process has reached this step; crash tests use the label. */
export function step(label: string): void {
  if (steps.hasSubscribers) steps.publish(label)
}
