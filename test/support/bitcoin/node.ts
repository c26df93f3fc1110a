// A local Bitcoin chain for tests, on a real node. It mines and reorganises on request.
import type {ChildProcess} from 'node:child_process'
import {once} from 'node:events'
import {mkdtemp, realpath, rm} from 'node:fs/promises'
import path from 'node:path'
import type {BitcoinClient} from '../../../devnet/bitcoin/client.ts'
import {findBitcoind, type NodeKind} from '../../../devnet/bitcoin/node.ts'
import {killLeftover} from '../../../devnet/engine.ts'
import {families} from '../../../devnet/families.ts'
import {startDevnet} from '../../../devnet/start.ts'
import {scratchFolder} from '../scratch.ts'

export type BitcoinNode = NodeKind

export const hasBitcoind = findBitcoind() !== undefined
/** The nodes that can run here; bitcoind is one if BITCOIND_BIN or PATH has it. */
export const bitcoinNodes: BitcoinNode[] = hasBitcoind ? ['bcoin', 'bitcoind'] : ['bcoin']
export const regtestGenesis = '0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206'

export interface TestBitcoin {
  node: string
  client: BitcoinClient
  /** tcp://127.0.0.1:port */
  electrumUrl: string
  /** http://127.0.0.1:port */
  rpcUrl: string
  /** Serves both; killing it makes both vanish. */
  process: ChildProcess
  /** Kills the process, if it still runs, and starts it again: the same chain on the same ports. */
  restart(): Promise<void>
  /** Ends it, and removes its files. */
  stop(): Promise<void>
}

/** A new chain that mines on request only; on bitcoind if that is there and no node is named. */
export async function startBitcoin({node}: {node?: BitcoinNode} = {}): Promise<TestBitcoin> {
  const dir = await mkdtemp(path.join(scratchFolder(), 'sluice-bitcoin-'))
  const start = async () => startDevnet(await families.bitcoin(), {chain: 'BTC', dir, node})
  let started = await start()
  const {devnet, client} = started
  return {
    node: devnet.node,
    client,
    electrumUrl: devnet.url,
    rpcUrl: devnet.control_url,
    get process() {
      return started.process
    },
    restart: async () => {
      const {exitCode, signalCode} = started.process
      if (exitCode === null && signalCode === null) {
        const exited = once(started.process, 'exit')
        started.process.kill('SIGKILL')
        await exited
      }
      started = await start()
      if (started.devnet.url !== devnet.url || started.devnet.control_url !== devnet.control_url)
        throw new Error('another program took a port of the local Bitcoin chain')
    },
    stop: async () => {
      await started.stop()
      await killLeftover(await realpath(dir), {name: devnet.node, mark: dir}) // left after the process was killed
      await rm(dir, {recursive: true, force: true})
    },
  }
}
