// Task sequence_events: events were committed, or deliveries are due again. Safe to run twice, or concurrently: it only
// runs the sequencer, which does nothing if nothing is new, and the rows say what is due. Losing the task costs some
// seconds: the tick does the same.
import type {Task} from 'graphile-worker'
import type {Sequencer} from './sequencer.ts'

export function sequenceEvents(sequencer: Sequencer): Task {
  return () => sequencer.announce()
}
