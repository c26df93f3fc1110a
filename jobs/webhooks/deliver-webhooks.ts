// Task deliver_webhooks: events were committed. Safe to run twice, or beside itself: it only makes the sequencer look, which does nothing
// where nothing is new, and what is due is in the rows. Losing it costs a second: the tick does the same.
import type {Task} from 'graphile-worker'
import type {Sequencer} from './sequencer.ts'

export function deliverWebhooks(sequencer: Sequencer): Task {
  return () => sequencer.run()
}
