// Asks once whether the tokens of a chain are what the settings say, before anything of them is moved.
import {RetryableError} from '../base/errors.ts'

const againMs = 10_000

/**
 * The returned function resolves if no token is refused, and otherwise rejects with RetryableError. It asks again until
 * all are accepted. `refusedToken`: why one is refused; undefined if none is.
 */
export function tokenGuard(refusedToken: () => Promise<string | undefined>): () => Promise<void> {
  let isRight = false
  let last: {at: number; response: Promise<string | undefined>} | undefined
  return async () => {
    if (isRight) return
    if (!last || performance.now() - last.at > againMs) last = {at: performance.now(), response: refusedToken()}
    const why = await last.response.catch(error => {
      last = undefined
      throw error
    })
    if (why !== undefined) throw new RetryableError(why)
    isRight = true
  }
}
