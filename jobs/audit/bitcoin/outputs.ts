// Compares our unspent outputs on a chain with the ledger: at or below the ledger's final block, each output of ours
// that is unspent at the source must be unspent in the ledger, and the other way round. Promises: it asks the source
// and changes nothing. A source that does not respond is a RetryableError, never a match. An address that the source
// refuses is reported as not read.
import type pg from 'pg'
import {z} from 'zod'
import {RetryableError} from '../../../base/errors.ts'
import {silent} from '../../../base/log.ts'
import {openBitcoind, openElectrum} from '../../../chains/bitcoin/client.ts'
import {ElectrumError} from '../../../chains/bitcoin/electrum.ts'
import {scripthashOf, scriptOfAddress} from '../../../chains/bitcoin/script.ts'
import type {BitcoinSettings} from '../../../chains/bitcoin/settings.ts'
import type {Asked, AuditFamily, Difference} from '../observation.ts'

/**
 * A server reads the history of each address. A bitcoind scans its whole set of outputs for minutes, however many
 * addresses are asked for.
 */
const batches = {electrum: 2000, node: 100_000}
const scanTimeoutMs = 600_000
const sats = 1e8

/** The ledger at one moment. */
interface Ledger {
  height: number
  token: string
  /** Unspent and final, by outpoint. isLeaving: a transaction of ours spends it, or a block that is not final did. */
  outputs: Map<string, Output & {isLeaving: boolean}>
}

interface Output {
  address: string
  amount: bigint
}

interface Unspent extends Output {
  outpoint: string
  height: number
}

/** The outputs that are unspent at a source, without the addresses in `refused`. */
interface Response {
  unspent: Unspent[]
  refused: Map<string, string>
}

interface Source {
  ask(addresses: string[]): Promise<Response>
  close(): Promise<void> | void
}

export const bitcoin: AuditFamily<BitcoinSettings> = {
  claim: 'our unspent outputs on the chain are those of the ledger',
  ask: askOutputs,
}

function askOutputs(db: pg.Client, settings: BitcoinSettings): Asked {
  const source = settings.source === 'electrum' ? electrum(settings) : node(settings)
  return {
    batch: batches[settings.source],
    poll: async addresses => {
      const ledger = await ledgerOf(db, settings.chain.code, addresses)
      const {unspent, refused} = await source.ask(addresses).catch(error => {
        throw new RetryableError(`the node or server cannot be asked: ${(error as Error).message}`, {cause: error})
      })
      const differences = compare(ledger, unspent).filter(({address}) => !refused.has(address))
      return {height: ledger.height, differences, unread: [...refused].map(each => each.join(': '))}
    },
    heightAt: async () => undefined, // an output names its block
    close: () => source.close(),
  }
}

function compare({height: finalHeight, token, outputs}: Ledger, unspent: Unspent[]): Difference[] {
  const found: Difference[] = []
  for (const {outpoint, address, amount, height} of unspent) {
    if (amount === 0n) continue // a miner may pay 0 to any address; that is no deposit
    const ours = outputs.get(outpoint)
    outputs.delete(outpoint)
    const isFinal = height > 0 && height <= finalHeight
    if (ours ? ours.amount !== amount || !isFinal : isFinal)
      found.push({address, token, outpoint, ledger: ours?.amount ?? 0n, chain: amount, height})
  }
  for (const [outpoint, {address, amount, isLeaving}] of outputs)
    if (!isLeaving) found.push({address, token, outpoint, ledger: amount, chain: 0n})
  return found
}

interface Row {
  height: number
  token: string
  outpoint: string | null
  address: string
  amount: string
  isLeaving: boolean
}

// One statement, so that the height and the outputs belong together.
async function ledgerOf(db: pg.Client, chain: string, addresses: string[]): Promise<Ledger> {
  const {rows} = await db.query<Row>(
    `select c.final_height as height, n.native_token as token, o.outpoint, o.address, o.amount, o.is_leaving as "isLeaving"
     from chain.cursor c join app.chain n using (chain) left join app.ledger_outputs(c.chain, $2) o on true where c.chain = $1`,
    [chain, addresses],
  )
  const {height, token} = rows[0]!
  const ledger: Ledger = {height, token, outputs: new Map()}
  for (const {outpoint, address, amount, isLeaving} of rows)
    if (outpoint !== null) ledger.outputs.set(outpoint, {address, amount: BigInt(amount), isLeaving})
  return ledger
}

const Listed = z.array(
  z.object({tx_hash: z.string(), tx_pos: z.int(), height: z.int(), value: z.int().transform(BigInt)}),
)

function electrum(settings: BitcoinSettings): Source {
  const format = settings.chain.networks[settings.network]
  const server = openElectrum(settings, silent())
  return {
    ask: async addresses => {
      const method = 'blockchain.scripthash.listunspent'
      const calls = addresses.map(address => ({method, params: [scripthashOf(scriptOfAddress(address, format))]}))
      const response: Response = {unspent: [], refused: new Map()}
      for (const [n, listed] of (await server.batch(calls, Listed)).entries()) {
        const address = addresses[n]!
        if (listed instanceof ElectrumError) response.refused.set(address, listed.message)
        else
          for (const {tx_hash, tx_pos, height, value} of listed)
            response.unspent.push({outpoint: `${tx_hash}:${tx_pos}`, address, amount: value, height})
      }
      return response
    },
    close: () => server.close(),
  }
}

const Scanned = z.object({
  success: z.literal(true),
  unspents: z.array(z.object({txid: z.string(), vout: z.int(), desc: z.string(), amount: z.number(), height: z.int()})),
})

function node(settings: BitcoinSettings): Source {
  const bitcoind = openBitcoind(settings, {timeoutMs: scanTimeoutMs})
  return {
    ask: async addresses => {
      if (!addresses.length) return {unspent: [], refused: new Map()}
      const scripts = addresses.map(address => `addr(${address})`)
      const {unspents} = await bitcoind.call('scantxoutset', ['start', scripts], Scanned)
      const unspent = unspents.map(({txid, vout, desc, amount, height}) => ({
        outpoint: `${txid}:${vout}`,
        address: desc.match(/^addr\((\w+)\)/)?.[1] ?? desc,
        amount: BigInt(Math.round(amount * sats)),
        height,
      }))
      return {unspent, refused: new Map()}
    },
    close: () => bitcoind.close(),
  }
}
