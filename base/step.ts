// Labels of the steps between which a process may die. Promises: costs nothing and changes nothing unless somebody subscribed, which only
// tests do (test/support/crash.ts ends the process at a label).
import {channel} from 'node:diagnostics_channel'

const steps = channel('sluice:step')

/** The process has come to this step; the label names it for the tests of crashes. */
export function step(label: string): void {
  if (steps.hasSubscribers) steps.publish(label)
}
