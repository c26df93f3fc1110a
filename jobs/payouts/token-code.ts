// Looks, once an hour, whether the contracts of tokens still have the code that they had: a proxy may point to other
// code, and nothing else says so. Part of the tick. Safe to run twice, and beside another worker: a change is noted
// once, by one SQL function, which opens the incident.
import {type Context, retryable} from './context.ts'

export async function lookAtTokenCode({pool, chains, log}: Context): Promise<void> {
  for (const [chain, {codeHashes}] of chains) {
    if (!codeHashes) continue
    const hashes = await retryable(codeHashes(), async detail => {
      log.warn({chain}, `the code of tokens could not be looked at: ${detail}`)
      return new Map<string, string>()
    })
    for (const [token, hash] of hashes) {
      const {rows} = await pool.query<{changed: boolean}>('select app.note_code($1, $2, $3) as changed', [
        chain,
        token,
        hash,
      ])
      if (rows[0]!.changed) log.error({chain, token}, 'the code of a token has changed; sluice incident list shows it')
    }
  }
}
