// Many callers share few runs. Promises: work never runs concurrently with itself. Each caller waits for a run that
// began after its call, and shares it with all who called meanwhile.

/** Wraps `work` in this way. The returned promise rejects if that run does. */
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
