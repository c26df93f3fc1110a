// What a chain of outputs holds, compared with the ledger: each output of ours that the source has unspent, at or below the final block that
// the ledger is of, is one that the ledger has unspent, and the other way round. Promises: asks the source and changes nothing; one that does
// not answer is an error, never a match.
import type pg from 'pg'
import {pino} from 'pino'
import {z} from 'zod'
import {Electrum, ElectrumError} from '../service/bitcoin/electrum.ts'
import {Bitcoind} from '../service/bitcoin/rpc.ts'
import {scripthashOf, scriptOfAddress} from '../service/bitcoin/script.ts'
import {PermanentError} from '../service/errors.ts'
import type {BitcoinSettings} from '../service/settings.ts'

const SCAN_TIMEOUT_MS = 600_000
const SATS = 1e8

/** What the ledger has, at one moment. */
interface Ledger {
  addresses: string[]
  /** Unspent and final, by outpoint. */
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

interface Difference {
  outpoint: string
  address: string
  ledger: string | null
  chain: string | null
}

/** `db` is in a transaction that sees one moment. isLeaving: a transaction of ours spends it, or a block that is not final did. */
export async function outputsOf(db: pg.Client, chain: string): Promise<Ledger> {
  const {rows: addresses} = await db.query<{address: string}>(
    `select address from app.deposit where chain = $1
     union select app.treasury_address($1) where app.treasury_address($1) is not null`,
    [chain],
  )
  const {rows} = await db.query<{outpoint: string; address: string; amount: string; isLeaving: boolean}>(
    `select u.txid || ':' || u.vout as outpoint, u.address, u.amount, u.spend_id is not null or exists (
       select from chain.inclusion i where i.chain = u.chain and i.sender = u.txid || ':' || u.vout) as "isLeaving"
     from app.output u where u.chain = $1 and u.spent_by is null
     union all -- not ours to spend
     select d.txid || ':' || d.output_index, d.address, d.amount, false from app.deposit d
     where d.chain = $1 and d.status = 'final' and not d.credited and d.user_id is not null`,
    [chain],
  )
  return {
    addresses: addresses.map(({address}) => address),
    outputs: new Map(
      rows.map(({outpoint, address, amount, isLeaving}) => [outpoint, {address, amount: BigInt(amount), isLeaving}]),
    ),
  }
}

/** What the source has otherwise. */
export async function differences(
  settings: BitcoinSettings,
  finalHeight: number,
  {addresses, outputs}: Ledger,
): Promise<Difference[]> {
  const ask = settings.source === 'electrum' ? askElectrum : askNode
  const unspent = await ask(settings, addresses).catch(error => {
    throw new PermanentError(`the source cannot be asked: ${(error as Error).message}`, {cause: error})
  })
  const found: Difference[] = []
  for (const {outpoint, address, amount, height} of unspent) {
    const ours = outputs.get(outpoint)
    outputs.delete(outpoint)
    const isFinal = height > 0 && height <= finalHeight
    if (ours ? ours.amount !== amount || !isFinal : isFinal)
      found.push({outpoint, address, ledger: ours ? String(ours.amount) : null, chain: String(amount)})
  }
  for (const [outpoint, {address, amount, isLeaving}] of outputs)
    if (!isLeaving) found.push({outpoint, address, ledger: String(amount), chain: null})
  return found
}

const Listed = z.array(
  z.object({tx_hash: z.string(), tx_pos: z.int(), height: z.int(), value: z.int().transform(BigInt)}),
)

async function askElectrum(
  {chain, network, electrumUrls, electrumCa}: BitcoinSettings,
  addresses: string[],
): Promise<Unspent[]> {
  const format = chain.networks[network]
  const server = new Electrum({
    urls: electrumUrls,
    genesis: format.genesis,
    log: pino({level: 'silent'}),
    ...(electrumCa !== undefined && {ca: electrumCa}),
  })
  try {
    const answers = await server.batch(
      addresses.map(address => ({
        method: 'blockchain.scripthash.listunspent',
        params: [scripthashOf(scriptOfAddress(address, format))],
      })),
      Listed,
    )
    return answers.flatMap((answer, n) => {
      if (answer instanceof ElectrumError) throw answer
      return answer.map(({tx_hash, tx_pos, height, value}) => ({
        outpoint: `${tx_hash}:${tx_pos}`,
        address: addresses[n]!,
        amount: value,
        height,
      }))
    })
  } finally {
    server.close()
  }
}

const Scanned = z.object({
  success: z.literal(true),
  unspents: z.array(z.object({txid: z.string(), vout: z.int(), desc: z.string(), amount: z.number(), height: z.int()})),
})

async function askNode({rpcUrl}: BitcoinSettings, addresses: string[]): Promise<Unspent[]> {
  const node = new Bitcoind(rpcUrl!, {timeoutMs: SCAN_TIMEOUT_MS})
  try {
    const {unspents} = await node.call('scantxoutset', ['start', addresses.map(address => `addr(${address})`)], Scanned)
    return unspents.map(({txid, vout, desc, amount, height}) => ({
      outpoint: `${txid}:${vout}`,
      address: desc.match(/^addr\((\w+)\)/)?.[1] ?? desc,
      amount: BigInt(Math.round(amount * SATS)),
      height,
    }))
  } finally {
    await node.close()
  }
}
