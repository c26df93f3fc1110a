// The issuers of tokens: they freeze addresses of ours, and pause tokens.
import {setTimeout as sleep} from 'node:timers/promises'
import type {Payer} from './payer.ts'
import type {Random} from './random.ts'

/** Of one token. Rejects where the chain is down. */
export interface Issuer {
  /** Freezes an address, or frees it; without an address pauses the token, or lets it go on. */
  set(address: string | undefined, isOn: boolean): Promise<unknown>
  isSet(address: string | undefined): Promise<boolean>
  /** Mines a block. */
  mine(): Promise<unknown>
  /** Mines so many blocks that no reorganisation reaches below them. */
  bury(): Promise<unknown>
}

/** Freezes an address for a while, or pauses a token, again and again until `stopped`; then everything is free. */
export async function freeze(
  {counts}: Pick<Payer, 'counts'>,
  {stopped, random}: {stopped: AbortSignal; random: Random},
  pick: {issuer: () => Issuer; address: () => string},
): Promise<void> {
  while (!stopped.aborted) {
    await sleep(random.between(1000, 5000))
    const issuer = pick.issuer()
    const address = random.chance(0.8) ? pick.address() : undefined
    const what = address ? 'addresses frozen' : 'tokens paused'
    counts[what] = (counts[what] ?? 0) + 1
    await issuer.set(address, true).catch(() => {}) // the chain is down
    await sleep(random.between(1000, 12_000))
    await free(issuer, address)
  }
}

/** A reorganisation may drop what frees it: until none can. */
async function free(issuer: Issuer, address: string | undefined): Promise<void> {
  for (let looks = 0; looks < 2; ) {
    try {
      const isStill = await issuer.isSet(address)
      if (isStill) await issuer.set(address, false)
      looks = isStill ? 0 : looks + 1
      await (isStill ? issuer.mine() : issuer.bury())
    } catch {
      await sleep(200) // the chain is down
    }
  }
}
