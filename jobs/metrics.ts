// A jobs worker's metrics for Prometheus (docs/operations/monitoring.md).
import type {Task, TaskList} from 'graphile-worker'
import {Counter, Histogram} from 'prom-client'
import {registry} from '../base/observe.ts'
import type {Outcome} from './webhooks/send.ts'

const jobDuration = new Histogram({
  name: 'sluice_job_duration_seconds',
  help: 'Duration of a run of a task, by its outcome: done or failed.',
  labelNames: ['task', 'outcome'],
  buckets: [0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60],
  registers: [registry],
})
const attemptDuration = new Histogram({
  name: 'sluice_webhook_attempt_duration_seconds',
  help: "Time that an attempt to deliver a webhook took, by the class of the answer's status; none where nobody answered.",
  labelNames: ['status'],
  buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15],
  registers: [registry],
})
export const tickFailures = new Counter({
  name: 'sluice_tick_failures_total',
  help: 'Runs of a periodic part of the worker that failed.',
  labelNames: ['part'],
  registers: [registry],
})

for (const status of ['2xx', '3xx', '4xx', '5xx', 'none']) attemptDuration.zero({status})

/** Wraps tasks so that each run is counted. */
export function countJobs(tasks: TaskList): TaskList {
  return Object.fromEntries(Object.entries(tasks).map(([name, task]) => [name, counted(name, task as Task)]))
}

function counted(name: string, task: Task): Task {
  for (const outcome of ['done', 'failed']) jobDuration.zero({task: name, outcome})
  return async (...given) => {
    const end = jobDuration.startTimer({task: name})
    try {
      const result = await task(...given)
      end({outcome: 'done'})
      return result
    } catch (error) {
      end({outcome: 'failed'})
      throw error
    }
  }
}

export function countAttempt({status}: Outcome, durationMs: number): void {
  attemptDuration.observe({status: status ? `${Math.floor(status / 100)}xx` : 'none'}, durationMs / 1000)
}
