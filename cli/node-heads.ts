// The newest block of each chain's node, for sluice status. Promises: all nodes are asked at once, for at most two
// seconds; a node that does not respond has null, whatever the reason, and is asked again the next time.
import {setTimeout as sleep} from 'node:timers/promises'
import {openHead} from '../chains/clients.ts'
import type {NodeHead} from '../chains/family.ts'
import type {ChainCode} from '../chains/registry.ts'
import {type Sluice, settingsOf} from './command.ts'

const timeoutMs = 2000

export class NodeHeads {
  readonly #service: Sluice['service']
  /** By chain; a connection is used again the next time. */
  readonly #sources = new Map<string, Promise<NodeHead>>()

  constructor(service: Sluice['service']) {
    this.#service = service
  }

  async ask(): Promise<Map<string, number | null>> {
    const clock = new AbortController()
    const late = sleep(timeoutMs, null, {signal: clock.signal}).catch(() => null)
    const heads = await Promise.all(
      Object.keys(this.#service.chains).map(async chain => {
        const head = this.#head(chain).catch(() => null)
        return [chain, await Promise.race([head, late])] as const
      }),
    )
    clock.abort()
    return new Map(heads)
  }

  close(): void {
    for (const source of this.#sources.values())
      source.then(
        each => each.close(),
        () => {},
      )
  }

  async #head(chain: string): Promise<number> {
    const source = this.#sources.get(chain) ?? openHead(settingsOf(this.#service, chain as ChainCode), timeoutMs)
    this.#sources.set(chain, source)
    return await (await source).height()
  }
}
