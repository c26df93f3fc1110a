// Many callers, few runs. Promises: work never runs beside itself, and each caller waits for a run that began after it asked, shared with
// everybody else who asked meanwhile.

/** Wraps `work` so. The returned promise rejects when that run does. */
export function coalesce(work: () => Promise<void>): () => Promise<void> {
  let running = Promise.resolve()
  let next: Promise<void> | undefined
  return () => {
    next ??= running
      .catch(() => {})
      .then(() => {
        next = undefined
        running = work()
        return running
      })
    return next
  }
}
