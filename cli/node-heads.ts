// The newest block that the node of each chain has, asked for people who look. Promises: all at once, in at most two seconds; a node that does
// not answer has null, whatever the reason, and is asked again the next time.
import {setTimeout as sleep} from 'node:timers/promises'
import {z} from 'zod'
import {type BitcoinSettings, bitcoinSettings} from '../chains/bitcoin/settings.ts'
import {type ChainCode, findChain} from '../chains/registry.ts'
import {type Sluice, settingsOf} from './command.ts'

const timeoutMs = 2000

interface Source {
  head(): Promise<number>
  close(): unknown
}

export class NodeHeads {
  private readonly service: Sluice['service']
  /** By chain; a connection is kept for the next time. */
  private readonly sources = new Map<string, Promise<Source>>()

  constructor(service: Sluice['service']) {
    this.service = service
  }

  async ask(): Promise<Map<string, number | null>> {
    const clock = new AbortController()
    const late = sleep(timeoutMs, null, {signal: clock.signal}).catch(() => null)
    const heads = await Promise.all(
      Object.keys(this.service.chains).map(async chain => {
        const head = this.head(chain).catch(() => null)
        return [chain, await Promise.race([head, late])] as const
      }),
    )
    clock.abort()
    return new Map(heads)
  }

  close(): void {
    for (const source of this.sources.values())
      source.then(
        each => each.close(),
        () => {},
      )
  }

  private async head(chain: string): Promise<number> {
    const source = this.sources.get(chain) ?? this.open(chain)
    this.sources.set(chain, source)
    return await (await source).head()
  }

  // The modules take longer to load than most commands to run.
  private async open(chain: string): Promise<Source> {
    if (findChain(chain)?.family === 'bitcoin') {
      const settings = bitcoinSettings(settingsOf(this.service, chain as ChainCode))
      return settings.source === 'electrum' ? await openElectrum(settings) : await openBitcoind(settings)
    }
    return await openEvm(this.service.chains[chain]!.rpc_url)
  }
}

const quantity = z.string().regex(/^0x[0-9a-f]+$/i)

async function openEvm(url: string): Promise<Source> {
  const {RpcClient} = await import('@subsquid/rpc-client')
  const client = new RpcClient({url, requestTimeout: timeoutMs, retryAttempts: 0, log: null})
  return {
    head: async () => Number(quantity.parse(await client.call('eth_blockNumber'))),
    close: () => client.close(),
  }
}

async function openElectrum({chain, network, electrumUrls, electrumCa}: BitcoinSettings): Promise<Source> {
  const [{Electrum}, {pino}] = await Promise.all([import('../chains/bitcoin/electrum.ts'), import('pino')])
  const server = new Electrum({
    urls: electrumUrls,
    genesis: chain.networks[network].genesis,
    log: pino({level: 'silent'}),
    timeoutMs,
    ...(electrumCa !== undefined && {ca: electrumCa}),
  })
  const Tip = z.object({height: z.int()})
  return {
    head: async () => (await server.request('blockchain.headers.subscribe', [], Tip)).height,
    close: () => server.close(),
  }
}

async function openBitcoind({rpcUrl}: BitcoinSettings): Promise<Source> {
  const {Bitcoind} = await import('../chains/bitcoin/rpc.ts')
  const node = new Bitcoind(rpcUrl!, {timeoutMs})
  return {head: () => node.call('getblockcount', [], z.int()), close: () => node.close()}
}
