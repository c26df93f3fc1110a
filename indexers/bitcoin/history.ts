// Reads final blocks of Bitcoin again, from the source that the operator chose. Promises: the hash of every block is
// computed from its bytes. From Electrum servers it reads what the histories of all addresses place in a block, and
// what is stored there as long as a server can prove it.
import type pg from 'pg'
import {RetryableError} from '../../base/errors.ts'
import {openBitcoind, openElectrum} from '../../chains/bitcoin/client.ts'
import {RpcError} from '../../chains/bitcoin/rpc.ts'
import type {BitcoinSettings} from '../../chains/bitcoin/settings.ts'
import type {ReadBlock} from '../block.ts'
import {type HistoryOptions, type HistorySource, inSteps, type Link} from '../family.ts'
import type {ChainSource} from '../follow.ts'
import {watchedAddresses} from './addresses.ts'
import {ElectrumSource} from './electrum-source.ts'
import {NodeSource} from './node-source.ts'
import {Hex, headerOf} from './shapes.ts'

const blocksPerStep = 100
const linksPerStep = 500

export async function openHistory(settings: BitcoinSettings, options: HistoryOptions): Promise<HistorySource> {
  return settings.source === 'node' ? fromNode(settings, options) : fromElectrum(settings, options)
}

function fromNode(settings: BitcoinSettings, {db}: HistoryOptions): HistorySource {
  const node = openBitcoind(settings)
  const source = new NodeSource({node, db, settings})

  async function* links(from: number, to: number): AsyncIterable<Link[]> {
    for (const heights of inSteps(from, to, linksPerStep)) {
      const hashes = await source.hashesAt(heights)
      const headers = await node.batch(
        hashes.map((hash, i) => {
          if (hash === undefined) throw new RetryableError(`the node has no block ${heights[i]}`)
          return {method: 'getblockheader', params: [hash, false]}
        }),
        Hex,
      )
      yield headers.map((header, i) => {
        if (header instanceof RpcError) throw header
        const {hash, parentHash} = headerOf(header)
        return {height: heights[i]!, hash, parentHash}
      })
    }
  }

  return {
    network: () => source.network(),
    hashAt: height => source.hashAt(height),
    links,
    blocks: (from, to) => blocksOf(source, from, to),
    again: height => onlyBlock(source, height),
    lacks: height => source.lacks(height),
    close: () => node.close(),
  }
}

function fromElectrum(settings: BitcoinSettings, {db, cursor, log}: HistoryOptions): HistorySource {
  const electrum = openElectrum(settings, log)
  const options = {electrum, cursor, db, settings, log}
  const known = new ElectrumSource({...options, addresses: none})
  /** The source's headers begin below the lowest block that is read. */
  let source: ElectrumSource | undefined

  async function* links(from: number, to: number): AsyncIterable<Link[]> {
    const hash = await known.hashAt(from - 1)
    if (hash === undefined) throw new RetryableError(`the Electrum server has no block ${from - 1}`)
    source = new ElectrumSource({
      ...options,
      addresses: addressesOf(db, settings.chain.code),
      readsAgainAbove: {height: from - 1, hash},
    })
    await source.head()
    for (const heights of inSteps(from, to, linksPerStep)) yield source.links(heights)
  }

  return {
    network: () => known.network(),
    hashAt: height => known.hashAt(height),
    links,
    blocks: (from, to) => blocksOf(source!, from, to),
    async again(height) {
      source!.askAnew()
      return await onlyBlock(source!, height)
    },
    lacks: height => known.lacks(height),
    async close() {
      electrum.close()
    },
  }
}

async function* blocksOf(source: ChainSource, from: number, to: number): AsyncIterable<ReadBlock[]> {
  await source.head()
  for (let next = from; next <= to; ) {
    const blocks = await source.blocksAbove(next - 1, Math.min(blocksPerStep, to - next + 1))
    if (!blocks.length) throw new RetryableError(`the source has no block ${next}`)
    yield blocks
    next = blocks.at(-1)!.height + 1
  }
}

async function onlyBlock(source: ChainSource, height: number): Promise<ReadBlock> {
  await source.head()
  const [block] = await source.blocksAbove(height - 1, 1)
  if (block) return block
  throw new RetryableError(`the source has no block ${height}`)
}

/** The addresses that exist now. Final blocks cannot pay an address that is handed out later. */
function addressesOf(db: pg.Pool, chain: string) {
  let isTaken = false
  return {
    ...none,
    async take(): Promise<string[]> {
      if (isTaken) return []
      const addresses = await watchedAddresses(db, chain)
      isTaken = true
      return addresses
    },
  }
}

const none = {
  take: async (): Promise<string[]> => [],
  changed: () => new Promise<never>(() => {}),
}
