// Asks about many things without asking about all of them at once.

const atOnce = 5

/** The results in order. Rejects with the first error. */
export async function eachOf<T, R>(all: readonly T[], work: (one: T) => Promise<R>): Promise<R[]> {
  const done: R[] = []
  for (let from = 0; from < all.length; from += atOnce)
    done.push(...(await Promise.all(all.slice(from, from + atOnce).map(work))))
  return done
}
