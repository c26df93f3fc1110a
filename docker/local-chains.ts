// The local test chains, in a container of their own: docker-compose.local.yml. Promises: it says when each is at its
// port; after a restart each has the same blocks; when one of them ends this process does, and the engine starts it
// again.
import {connect, createServer} from 'node:net'
import path from 'node:path'
import {logger} from '../base/log.ts'
import {observe} from '../base/observe.ts'
import {type ChainCode, chains} from '../chains/registry.ts'
import {readSettings} from '../chains/settings.ts'
import {familyOf} from '../devnet/families.ts'
import {startDevnet} from '../devnet/start.ts'

/**
 * Where the other containers reach each chain: docker/local/ has these URLs. A chain itself listens on 127.0.0.1, on a
 * port that it chooses.
 */
const ports: Record<string, number> = {ETH: 8545, POLYGON: 8546, BTC: 50001, TRON: 8090, SOL: 8899}

const log = logger('local-chains')
const {home} = readSettings()
const stopping = new AbortController()
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stopping.abort())

const served = chains.flatMap(({code}) => (ports[code] ? [{chain: code, port: ports[code]}] : []))
await Promise.all(served.map(serve))
await observe({host: '127.0.0.1', metricsPort: 9464, log}) // for the healthcheck
log.info({ports}, 'the local chains are ready')

async function serve({chain, port}: {chain: ChainCode; port: number}): Promise<void> {
  const family = await familyOf(chain)
  const dir = path.join(home, 'devnet', chain.toLowerCase())
  const {
    devnet,
    process: child,
    stop,
  } = await startDevnet(family, {chain, dir, blockIntervalMs: family.blockIntervalMs})
  child.once('exit', code => {
    if (!stopping.signal.aborted) log.error({chain, code}, 'a local chain ended')
    process.exitCode ||= stopping.signal.aborted ? 0 : 1
    stopping.abort()
  })
  const server = forward(port, Number(new URL(devnet.url).port))
  stopping.signal.addEventListener('abort', () => {
    server.close()
    void stop()
  })
}

/** Makes every connection to a port one to a port of 127.0.0.1. */
function forward(port: number, target: number) {
  return createServer(socket => {
    const chain = connect(target, '127.0.0.1')
    for (const end of [socket, chain]) end.on('error', () => [socket, chain].map(each => each.destroy()))
    socket.pipe(chain).pipe(socket)
  }).listen(port)
}
